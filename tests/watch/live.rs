//! The real program, looked at over HTTP while it runs.

use crate::grammar::{Exposition, read};
use crate::player::{self, Player, client_toml, consortium, edit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// Status, head and body of a request to a running server.
fn http(addr: &str, method: &str, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// Where a party says that it can be looked at.
fn watching(party: &mut Player) -> String {
    party.wait_for("\"watching\"");
    let said = party.said();
    let line = said.lines().find(|line| line.contains("\"watching\"")).unwrap();
    let event: serde_json::Value = serde_json::from_str(line).unwrap();
    event["addr"].as_str().unwrap().to_owned()
}

fn scrape(addr: &str) -> Exposition {
    let (status, head, body) = http(addr, "GET", "/metrics");
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    read(&body).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

#[test]
fn a_live_federation_is_scraped() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 3);
    edit(
        &kit.join("server/server.toml"),
        &[(
            "reconnect_s = 2\n",
            "reconnect_s = 2\n\n[watch]\nlisten = \"127.0.0.1:0\"\n",
        )],
    );
    let toml = client_toml(&kit, 0);
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, format!("{text}\n[watch]\nlisten = \"127.0.0.1:0\"\n")).unwrap();
    let mut server = Player::server(&kit);
    let addr = watching(&mut server);

    assert_eq!(http(&addr, "GET", "/healthz").0, 200);
    let (status, _, why) = http(&addr, "GET", "/readyz");
    assert_eq!(
        (status, why.as_str()),
        (
            503,
            "0 clients are connected, and a round needs 5: start more clients\n"
        )
    );
    assert_eq!(scrape(&addr).value("veilsum_clients_connected", &[]), Some(0.0));

    // Client 3 stops in the middle of its upload in round 2: the server waits, and can be looked at.
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
    let start = Instant::now();
    let seen = loop {
        let seen = scrape(&addr);
        if seen.value("veilsum_phase_clients", &[("phase", "mask")]) == Some(7.0) {
            break seen;
        }
        assert!(start.elapsed() < player::LIMIT, "{seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    for (name, labels, wanted) in [
        ("veilsum_round", &[][..], 2.0),
        ("veilsum_rounds_planned", &[], 3.0),
        ("veilsum_stage", &[("stage", "round")], 1.0),
        ("veilsum_stage", &[("stage", "gathering")], 0.0),
        ("veilsum_phase", &[("phase", "mask")], 1.0),
        ("veilsum_phase", &[("phase", "share")], 0.0),
        ("veilsum_phase_clients_wanted", &[("phase", "mask")], 8.0),
        ("veilsum_phase_clients", &[("phase", "agree")], 0.0),
        ("veilsum_clients_connected", &[], 8.0),
        ("veilsum_clients_enrolled", &[], 8.0),
        ("veilsum_attempts_total", &[("outcome", "published")], 1.0),
        ("veilsum_attempts_total", &[("outcome", "aborted")], 0.0),
        ("veilsum_round_clients", &[("outcome", "survived")], 8.0),
        ("veilsum_phase_duration_seconds_count", &[("phase", "mask")], 1.0),
        ("veilsum_phase_duration_seconds_count", &[("phase", "share")], 2.0),
        ("veilsum_rounds_over", &[], 1.0),
    ] {
        assert_eq!(seen.value(name, labels), Some(wanted), "{name} {labels:?}");
    }
    assert_eq!(http(&addr, "GET", "/readyz").2, "ready\n");

    // What the server printed on its own output is the same run.
    let said = server.said();
    let done = said.lines().find(|line| line.contains("\"round_done\"")).unwrap();
    let done: serde_json::Value = serde_json::from_str(done).unwrap();
    let (_, head, body) = http(&addr, "GET", "/state.json");
    assert!(head.contains("content-type: application/json"), "{head}");
    let state: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(state["schema"], "veilsum-watch/1");
    assert_eq!(state["log"], done["head"]);
    assert_eq!(state["round"]["phase"], "mask");
    assert_eq!(
        seen.value("veilsum_log_entries", &[]),
        done["head"]["size"].as_f64()
    );
    let received = seen.value("veilsum_received_bytes_total", &[]).unwrap();
    assert!(received > done["bytes_in"].as_f64().unwrap() && done["bytes_in"].as_u64() > Some(0));

    // `HEAD` says what `GET` would, without it.
    let (status, head, body) = http(&addr, "HEAD", "/");
    assert_eq!((status, body.as_str()), (200, ""));
    let page = http(&addr, "GET", "/").2;
    assert!(
        head.contains(&format!("content-length: {}", page.len())),
        "{head}"
    );
    assert_eq!(http(&addr, "POST", "/state.json").0, 405);

    // A client's own address: where it stands, and no page.
    let own = watching(&mut clients[0]);
    let seen = scrape(&own);
    assert_eq!(seen.value("veilsum_client_connected", &[]), Some(1.0));
    assert_eq!(
        seen.value("veilsum_client_rounds_total", &[("outcome", "published")]),
        Some(1.0)
    );
    assert_eq!(seen.value("veilsum_client_round", &[]), Some(2.0));
    assert_eq!(http(&own, "GET", "/readyz").2, "ready\n");
    assert_eq!(http(&own, "GET", "/healthz").0, 200);
    assert_eq!(http(&own, "GET", "/").0, 404);
    let state: serde_json::Value = serde_json::from_str(&http(&own, "GET", "/state.json").2).unwrap();
    assert_eq!(state["schema"], "veilsum-watch-client/1");

    browser(&addr, done["head"]["root"].as_str().unwrap());

    // One client more gone than there may be: the round waits for its deadline, and the server is not ready any more.
    for client in &mut clients[..4] {
        client.child.kill().unwrap();
    }
    let start = Instant::now();
    loop {
        let (status, _, why) = http(&addr, "GET", "/readyz");
        if status == 503 && why.starts_with("4 clients are connected") {
            break;
        }
        assert!(start.elapsed() < player::LIMIT, "{why}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a browser makes of the page under its own policy, where there is one.
fn browser(addr: &str, root: &str) {
    let profile = tempfile::tempdir().unwrap();
    let shown = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=3000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--dump-dom", &format!("http://{addr}/")])
        .output();
    let Ok(shown) = shown else {
        println!("page not looked at in a browser: it needs chromium");
        return;
    };
    let page = player::text(&shown.stdout);
    for wanted in [
        "id=\"badge\">ready</span>",
        "id=\"round\">2 of 3<",
        "id=\"connected\">8 of 8 connected<",
        ">7 of 8</td>",
        "round 1 published: 8 survivors",
        root,
    ] {
        assert!(page.contains(wanted), "no `{wanted}` in {page}");
    }
}

#[test]
fn a_public_address_must_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    let kit = consortium(dir.path(), 1);
    edit(
        &kit.join("server/server.toml"),
        &[(
            "reconnect_s = 2\n",
            "reconnect_s = 2\n\n[watch]\nlisten = \"0.0.0.0:0\"\n",
        )],
    );
    let mut server = Player::server(&kit);
    assert_eq!(server.exit(), 3, "{}", server.said());
    assert!(
        server
            .said()
            .contains("setting `watch.listen`: others can reach 0.0.0.0"),
        "{}",
        server.said()
    );
    assert!(!server.said().contains("\"listening\""));
}
