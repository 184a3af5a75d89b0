//! Results as lines on a terminal.

use super::coverage::{Actor, Coverage, Gate, Phase};
use super::run::{Results, Row};
use super::scenario::Scenario;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// One row as a line.
#[must_use]
pub fn line(row: &Row) -> String {
    let word = if row.ok { "ok" } else { "FAILED" };
    format!(
        "{:>3}  n {:<3} k {:<2} {:<4} {word:<6} {:>7} ms  {}",
        row.id, row.n, row.k, row.over, row.took_ms, row.title
    )
}

/// What went wrong in a row, case by case.
#[must_use]
pub fn details(row: &Row) -> String {
    let mut out = String::new();
    for case in row.cases.iter().filter(|case| !case.ok) {
        let _ = writeln!(out, "       case     {} (seed {})", case.name, case.seed);
        let _ = writeln!(out, "       expected {}", case.expected);
        let _ = writeln!(out, "       observed {}", case.observed);
        for wrong in &case.wrong {
            let _ = writeln!(out, "       wrong    {wrong}");
        }
    }
    out
}

/// The counts after all rows.
#[must_use]
pub fn summary(results: &Results, took: Duration) -> String {
    let mut out = String::new();
    let skipped: BTreeSet<(u32, u32, &str)> = results
        .skipped
        .iter()
        .map(|skipped| (skipped.n, skipped.k, skipped.reason.as_str()))
        .collect();
    if !results.skipped.is_empty() {
        let _ = writeln!(
            out,
            "\nskipped: {} cases, for these reasons",
            results.skipped.len()
        );
        for (n, k, reason) in skipped {
            let _ = writeln!(out, "  n {n:<3} k {k:<2} {reason}");
        }
    }
    if !results.not_built.is_empty() {
        let _ = writeln!(out, "\nnot built, and not counted as passed:");
        for gap in &results.not_built {
            let case = gap
                .case
                .as_deref()
                .map(|case| format!(", {case}"))
                .unwrap_or_default();
            let _ = writeln!(out, "  {:>3}  {}{case}: {}", gap.id, gap.title, gap.reason);
        }
    }
    let cases: usize = results.rows.iter().map(|row| row.cases.len()).sum();
    let scenarios: BTreeSet<u32> = results.rows.iter().map(|row| row.id).collect();
    let _ = writeln!(
        out,
        "\n{} of {} rows as expected ({} scenarios, {cases} cases), {} scenarios not built, {:.1} s",
        results.good(),
        results.rows.len(),
        scenarios.len(),
        results.not_built.iter().filter(|gap| gap.case.is_none()).count(),
        took.as_secs_f64()
    );
    let _ = write!(out, "{}", gate(results));
    out
}

fn gate(results: &Results) -> String {
    let gate = &results.gate;
    let mut out = format!(
        "coverage: {} of {} cells have a scenario that is run",
        gate.mapped, gate.cells
    );
    if !gate.only_not_built.is_empty() {
        let _ = write!(
            out,
            "; only scenarios not built: {}",
            gate.only_not_built.join("; ")
        );
    }
    if !gate.unmapped.is_empty() {
        let _ = write!(out, "; NO scenario: {}", gate.unmapped.join("; "));
    }
    out
}

/// The scenarios as programs read them.
#[derive(Debug, Serialize)]
pub struct Listing<'a> {
    scenarios: Vec<Listed<'a>>,
    gate: Gate,
}

/// One scenario of the listing.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    id: u32,
    title: &'a str,
    cases: usize,
    n: &'a [u32],
    k: &'a [u32],
    quic: bool,
    not_built: Option<&'a str>,
}

impl<'a> Listing<'a> {
    /// The listing of some scenarios.
    #[must_use]
    pub fn of(scenarios: &'a [Scenario]) -> Self {
        Self {
            scenarios: scenarios
                .iter()
                .map(|scenario| Listed {
                    id: scenario.id,
                    title: &scenario.title,
                    cases: scenario.cases.len(),
                    n: &scenario.n,
                    k: &scenario.k,
                    quic: scenario.quic,
                    not_built: scenario.not_built.as_deref(),
                })
                .collect(),
            gate: Coverage::of(scenarios).gate(),
        }
    }
}

/// The scenarios and the coverage table.
#[must_use]
pub fn list(scenarios: &[Scenario]) -> String {
    let mut out = String::new();
    for scenario in scenarios {
        let state = match &scenario.not_built {
            Some(reason) => format!("not built: {reason}"),
            None => format!(
                "{} cases, n {:?}, k {:?}{}",
                scenario.cases.len(),
                scenario.n,
                scenario.k,
                if scenario.quic { ", also over QUIC" } else { "" }
            ),
        };
        let _ = writeln!(out, "{:>3}  {}\n       {state}", scenario.id, scenario.title);
    }
    let coverage = Coverage::of(scenarios);
    let _ = write!(out, "\n{:<12}", "");
    for actor in Actor::ALL {
        let _ = write!(out, "{:<22}", actor.name());
    }
    let _ = writeln!(out);
    for phase in Phase::ALL {
        let _ = write!(out, "{:<12}", phase.name());
        for actor in Actor::ALL {
            let rows = coverage.rows(phase, actor);
            let mut cell: Vec<String> = rows.built.iter().map(u32::to_string).collect();
            cell.extend(
                rows.not_built
                    .difference(&rows.built)
                    .map(|row| format!("({row})")),
            );
            let _ = write!(out, "{:<22}", cell.join(" "));
        }
        let _ = writeln!(out);
    }
    let _ = write!(out, "rows in brackets are not built yet");
    out
}
