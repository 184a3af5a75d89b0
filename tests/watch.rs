//! A federation that is looked at while it runs: metrics that are OpenMetrics and agree with the log, health, state, page.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "watch/files.rs"]
mod files;
#[path = "watch/grammar.rs"]
mod grammar;
#[path = "watch/live.rs"]
mod live;
#[path = "processes/player.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod player;
#[path = "simulated/world.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod world;

use grammar::read;
use std::collections::BTreeMap;
use veilsum::events::{LogHead, ServerEvent};
use veilsum::store::ServerStore;
use veilsum::watch::{DescriptorCost, Facts, Watch};
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
