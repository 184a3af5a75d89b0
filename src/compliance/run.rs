//! Running scenarios over a grid of sizes.

use super::EngineError;
use super::check;
use super::coverage::{Coverage, Gate};
use super::facts::Ending;
use super::federation::{Federation, Founding};
use super::grid::Size;
use super::judge::{Judgement, judge};
use super::scenario::{Case, Check, Layout, Scenario};
use super::world::World;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use veilsum_crypto::Digest;
use veilsum_crypto::label::Label;

/// What to run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Row numbers; all when empty.
    pub rows: BTreeSet<u32>,
    /// Numbers of clients; those of the scenario when empty.
    pub n: BTreeSet<u32>,
    /// Numbers of clusters; those of the scenario when empty.
    pub k: BTreeSet<u32>,
    /// Seed of everything.
    pub seed: u64,
    /// Cells that run at the same time.
    pub threads: usize,
    /// On which network.
    pub over: Over,
}

/// The network scenarios run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// The deterministic scheduler in one process.
    #[default]
    Sim,
    /// The real drivers over QUIC on loopback; only scenarios marked `quic`, and of those the cases that need no scheduler.
    Quic,
}

/// What was run, and how it ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// One per scenario and size.
    pub rows: Vec<Row>,
    /// The coverage gate.
    pub gate: Gate,
    /// Scenarios, and cases of scenarios, that cannot be run yet.
    pub not_built: Vec<NotBuilt>,
    /// Sizes at which a scenario makes no sense.
    pub skipped: Vec<Skipped>,
}

/// One scenario at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Row number.
    pub id: u32,
    /// Title.
    pub title: String,
    /// Clients.
    pub n: u32,
    /// Clusters.
    pub k: u32,
    /// The seed it was run with; the same seed gives the same transcript.
    pub seed: u64,
    /// `sim` or `quic`.
    pub over: &'static str,
    /// What had to happen.
    pub expected: String,
    /// What happened.
    pub observed: String,
    /// Whether that is the same.
    pub ok: bool,
    /// Digest over all messages delivered and all log entries.
    pub transcript: String,
    /// One per case.
    pub cases: Vec<CaseRow>,
    /// How long it took. Not part of the JSON, which is the same for the same seed.
    #[serde(skip)]
    pub took_ms: u128,
}

/// One case of a row.
#[derive(Clone, Debug, Serialize)]
pub struct CaseRow {
    /// Its name.
    pub name: String,
    /// What had to happen.
    pub expected: String,
    /// What happened, the last time it was run.
    pub observed: String,
    /// Whether that is the same, every time.
    pub ok: bool,
    /// What was not as it must be.
    pub wrong: Vec<String>,
    /// The case's own seed, the last time.
    pub seed: u64,
}

/// A scenario or case that cannot be run yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotBuilt {
    /// Row number.
    pub id: u32,
    /// Title of the scenario.
    pub title: String,
    /// Name of the case; nothing for the whole scenario.
    pub case: Option<String>,
    /// What is missing.
    pub reason: String,
}

/// A size at which a scenario or case makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Row number.
    pub id: u32,
    /// Clients.
    pub n: u32,
    /// Clusters.
    pub k: u32,
    /// Name of the case; nothing for the whole scenario.
    pub case: Option<String>,
    /// Why.
    pub reason: String,
}

impl Results {
    /// Whether everything that was run went as expected and no cell of the coverage table is without a scenario.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.ok) && self.gate.passes() && !self.rows.is_empty()
    }

    /// Rows that went as expected.
    #[must_use]
    pub fn good(&self) -> usize {
        self.rows.iter().filter(|row| row.ok).count()
    }
}

/// One cell of the grid on its way.
struct Cell<'a> {
    scenario: &'a Scenario,
    n: u32,
    k: u32,
}

/// Runs scenarios. `tell` hears of every row as it ends.
#[must_use]
pub fn run(scenarios: &[Scenario], selection: &Selection, tell: &(dyn Fn(&Row) + Sync)) -> Results {
    let mut results = Results {
        gate: Coverage::of(scenarios).gate(),
        ..Results::default()
    };
    let mut cells = Vec::new();
    for scenario in scenarios {
        if !selection.rows.is_empty() && !selection.rows.contains(&scenario.id) {
            continue;
        }
        if selection.over == Over::Quic && !scenario.quic {
            continue;
        }
        results.not_built.extend(not_built(scenario));
        if selection.over == Over::Quic {
            over_quic(scenario, selection, &mut results, tell);
            continue;
        }
        if scenario.not_built.is_none() {
            cells.extend(cells_of(scenario, selection));
        }
    }
    let done: Mutex<BTreeMap<usize, Done>> = Mutex::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..selection.threads.max(1) {
            scope.spawn(|| {
                while let Some((number, cell)) = {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    cells.get(number).map(|cell| (number, cell))
                } {
                    let outcome = run_cell(cell, selection.seed);
                    if let Some(row) = &outcome.row {
                        tell(row);
                    }
                    if let Ok(mut done) = done.lock() {
                        done.insert(number, outcome);
                    }
                }
            });
        }
    });
    for (_, outcome) in done.into_inner().unwrap_or_default() {
        results.rows.extend(outcome.row);
        results.skipped.extend(outcome.skipped);
    }
    results
}

