//! `veilsum plan make`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use veilsum_aggregation::cluster::{
    Demand, Membership, Planned, Repaired, Tau, Threshold, multi_membership, plan, sharing,
};

use super::check::{Names, as_json, in_words, rule};
use super::record::{Made, Record, SCHEMA, StepRecord, rows};
use super::table::{Table, organisations};
use super::{MakeArgs, ThresholdArgs, draw, file};
use crate::cli::{Format, print};
use crate::exit::{Exit, Failure};
use crate::report::file::write_whole;

pub(super) fn run(args: &MakeArgs) -> Result<Exit, Failure> {
    let config = |error| Failure::new(Exit::Config, error);
    let table = match &args.from.divergences {
        Some(path) => Table::read(path),
        None => Table::from_descriptors(&args.from.descriptors),
    }
    .map_err(config)?;
    let orgs = match &args.organisations {
        Some(path) => Some(organisations(path, &table.clients).map_err(config)?),
        None => table.organisations.clone(),
    };
    let demand = Demand {
        rule: rule(args.rule, orgs.is_some())?,
        alike: args.rule.blocks,
    };
    let (threshold, words) = threshold(args.threshold);
    let numbers = file::org_numbers(table.clients.len(), orgs.as_deref());
    let Planned {
        tau,
        wanted,
        repaired,
    } = plan(&table.divergences, threshold, &numbers, demand)
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let clients = table.clients.len();
    let names = Names {
        clients: &table.clients,
        organisations: orgs.as_deref(),
    };
    let steps: Vec<StepRecord> = repaired
        .steps
        .iter()
        .map(|step| StepRecord::new(step, names))
        .collect();
    let record = Record {
        schema: Some(SCHEMA.to_owned()),
        clients: Some(table.clients.clone()),
        organisations: orgs.clone(),
        matrix: rows(&repaired.clusters),
        made: Some(Made {
            threshold: words.clone(),
            tau: tau.tau,
            overlap: tau.overlap,
            crowd: args.rule.crowd,
            orgs: args.rule.orgs,
            margin: args.rule.margin,
            wanted: rows(&wanted),
            steps: steps.clone(),
            origins: repaired.origins.clone(),
            cost: repaired.cost,
            divergences: (0..clients)
                .map(|i| (0..clients).map(|j| table.divergences.at(i, j)).collect())
                .collect(),
        }),
    };
    if repaired.clusters.clusters() == 0 {
        return Err(Failure::say(Exit::Refused, hopeless(clients, args)));
    }
    let mut json = serde_json::to_string(&record).map_err(|error| Failure::new(Exit::Bug, error))?;
    json.push('\n');
    let csv = file::to_csv(&repaired.clusters, &table.clients, orgs.as_deref());
    let (csv_path, json_path) = (ending(&args.out, "csv"), ending(&args.out, "json"));
    for (path, text) in [(&csv_path, &csv), (&json_path, &json)] {
        write_whole(path, text).map_err(|error| Failure::new(Exit::Config, error))?;
    }
    print(&match args.format {
        Format::Json => json!({
            "schema": "veilsum-plan-make/1",
            "threshold": words,
            "tau": tau.tau,
            "overlap": tau.overlap,
            "wanted_clusters": wanted.clusters(),
            "clusters": repaired.clusters.clusters(),
            "steps": repaired.steps.len(),
            "moved": repaired.moved,
            "left_out": repaired.left_out.len(),
            "cost": repaired.cost,
            "csv": csv_path,
            "json": json_path,
            "check": as_json(&repaired.clusters, names, &repaired.verdict, args.rule),
        })
        .to_string(),
        Format::Human => {
            let mut text = String::new();
            for note in &table.notes {
                let _ = writeln!(text, "note: {note}");
            }
            text.push_str(&story(&tau, &words, &wanted, &repaired));
            for (number, step) in steps.iter().enumerate().take(SHOWN) {
                let _ = writeln!(text, "  step {}: {}", number + 1, step.tell(&table.clients));
            }
            if steps.len() > SHOWN {
                let _ = writeln!(
                    text,
                    "  and {} more: see `veilsum plan explain`",
                    steps.len() - SHOWN
                );
            }
            text.push('\n');
            text.push_str(&draw::divergences(&table.divergences, Some(tau.tau)));
            text.push('\n');
            text.push_str(&draw::membership(
                &repaired.clusters,
                &table.clients,
                orgs.as_deref(),
            ));
            text.push('\n');
            text.push_str(&in_words(&repaired.clusters, names, &repaired.verdict, args.rule));
            format!("{text}\nwritten: {}, {}", csv_path.display(), json_path.display())
        }
    })?;
    Ok(if repaired.verdict.is_safe() {
        Exit::Ok
    } else {
        Exit::Refused
    })
}

/// The rule asked for, and its words.
fn threshold(args: ThresholdArgs) -> (Threshold, String) {
    match args {
        ThresholdArgs {
            overlap: Some(share), ..
        } => (Threshold::Overlap(share), format!("overlap {share}")),
        ThresholdArgs { tau: Some(tau), .. } => (Threshold::Fixed(tau), format!("tau {tau}")),
        _ => (Threshold::Gap, "gap".to_owned()),
    }
}

fn story(tau: &Tau, words: &str, wanted: &Membership, repaired: &Repaired) -> String {
    let jump = match tau.jump {
        Some(jump) if jump < 2.0 => format!(", though the gap is only a factor {jump:.2}"),
        Some(jump) => format!(", a gap of factor {jump:.1}"),
        None => String::new(),
    };
    let mut text = format!(
        "threshold {words}: tau {:.4}, {:.1} % of the pairs within it{jump}\n",
        tau.tau,
        100.0 * tau.overlap
    );
    let _ = writeln!(
        text,
        "soft clusters: {}, {:.0} % of the clients in several, {:.0} % of the pairs together",
        wanted.clusters(),
        100.0 * multi_membership(wanted),
        100.0 * sharing(wanted)
    );
    if repaired.steps.is_empty() {
        text.push_str("repair: nothing to do\n");
    } else {
        let _ = writeln!(
            text,
            "repair: {} step(s), {} clusters left, {} client(s) share with others than before, cost {:.3}",
            repaired.steps.len(),
            repaired.clusters.clusters(),
            repaired.moved,
            repaired.cost
        );
    }
    text
}

/// Why nothing is left.
fn hopeless(clients: usize, args: &MakeArgs) -> String {
    format!(
        "no plan of these {clients} clients covers {} clients and {} organisations in every sum: ask for less, or find more clients; nothing was written",
        args.rule.crowd.saturating_add(args.rule.margin),
        args.rule.orgs
    )
}

fn ending(name: &Path, ending: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Steps told in full.
const SHOWN: usize = 20;
