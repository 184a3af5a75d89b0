//! The whole way from a server on this machine to a finished folder, with small made-up wheels.

use std::thread;

use anyhow::bail;

use super::stage::{HASTE, Stage};
use super::*;

/// The first wheel, and the file it grows in.
const TORCH: &str = "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl";
const PART: &str = "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.part";

#[test]
fn an_empty_cache_is_filled_once() {
    let stage = Stage::new();
    assert_eq!(stage.fill_all("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [0, 0, 0]);
    let home = stage.cache.libtorch();
    for library in LIBRARIES {
        assert!(home.join("lib").join(library).is_file(), "{library}");
    }
    assert_eq!(
        fs::read_to_string(home.join("lib/libtorch.so")).unwrap(),
        "INPUT(libtorch_cpu.so)\n"
    );
    assert_eq!(
        fs::read_to_string(home.join("build-version")).unwrap().trim(),
        "2.13.0"
    );
    assert!(
        home.join("include/torch/csrc/api/include/torch/torch.h")
            .is_file()
    );
    assert!(home.join("licenses/torch.txt").is_file());
    assert!(
        !home.join("lib/libtorch_cuda.so").exists(),
        "kept what is not needed"
    );
    assert!(
        !stage.cache.downloads().exists() && !stage.cache.unpacking().exists(),
        "left something behind"
    );

    assert_eq!(stage.fill_all("gone").unwrap(), Origin::Cache);
    assert_eq!(
        stage.server.starts(),
        [0; 0],
        "asked the server although everything was there"
    );
}

#[test]
fn a_connection_that_breaks_is_resumed_where_it_broke() {
    let stage = Stage::new();
    assert_eq!(stage.fill("cut").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [0, 150_000, 300_000]);
}

#[test]
fn an_earlier_runs_part_is_gone_on_with() {
    let stage = Stage::new();
    stage.put(PART, &stage.bytes(TORCH)[..1000]);
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [1000]);
}

#[test]
fn a_complete_part_is_taken_as_it_is() {
    let stage = Stage::new();
    let bytes = stage.bytes(TORCH);
    stage.put(PART, &bytes);
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [bytes.len() as u64]);
}

#[test]
fn a_part_longer_than_the_wheel_is_begun_anew() {
    let stage = Stage::new();
    stage.put(PART, &vec![7; 2_000_000]);
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [2_000_000, 0]);
}

#[test]
fn a_part_of_something_else_is_thrown_away_and_fetched_from_the_start() {
    let stage = Stage::new();
    stage.put(PART, &[7; 1000]);
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [1000, 0]);
}

#[test]
fn a_server_that_cannot_resume_is_read_from_the_start() {
    let stage = Stage::new();
    stage.put(PART, &[7; 1000]);
    assert_eq!(stage.fill("stubborn").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [1000]);
}

#[test]
fn a_corrupt_wheel_is_named_and_thrown_away() {
    let stage = Stage::new();
    let error = format!("{:#}", stage.fill("corrupt").unwrap_err());
    assert!(error.contains(TORCH) && error.contains("corrupt"), "{error}");
    assert!(
        error.contains(&*stage.wheels("whole")[0].sha256),
        "expected digest not named: {error}"
    );
    assert!(
        !stage.cache.downloads().join(PART).exists(),
        "the corrupt file stayed"
    );
    assert!(
        !stage.cache.libtorch().exists(),
        "something half made has the final name"
    );
    // The next run is not held up by it.
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
}

#[test]
fn a_corrupt_finished_wheel_is_fetched_again() {
    let stage = Stage::new();
    stage.put(TORCH, b"half a wheel");
    assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [0]);
}

#[test]
fn a_wheel_put_there_by_hand_needs_no_server() {
    let stage = Stage::new();
    stage.put(TORCH, &stage.bytes(TORCH));
    assert_eq!(stage.fill("gone").unwrap(), Origin::Downloaded);
    assert_eq!(stage.server.starts(), [0; 0]);
}

#[test]
fn a_refusal_is_told_at_once() {
    let stage = Stage::new();
    let error = format!("{:#}", stage.fill("gone").unwrap_err());
    assert!(
        error.contains("404") && error.contains("put the file there by hand"),
        "{error}"
    );
    assert_eq!(stage.server.starts(), [0]);
}

#[test]
fn a_busy_server_is_asked_again_but_not_for_ever() {
    let stage = Stage::new();
    let error = format!("{:#}", stage.fill("busy").unwrap_err());
    assert!(
        error.contains("503") && error.contains("run the command again"),
        "{error}"
    );
    assert!(
        stage.server.starts().len() >= 2,
        "pip has tries of its own besides ours"
    );
}

