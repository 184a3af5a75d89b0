//! `veilsum plan explain`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::ExplainArgs;
use super::file::PlanFile;
use super::input::InputError;
use super::record::{ActionRecord, Made};
use crate::cli::print;
use crate::exit::{Exit, Failure};

pub(super) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let config = |error| Failure::new(Exit::Config, error);
    let plan = PlanFile::read(&args.file).map_err(config)?;
    let only = match &args.client {
        Some(id) => Some(
            plan.clients
                .iter()
                .position(|client| client == id)
                .ok_or_else(|| {
                    Failure::say(
                        Exit::Config,
                        format!("there is no client `{id}` in {}", args.file.display()),
                    )
                })?,
        ),
        None => None,
    };
    let mut text = String::new();
    let together = |one: usize, other: usize| -> Vec<usize> {
        (0..plan.matrix.clusters())
            .filter(|cluster| plan.matrix.contains(*cluster, one) && plan.matrix.contains(*cluster, other))
            .collect()
    };
    let made = plan.record.as_ref().and_then(|record| record.made.as_ref());
    let history = if let Some(made) = made {
        Some(History::new(&args.file, made, plan.clients.len()).map_err(config)?)
    } else {
        text.push_str(
            "the plan does not say how it was made: the JSON that `veilsum plan make` writes does\n",
        );
        None
    };
    if let (Some(made), Some(history)) = (made, &history) {
        let _ = writeln!(
            text,
            "threshold {}: pairs within tau {:.4} are close; {} soft clusters, {} step(s) of repair to a crowd of {}, {} organisation(s), cost {:.3}",
            made.threshold,
            made.tau,
            made.wanted.len(),
            made.steps.len(),
            made.crowd.saturating_add(made.margin),
            made.orgs,
            made.cost
        );
        for (number, step) in made.steps.iter().enumerate() {
            let _ = writeln!(text, "step {}: {}", number + 1, step.tell(&plan.clients));
        }
        for (cluster, origins) in history.origins.iter().enumerate() {
            let _ = writeln!(text, "cluster {cluster} is made of soft cluster(s) {origins:?}");
        }
    }
    for one in 0..plan.clients.len() {
        for other in one + 1..plan.clients.len() {
            if only.is_some_and(|only| only != one && only != other) {
                continue;
            }
            let clusters = together(one, other);
            let (a, b) = (name(&plan.clients, one), name(&plan.clients, other));
            let verb = if clusters.is_empty() {
                "apart".to_owned()
            } else {
                format!("share {clusters:?}")
            };
            let why = history.as_ref().map_or(String::new(), |history| {
                format!(
                    ": {}",
                    history.why(one, other, !clusters.is_empty(), &plan.clients)
                )
            });
            let _ = writeln!(text, "{a} and {b} {verb}{why}");
        }
    }
    print(text.trim_end())?;
    Ok(Exit::Ok)
}

/// The wanted clusters after each step.
struct History<'a> {
    made: &'a Made,
    /// `stages[step][cluster]`, members; the first before any step.
    stages: Vec<Vec<BTreeSet<usize>>>,
    origins: &'a [Vec<usize>],
}

impl<'a> History<'a> {
    fn new(path: &Path, made: &'a Made, clients: usize) -> Result<Self, InputError> {
        let square =
            made.divergences.len() == clients && made.divergences.iter().all(|row| row.len() == clients);
        let fits = made.wanted.iter().all(|row| row.len() == clients);
        if !square || !fits {
            return Err(InputError::whole(
                path,
                format!("its history is not of its {clients} clients"),
            ));
        }
        let mut clusters: Vec<BTreeSet<usize>> = made
            .wanted
            .iter()
            .map(|row| {
                row.iter()
                    .enumerate()
                    .filter(|(_, bit)| **bit == 1)
                    .map(|(client, _)| client)
                    .collect()
            })
            .collect();
        let mut stages = vec![clusters.clone()];
        for (number, step) in made.steps.iter().enumerate() {
            let count = clusters.len();
            let place = |cluster: usize| {
                let known = (cluster < count).then_some(cluster);
                known.ok_or_else(|| {
                    InputError::whole(
                        path,
                        format!("step {} names a cluster beyond {count}", number + 1),
                    )
                })
            };
            match step.action {
                ActionRecord::Merge { cluster, with } => {
                    let (into, from) = (place(cluster)?, place(with)?);
                    let moved = clusters.get_mut(from).map(std::mem::take).unwrap_or_default();
                    if let Some(members) = clusters.get_mut(into) {
                        members.extend(moved);
                    }
                }
                ActionRecord::Cut { client, cluster } => {
                    let cluster = place(cluster)?;
                    if let Some(members) = clusters.get_mut(cluster) {
                        members.remove(&client);
                    }
                }
                ActionRecord::Withhold { cluster } | ActionRecord::Contained { cluster, .. } => {
                    let cluster = place(cluster)?;
                    if let Some(members) = clusters.get_mut(cluster) {
                        members.clear();
                    }
                }
            }
            stages.push(clusters.clone());
        }
        Ok(Self {
            made,
            stages,
            origins: &made.origins,
        })
    }

    fn together(&self, stage: usize, one: usize, other: usize) -> bool {
        let clusters = self.stages.get(stage);
        clusters.is_some_and(|clusters| {
            clusters
                .iter()
                .any(|members| members.contains(&one) && members.contains(&other))
        })
    }

    fn at(&self, one: usize, other: usize) -> f64 {
        let row = self.made.divergences.get(one);
        row.and_then(|row| row.get(other))
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    fn why(&self, one: usize, other: usize, now: bool, names: &[String]) -> String {
        let (gap, tau) = (self.at(one, other), self.made.tau);
        let close = gap <= tau;
        let sign = if close { "<=" } else { ">" };
        let mut text = format!("divergence {gap:.4} {sign} tau {tau:.4}");
        if self.together(0, one, other) && !close {
            let centre = (0..names.len())
                .find(|centre| self.at(one, *centre) <= tau && self.at(other, *centre) <= tau);
            if let Some(centre) = centre {
                let _ = write!(text, ", but both are within it of {}", name(names, centre));
            }
        }
        if self.together(0, one, other) != now {
            let changed = (1..self.stages.len()).rev().find(|stage| {
                self.together(*stage, one, other) == now && self.together(stage - 1, one, other) != now
            });
            let step = changed.and_then(|stage| Some((stage, self.made.steps.get(stage - 1)?.action)));
            if let Some((number, done)) = step {
                let _ = write!(text, "; step {number}: {}", done.tell(names));
            }
        }
        text
    }
}

pub(super) fn name(names: &[String], client: usize) -> &str {
    names
        .get(client)
        .map_or("a client that is not there", String::as_str)
}