/// Runs one scenario over QUIC, one case after the other: time is real, and two cores are soon busy.
fn over_quic(
    scenario: &Scenario,
    selection: &Selection,
    results: &mut Results,
    tell: &(dyn Fn(&Row) + Sync),
) {
    let or = |set: &BTreeSet<u32>, other: u32| {
        if set.is_empty() {
            BTreeSet::from([other])
        } else {
            set.clone()
        }
    };
    for n in or(&selection.n, 5) {
        for k in or(&selection.k, 1) {
            for case in &scenario.cases {
                if let Some(reason) = super::quic::not_over_quic(case) {
                    results.skipped.push(Skipped {
                        id: scenario.id,
                        n,
                        k,
                        case: Some(case.name.clone()),
                        reason: reason.to_owned(),
                    });
                }
            }
            if let Some(row) = super::quic::run_row(scenario, n, k, selection.seed) {
                tell(&row);
                results.rows.push(row);
            }
        }
    }
}

/// What a cell came to.
#[derive(Default)]
struct Done {
    row: Option<Row>,
    skipped: Vec<Skipped>,
}

fn not_built(scenario: &Scenario) -> Vec<NotBuilt> {
    let say = |case: Option<&Case>, reason: &String| NotBuilt {
        id: scenario.id,
        title: scenario.title.clone(),
        case: case.map(|case| case.name.clone()),
        reason: reason.clone(),
    };
    match &scenario.not_built {
        Some(reason) => vec![say(None, reason)],
        None => scenario
            .cases
            .iter()
            .filter_map(|case| case.not_built.as_ref().map(|reason| say(Some(case), reason)))
            .collect(),
    }
}

/// The sizes a scenario runs at: its own, and those of cases that have their own.
fn cells_of<'a>(scenario: &'a Scenario, selection: &Selection) -> Vec<Cell<'a>> {
    let mut sizes: BTreeSet<(u32, u32)> = BTreeSet::new();
    for case in scenario.cases.iter().filter(|case| case.not_built.is_none()) {
        for n in case.n.as_ref().unwrap_or(&scenario.n) {
            for k in case.k.as_ref().unwrap_or(&scenario.k) {
                sizes.insert((*n, *k));
            }
        }
    }
    sizes
        .into_iter()
        .filter(|(n, k)| {
            (selection.n.is_empty() || selection.n.contains(n))
                && (selection.k.is_empty() || selection.k.contains(k))
        })
        .map(|(n, k)| Cell { scenario, n, k })
        .collect()
}

fn run_cell(cell: &Cell<'_>, seed: u64) -> Done {
    let start = Instant::now();
    let mut done = Done::default();
    let mut cases = Vec::new();
    let mut transcript = TRANSCRIPTS.hasher();
    let scenario = cell.scenario;
    for (number, case) in (0u64..).zip(&scenario.cases) {
        if case.not_built.is_some() || !case.runs_at(scenario, cell.n, cell.k) {
            continue;
        }
        match found(scenario, case, cell.n, cell.k, 1) {
            Ok(_) => {}
            Err(Start::Impossible(reason)) => {
                done.skipped.push(Skipped {
                    id: scenario.id,
                    n: cell.n,
                    k: cell.k,
                    case: Some(case.name.clone()),
                    reason,
                });
                continue;
            }
            Err(Start::Failed(error)) => {
                cases.push(failed(case, seed, error.to_string()));
                continue;
            }
        }
        let mut row = failed(case, seed, String::new());
        row.wrong.clear();
        let times = if cell.n < 32 {
            case.repeat
        } else {
            case.repeat.div_ceil(4)
        };
        for time in 0..times {
            let own = mix(&[
                seed,
                u64::from(scenario.id),
                u64::from(cell.n),
                u64::from(cell.k),
                number,
                time,
            ]);
            row.seed = own;
            let ran = catch_unwind(AssertUnwindSafe(|| run_case(scenario, case, cell.n, cell.k, own)));
            match ran {
                Ok(Ok((judgement, digest))) => {
                    transcript.part(&digest.0);
                    row.observed = judgement.observed;
                    row.wrong.extend(judgement.wrong);
                }
                Ok(Err(error)) => row.wrong.push(format!("the engine stopped: {error}")),
                Err(_) => row.wrong.push("a panic".to_owned()),
            }
            if !row.wrong.is_empty() {
                break;
            }
        }
        row.ok = row.wrong.is_empty();
        cases.push(row);
    }
    if !cases.is_empty() {
        done.row = Some(Row {
            id: scenario.id,
            title: scenario.title.clone(),
            n: cell.n,
            k: cell.k,
            seed,
            over: "sim",
            expected: joined(cases.iter().map(|case| &case.expected)),
            observed: joined(cases.iter().map(|case| &case.observed)),
            ok: cases.iter().all(|case| case.ok),
            transcript: transcript.finish().to_hex(),
            cases,
            took_ms: start.elapsed().as_millis(),
        });
    }
    done
}

