//! A federation that is looked at while it runs: metrics that are OpenMetrics and agree with the log, health, state, page.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "watch/grammar.rs"]
mod grammar;
#[path = "processes/player.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod player;
#[path = "simulated/world.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod world;

use grammar::{Exposition, read};
use player::{Player, client_toml, consortium, edit};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use veilsum::events::{LogHead, ServerEvent, WitnessWord};
use veilsum::store::ServerStore;
use veilsum::watch::{ClientWatch, DescriptorCost, Facts, Subject, Watch};
use veilsum_aggregation::Abort;
use veilsum_attestation::statement::{Aborted, Entry, Kind, Sums};
use veilsum_crypto::wire;
use veilsum_transport::Fault;

fn facts() -> Facts {
    Facts {
        federation: "test".to_owned(),
        rounds: 3,
        clients: 8,
        organisations: 4,
        threshold: 5,
        crowd: 2,
        crowd_orgs: 2,
        descriptors: DescriptorCost::Nothing,
        clusterings: 0,
        witnesses: Vec::new(),
        round: 1,
        head: LogHead {
            size: 0,
            root: String::new(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn counters_agree_with_the_log() {
    // Client 3 is cut off in the middle of its first upload, after one of two chunks. In the next run three clients are, before
    // any, so that two survivors are left in cluster 0, which is too few. In the last one four of eight: the attempt aborts.
    for (cut, frames, dropped, closed, aborts_wanted) in [
        (&[3][..], 5, 1.0, 0.0, 0),
        (&[0, 1, 2], 4, 3.0, 1.0, 0),
        (&[0, 1, 2, 3], 4, 0.0, 0.0, 1),
    ] {
        let federation = world::federation(3);
        let run = world::run(&federation, 2, 5_000, |net, peers| {
            for client in cut {
                net.inject(Fault::CutAfterFrames {
                    peer: peers[*client],
                    frames,
                });
            }
        })
        .await;
        let watch = Watch::new(facts());
        for stamped in &run.server {
            watch.observe(&stamped.event);
            read(&watch.openmetrics()).unwrap();
        }
        let seen = read(&watch.openmetrics()).unwrap();

        let folder = federation.dir.path().join("server-2");
        let (_, resume) = ServerStore::open(&folder, &federation.genesis.entries).unwrap();
        let (mut published, mut opened, mut withheld, mut attempts) = (0, 0, 0, 0);
        let mut aborts: BTreeMap<String, u32> = BTreeMap::new();
        for bytes in resume.log.entries() {
            let entry: Entry = wire::decode(bytes).unwrap();
            match entry.kind {
                Kind::Plan => attempts += 1,
                Kind::Sums => {
                    let sums: Sums = wire::decode(&entry.body).unwrap();
                    published += 1;
                    opened += sums.results.len();
                }
                Kind::Aborted => {
                    let aborted: Aborted = wire::decode(&entry.body).unwrap();
                    let name = String::from_utf8(aborted.reason.to_vec()).unwrap();
                    *aborts.entry(name).or_default() += 1;
                }
                _ => {}
            }
        }
        // Two clusters a round; what is not opened is withheld.
        withheld += 2 * published - opened;
        let value = |name: &str, labels: &[(&str, &str)]| seen.value(name, labels).unwrap_or(-1.0);
        assert_eq!(published, 3);
        assert_eq!(
            value("veilsum_attempts_total", &[("outcome", "published")]),
            published as f64
        );
        let aborted: u32 = aborts.values().sum();
        assert_eq!(
            value("veilsum_attempts_total", &[("outcome", "aborted")]),
            f64::from(aborted)
        );
        assert_eq!(published + aborted as usize, attempts);
        for (reason, count) in &aborts {
            assert_eq!(
                value("veilsum_aborts_total", &[("reason", reason)]),
                f64::from(*count)
            );
        }
        assert_eq!(aborted, aborts_wanted, "{aborts:?}");
        assert_eq!(withheld as f64, closed);
        assert_eq!(
            value("veilsum_sums_total", &[("outcome", "opened")]),
            opened as f64
        );
        assert_eq!(
            value("veilsum_sums_total", &[("outcome", "withheld")]),
            withheld as f64
        );
        assert_eq!(value("veilsum_log_entries", &[]), resume.log.head().size as f64);
        assert_eq!(value("veilsum_clients_dropped_total", &[]), dropped);
        for event in run.server.iter().map(|stamped| &stamped.event) {
            if let ServerEvent::RoundDone {
                round: 1,
                withheld,
                withheld_why,
                ..
            } = event
            {
                assert_eq!(withheld.len(), withheld_why.len());
                for why in withheld_why {
                    // The crowd of three, and one client who may collude.
                    assert_eq!(why, "2 survivor(s) in it, 4 required");
                }
            }
        }
        // A phase is timed once for every attempt that came to it.
        assert_eq!(
            value("veilsum_phase_duration_seconds_count", &[("phase", "mask")]),
            attempts as f64
        );
        assert_eq!(
            value("veilsum_phase_duration_seconds_count", &[("phase", "unmask")]),
            published as f64
        );
        // The simulated deadline of the mask phase, or what the network takes to notice, is in the sum.
        assert!(value("veilsum_phase_duration_seconds_sum", &[("phase", "mask")]) >= 0.0);
        let sent = |tape: &world::Tape| tape.lock().unwrap().iter().map(Vec::len).sum::<usize>();
        let bodies: usize = run.tapes.iter().map(sent).sum();
        let received = value("veilsum_received_bytes_total", &[]);
        assert!(
            received >= bodies as f64 * 0.95 && received <= bodies as f64 * 1.2,
            "{received} of {bodies}"
        );
    }
}

#[test]
fn no_event_puts_a_client_or_a_detail_into_what_is_shown() {
    let watch = Watch::new(facts());
    let word = "zebra77";
    watch.observe(&ServerEvent::Connected {
        client: 770_077,
        connected: 1,
        expected: 8,
    });
    watch.observe(&ServerEvent::Refused {
        client: 770_077,
        reason: word.to_owned(),
    });
    watch.observe(&ServerEvent::RoundDone {
        round: 1,
        attempt: 0,
        survivors: vec![770_077],
        dropped: vec![770_078],
        released: vec![0],
        withheld: vec![1],
        withheld_why: vec!["no survivor is in it".to_owned()],
        weights: vec![770_079],
        window_rounds: 1,
        window_crowd_milli: 1000,
        bytes_in: 1,
        bytes_out: 1,
        head: facts().head,
    });
    watch.observe(&ServerEvent::RoundAborted {
        round: 2,
        attempt: 0,
        reason: "BadDealer".to_owned(),
        detail: word.to_owned(),
        bytes_in: 0,
        bytes_out: 0,
        head: None,
    });
    watch.observe(&ServerEvent::Waiting {
        clustering: 1,
        described: 2,
        needed: 3,
        clients: vec![770_077],
        seconds: 4,
    });
    watch.observe(&ServerEvent::Failed {
        reason: "Aborted".to_owned(),
        detail: word.to_owned(),
    });
    let state = serde_json::to_string(&watch.state(Ok(()))).unwrap();
    assert!(state.contains("no survivor is in it") && state.contains("BadDealer"));
    for shown in [watch.openmetrics(), state] {
        assert!(!shown.contains("77007") && !shown.contains(word), "{shown}");
    }
}

#[test]
fn hostile_words_cannot_break_the_text() {
    let watch = Watch::new(Facts {
        witnesses: vec!["a\"b\\c\nd".to_owned()],
        ..facts()
    });
    watch.observe(&ServerEvent::RoundAborted {
        round: 1,
        attempt: 0,
        reason: "x\"} 1\n# EOF\n".to_owned(),
        detail: String::new(),
        bytes_in: 0,
        bytes_out: 0,
        head: None,
    });
    let seen = read(&watch.openmetrics()).unwrap();
    assert_eq!(
        seen.value("veilsum_witness_failures_total", &[("witness", "a\"b\\c\nd")]),
        Some(0.0)
    );
    assert_eq!(
        seen.value("veilsum_aborts_total", &[("reason", "x\"} 1\n# EOF\n")]),
        Some(1.0)
    );
}

#[test]
fn noise_adds_up_over_clusterings() {
    // Canonne, Kamath and Steinke 2020: rho 0.5 (multiplier 1) twice is rho 1.
    let watch = Watch::new(Facts {
        descriptors: DescriptorCost::Rho(0.5),
        clusterings: 1,
        ..facts()
    });
    let epsilon = |watch: &Watch| {
        let seen = read(&watch.openmetrics()).unwrap();
        seen.value("veilsum_descriptor_epsilon", &[]).unwrap()
    };
    let expected = |rho| veilsum_aggregation::privacy::zcdp::epsilon(rho, 1e-6).unwrap();
    assert!((epsilon(&watch) - expected(0.5)).abs() < 1e-9);
    let clustered = |clustering| ServerEvent::Clustered {
        clustering,
        tau: String::new(),
        overlap: String::new(),
        wanted: 1,
        steps: Vec::new(),
        clusters: Vec::new(),
        left_out: Vec::new(),
    };
    watch.observe(&clustered(2));
    assert!((epsilon(&watch) - expected(1.0)).abs() < 1e-9);
    let bare = Watch::new(Facts {
        descriptors: DescriptorCost::Unbounded,
        ..facts()
    });
    assert_eq!(epsilon(&bare), 0.0);
    bare.observe(&clustered(1));
    assert_eq!(epsilon(&bare), f64::INFINITY);
    let state = serde_json::to_value(bare.state(Ok(()))).unwrap();
    assert_eq!(state["budget"]["epsilon"], serde_json::Value::Null);
}

/// Every sample there can be.
fn everything() -> Exposition {
    let watch = Watch::new(Facts {
        witnesses: vec!["w".to_owned()],
        ..facts()
    });
    watch.observe(&ServerEvent::Witnessed {
        entries: 1,
        quorum: true,
        witnesses: vec![WitnessWord {
            name: "w".to_owned(),
            cosigned_at: Some(1),
            reason: None,
        }],
    });
    watch.observe(&ServerEvent::RoundAborted {
        round: 1,
        attempt: 0,
        reason: "TooFewMasked".to_owned(),
        detail: String::new(),
        bytes_in: 0,
        bytes_out: 0,
        head: None,
    });
    watch.observe(&ServerEvent::RoundDone {
        round: 1,
        attempt: 1,
        survivors: Vec::new(),
        dropped: Vec::new(),
        released: Vec::new(),
        withheld: Vec::new(),
        withheld_why: Vec::new(),
        weights: Vec::new(),
        window_rounds: 1,
        window_crowd_milli: 1,
        bytes_in: 0,
        bytes_out: 0,
        head: facts().head,
    });
    read(&watch.openmetrics()).unwrap()
}

/// The metric names in a text.
fn named(text: &str) -> BTreeSet<String> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("veilsum_"))
        .map(str::to_owned)
        .collect()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let client = read(&ClientWatch::new().openmetrics()).unwrap();
    let mut names = everything().names();
    names.extend(client.names());
    assert_eq!(named(&file("docs/watch.md")), names);
    for (name, family) in everything().0.into_iter().chain(client.0) {
        assert!(family.help.is_some_and(|help| help.len() > 5), "{name}");
    }
}

/// Every `name{label="value",…}` of an expression, with the labels it must have exactly.
fn selectors(expr: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    for (at, _) in expr.match_indices("veilsum_") {
        let rest = &expr[at..];
        let end = rest
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
            .unwrap_or(rest.len());
        let inside = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(inside, _)| inside);
        let labels = inside
            .split(',')
            .filter_map(|label| label.trim().split_once("=\""))
            .map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()))
            .filter(|(key, _)| !["job", "instance"].contains(&key.as_str()))
            .collect();
        found.push((rest[..end].to_owned(), labels));
    }
    found
}

