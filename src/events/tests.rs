use super::*;

fn scores() -> DepthScores {
    DepthScores {
        abs_rel: 0.25,
        sq_rel: 0.5,
        rmse: 2.25,
        rmse_log: 0.125,
        delta1: 0.5,
        delta2: 0.75,
        delta3: 1.0,
    }
}

fn head() -> LogHead {
    LogHead {
        size: 41,
        root: "ab".repeat(32),
    }
}

fn server_events() -> Vec<(ServerEvent, &'static str)> {
    vec![
        (
            ServerEvent::Listening {
                addr: "127.0.0.1:4433".to_owned(),
            },
            r#""event":"listening","addr":"127.0.0.1:4433""#,
        ),
        (
            ServerEvent::Connected {
                client: 3,
                connected: 4,
                expected: 8,
            },
            r#""event":"connected","client":3,"connected":4,"expected":8"#,
        ),
        (
            ServerEvent::Disconnected { client: 3 },
            r#""event":"disconnected","client":3"#,
        ),
        (
            ServerEvent::Round {
                round: 2,
                attempt: 1,
                clusters: vec![vec![0, 1, 2], vec![1, 2, 3]],
                bytes_in: 9,
                bytes_out: 8,
            },
            r#""event":"round","round":2,"attempt":1,"clusters":[[0,1,2],[1,2,3]],"bytes_in":9,"bytes_out":8"#,
        ),
        (
            ServerEvent::Witnessed {
                entries: 17,
                quorum: false,
                witnesses: vec![
                    WitnessWord {
                        name: "w1.example".to_owned(),
                        cosigned_at: Some(1_796_000_000),
                        reason: None,
                    },
                    WitnessWord {
                        name: "w2.example".to_owned(),
                        cosigned_at: None,
                        reason: Some("no answer in time".to_owned()),
                    },
                ],
            },
            r#""event":"witnessed","entries":17,"quorum":false,"witnesses":[{"name":"w1.example","cosigned_at":1796000000},{"name":"w2.example","cosigned_at":null,"reason":"no answer in time"}]"#,
        ),
        (
            ServerEvent::Watching {
                addr: "127.0.0.1:9464".to_owned(),
            },
            r#""event":"watching","addr":"127.0.0.1:9464""#,
        ),
        (
            ServerEvent::Phase {
                round: 2,
                phase: "mask".to_owned(),
                have: 7,
                want: 8,
                deadline_ms: 12_000,
                bytes_in: 4_194_409,
                bytes_out: 512,
            },
            r#""event":"phase","round":2,"phase":"mask","have":7,"want":8,"deadline_ms":12000,"bytes_in":4194409,"bytes_out":512"#,
        ),
        (
            ServerEvent::Refused {
                client: 3,
                reason: "late".to_owned(),
            },
            r#""event":"refused","client":3,"reason":"late""#,
        ),
        (
            ServerEvent::RoundDone {
                round: 2,
                attempt: 0,
                survivors: vec![0, 1],
                dropped: vec![2],
                released: vec![0],
                withheld: vec![1],
                withheld_why: vec!["no survivor is in it".to_owned()],
                weights: vec![u64::from(u32::MAX) + 1],
                window_rounds: 1,
                window_crowd_milli: 6860,
                bytes_in: 5,
                bytes_out: 6,
                head: head(),
            },
            r#""event":"round_done","round":2,"attempt":0,"survivors":[0,1],"dropped":[2],"released":[0],"withheld":[1],"withheld_why":["no survivor is in it"],"weights":[4294967296],"window_rounds":1,"window_crowd_milli":6860,"bytes_in":5,"bytes_out":6,"head":{"size":41,"root":"abababababababababababababababababababababababababababababababab"}"#,
        ),
        (
            ServerEvent::RoundAborted {
                round: 2,
                attempt: 0,
                reason: "TooFewMasked".to_owned(),
                detail: "2 uploaded".to_owned(),
                bytes_in: 7,
                bytes_out: 8,
                head: None,
            },
            r#""event":"round_aborted","round":2,"attempt":0,"reason":"TooFewMasked","detail":"2 uploaded","bytes_in":7,"bytes_out":8"#,
        ),
        (
            ServerEvent::Finished {
                rounds: 5,
                bundle: "out/bundle".to_owned(),
                head: head(),
            },
            r#""event":"finished","rounds":5,"bundle":"out/bundle","head":{"size":41,"root":"abababababababababababababababababababababababababababababababab"}"#,
        ),
        (
            ServerEvent::Failed {
                reason: "Bind".to_owned(),
                detail: "port taken".to_owned(),
            },
            r#""event":"failed","reason":"Bind","detail":"port taken""#,
        ),
    ]
}

