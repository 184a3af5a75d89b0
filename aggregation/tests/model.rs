//! Model checking of the real machines: every order in which messages of a small federation can arrive, every phase ended
//! early, a client that crashes anywhere, and a server that shows different survivor sets to different clients.
//!
//! A machine is a function of what it was told. So a global state is, for each machine, its history, and the messages on
//! their way; a history is executed once, however many global states it is part of (`model/machine.rs`). Nothing is
//! abstracted: the histories run the code that ships, with real bytes and real cryptography.
#![allow(
    missing_docs,
    dead_code,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report; the harness serves several tests"
)]

#[path = "model/explore.rs"]
mod explore;
#[path = "model/machine.rs"]
mod machine;
#[path = "rounds/world.rs"]
mod world;

use explore::{Bounds, Explorer, Report};

fn explore(clients: u32, threshold: u32, bounds: Bounds) -> Report {
    let report = Explorer::new(clients, threshold, bounds).run();
    println!("N = {clients}, t = {threshold}, {bounds:?}: {report}");
    report
}

fn quiet() -> Bounds {
    Bounds {
        crashes: 0,
        deadlines: 0,
        lies: 0,
        bad_agreements: true,
        states: 30_000,
    }
}

#[test]
fn three_clients_in_every_order() {
    let report = explore(3, 2, quiet());
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.published > 0);
}

#[test]
fn three_clients_one_crash() {
    let report = explore(
        3,
        2,
        Bounds {
            crashes: 1,
            ..quiet()
        },
    );
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.published > 0);
}

#[test]
fn three_clients_phases_cut_short() {
    let report = explore(
        3,
        2,
        Bounds {
            deadlines: 2,
            ..quiet()
        },
    );
    assert_eq!(report.violations, Vec::<String>::new());
}

#[test]
fn three_clients_a_server_that_equivocates() {
    let report = explore(3, 2, Bounds { lies: 2, ..quiet() });
    assert_eq!(report.violations, Vec::<String>::new());
}

#[test]
fn with_twice_the_threshold_no_more_than_n_an_equivocating_server_wins() {
    // The bound 2t > N + m is exact: one below it the same search finds two agreements that were both answered.
    let report = explore(
        4,
        2,
        Bounds {
            lies: 2,
            bad_agreements: false,
            states: 400_000,
            ..quiet()
        },
    );
    assert!(
        report
            .violations
            .iter()
            .any(|violation| violation.contains("two agreements")),
        "{report}"
    );
}

#[test]
#[ignore = "minutes, in release: a million states of each space"]
fn a_million_states_of_each_space() {
    let most = Bounds {
        states: 1_000_000,
        ..quiet()
    };
    for (clients, threshold, bounds) in [
        (3, 2, most),
        (3, 2, Bounds { crashes: 1, ..most }),
        (3, 2, Bounds { deadlines: 2, ..most }),
        (
            3,
            2,
            Bounds {
                crashes: 1,
                deadlines: 1,
                ..most
            },
        ),
        (3, 2, Bounds { lies: 2, ..most }),
        (
            3,
            2,
            Bounds {
                crashes: 1,
                lies: 1,
                ..most
            },
        ),
        (4, 3, Bounds { lies: 2, ..most }),
        (4, 3, Bounds { crashes: 1, ..most }),
        (
            5,
            3,
            Bounds {
                crashes: 1,
                lies: 1,
                ..most
            },
        ),
    ] {
        let report = explore(clients, threshold, bounds);
        assert_eq!(report.violations, Vec::<String>::new());
    }
}