#[test]
fn a_wheel_without_a_kept_file_is_named() {
    let stage = Stage::new();
    let mut wheels = stage.wheels("whole");
    wheels[0].kept = &[("torch/lib/libabsent.so", "lib/libabsent.so")];
    let error = format!(
        "{:#}",
        fill(&stage.cache, &wheels, HASTE, |_| Ok(())).unwrap_err()
    );
    assert!(error.contains("missing torch/lib/libabsent.so"), "{error}");
    assert!(!stage.cache.libtorch().exists());
}

#[test]
fn two_clones_fetch_once() {
    let stage = Stage::new();
    let wheels = stage.wheels("whole");
    let origins: Vec<Origin> = thread::scope(|scope| {
        let both: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| fill(&stage.cache, &wheels, HASTE, |_| Ok(())).unwrap()))
            .collect();
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(origins.contains(&Origin::Downloaded), "{origins:?}");
    assert_eq!(stage.server.starts().len(), 3, "fetched more than once");
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let stage = Stage::new();
    stage.fill("whole").unwrap();
    assert_eq!(stage.server.starts(), [0]);
    for damage in [
        |path: &Path| fs::remove_file(path),
        |path: &Path| fs::write(path, "short"),
    ] {
        damage(&stage.cache.libtorch().join("lib/libc10.so")).unwrap();
        assert_eq!(stage.fill("whole").unwrap(), Origin::Downloaded);
        assert_eq!(stage.fill("gone").unwrap(), Origin::Cache);
    }
}

#[test]
fn what_is_missing_on_the_machine_stops_it_before_anything_is_written() {
    let stage = Stage::new();
    let error = fill(&stage.cache, &stage.wheels("whole"), HASTE, |_| bail!("no pip")).unwrap_err();
    assert_eq!(error.to_string(), "no pip");
    assert!(!stage.folder.path().join("cache").exists());
}

#[test]
fn another_version_is_named_with_the_expected_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = check(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no libtorch at"), "{error}");
    fs::write(folder.path().join("build-version"), "2.4.1+cpu\n").unwrap();
    let error = check(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("2.13.0 is expected") && error.contains("2.4.1+cpu"),
        "{error}"
    );
    fs::write(folder.path().join("build-version"), "2.13.0+cu130").unwrap();
    assert!(
        check(folder.path())
            .unwrap_err()
            .to_string()
            .contains("include/torch")
    );
    fs::create_dir_all(folder.path().join("include/torch")).unwrap();
    fs::create_dir_all(folder.path().join("lib")).unwrap();
    fs::write(folder.path().join("lib/libtorch_cpu.so"), "").unwrap();
    check(folder.path()).unwrap();
    // An installed wheel tells its version in another file.
    fs::remove_file(folder.path().join("build-version")).unwrap();
    fs::write(
        folder.path().join("version.py"),
        "from typing import Optional\n__version__ = '2.13.0+cu130'\n",
    )
    .unwrap();
    check(folder.path()).unwrap();
    fs::write(folder.path().join("version.py"), "__version__ = '2.12.0'\n").unwrap();
    assert!(
        check(folder.path())
            .unwrap_err()
            .to_string()
            .contains("holds 2.12.0")
    );
}

#[test]
fn only_a_libtorch_of_the_users_own_counts_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(".libtorch");
    assert_eq!(users_own(None, &link), None);
    assert_eq!(users_own(Some(OsStr::new("")), &link), None);
    assert_eq!(users_own(Some(link.as_os_str()), &link), None);
    let roundabout = folder
        .path()
        .join("../")
        .join(folder.path().file_name().unwrap())
        .join(".libtorch");
    assert_eq!(users_own(Some(roundabout.as_os_str()), &link), None);
    assert_eq!(
        users_own(Some(OsStr::new("/opt/libtorch")), &link),
        Some("/opt/libtorch".into())
    );
}

#[test]
fn the_link_is_made_moved_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(".libtorch");
    for target in ["one", "two", "two"] {
        link_to(&link, &folder.path().join(target)).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), folder.path().join(target));
    }
    assert!(!is_real_folder(&link));
}

#[test]
fn pins_are_whole() {
    let wheels = pins::wheels();
    let kept: Vec<&str> = wheels
        .iter()
        .flat_map(|wheel| wheel.kept)
        .map(|(_, to)| *to)
        .collect();
    for library in LIBRARIES {
        assert!(
            kept.contains(&format!("lib/{library}").as_str()),
            "{library} comes from no wheel"
        );
    }
    for wheel in &wheels {
        assert_eq!(hex::decode(&*wheel.sha256).unwrap().len(), 32, "{}", wheel.file);
        assert!(wheel.file.ends_with("x86_64.whl"), "{}", wheel.file);
        assert!(wheel.url.is_none());
    }
}