/// Whether the endpoint has what an expression asks for.
fn there_is(seen: &Exposition, expr: &str) {
    let mut asked = selectors(expr);
    assert!(!asked.is_empty() || expr.starts_with("up{"), "{expr}");
    // Which reasons there are is the protocol's: what is checked is that one can be named.
    asked
        .iter_mut()
        .for_each(|(_, labels)| labels.retain(|(key, _)| key != "reason"));
    for (name, labels) in asked {
        let fits = seen
            .0
            .values()
            .flat_map(|family| &family.samples)
            .any(|(found, has, _)| *found == name && labels.iter().all(|label| has.contains(label)));
        assert!(fits, "no {name} with {labels:?} for `{expr}`");
    }
}

/// Aborts that rules name, by the protocol's own list.
fn is_reason(reason: &str) -> bool {
    let client = veilsum_crypto::ClientId(0);
    [
        Abort::BadDealer { client },
        Abort::ServerLost,
        Abort::ReleaseLeaks,
    ]
    .iter()
    .any(|abort| abort.name() == reason)
}

#[test]
fn alert_rules_ask_for_what_there_is_and_say_what_to_do() {
    let seen = everything();
    let text = file("configs/watch/alerts.yml");
    let rules: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 10);
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        assert!(
            ["page", "ticket", "note"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{name}"
        );
        assert!(
            rule["annotations"]["summary"].as_str().unwrap().len() > 15,
            "{name}"
        );
        assert!(
            rule["annotations"]["description"].as_str().unwrap().len() > 60,
            "{name}"
        );
        let expr = rule["expr"].as_str().unwrap();
        there_is(&seen, expr);
        for reason in expr.split("reason=\"").skip(1) {
            let reason = reason.split('"').next().unwrap();
            assert!(is_reason(reason), "{reason}");
        }
    }
    // What the descriptions name is there too.
    assert!(named(&text).is_subset(&seen.names()), "{:?}", named(&text));
    let scrape: serde_json::Value = serde_saphyr::from_str(&file("configs/watch/prometheus.yml")).unwrap();
    assert_eq!(scrape["rule_files"][0], "alerts.yml");
    assert_eq!(scrape["scrape_configs"][0]["job_name"], "veilsum");
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let seen = everything();
    let text = file("configs/watch/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(named(&text).is_subset(&seen.names()));
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(panel["description"].as_str().unwrap().len() > 15, "{title}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{title} lies on another panel");
            }
        }
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            there_is(&seen, expr);
            assert!(expr.contains("job=\"$job\",instance=\"$instance\""), "{title}");
            // A legend's label is one of the series.
            for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                let (name, _) = selectors(expr).remove(0);
                let known = seen.0.values().flat_map(|family| &family.samples);
                let mut of_name = known.filter(|(found, ..)| *found == name);
                assert!(
                    of_name.any(|(_, has, _)| has.iter().any(|(key, _)| key == label)),
                    "{title}: {label}"
                );
            }
        }
    }
    // Nothing of one installation: the data source is chosen by whoever loads it.
    assert!(!text.contains("http") && text.contains("${datasource}"));
}

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
