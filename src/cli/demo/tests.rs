//! The run against stand-ins for the processes: `fake.sh` plays all verbs.

use super::board::Board;
use super::cast::{Member, Who};
use super::*;
use crate::report::{Audit, Cluster, Policy, sample};
use std::fs;
use std::path::Path;
use std::process::ExitStatus;

struct Theatre {
    folder: tempfile::TempDir,
    cast: Cast,
    script: Script,
}

impl Theatre {
    fn new(mode: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        let program = base.join("fake.sh");
        fs::write(&program, include_str!("fake.sh")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(base.join("mode"), mode).unwrap();
        fs::write(base.join("processes"), "").unwrap();
        let logs = base.join("logs");
        fs::create_dir(&logs).unwrap();
        Self {
            cast: cast(base),
            script: Script {
                program,
                logs,
                doom: Some((1, 2)),
                limit: Duration::from_mins(1),
                patience: Duration::from_secs(20),
                threads: 3,
            },
            folder,
        }
    }

    fn play(&self) -> (Board, Result<(String, ExitStatus), Fault>) {
        self.play_with(channel())
    }

    fn play_with(
        &self,
        channel: (Sender<Message>, std::sync::mpsc::Receiver<Message>),
    ) -> (Board, Result<(String, ExitStatus), Fault>) {
        let mut progress = Progress::plain(std::io::sink());
        let mut stage = Stage::new(
            &self.script,
            &self.cast,
            3,
            Instant::now(),
            channel,
            &mut progress,
        );
        let result = stage.play().and_then(|()| stage.audit());
        let board = stage.close();
        self.assert_nobody_lives();
        (board, result)
    }

    fn fault(&self) -> Fault {
        self.play().1.unwrap_err()
    }

    /// Every process that was started has ended.
    fn assert_nobody_lives(&self) {
        let processes = fs::read_to_string(self.folder.path().join("processes")).unwrap();
        for process in processes.lines() {
            assert!(
                !Path::new("/proc").join(process).exists(),
                "process {process} lives on"
            );
        }
    }
}

fn cast(base: &Path) -> Cast {
    let clusters = vec![
        Cluster {
            id: 0,
            members: vec![0, 1, 2],
        },
        Cluster {
            id: 1,
            members: vec![1],
        },
    ];
    Cast {
        federation: "fake".to_owned(),
        organisations: vec!["a".to_owned(), "b".to_owned()],
        clients: (0..3)
            .map(|id| Member {
                id,
                organisation: id % 2,
                robot: "ugv".to_owned(),
                place: "indoor".to_owned(),
                clusters: if id == 1 { vec![0, 1] } else { vec![0] },
                config: base.join(format!("client-{id}.toml")),
            })
            .collect(),
        clusters,
        policy: Policy {
            threshold: 2,
            crowd: 2,
            crowd_orgs: 1,
        },
        server_config: base.join("server.toml"),
        bundle: base.join("bundle"),
        auditor_config: base.join("auditor.toml"),
    }
}

#[test]
fn a_client_dies_in_its_upload_and_comes_back() {
    let theatre = Theatre::new("");
    let (board, result) = theatre.play();
    let (verdict, status) = result.unwrap();
    assert!(status.success());

    let kill = board.kill.clone().unwrap();
    assert_eq!(
        (kill.client, kill.round, kill.sent_bytes, kill.total_bytes),
        (1, 2, 64, 128)
    );
    assert!(kill.restarted_ms.unwrap() >= kill.killed_ms);
    assert_eq!(kill.back_in_round, Some(3));
    assert_eq!(board.rounds.len(), 3);
    assert_eq!(board.rounds[1].dropped, [1]);
    assert_eq!((board.rounds[1].bytes_in, board.rounds[1].bytes_out), (200, 27));
    assert_eq!(board.bytes[&2], (21, 22));
    assert_eq!(board.finished.len(), 3);

    // The mean over the members: round 0 is 0.8 from each, round 3 is 0.0, 0.1 and 0.2.
    let curves = collect::curves(&theatre.cast, &board);
    let points: Vec<_> = curves[0]
        .points
        .iter()
        .map(|point| (point.round, point.clients, point.abs_rel))
        .collect();
    assert_eq!(points, [(0, 3, 0.8), (3, 3, 0.1)]);
    assert_eq!(curves[0].points[1].images, 12);
    assert_eq!(curves[0].abs_rel_change, Some(-0.875));
    assert_eq!((curves[1].points.len(), curves[1].abs_rel_change), (1, None));

    let audit = collect::audit(&verdict, 5).unwrap();
    let lines: Vec<_> = audit
        .checks
        .iter()
        .map(|check| [&*check.name, &*check.status, &*check.says])
        .collect();
    assert_eq!(
        lines,
        [
            ["sums", "verified", "holds in 2 rounds"],
            ["erasure", "not checkable", "no bundle can"],
        ]
    );
    // A second start is told apart, and each client got its share of the cores.
    let again = fs::read_to_string(theatre.folder.path().join("again")).unwrap();
    let expected = std::env::var("OMP_NUM_THREADS").unwrap_or_else(|_| "3".to_owned());
    assert_eq!(again.trim(), expected);
    assert!(theatre.script.logs.join("client-01.events.jsonl").exists());
}

#[test]
fn nobody_is_killed_unless_asked() {
    let mut theatre = Theatre::new("");
    theatre.script.doom = None;
    theatre.script.limit = Duration::from_millis(1500);
    // The fake server waits for the stalled client for ever.
    let (board, result) = theatre.play();
    let fault = result.unwrap_err();
    assert!(matches!(fault, Fault::TimeLimit { .. }), "{fault}");
    assert!(board.kill.is_none());
}

#[test]
fn a_client_that_dies_is_named_with_its_last_words() {
    let fault = Theatre::new("die").fault();
    let said = fault.to_string();
    assert!(
        said.contains("client 2") && said.contains("no frames") && said.contains("folder is empty"),
        "{said}"
    );
    assert!(said.contains("client-02.log"), "{said}");
    assert_eq!(fault.exit(), Exit::Config);
}

#[test]
fn a_server_that_gives_up_keeps_its_exit_code() {
    let theatre = Theatre::new("abort");
    let (board, result) = theatre.play();
    let fault = result.unwrap_err();
    assert!(matches!(&fault, Fault::Died { who: Who::Server, .. }), "{fault}");
    assert!(fault.to_string().contains("round 1 failed"), "{fault}");
    assert_eq!(fault.exit(), Exit::Aborted);
    assert_eq!(board.aborted[0].reason, "TooFewKeys");
}

#[test]
fn a_server_that_ends_without_a_bundle_is_a_fault() {
    let fault = Theatre::new("quiet").fault();
    assert!(matches!(&fault, Fault::Died { who: Who::Server, .. }), "{fault}");
    assert_eq!(fault.exit(), Exit::Bug);
}

#[test]
fn time_is_limited() {
    let mut theatre = Theatre::new("hang");
    theatre.script.limit = Duration::from_secs(3);
    let begun = Instant::now();
    let fault = theatre.fault();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(matches!(&fault, Fault::TimeLimit { .. }), "{fault}");
    assert!(fault.to_string().contains("waiting for clients"), "{fault}");
    assert_eq!(fault.exit(), Exit::TryAgain);
}

#[test]
fn who_does_not_end_is_named() {
    let mut theatre = Theatre::new("linger");
    theatre.script.patience = Duration::from_secs(1);
    let fault = theatre.fault();
    assert!(
        matches!(
            &fault,
            Fault::Lingers {
                who: Who::Client(0),
                ..
            }
        ),
        "{fault}"
    );
}

#[test]
fn a_round_done_too_early_is_a_fault() {
    let fault = Theatre::new("hasty").fault();
    assert!(
        matches!(&fault, Fault::NotStalled { client: 1, round: 2 }),
        "{fault}"
    );
}

#[test]
fn another_version_is_refused_and_a_stray_line_is_not() {
    let fault = Theatre::new("schema").fault();
    assert!(
        matches!(&fault, Fault::Schema { who: Who::Server, .. }),
        "{fault}"
    );
    assert!(Theatre::new("stray").play().1.is_ok());
}

#[test]
fn an_interrupt_ends_everything() {
    let theatre = Theatre::new("hang");
    let (outbox, inbox) = channel();
    let key = outbox.clone();
    let presser = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        key.send(Message::Interrupted).unwrap();
    });
    let fault = theatre.play_with((outbox, inbox)).1.unwrap_err();
    presser.join().unwrap();
    assert!(matches!(fault, Fault::Interrupted), "{fault}");
    assert_eq!(fault.exit(), Exit::Interrupted);

    // The key may reach a client first.
    let theatre = Theatre::new("interrupted");
    let (outbox, inbox) = channel();
    let key = outbox.clone();
    let presser = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        key.send(Message::Interrupted)
    });
    let fault = theatre.play_with((outbox, inbox)).1.unwrap_err();
    let _ = presser.join().unwrap();
    assert!(matches!(fault, Fault::Interrupted), "{fault}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut theatre = Theatre::new("");
    theatre.script.program = "/nowhere/veilsum".into();
    let fault = theatre.fault();
    assert!(
        fault.to_string().starts_with("the server cannot be started"),
        "{fault}"
    );
}

