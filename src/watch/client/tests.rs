use super::*;
use crate::events::DepthScores;

fn scores() -> DepthScores {
    DepthScores {
        abs_rel: 77.25,
        sq_rel: 77.25,
        rmse: 77.25,
        rmse_log: 77.25,
        delta1: 77.25,
        delta2: 77.25,
        delta3: 77.25,
    }
}

fn joined() -> ClientEvent {
    ClientEvent::Joined {
        client: 770_077,
        addr: "x".to_owned(),
    }
}

#[test]
fn nothing_of_training_is_shown() {
    let watch = ClientWatch::new();
    for event in [
        joined(),
        ClientEvent::Training { round: 2 },
        ClientEvent::Trained {
            round: 2,
            steps: 77_025,
            samples: 77_025,
            loss_first: 77.25,
            loss_last: 77.25,
            skipped: 77_025,
        },
        ClientEvent::Baseline {
            images: 77_025,
            metrics: scores(),
        },
        ClientEvent::Evaluated {
            round: 2,
            cluster: 1,
            images: 77_025,
            loss: 77.25,
            metrics: scores(),
            example: Some("77.25".to_owned()),
        },
        ClientEvent::RoundEnded {
            round: 2,
            reason: "77.25".to_owned(),
        },
        ClientEvent::Failed {
            reason: "Config".to_owned(),
            detail: "77.25".to_owned(),
        },
    ] {
        watch.observe(&event);
        let state = String::from_utf8(watch.state(Ok(())).unwrap()).unwrap();
        for shown in [watch.openmetrics(), state] {
            for secret in ["7725", "77.25", "77025", "77007"] {
                assert!(!shown.contains(secret), "{secret} in {shown}");
            }
        }
    }
}

#[test]
fn counts_follow_the_events() {
    let watch = ClientWatch::new();
    assert_eq!(watch.not_ready(Ok(())).len(), 1);
    let done = |released: &[u32], withheld: &[u32]| ClientEvent::RoundDone {
        round: 1,
        released: released.to_vec(),
        withheld: withheld.to_vec(),
        bytes_sent: 100,
        bytes_received: 7,
    };
    watch.observe(&joined());
    assert!(watch.not_ready(Ok(())).is_empty());
    assert_eq!(
        watch.not_ready(Err("full".to_owned())),
        ["the state folder cannot be written: full"]
    );
    watch.observe(&ClientEvent::Phase {
        round: 1,
        doing: "mask".to_owned(),
    });
    assert!(
        watch
            .openmetrics()
            .contains("veilsum_client_stage{stage=\"round\"} 1\n")
    );
    watch.observe(&done(&[0, 1], &[]));
    watch.observe(&done(&[0], &[1]));
    watch.observe(&ClientEvent::Disconnected {
        reason: "x".to_owned(),
        retry_ms: 1,
    });
    watch.observe(&ClientEvent::RoundEnded {
        round: 3,
        reason: "x".to_owned(),
    });
    let text = watch.openmetrics();
    for line in [
        "veilsum_client_stage{stage=\"away\"} 1\n",
        "veilsum_client_connected 0\n",
        "veilsum_client_rounds_total{outcome=\"published\"} 2\n",
        "veilsum_client_rounds_total{outcome=\"ended\"} 1\n",
        "veilsum_client_sums_total{outcome=\"opened\"} 3\n",
        "veilsum_client_sums_total{outcome=\"withheld\"} 1\n",
        "veilsum_client_sent_bytes_total 200\n",
        "veilsum_client_received_bytes_total 14\n",
        "veilsum_client_descriptor_epsilon 0.0\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    watch.observe(&ClientEvent::Described {
        clustering: 1,
        bytes: 9,
        epsilon: None,
    });
    assert!(
        watch
            .openmetrics()
            .contains("veilsum_client_descriptor_epsilon inf\n")
    );
}