fn client_events() -> Vec<(ClientEvent, &'static str)> {
    let evaluated = |example| ClientEvent::Evaluated {
        round: 0,
        cluster: 1,
        images: 12,
        loss: 3.5,
        metrics: scores(),
        example,
    };
    vec![
        (
            ClientEvent::Watching {
                addr: "127.0.0.1:9465".to_owned(),
            },
            r#""event":"watching","addr":"127.0.0.1:9465""#,
        ),
        (
            ClientEvent::Joined {
                client: 3,
                addr: "127.0.0.1:4433".to_owned(),
            },
            r#""event":"joined","client":3,"addr":"127.0.0.1:4433""#,
        ),
        (
            ClientEvent::Baseline {
                images: 4,
                metrics: scores(),
            },
            r#""event":"baseline","images":4,"metrics":{"abs_rel":0.25,"sq_rel":0.5,"rmse":2.25,"rmse_log":0.125,"delta1":0.5,"delta2":0.75,"delta3":1.0}"#,
        ),
        (
            ClientEvent::Disconnected {
                reason: "reset".to_owned(),
                retry_ms: 500,
            },
            r#""event":"disconnected","reason":"reset","retry_ms":500"#,
        ),
        (
            ClientEvent::Training { round: 1 },
            r#""event":"training","round":1"#,
        ),
        (
            ClientEvent::Trained {
                round: 1,
                steps: 20,
                samples: 80,
                loss_first: 3.5,
                loss_last: 1.25,
                skipped: 2,
            },
            r#""event":"trained","round":1,"steps":20,"samples":80,"loss_first":3.5,"loss_last":1.25,"skipped":2"#,
        ),
        (
            ClientEvent::Phase {
                round: 1,
                doing: "share".to_owned(),
            },
            r#""event":"phase","round":1,"doing":"share""#,
        ),
        (
            ClientEvent::Upload {
                round: 1,
                sent_bytes: 65_536,
                total_bytes: 131_072,
            },
            r#""event":"upload","round":1,"sent_bytes":65536,"total_bytes":131072"#,
        ),
        (
            ClientEvent::Stalled {
                round: 1,
                sent_bytes: 65_536,
                total_bytes: 131_072,
            },
            r#""event":"stalled","round":1,"sent_bytes":65536,"total_bytes":131072"#,
        ),
        (
            evaluated(None),
            r#""event":"evaluated","round":0,"cluster":1,"images":12,"loss":3.5,"metrics":{"abs_rel":0.25,"sq_rel":0.5,"rmse":2.25,"rmse_log":0.125,"delta1":0.5,"delta2":0.75,"delta3":1.0}"#,
        ),
        (
            evaluated(Some("r0.png".to_owned())),
            r#""event":"evaluated","round":0,"cluster":1,"images":12,"loss":3.5,"metrics":{"abs_rel":0.25,"sq_rel":0.5,"rmse":2.25,"rmse_log":0.125,"delta1":0.5,"delta2":0.75,"delta3":1.0},"example":"r0.png""#,
        ),
        (
            ClientEvent::RoundDone {
                round: 1,
                released: vec![0],
                withheld: vec![1],
                bytes_sent: 9,
                bytes_received: 8,
            },
            r#""event":"round_done","round":1,"released":[0],"withheld":[1],"bytes_sent":9,"bytes_received":8"#,
        ),
        (
            ClientEvent::RoundEnded {
                round: 1,
                reason: "too few".to_owned(),
            },
            r#""event":"round_ended","round":1,"reason":"too few""#,
        ),
        (ClientEvent::Finished, r#""event":"finished""#),
        (
            ClientEvent::Failed {
                reason: "Refused".to_owned(),
                detail: "other authority".to_owned(),
            },
            r#""event":"failed","reason":"Refused","detail":"other authority""#,
        ),
    ]
}

fn check<E>(events: Vec<(E, &'static str)>)
where
    E: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + std::fmt::Display,
{
    for (event, body) in events {
        let line = write_line(17, &event).unwrap();
        assert_eq!(
            line,
            format!(r#"{{"schema":"veilsum-events/1","t_ms":17,{body}}}"#)
        );
        assert_eq!(read_line::<E>(&line).unwrap(), Stamped { t_ms: 17, event });
        // A newer writer may add fields.
        let grown = format!(
            r#"{}, "colour": {{"deep": [1, null]}}}}"#,
            line.strip_suffix('}').unwrap()
        );
        assert_eq!(read_line::<E>(&grown).unwrap(), read_line::<E>(&line).unwrap());
        // A line cut short is no event, and an event is one line.
        assert!(matches!(
            read_line::<E>(&line[..line.len() - 1]),
            Err(EventError::Malformed { .. })
        ));
        assert!(!line.contains('\n'));
    }
}

#[test]
fn one_line_per_server_event() {
    check(server_events());
}

#[test]
fn one_line_per_client_event() {
    check(client_events());
}

#[test]
fn every_event_has_a_sentence() {
    for (event, line) in server_events() {
        assert!(!event.to_string().is_empty(), "{line}");
    }
    for (event, line) in client_events() {
        assert!(!event.to_string().is_empty(), "{line}");
    }
}

#[test]
fn other_schemas_are_refused_by_name() {
    for schema in ["veilsum-events/2", "veilsum-events/10", "veilsum-demo/1", ""] {
        let line = format!(r#"{{"schema":"{schema}","t_ms":1,"event":"finished"}}"#);
        let error = read_line::<ClientEvent>(&line).unwrap_err();
        assert!(
            matches!(&error, EventError::Schema { found } if found == schema),
            "{error}"
        );
        assert!(error.to_string().contains("same build"), "{error}");
    }
}

#[test]
fn unknown_events_are_skipped_and_stray_lines_named() {
    let line = r#"{"schema":"veilsum-events/1","t_ms":1,"event":"charged","volts":[12]}"#;
    assert_eq!(read_line::<ClientEvent>(line).unwrap().event, ClientEvent::Other);
    assert_eq!(read_line::<ServerEvent>(line).unwrap().event, ServerEvent::Other);
    let stray = "é".repeat(5_000);
    let lacking = r#"{"schema":"veilsum-events/1","t_ms":1,"event":"training"}"#;
    for line in [
        "",
        "[]",
        "thread panicked",
        r#"{"t_ms":1,"event":"finished"}"#,
        lacking,
        &stray,
    ] {
        let error = read_line::<ClientEvent>(line).unwrap_err();
        assert!(matches!(error, EventError::Malformed { .. }), "{error}");
        assert!(error.to_string().len() < 500, "{error}");
    }
}

#[test]
fn a_client_word_is_no_server_word() {
    let line = write_line(
        1,
        &ServerEvent::Phase {
            round: 1,
            phase: "mask".to_owned(),
            have: 1,
            want: 2,
            deadline_ms: 3,
            bytes_in: 4,
            bytes_out: 5,
        },
    )
    .unwrap();
    assert!(read_line::<ClientEvent>(&line).is_err());
}

#[test]
fn sinks() {
    let mut json = JsonLines(Vec::new());
    json.emit(5, &ClientEvent::Finished).unwrap();
    json.emit(6, &ClientEvent::Training { round: 2 }).unwrap();
    let text = String::from_utf8(json.0).unwrap();
    assert_eq!(
        text,
        "{\"schema\":\"veilsum-events/1\",\"t_ms\":5,\"event\":\"finished\"}\n\
         {\"schema\":\"veilsum-events/1\",\"t_ms\":6,\"event\":\"training\",\"round\":2}\n"
    );

    let mut talk = Talk(Vec::new());
    talk.emit(5, &ClientEvent::Training { round: 2 }).unwrap();
    talk.emit(5, &ClientEvent::Other).unwrap();
    assert_eq!(talk.0, b"round 2: training\n");

    let mut kept: Vec<Stamped<ClientEvent>> = Vec::new();
    kept.emit(5, &ClientEvent::Finished).unwrap();
    assert_eq!(
        kept,
        [Stamped {
            t_ms: 5,
            event: ClientEvent::Finished
        }]
    );
}

#[test]
fn a_reader_that_is_gone_is_an_error() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = JsonLines(Gone).emit(1, &ClientEvent::Finished).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}
