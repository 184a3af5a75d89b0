//! `veilsum doctor`: a kit is broken in many ways, and each gives its own line and no other.

use crate::kit::{Consortium, DAY, consortium, edit, founded, text, veilsum};
use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use veilsum::config::{Located, ServerConfig};
use veilsum::doctor::{Examination, Verdict, examine};
use veilsum::store::ClientStore;
use veilsum_transport::{ConsortiumCa, IssueKind, Limits, QuicListener, TlsIdentity, TrustRoots};

async fn look(path: &Path) -> Examination {
    examine(path, SystemTime::now(), true).await
}

/// The checks with a verdict.
fn with(found: &Examination, verdict: Verdict) -> BTreeSet<&'static str> {
    let checks = found.checks.iter().filter(|check| check.verdict == verdict);
    checks.map(|check| check.check).collect()
}

/// Exactly these checks are wrong, and each line with its advice holds its words.
fn wrong(found: &Examination, lines: &[(&'static str, &str)]) {
    let names: BTreeSet<_> = lines.iter().map(|(name, _)| *name).collect();
    assert_eq!(with(found, Verdict::Wrong), names, "{found}");
    assert!(!found.passed());
    for (name, words) in lines {
        let said = found.checks.iter().filter(|check| check.check == *name);
        let said: Vec<String> = said
            .filter(|check| check.verdict == Verdict::Wrong)
            .map(|check| format!("{}. To do: {}", check.found, check.todo.as_ref().unwrap()))
            .collect();
        assert!(
            said.iter().any(|line| line.contains(words)),
            "`{words}` is not in {said:?}"
        );
    }
}

fn copy(from: PathBuf, to: PathBuf) {
    fs::copy(from, to).unwrap();
}

/// Gives a client other frames.
fn data(kit: &Consortium, section: &str) {
    let text = fs::read_to_string(kit.client("client.toml")).unwrap();
    let (rest, _) = text.split_once("[data]").unwrap();
    fs::write(kit.client("client.toml"), format!("{rest}[data]\n{section}")).unwrap();
}

/// Opens a page in the server's configuration.
fn watch(kit: &Consortium, listen: &str) {
    let path = kit.server("server.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n[watch]\nlisten = \"{listen}\"\n")).unwrap();
}

/// Breaks a kit of its own for each case.
type Break = fn(&Consortium);
type Case<'a> = (&'a str, Break, &'a [(&'static str, &'a str)]);

const CLIENT: &[Case] = &[
    (
        "others can read the key",
        |kit| fs::set_permissions(kit.client("client.key"), fs::Permissions::from_mode(0o644)).unwrap(),
        &[("signing key", "mode 644"), ("signing key", "chmod 600")],
    ),
    (
        "another client's key",
        |kit| copy(kit.path("clients/client-04/client.key"), kit.client("client.key")),
        &[("signing key", "not the key that the policy names for client 3")],
    ),
    (
        "no key",
        |kit| fs::remove_file(kit.client("client.key")).unwrap(),
        &[("signing key", "cannot read")],
    ),
    (
        "a key that is none",
        |kit| fs::write(kit.client("client.key"), "secret\n").unwrap(),
        &[("signing key", "64 hexadecimal characters")],
    ),
    (
        "another client's TLS key",
        |kit| copy(kit.path("clients/client-04/tls.key"), kit.client("tls.key")),
        &[("TLS files", "does not belong to the certificate")],
    ),
    (
        "another client's certificate and key",
        |kit| {
            copy(kit.path("clients/client-04/tls.key"), kit.client("tls.key"));
            copy(kit.path("clients/client-04/tls.pem"), kit.client("tls.pem"));
        },
        &[("TLS files", "for client 3")],
    ),
    (
        "the server's certificate and key",
        |kit| {
            copy(kit.server("tls.key"), kit.client("tls.key"));
            copy(kit.server("tls.pem"), kit.client("tls.pem"));
        },
        &[("TLS files", "for client 3"), ("chain", "would refuse")],
    ),
    (
        "another consortium's authority",
        |kit| copy(consortium().client("ca.pem"), kit.client("ca.pem")),
        &[("chain", "not issued by the authority")],
    ),
    (
        "an authority that is none",
        |kit| copy(kit.client("tls.pem"), kit.client("ca.pem")),
        &[("authority", "which is no authority"), ("chain", "")],
    ),
    (
        "TLS key that others can read",
        |kit| fs::set_permissions(kit.client("tls.key"), fs::Permissions::from_mode(0o640)).unwrap(),
        &[("TLS files", "chmod 600")],
    ),
    (
        "a policy that is none",
        |kit| fs::write(kit.client("policy.veil"), "policy").unwrap(),
        &[("policy", "not a policy file")],
    ),
    (
        "a policy that is cut short",
        |kit| {
            let bytes = fs::read(kit.client("policy.veil")).unwrap();
            fs::write(kit.client("policy.veil"), &bytes[..bytes.len() - 1]).unwrap();
        },
        &[("policy", "cut short")],
    ),
    (
        "another consortium's policy",
        |kit| copy(consortium().client("policy.veil"), kit.client("policy.veil")),
        &[("policy", "compare trust.federation and trust.authority")],
    ),
    (
        "another name in trust",
        |kit| edit(&kit.client("client.toml"), "\"demo consortium\"", "\"demo\""),
        &[("policy", "compare trust.federation")],
    ),
    (
        "an authority key that is none",
        |kit| {
            let text = fs::read_to_string(kit.client("client.toml")).unwrap();
            let line = text
                .lines()
                .find(|line| line.starts_with("authority = \""))
                .unwrap();
            edit(&kit.client("client.toml"), line, "authority = \"ab\"");
        },
        &[("trust", "64 hexadecimal characters")],
    ),
    (
        "a number beyond the policy",
        |kit| edit(&kit.client("client.toml"), "client = 3", "client = 99"),
        &[("enrolment", "client 99 is not among the 8")],
    ),
    (
        "floors above the policy",
        |kit| edit(&kit.client("client.toml"), "crowd = 3", "crowd = 9"),
        &[("floors", "the crowd is 3")],
    ),
    (
        "no steps",
        |kit| edit(&kit.client("client.toml"), "steps = ", "steps = 0 # "),
        &[("training", "training.steps")],
    ),
    (
        "an unknown robot",
        |kit| {
            edit(
                &kit.client("client.toml"),
                "platform = \"legged\"",
                "platform = \"tank\"",
            )
        },
        &[("frames", "tank")],
    ),
    (
        "a folder of frames that is not there",
        |kit| {
            data(kit, "kind = \"folder\"\npath = \"frames\"\nscale = \"kitti\"\n");
        },
        &[("frames", "frames")],
    ),
    (
        "a drive that is not among the recordings",
        |kit| {
            fs::create_dir_all(kit.client("raw/2011_09_26/2011_09_26_drive_0002_sync")).unwrap();
            data(
                kit,
                "kind = \"kitti\"\npath = \"raw\"\ndepth = \"gt\"\nsequences = [\"2011_09_26_drive_0001\"]\n",
            );
        },
        &[
            ("frames", "no sequence '2011_09_26_drive_0001'"),
            ("frames", "there are 2011_09_26_drive_0002_sync"),
        ],
    ),
    (
        "a mask before a crop that is not made",
        |kit| {
            data(
                kit,
                "kind = \"kitti\"\npath = \"raw\"\ndepth = \"gt\"\ncrop = false\nmask_before_crop = true\n",
            );
        },
        &[("frames", "data.mask_before_crop")],
    ),
    (
        "in-painted depths without a list",
        |kit| {
            data(
                kit,
                "kind = \"nyu\"\npath = \"sync\"\nsequences = [\"kitchen\"]\ndense = true\n",
            )
        },
        &[("frames", "data.dense")],
    ),
    (
        "a sequence without depths",
        |kit| {
            fs::create_dir_all(kit.client("m3ed")).unwrap();
            data(
                kit,
                "kind = \"m3ed\"\npath = \"m3ed\"\nsequences = [\"car_urban\"]\n",
            );
        },
        &[("frames", "no sequence 'car_urban'")],
    ),
    (
        "a file of labelled frames that is none",
        |kit| {
            fs::write(kit.client("labelled.mat"), "MATLAB 5.0 MAT-file").unwrap();
            data(
                kit,
                "kind = \"nyu-mat\"\npath = \"labelled.mat\"\nsplits = \"splits.mat\"\n",
            );
        },
        &[("frames", "another HDF5 file")],
    ),
    (
        "a benchmark and no frames asked for",
        |kit| data(kit, "kind = \"nyu\"\npath = \"sync\"\n"),
        &[("frames", "set data.train_list, data.sequences, or both")],
    ),
    (
        "a setting of another benchmark",
        |kit| data(kit, "kind = \"nyu\"\npath = \"sync\"\nmask = \"garg\"\n"),
        &[("configuration", "unknown field `mask`")],
    ),
    (
        "a state folder that is a file",
        |kit| fs::write(kit.client("state"), "").unwrap(),
        &[("state folder", "not a folder")],
    ),
    (
        "a head that is none",
        |kit| {
            fs::create_dir(kit.client("state")).unwrap();
            fs::write(kit.client("state/head"), "seven\n").unwrap();
        },
        &[("state folder", "not a log head")],
    ),
    (
        "a misspelled key",
        |kit| edit(&kit.client("client.toml"), "decay = ", "deacy = "),
        &[("configuration", "Did you mean `decay`?")],
    ),
];

const SERVER: &[Case] = &[
    (
        "a client's key",
        |kit| copy(kit.client("client.key"), kit.server("server.key")),
        &[("signing key", "not the key that the policy names for the server")],
    ),
    (
        "another model",
        |kit| {
            let mut bytes = fs::read(kit.server("initial.f32")).unwrap();
            bytes[0] ^= 1;
            fs::write(kit.server("initial.f32"), bytes).unwrap();
        },
        &[("initial model", "not the model that the policy was signed for")],
    ),
    (
        "half a model",
        |kit| {
            let bytes = fs::read(kit.server("initial.f32")).unwrap();
            fs::write(kit.server("initial.f32"), &bytes[..bytes.len() / 2]).unwrap();
        },
        &[("initial model", "entries of 4")],
    ),
    (
        "clusters that give somebody away",
        |kit| {
            let text = fs::read_to_string(kit.server("server.toml")).unwrap();
            let line = text.lines().find(|line| line.starts_with("clusters = ")).unwrap();
            let leak = "clusters = [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6]]";
            edit(&kit.server("server.toml"), line, leak);
        },
        &[("clusters", "cover clients [7] only")],
    ),
    (
        "more clients than there are",
        |kit| edit(&kit.server("server.toml"), "wait_for = 8", "wait_for = 9"),
        &[("round", "between 5 and 8")],
    ),
    (
        "a phase of no time",
        |kit| edit(&kit.server("server.toml"), "mask_s = 60", "mask_s = 0"),
        &[("round", "deadlines.mask_s is 0")],
    ),
    (
        "a log of another policy",
        |kit| {
            fs::create_dir(kit.server("state")).unwrap();
            let other = fs::read(consortium().server("policy.veil")).unwrap();
            fs::write(
                kit.server("state/log.veil"),
                &other[b"veilsum-policy/1\n".len()..],
            )
            .unwrap();
        },
        &[("state folder", "the log of another policy")],
    ),
    (
        "an address of another machine",
        |kit| {
            let text = fs::read_to_string(kit.server("server.toml")).unwrap();
            let line = text.lines().find(|line| line.starts_with("listen = ")).unwrap();
            edit(&kit.server("server.toml"), line, "listen = \"192.0.2.1:4433\"");
        },
        &[("address", "an address of this machine")],
    ),
    (
        "a page for everybody that is not meant",
        |kit| watch(kit, "0.0.0.0:0"),
        &[("watch", "public = true")],
    ),
    (
        "a page at an address of another machine",
        |kit| watch(kit, "192.0.2.1:9464\"\npublic = true #\""),
        &[("watch", "an address of this machine")],
    ),
    (
        "a bundle under a file",
        |kit| {
            fs::remove_dir_all(kit.path("auditor")).unwrap();
            fs::write(kit.path("auditor"), "").unwrap();
        },
        &[("bundle", "not a folder")],
    ),
    (
        "witnesses that are not there",
        |kit| {
            edit(
                &kit.server("server.toml"),
                "bundle = ",
                "witnesses = \"w.policy\"\nbundle = ",
            )
        },
        &[("witnesses", "w.policy")],
    ),
    (
        "witnesses that are none",
        |kit| {
            edit(
                &kit.server("server.toml"),
                "bundle = ",
                "witnesses = \"w.policy\"\nbundle = ",
            );
            fs::write(kit.server("w.policy"), "witnesses: all\n").unwrap();
        },
        &[("witnesses", "docs/audit.md")],
    ),
    (
        "a client's certificate and key",
        |kit| {
            copy(kit.client("tls.key"), kit.server("tls.key"));
            copy(kit.client("tls.pem"), kit.server("tls.pem"));
        },
        &[("TLS files", "for the server"), ("chain", "would refuse")],
    ),
    (
        "another consortium's authority",
        |kit| copy(consortium().server("ca.pem"), kit.server("ca.pem")),
        &[("chain", "not issued by the authority")],
    ),
];

#[tokio::test]
async fn a_whole_kit_is_well_and_left_as_it_was() {
    let kit = consortium();
    for path in [kit.client("client.toml"), kit.server("server.toml")] {
        let folder = path.parent().unwrap();
        let before = names(folder);
        let found = look(&path).await;
        assert!(found.passed(), "{found}");
        let open: BTreeSet<_> = if path.ends_with("client.toml") {
            ["server"].into()
        } else {
            BTreeSet::new()
        };
        assert_eq!(with(&found, Verdict::CannotTell), open, "{found}");
        assert_eq!(names(folder), before, "doctor leaves nothing behind");
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn each_fault_of_a_client_gives_its_line() {
    for (name, broken, lines) in CLIENT {
        println!("{name}");
        let kit = consortium();
        broken(&kit);
        wrong(&look(&kit.client("client.toml")).await, lines);
    }
}

#[tokio::test]
async fn each_fault_of_a_server_gives_its_line() {
    for (name, broken, lines) in SERVER {
        println!("{name}");
        let kit = consortium();
        broken(&kit);
        wrong(&look(&kit.server("server.toml")).await, lines);
    }
}

#[cfg(not(feature = "torch"))]
#[tokio::test]
async fn a_network_that_is_not_built_in_is_told() {
    let kit = consortium();
    edit(
        &kit.client("client.toml"),
        "kind = \"linear\"",
        "kind = \"depth\"",
    );
    wrong(
        &look(&kit.client("client.toml")).await,
        &[("network", "built without libtorch")],
    );
}

#[tokio::test]
async fn dates_are_told_before_and_after() {
    let now = SystemTime::now();
    // Certificates last a year.
    let past = founded(now - 370 * DAY);
    let lines = [
        ("certificate", "ended 5 days ago"),
        ("authority", "ended"),
        ("chain", "dates"),
    ];
    wrong(&look(&past.client("client.toml")).await, &lines);
    wrong(&look(&past.server("server.toml")).await, &lines);
    let soon = founded(now - 355 * DAY);
    let lines = [("certificate", "ends in"), ("authority", "renewed")];
    wrong(&look(&soon.client("client.toml")).await, &lines);
    let far = founded(now - 345 * DAY);
    assert!(look(&far.client("client.toml")).await.passed());
    let future = founded(now + 3 * DAY);
    let lines = [
        ("certificate", "begins in 2 days"),
        ("authority", "begins in"),
        ("chain", "dates"),
        ("clock", "before the consortium"),
    ];
    wrong(&look(&future.client("client.toml")).await, &lines);
}

#[tokio::test]
async fn a_running_party_is_left_alone() {
    let kit = consortium();
    let _running = ClientStore::open(&kit.client("state")).unwrap();
    let found = examine(&kit.client("client.toml"), SystemTime::now(), false).await;
    wrong(&found, &[("state folder", "another process runs")]);
    assert_eq!(
        with(&found, Verdict::CannotTell),
        ["server"].into(),
        "no second connection: {found}"
    );
    let listen = Located::<ServerConfig>::read(&kit.server("server.toml"))
        .unwrap()
        .settings
        .listen;
    let _taken = UdpSocket::bind(listen).unwrap();
    wrong(
        &look(&kit.server("server.toml")).await,
        &[("address", "stop the process")],
    );
}

#[tokio::test]
async fn the_server_is_called_and_known_by_its_key() {
    let kit = consortium();
    let path = kit.client("client.toml");
    let call = || examine(&path, SystemTime::now(), false);
    wrong(&call().await, &[("server", "nobody answers")]);

    let config = Located::<ServerConfig>::read(&kit.server("server.toml")).unwrap();
    let (own, roots) = config.tls(&config.settings.tls).unwrap();
    let listen = config.settings.listen;
    let listener = QuicListener::bind(listen, own, roots.clone(), Limits::default()).unwrap();
    let found = call().await;
    assert!(
        found.passed() && with(&found, Verdict::CannotTell).is_empty(),
        "{found}"
    );
    listener.close().await;

    while UdpSocket::bind(listen).is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // Another server with a certificate of the same authority is not the policy's.
    let (cert, key) = ("authority/ca.pem", "authority/ca.key");
    let [cert, key] = [cert, key].map(|name| fs::read_to_string(kit.path(name)).unwrap());
    let ca = ConsortiumCa::from_pem(&cert, &key).unwrap();
    let names = vec!["localhost".to_owned()];
    let issued = ca
        .issue(&IssueKind::Server { names }, DAY, SystemTime::now())
        .unwrap();
    let other = TlsIdentity::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    let roots = TrustRoots::from_pem(cert.as_bytes()).unwrap();
    let listener = QuicListener::bind(listen, other, roots, Limits::default()).unwrap();
    wrong(&call().await, &[("server", "not the pinned")]);
    listener.close().await;
}

#[test]
fn the_command_says_it_in_both_forms_and_by_its_exit_code() {
    let kit = consortium();
    let folder = kit.path("server");
    let folder = folder.to_str().unwrap();
    let ran = veilsum(&["doctor", "--config", folder, "--offline"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));
    assert!(text(&ran.stdout).contains("0 wrong"), "{}", text(&ran.stdout));
    fs::remove_file(kit.server("initial.f32")).unwrap();
    let ran = veilsum(&["doctor", "--config", folder, "--format", "json"]);
    assert_eq!(ran.status.code(), Some(3));
    let said: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&said["schema"], &said["role"]),
        (&"veilsum-doctor/1".into(), &"server".into())
    );
    let checks = said["checks"].as_array().unwrap();
    let bad: Vec<_> = checks
        .iter()
        .filter(|check| check["verdict"] == "wrong")
        .collect();
    assert_eq!(bad.len(), 1, "{said}");
    assert_eq!(bad[0]["check"], "initial model");
    assert!(bad[0]["todo"].is_string());
    let ran = veilsum(&["doctor", "--config", "nowhere/client.toml"]);
    assert_eq!(ran.status.code(), Some(3));
    assert!(
        text(&ran.stdout).contains("nowhere/client.toml"),
        "{}",
        text(&ran.stdout)
    );
}
