//! The real program, one process a party, over QUIC on loopback: what happens when the server or too many clients are
//! killed, and what wrong files and flags are answered with.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "processes/player.rs"]
mod player;

use player::{Player, client_toml, consortium, consortium_with, edit, text, veilsum};
use std::fs;

#[test]
fn a_server_killed_in_a_round_ends_every_client_by_name_and_goes_on_when_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 3);
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8)
        .map(|client| {
            let stall: &[&str] = if client == 3 {
                &["--stall-upload-in-round", "2"]
            } else {
                &[]
            };
            Player::client(&kit, client, stall)
        })
        .collect();
    clients[3].wait_for("\"stalled\"");
    server.child.kill().unwrap();
    for client in clients
        .iter_mut()
        .enumerate()
        .filter(|(number, _)| *number != 3)
        .map(|(_, client)| client)
    {
        assert_eq!(client.exit(), 75, "{}", client.said());
        assert!(
            client.said().contains("could not be reached"),
            "{}",
            client.said()
        );
    }
    drop(clients);

    // Round 1 is in the log; the interrupted attempt at round 2 is over and a new one begins.
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    assert!(
        server
            .said()
            .contains("\"event\":\"round\",\"round\":2,\"attempt\":1"),
        "{}",
        server.said()
    );
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
    }
    let bundle = kit.join("auditor/bundle.veil");
    let audit = veilsum(&["audit", bundle.to_str().unwrap(), "--format", "json"]);
    assert_eq!(audit.status.code(), Some(0), "{}", text(&audit.stdout));

    // The command line's side of the audit: a changed bundle is violated or unreadable, exit 6 either way.
    let mut bytes = fs::read(&bundle).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&bundle, bytes).unwrap();
    let audit = veilsum(&["audit", bundle.to_str().unwrap(), "--format", "json"]);
    assert_eq!(audit.status.code(), Some(6));
    let verdict: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert_ne!(verdict["overall"], "verified");
}

#[test]
fn t_minus_one_clients_left_end_the_round_by_name_on_all_sides() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 2);
    edit(
        &kit.join("server/server.toml"),
        &[("attempts = 3", "attempts = 1"), ("mask_s = 60", "mask_s = 20")],
    );
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    // Four of eight stop in mid-upload and are killed: four are left, and the threshold is five.
    let mut clients: Vec<Player> = (0..8)
        .map(|client| {
            let stall: &[&str] = if client >= 4 {
                &["--stall-upload-in-round", "1"]
            } else {
                &[]
            };
            Player::client(&kit, client, stall)
        })
        .collect();
    for client in &mut clients[4..] {
        client.wait_for("\"stalled\"");
        client.child.kill().unwrap();
    }
    assert_eq!(server.exit(), 5, "{}", server.said());
    assert!(server.said().contains("TooFewMasked"), "{}", server.said());
    assert!(!server.said().contains("round_done"));
    for client in &mut clients[..4] {
        assert_eq!(client.exit(), 75, "{}", client.said());
        assert!(client.said().contains("TooFewMasked"), "{}", client.said());
    }
    // The attempts can be audited all the same: nothing was opened.
    let bundle = kit.join("auditor/bundle.veil");
    assert!(!kit.join("auditor/bundle.part").exists(), "nothing half written");
    let audit = veilsum(&["audit", bundle.to_str().unwrap(), "--format", "json"]);
    assert!(audit.status.success(), "{}", text(&audit.stdout));
    let verdict: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
    let rounds = verdict["rounds"].as_array().unwrap();
    assert!(
        !rounds.is_empty() && rounds.iter().all(|round| round["aborted"] == "TooFewMasked"),
        "{verdict}"
    );
}