#[test]
fn each_condition_can_fail() {
    let report = sample::report();
    let players = Cast {
        clusters: report.clusters.clone(),
        ..cast(Path::new(""))
    };
    let wanted = Wanted {
        rounds: 5,
        doom: Some((3, 2)),
        learns: true,
    };
    let judge = |change: &dyn Fn(&mut Report), wanted: Wanted| {
        let mut changed = report.clone();
        change(&mut changed);
        let outcome = checks::judge(&changed, &players, wanted, None);
        let failed: Vec<String> = outcome
            .checks
            .iter()
            .filter(|check| !check.passed)
            .map(|check| check.name.clone())
            .collect();
        assert_eq!(outcome.passed, failed.is_empty());
        (outcome.exit_code, failed.join(", "))
    };
    let case = |change: &dyn Fn(&mut Report)| judge(change, wanted);
    let named = |exit: Exit, name: &str| (exit as u8, name.to_owned());

    assert_eq!(case(&|_| ()), named(Exit::Ok, ""));
    assert_eq!(
        case(&|report| drop(report.rounds.remove(4))),
        named(Exit::Aborted, "all rounds done")
    );
    let killed = "killed in mid-upload and dropped";
    assert_eq!(case(&|report| report.kill = None), named(Exit::Bug, killed));
    assert_eq!(
        case(&|report| report.kill.as_mut().unwrap().client = 4),
        named(Exit::Bug, killed)
    );
    assert_eq!(
        case(&|report| report.kill.as_mut().unwrap().sent_bytes = 0),
        named(Exit::Bug, killed)
    );
    assert_eq!(
        case(&|report| report.kill.as_mut().unwrap().sent_bytes = 393_216),
        named(Exit::Bug, killed)
    );
    assert_eq!(
        case(&|report| report.rounds[1].dropped.clear()),
        named(Exit::Bug, killed)
    );
    assert_eq!(
        case(&|report| report.rounds[1].survivors.push(3)),
        named(Exit::Bug, killed)
    );
    assert_eq!(
        case(&|report| report.rounds[2].survivors.retain(|id| *id != 3)),
        named(Exit::Bug, "back in the next round")
    );
    assert_eq!(
        case(&|report| report.audit = None),
        named(Exit::Violated, "audit verdict")
    );
    let violated = |report: &mut Report| report.audit.as_mut().unwrap().overall = "violated".to_owned();
    assert_eq!(case(&violated), named(Exit::Violated, "audit verdict"));
    let training = "training works";
    assert_eq!(
        case(&|report| report.curves[1].abs_rel_change = Some(-0.249)),
        named(Exit::Bug, training)
    );
    assert_eq!(
        case(&|report| report.curves[1].abs_rel_change = Some(-0.25)),
        named(Exit::Ok, "")
    );
    assert_eq!(
        case(&|report| report.curves[0].points[5].clients = 5),
        named(Exit::Bug, training)
    );
    assert_eq!(
        case(&|report| report.curves[0].points.truncate(5)),
        named(Exit::Bug, training)
    );
    assert_eq!(
        case(&|report| report.curves[0].points.rotate_left(1)),
        named(Exit::Bug, training)
    );
    assert_eq!(
        case(&|report| drop(report.curves.pop())),
        named(Exit::Bug, training)
    );
    // The first failure decides the code.
    assert_eq!(
        case(&|report| {
            violated(report);
            report.kill = None;
        }),
        named(Exit::Bug, "killed in mid-upload and dropped, audit verdict")
    );

    let toy = Wanted {
        learns: false,
        ..wanted
    };
    assert_eq!(
        judge(&|report| report.curves[1].abs_rel_change = Some(0.3), toy),
        named(Exit::Ok, "")
    );
    let unharmed = Wanted { doom: None, ..wanted };
    assert_eq!(judge(&|report| report.kill = None, unharmed), named(Exit::Ok, ""));

    let outcome = checks::judge(&report, &players, wanted, Some(&Fault::Interrupted));
    assert_eq!((outcome.passed, outcome.exit_code), (false, 130));
    assert_eq!(outcome.checks[0].name, "processes");
}

