//! `learner/tools/to_safetensors.py` on a state file that PyTorch 2.13 wrote.
//!
//! The file holds `{"state_dict": {"a.weight": [[1, 2, 3], [4, 5, 6]] transposed, "a.bias": [0.5, −2] in half precision,
//! "steps": 7}, "epoch": 3}`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[expect(clippy::expect_used, reason = "a helper of tests")]
fn convert(source: &Path, target: &Path, more: &[&str]) -> Output {
    Command::new("python3")
        .arg("-B")
        .arg(here("tools/to_safetensors.py"))
        .args([source, target])
        .args(more)
        .output()
        .expect("Python 3 runs")
}

#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a helper of tests")]
fn numbers(bytes: &[u8], header: &serde_json::Value, name: &str) -> Vec<u8> {
    let span = &header[name]["data_offsets"];
    let at = |i: usize| usize::try_from(span[i].as_u64().unwrap()).unwrap();
    bytes[at(0)..at(1)].to_vec()
}

#[test]
fn a_state_file_becomes_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("state.safetensors");
    let output = convert(&here("tests/files/state.pth"), &target, &[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file = std::fs::read(&target).unwrap();
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&rest[..length]).unwrap();
    let bytes = &rest[length..];
    assert_eq!(header.as_object().unwrap().len(), 3);
    // Transposed without copying there, row by row here.
    assert_eq!(header["a.weight"]["shape"], serde_json::json!([3, 2]));
    let weight: Vec<u8> = [1.0_f32, 4.0, 2.0, 5.0, 3.0, 6.0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    assert_eq!(numbers(bytes, &header, "a.weight"), weight);
    assert_eq!(header["a.bias"]["dtype"], "F16");
    assert_eq!(numbers(bytes, &header, "a.bias"), [0x00, 0x38, 0x00, 0xc0]);
    assert_eq!(numbers(bytes, &header, "steps"), 7_i64.to_le_bytes());
}

#[test]
fn what_is_no_state_file_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("x.pth"), dir.path().join("x.safetensors"));
    std::fs::write(&source, b"not a zip file").unwrap();
    let wrong_key = convert(&here("tests/files/state.pth"), &target, &["--key", "ema"]);
    for (output, part) in [
        (convert(&source, &target, &[]), "no zip file"),
        (wrong_key, "nothing under --key ema"),
    ] {
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            error.contains(part) && error.contains("nothing was written"),
            "{error}"
        );
        assert!(!target.exists());
    }
}