#[test]
fn a_server_told_to_stop_leaves_a_bundle_and_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 3);
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8)
        .map(|client| {
            let stall: &[&str] = if client == 3 {
                &["--stall-upload-in-round", "2"]
            } else {
                &[]
            };
            Player::client(&kit, client, stall)
        })
        .collect();
    clients[3].wait_for("\"stalled\"");
    // What systemd and container engines send.
    let told = std::process::Command::new("kill")
        .args(["-TERM", &server.child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert_eq!(server.exit(), 130, "{}", server.said());
    let bundle = kit.join("auditor/bundle.veil");
    let audit = veilsum(&["audit", bundle.to_str().unwrap(), "--format", "json"]);
    assert!(audit.status.success(), "{}", text(&audit.stdout));
    drop(clients);
    let config = kit.join("server/server.toml");
    let again = dir.path().join("again.veil");
    let exported = veilsum(&[
        "export",
        "--config",
        config.to_str().unwrap(),
        "--out",
        again.to_str().unwrap(),
    ]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let trust = kit.join("auditor/auditor.toml");
    let audit = veilsum(&[
        "audit",
        again.to_str().unwrap(),
        "--trust",
        trust.to_str().unwrap(),
    ]);
    assert!(audit.status.success(), "{}", text(&audit.stdout));
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    // A second server on the same folder is refused before it touches anything.
    let second = veilsum(&["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(3), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("another process runs on this state folder"));
    let mut clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    assert!(server.said().contains("ServerLost"), "{}", server.said());
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
    }
    assert!(veilsum(&["audit", bundle.to_str().unwrap()]).status.success());
    let left: Vec<_> = fs::read_dir(kit.join("server/state/vectors"))
        .unwrap()
        .map(|folder| folder.unwrap().file_name())
        .collect();
    assert!(
        !left.contains(&"000002-0".into()),
        "the lost attempt's vectors are gone: {left:?}"
    );
}

#[test]
fn wrong_files_and_flags_are_named_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 1);
    let config = client_toml(&kit, 3);
    let good = fs::read_to_string(&config).unwrap();
    let join = |expected: i32, needles: &[&str]| {
        let out = veilsum(&["join", "--config", config.to_str().unwrap()]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(expected), "{said}");
        for needle in needles {
            assert!(said.contains(needle), "`{needle}` is not in: {said}");
        }
    };
    let with = |old: &str, new: &str| {
        assert!(good.contains(old), "{old}");
        fs::write(&config, good.replace(old, new)).unwrap();
    };

    with("client = 3", "client = 3\nclinet = 4");
    join(3, &["client.toml", "clinet", "unknown field"]);
    with("client = 3", "client = 99");
    join(3, &["client 99 is not among the 8"]);
    with("client = 3", "client = 4");
    join(
        3,
        &["client.key is not the key that the policy names for client 4"],
    );
    with("kind = \"generated\"", "kind = \"generatd\"");
    join(3, &["client.toml", "generatd"]);
    with("platform = \"legged\"", "platform = \"tank\"");
    join(3, &["data.platform", "tank", "legged"]);
    with("crowd = 3", "crowd = 9");
    join(4, &["the crowd is 3", "at least 9"]);
    for (old, new, key) in [
        ("steps = ", "steps = 0 # ", "training.steps"),
        (
            "learning_rate = ",
            "learning_rate = nan # ",
            "training.learning_rate",
        ),
        ("batch = ", "batch = 0 # ", "training.batch"),
        ("decay = ", "decay = -5.0 # ", "training.decay"),
        ("min_depth_m = ", "min_depth_m = -3.0 # ", "learner.min_depth_m"),
        ("train = ", "train = 0 # ", "data.train"),
    ] {
        with(old, new);
        join(3, &[key]);
    }
    let authority = good
        .lines()
        .find(|line| line.starts_with("authority = \""))
        .unwrap()
        .to_owned();
    let other = kit.join("../other");
    fs::create_dir_all(&other).unwrap();
    let stranger = consortium(&other, 1);
    with(&authority, &format!("authority = \"{}\"", "ab".repeat(32)));
    join(3, &["authority"]);
    fs::write(&config, &good).unwrap();

    // A certificate of another authority: a server and a client of two consortia do not talk.
    let key = kit.join("clients/client-03/client.key");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    join(3, &["client.key", "chmod 600"]);
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(kit.join("clients/client-03/policy.veil"), b"something else").unwrap();
    join(3, &["not a policy file"]);
    fs::copy(
        stranger.join("server/policy.veil"),
        kit.join("clients/client-03/policy.veil"),
    )
    .unwrap();
    join(3, &["authority key"]);
    fs::copy(
        kit.join("server/policy.veil"),
        kit.join("clients/client-03/policy.veil"),
    )
    .unwrap();

    let out = veilsum(&["init", "consortium", "--dir", kit.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(3));
    assert!(text(&out.stderr).contains("not empty"));
    let fresh = dir.path().join("fresh");
    let out = veilsum(&[
        "init",
        "consortium",
        "--dir",
        fresh.to_str().unwrap(),
        "--clusters",
        "0-99",
    ]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("there are clients 0 to 7"));
    assert!(!fresh.exists(), "nothing half written");
    let out = veilsum(&["audit", kit.join("none.veil").to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(3));
    let out = veilsum(&["audit"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_client_of_another_consortium_is_refused_by_name_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 1);
    fs::create_dir_all(dir.path().join("b")).unwrap();
    let stranger = consortium(&dir.path().join("b"), 1);
    let server_toml = fs::read_to_string(kit.join("server/server.toml")).unwrap();
    let addr = server_toml
        .lines()
        .find_map(|line| line.strip_prefix("listen = "))
        .unwrap()
        .to_owned();
    let config = client_toml(&stranger, 0);
    let text = fs::read_to_string(&config).unwrap();
    let own = text
        .lines()
        .find_map(|line| line.strip_prefix("server = "))
        .unwrap()
        .to_owned();
    fs::write(&config, text.replace(&own, &addr)).unwrap();

    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut intruder = Player::client(&stranger, 0, &[]);
    assert_eq!(intruder.exit(), 4, "{}", intruder.said());
    assert!(intruder.said().contains("authority"), "{}", intruder.said());
    let mut clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
    }
}

#[test]
fn the_demo_runs_from_one_end_to_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let demo = dir.path().join("demo");
    let out = veilsum(&[
        "demo",
        "--dir",
        demo.to_str().unwrap(),
        "--learner",
        "linear",
        "--rounds",
        "3",
        "--keep",
    ]);
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(demo.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["schema"], "veilsum-demo/1");
    assert!(
        fs::read_to_string(demo.join("report.html"))
            .unwrap()
            .contains("verified")
    );
    let bundle = demo.join("consortium/auditor/bundle.veil");
    assert!(veilsum(&["audit", bundle.to_str().unwrap()]).status.success());
}

#[test]
fn clusters_come_of_what_clients_say_and_can_be_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium_with(dir.path(), 2, &["--cluster-by", "overlap:1"]);
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
    }
    let bundle = kit.join("auditor/bundle.veil");
    let bundle = bundle.to_str().unwrap();
    assert!(veilsum(&["audit", bundle]).status.success());
    let descriptors = kit.join("server/state/descriptors");
    let replayed = veilsum(&[
        "plan",
        "replay",
        bundle,
        "--descriptors",
        descriptors.to_str().unwrap(),
    ]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    assert!(text(&replayed.stdout).contains("8 descriptors: the plan follows from them"));
    // Without the descriptors it stays open.
    let nothing = dir.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let open = veilsum(&[
        "plan",
        "replay",
        bundle,
        "--descriptors",
        nothing.to_str().unwrap(),
    ]);
    assert_eq!(open.status.code(), Some(3));
    assert!(
        text(&open.stdout).contains("not checkable"),
        "{}",
        text(&open.stdout)
    );
    // A server that names clusters under such a policy is told so before it listens.
    edit(
        &kit.join("server/server.toml"),
        &[("[round]\n", "[round]\nclusters = [[0, 1, 2, 3, 4, 5, 6, 7]]\n")],
    );
    let toml = kit.join("server/server.toml");
    let named = veilsum(&["serve", "--config", toml.to_str().unwrap()]);
    assert_eq!(named.status.code(), Some(3));
    assert!(
        text(&named.stderr).contains("round.clusters"),
        "{}",
        text(&named.stderr)
    );
}

#[test]
fn init_makes_nothing_that_cannot_run() {
    let dir = tempfile::tempdir().unwrap();
    let kit = dir.path().join("kit");
    for (flags, needle) in [
        (&["--clusters", "0-1;2-3"][..], "would expose clients"),
        (&["--rounds", "0"], "no rounds"),
        (&["--addr", "0.0.0.0:4433"], "not one clients can reach"),
        (&["--clients", "4294967295"], "between 3 and 4096"),
        (&["--clients", "2"], "between 3 and 4096"),
        (&["--orgs", "9"], "9 organisations for 8 clients"),
    ] {
        let mut args = vec![
            "init",
            "consortium",
            "--learner",
            "linear",
            "--dir",
            kit.to_str().unwrap(),
        ];
        args.extend(flags);
        let out = veilsum(&args);
        assert_eq!(out.status.code(), Some(2), "{flags:?}: {}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains(needle),
            "{flags:?}: {}",
            text(&out.stderr)
        );
        assert!(!kit.exists(), "{flags:?}");
    }
}

#[test]
fn no_round_starts_without_the_witnesses_that_the_server_needs() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 2);
    let config = kit.join("server/server.toml");
    // The log's key, from the bundle of a log that holds its founding entries only.
    let bundle = dir.path().join("founding.veil");
    let exported = veilsum(&[
        "export",
        "--config",
        config.to_str().unwrap(),
        "--out",
        bundle.to_str().unwrap(),
    ]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let inspected = veilsum(&["inspect", bundle.to_str().unwrap(), "--format", "json"]);
    let log_key = text(&inspected.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|line| line["log"].as_str().map(str::to_owned))
        .unwrap_or_else(|| panic!("no log key in {}", text(&inspected.stdout)));
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let listen = format!("127.0.0.1:{port}");
    let (state, key) = (dir.path().join("witness"), dir.path().join("witness.key"));
    let start = || {
        Player::start(
            &[
                "witness",
                "--state",
                state.to_str().unwrap(),
                "--key",
                key.to_str().unwrap(),
                "--name",
                "witness.test/1",
                "--log",
                &log_key,
                "--listen",
                &listen,
                "--format",
                "json",
            ],
            dir.path().join("witness.log"),
        )
    };
    let mut witness = start();
    witness.wait_for("listening");
    let said = witness.said();
    let line: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let witness_key = line["key"].as_str().unwrap_or_else(|| panic!("{line}"));
    fs::write(
        kit.join("server/witnesses.policy"),
        format!("log {log_key}\nwitness w {witness_key} http://{listen}\nquorum w\n"),
    )
    .unwrap();
    edit(
        &config,
        &[("bundle = ", "witnesses = \"witnesses.policy\"\nbundle = ")],
    );
    // Without the witness nothing starts, and the operator is told whom to look for.
    drop(witness);
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 75, "{}", server.said());
    assert!(server.said().contains("no round starts"), "{}", server.said());
    let asked =
        "\"quorum\":false,\"witnesses\":[{\"name\":\"w\",\"cosigned_at\":null,\"reason\":\"cannot be reached";
    assert!(server.said().contains(asked), "{}", server.said());
    assert!(
        !server.said().contains("\"event\":\"round\""),
        "{}",
        server.said()
    );
    drop(clients);
    let _witness = start();
    let mut server = Player::server(&kit);
    server.wait_for("listening");
    let mut clients: Vec<Player> = (0..8).map(|client| Player::client(&kit, client, &[])).collect();
    assert_eq!(server.exit(), 0, "{}", server.said());
    for client in &mut clients {
        assert_eq!(client.exit(), 0, "{}", client.said());
    }
    let cosigned = "\"quorum\":true,\"witnesses\":[{\"name\":\"w\",\"cosigned_at\":1";
    assert!(server.said().contains(cosigned), "{}", server.said());
    let head = fs::read_to_string(kit.join("server/state/head.note")).unwrap();
    assert!(head.contains("witness.test/1"), "{head}");
}
