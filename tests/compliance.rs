//! The scenarios on a small grid: every row that is built ends as it must, the coverage table is full, and one seed gives one
//! transcript. The full grid is the command: `veilsum compliance run`.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

use std::collections::BTreeSet;
use veilsum::compliance::catalog;
use veilsum::compliance::coverage::Coverage;
use veilsum::compliance::run::{Over, Results, Selection, run};
use veilsum::compliance::scenario::Scenario;
use veilsum::compliance::table;

fn selection(rows: &[u32], n: &[u32], k: &[u32], seed: u64) -> Selection {
    Selection {
        rows: rows.iter().copied().collect(),
        n: n.iter().copied().collect(),
        k: k.iter().copied().collect(),
        seed,
        threads: 2,
        over: Over::Sim,
    }
}

fn built_in(rows: &[u32], n: &[u32], k: &[u32], seed: u64) -> Results {
    run(
        &catalog::scenarios().unwrap(),
        &selection(rows, n, k, seed),
        &|_| (),
    )
}

/// Rows of which a case is known to end otherwise than it must, each with what is wrong. The page and the exit code of the
/// command say so too. A row that is mended must leave this list.
const KNOWN: [(u32, &str); 0] = [];

#[test]
fn every_built_row_ends_as_it_must() {
    let results = built_in(&[], &[3, 5, 12], &[1, 3], 1);
    let mut failed = BTreeSet::new();
    for row in results.rows.iter().filter(|row| !row.ok) {
        println!("{}\n{}", table::line(row), table::details(row));
        failed.insert(row.id);
    }
    assert_eq!(failed, KNOWN.iter().map(|(id, _)| *id).collect());
    let run: BTreeSet<u32> = results.rows.iter().map(|row| row.id).collect();
    let not_built: BTreeSet<u32> = results
        .not_built
        .iter()
        .filter(|gap| gap.case.is_none())
        .map(|gap| gap.id)
        .collect();
    assert_eq!(
        run.union(&not_built).copied().collect::<BTreeSet<_>>(),
        (1..=54).collect(),
        "every row is run, or says why not"
    );
    assert!(run.is_disjoint(&not_built));
}

#[test]
fn every_cell_of_the_coverage_table_has_a_scenario_that_is_run() {
    let gate = Coverage::of(&catalog::scenarios().unwrap()).gate();
    assert_eq!((gate.cells, gate.mapped), (42, 42), "{gate:?}");
}

#[test]
fn one_seed_gives_one_transcript_and_another_seed_another() {
    let rows = [1, 7, 14, 25, 27, 33];
    let of = |seed| {
        let results = built_in(&rows, &[5], &[1], seed);
        results
            .rows
            .into_iter()
            .map(|row| row.transcript)
            .collect::<Vec<_>>()
    };
    let first = of(3);
    assert_eq!(first.len(), rows.len());
    assert_eq!(first, of(3));
    assert!(first.iter().zip(of(4)).all(|(one, other)| *one != other));
}

#[test]
fn an_impossible_size_is_skipped_with_the_reason() {
    let results = built_in(&[1], &[5], &[3, 5], 1);
    assert!(results.rows.is_empty());
    assert_eq!(results.skipped.len(), 2);
    assert!(
        results
            .skipped
            .iter()
            .all(|skipped| skipped.reason.contains("below c + m + s = 3"))
    );
    assert!(!results.passed(), "nothing run is nothing passed");
}

#[test]
fn a_wrong_expectation_fails() {
    // The engine must be able to say no: each of these is the truth of another scenario.
    let cases = [
        ("[case.expect]\nabort = \"TooFewKeys\"\n", "did not end with"),
        ("[case.expect]\nsum = true\nwithheld = 1\n", "withheld"),
        ("[case.expect]\nsum = true\nviolated = [\"sums\"]\n", "verdict"),
        (
            "[case.expect]\nsum = true\nmask_keys_of = [\"gone\"]\n",
            "mask keys",
        ),
        (
            "[case.expect]\nsum = true\nlogged = [\"late\"]\n",
            "no `late` statement",
        ),
        ("[case.expect]\nsum = true\nout = [\"gone\"]\n", "must be out"),
        (
            "[case.expect]\nsum = true\n[[case.expect.refused]]\nname = \"Late\"\nby = \"server\"\n",
            "not refused",
        ),
    ];
    for (expect, wrong) in cases {
        let text = format!(
            "id = 1\ntitle = \"t\"\n[[case]]\nname = \"c\"\n[[case.fault]]\ndoes = \"crash\"\nwho = \"1 client\"\nas = \"gone\"\nat = \"P5\"\n{expect}"
        );
        let scenario = Scenario::parse("test", &text).unwrap();
        let results = run(&[scenario], &selection(&[], &[5], &[1], 1), &|_| ());
        assert!(!results.rows[0].ok, "{expect}");
        let said = results.rows[0].cases[0].wrong.join("\n");
        assert!(said.contains(wrong), "{expect}: {said}");
    }
}