fn joined<'a>(parts: impl Iterator<Item = &'a String>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        if !seen.contains(&part.as_str()) {
            seen.push(part);
        }
    }
    seen.join(" | ")
}

fn failed(case: &Case, seed: u64, why: String) -> CaseRow {
    CaseRow {
        name: case.name.clone(),
        expected: case.expect.to_string(),
        observed: String::new(),
        ok: false,
        wrong: vec![why],
        seed,
    }
}

/// Why a case does not start.
enum Start {
    /// It makes no sense at this size.
    Impossible(String),
    Failed(EngineError),
}

impl From<EngineError> for Start {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

/// The federation of a case.
fn found(scenario: &Scenario, case: &Case, n: u32, k: u32, tag: u8) -> Result<Federation, Start> {
    let spec = case.policy.or(&scenario.policy);
    let size = Size::of(n, k, &spec).map_err(EngineError::Words)?;
    let layout = spec.clusters.unwrap_or(Layout::Overlap);
    // What needs no round needs no clusters.
    let clusters = if case.check.is_some_and(check::stands_alone) {
        Vec::new()
    } else {
        size.clusters(layout).map_err(Start::Impossible)?
    };
    Ok(Federation::found(Founding {
        size,
        layout,
        clusters,
        entries: case.entries.unwrap_or(ENTRIES),
        bits_short: spec.bits_short.unwrap_or_default(),
        tag,
        rounds: 1000,
        tls: Vec::new(),
    })?)
}

fn run_case(
    scenario: &Scenario,
    case: &Case,
    n: u32,
    k: u32,
    seed: u64,
) -> Result<(Judgement, Digest), EngineError> {
    let federation = |tag| match found(scenario, case, n, k, tag) {
        Ok(federation) => Ok(federation),
        Err(Start::Failed(error)) => Err(error),
        Err(Start::Impossible(reason)) => Err(EngineError::Words(reason)),
    };
    if let Some(check) = case.check.filter(|check| check::stands_alone(*check)) {
        let names = check::alone(check, &federation(1)?)?;
        let mut judgement = Judgement {
            observed: format!("refused ({})", names.join(", ")),
            wrong: Vec::new(),
        };
        for spec in &case.expect.refused {
            if !names.contains(&spec.name.as_str()) {
                judgement.wrong.push(format!("{} was expected", spec.name));
            }
        }
        return Ok((judgement, TRANSCRIPTS.hash(&[])));
    }
    let tap_all = case.check == Some(Check::Residual);
    let mut world = World::new(federation(1)?, &case.faults, case.rounds, seed, tap_all)?;
    if world.script.listens_elsewhere() {
        let mut other = World::new(federation(2)?, &case.faults, 1, seed ^ 1, false)?;
        // It only has to be heard: its own faults stay away.
        other.script.silence();
        other.run(1)?;
        world.script.elsewhere = other.script.archive.take().unwrap_or_default();
    }
    world.run(case.rounds)?;
    let mut by_check = Vec::new();
    let mut wrong = Vec::new();
    let mut said = None;
    match case.check {
        Some(Check::Residual) => wrong = check::residual(&world)?,
        Some(Check::Export) => by_check = check::export(&world)?,
        Some(Check::StaticWindow) => {
            let window = check::static_window(&world)?;
            (said, wrong) = (Some(window.said), window.wrong);
        }
        _ => {}
    }
    let mut judgement = judge(&mut world, case, &by_check)?;
    if let Some(said) = said {
        judgement.observed = format!("{}; {said}", judgement.observed);
    }
    judgement.wrong.extend(wrong);
    if case.expect.same_sums {
        let mut calm = World::new(federation(1)?, &[], case.rounds, seed, false)?;
        calm.run(case.rounds)?;
        if sums(&calm) != sums(&world) {
            judgement
                .wrong
                .push("the sums are not those of a run without faults".into());
        }
    }
    let entries = world.disk.entries().to_vec();
    let digest = world.facts.transcript(&entries);
    Ok((judgement, digest))
}

/// What the last round opened.
fn sums(world: &World) -> Vec<Vec<u32>> {
    match world.facts.ending() {
        Some((_, _, Ending::Sum(outcome))) => {
            outcome.opened.iter().map(|opened| opened.sum.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// One number of several, by the finaliser of `SplitMix64` over each.
fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mut z = state.wrapping_add(*part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Entries of an update where a case does not say.
const ENTRIES: u64 = 48;
const TRANSCRIPTS: Label = Label::new("compliance-transcripts");