#[test]
fn pictures_are_the_first_and_the_last_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let cast = cast(folder.path());
    let mut board = Board::new(&cast, 3);
    let known = sample::report().examples.remove(0);
    let mut put = |client: u32, round: u64, path: Option<String>| {
        let line = serde_json::json!({
            "schema": crate::events::SCHEMA, "t_ms": 1, "event": "evaluated", "round": round, "cluster": 0, "images": 1,
            "loss": 1.0, "example": path, "metrics": {"abs_rel": 1, "sq_rel": 1, "rmse": 1, "rmse_log": 1,
            "delta1": 1, "delta2": 1, "delta3": 1},
        });
        let heard = crate::events::read_line(&line.to_string()).unwrap();
        board.client(client, heard.event);
    };
    let save = |name: &str, base64: &str| {
        use base64::Engine as _;
        let path = folder.path().join(name);
        fs::write(
            &path,
            base64::engine::general_purpose::STANDARD.decode(base64).unwrap(),
        )
        .unwrap();
        Some(path.display().to_string())
    };
    // Client 0 has one picture only, client 1 two, of which the later is torn, client 2 three good ones.
    put(0, 0, save("a.png", &known.first.png_base64));
    put(1, 0, save("b.png", &known.first.png_base64));
    put(1, 3, save("c.png", "aGVsbG8="));
    put(2, 0, save("d.png", &known.first.png_base64));
    put(2, 1, save("e.png", &known.first.png_base64));
    put(2, 2, None);
    put(2, 3, save("f.png", &known.last.png_base64));
    let mut notes = Vec::new();
    let examples = collect::examples(&cast, &board, |note| notes.push(note));
    assert_eq!(examples.len(), 1);
    let example = &examples[0];
    assert_eq!(
        (example.client, example.first.round, example.last.round),
        (2, 0, 3)
    );
    assert_ne!(example.first.png_base64, example.last.png_base64);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("c.png"), "{notes:?}");
}

#[test]
fn verdicts_are_read_as_they_are_written() {
    let unread = r#"{"schema":"x/1","bundle":"b","overall":"unreadable","reason":"cut short"}"#;
    let audit = collect::audit(unread, 1).unwrap();
    assert_eq!(
        audit,
        Audit {
            overall: "unreadable".to_owned(),
            took_ms: 1,
            checks: vec![crate::report::AuditCheck {
                name: "the bundle".to_owned(),
                status: "unreadable".to_owned(),
                says: "cut short".to_owned(),
            }],
        }
    );
    for bad in ["", "verified", "{}", "[]"] {
        assert!(collect::audit(bad, 1).is_err(), "{bad}");
    }
}

#[test]
fn arguments_that_cannot_be() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DemoArgs,
    }
    let parse = |words: &[&str]| {
        use clap::Parser as _;
        Line::try_parse_from([&["demo"], words].concat()).map(|line| line.args)
    };
    assert!(parse(&[]).unwrap().check().is_ok());
    assert!(
        parse(&["--kill-round", "0", "--rounds", "1"])
            .unwrap()
            .check()
            .is_ok()
    );
    let failure = parse(&["--kill-round", "5", "--rounds", "5"])
        .unwrap()
        .check()
        .unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.to_string().contains("--kill-round 0"), "{failure}");
    for bad in [
        ["--clients", "7"],
        ["--rounds", "0"],
        ["--orgs", "1"],
        ["--time-limit-min", "0"],
    ] {
        assert!(parse(&bad).is_err(), "{bad:?}");
    }
}
