//! What came out, as a file and as a table.

use super::config::{Compare, ExperimentConfig};
use super::statistics::{bootstrap, holm, mean_sd, sign_test, wilcoxon};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use veilsum_learner::DepthMetrics;

/// Version of the results' form.
pub const SCHEMA: &str = "veilsum-experiment/1";

/// One sequence under one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The sequence.
    pub sequence: String,
    /// Its domain.
    pub domain: String,
    /// The clusters whose models served it.
    pub clusters: Vec<usize>,
    /// No cluster was near enough, so the nearest served.
    pub fallback: bool,
    /// Means over its test frames.
    pub metrics: DepthMetrics,
}

/// One arm on one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    /// The arm.
    pub label: String,
    /// An arm with the same clusters, whose models these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Whether the means came by the protocol.
    pub masked: bool,
    /// Clients of each cluster.
    pub clusters: Vec<Vec<usize>>,
    /// Threshold; below 0 where unseen sequences go to the nearest cluster.
    pub tau: f64,
    /// Share of pairs within it.
    pub overlap: f64,
    /// Factor of the gap the threshold lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<f64>,
    /// Share of pairs that are together in a cluster.
    pub sharing: f64,
    /// Share of clients in more than one.
    pub multi_membership: f64,
    /// Effective donors of a client's start.
    pub donors: f64,
    /// Steps in which the clusters were made safe.
    pub repairs: usize,
    /// Trainings that left the finite numbers.
    pub failures: u32,
    /// Seconds, set-up and scoring included.
    pub wall_s: f64,
    /// One a sequence.
    pub scores: Vec<Score>,
}

impl ArmResult {
    /// The mean over sequences of something.
    #[must_use]
    pub fn mean(&self, of: impl Fn(&Score) -> f64) -> f64 {
        mean_sd(&self.scores.iter().map(of).collect::<Vec<_>>()).0
    }
}

/// All arms on one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// Digest of the settings it came from.
    pub config: String,
    /// Domain of each client.
    pub clients: Vec<String>,
    /// Fingerprint of the common start.
    pub start: String,
    /// Seconds until the first arm.
    pub prepared_s: f64,
    /// Seconds altogether.
    pub wall_s: f64,
    /// The arms in the file's order.
    pub arms: Vec<ArmResult>,
}

/// Two arms over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The arm that should be better.
    pub first: String,
    /// The other.
    pub second: String,
    /// Named in the file, before anything ran; the others are descriptions.
    pub planned: bool,
    /// For each seed: mean over sequences of ln AbsRel, second less first. Positive means the first is better.
    pub differences: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// 95 % interval of the mean, by drawing seeds.
    pub interval: (f64, f64),
    /// Seeds in which the first is better.
    pub wins: usize,
    /// Exact one-sided sign test.
    pub sign: f64,
    /// Exact one-sided signed-rank test.
    pub wilcoxon: Option<f64>,
    /// The sign test adjusted over the planned comparisons (Holm).
    pub holm: Option<f64>,
    /// Share of sequences on which the first is better, with its interval by drawing seeds.
    pub better: (f64, f64, f64),
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program's version.
    pub version: String,
    /// The settings.
    pub config: ExperimentConfig,
    /// By seed.
    pub seeds: Vec<SeedResult>,
    /// By pair.
    pub comparisons: Vec<Comparison>,
    /// Seconds of all seeds, one after another.
    pub wall_s: f64,
}

impl Results {
    /// Every score as a line of comma-separated values under a line of names; texts in quotation marks (RFC 4180).
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "seed,strategy,masked,sequence,domain,clusters,fallback,abs_rel,sq_rel,rmse,rmse_log,log10,silog,delta1,delta2,delta3\r\n",
        );
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        for seed in &self.seeds {
            for arm in &seed.arms {
                for score in &arm.scores {
                    let clusters: Vec<String> = score.clusters.iter().map(ToString::to_string).collect();
                    let m = &score.metrics;
                    let numbers = [
                        m.abs_rel, m.sq_rel, m.rmse, m.rmse_log, m.log10, m.silog, m.delta1, m.delta2,
                        m.delta3,
                    ];
                    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                    let _ = write!(
                        out,
                        "{},{},{},{},{},{},{},{}\r\n",
                        seed.seed,
                        quoted(&arm.label),
                        arm.masked,
                        quoted(&score.sequence),
                        quoted(&score.domain),
                        quoted(&clusters.join(" ")),
                        score.fallback,
                        numbers.join(",")
                    );
                }
            }
        }
        out
    }

    /// Compares what is there.
    #[must_use]
    pub fn new(config: &ExperimentConfig, seeds: Vec<SeedResult>) -> Self {
        let mut comparisons: Vec<Comparison> = config
            .compare
            .iter()
            .filter_map(|pair| compare(&seeds, pair, true))
            .collect();
        let adjusted = holm(&comparisons.iter().map(|c| c.sign).collect::<Vec<_>>());
        for (comparison, p) in comparisons.iter_mut().zip(adjusted) {
            comparison.holm = Some(p);
        }
        let planned = |pair: &Compare| config.compare.contains(pair);
        for pair in described(&seeds).into_iter().filter(|pair| !planned(pair)) {
            comparisons.extend(compare(&seeds, &pair, false));
        }
        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.clone(),
            wall_s: seeds.iter().map(|seed| seed.wall_s).sum(),
            seeds,
            comparisons,
        }
    }

    /// A value of each seed under an arm.
    fn over_seeds(&self, label: &str, of: impl Fn(&ArmResult) -> f64) -> Vec<f64> {
        let arms = self.seeds.iter().flat_map(|seed| &seed.arms);
        arms.filter(|arm| arm.label == label).map(of).collect()
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}: {} seeds, {} clients, {:?} averaging, {:.0} s\nscored on {}\n\n",
            self.config.name,
            self.seeds.len(),
            self.seeds.first().map_or(0, |seed| seed.clients.len()),
            self.config.aggregation,
            self.wall_s,
            if self.config.routes() {
                "sequences that belong to no client, each with the models it is routed to"
            } else {
                "every client's own test frames"
            }
        );
        let _ = writeln!(
            text,
            "{:<14} {:>15} {:>7} {:>7} {:>6} {:>8} {:>7} {:>7} {:>7}",
            "arm", "AbsRel (sd)", "RMSE", "delta1", "K", "in more", "donors", "nearest", "seconds"
        );
        for label in self.labels() {
            let mean = |of: &dyn Fn(&ArmResult) -> f64| mean_sd(&self.over_seeds(label, of));
            let (abs_rel, sd) = mean(&|arm| arm.mean(|score| score.metrics.abs_rel));
            let _ = writeln!(
                text,
                "{label:<14} {abs_rel:>8.4} ({sd:.4}) {:>7.3} {:>7.3} {:>6.1} {:>7.0}% {:>7.1} {:>6.0}% {:>7.1}",
                mean(&|arm| arm.mean(|score| score.metrics.rmse)).0,
                mean(&|arm| arm.mean(|score| score.metrics.delta1)).0,
                mean(&|arm| super::statistics::number(arm.clusters.len())).0,
                100.0 * mean(&|arm| arm.multi_membership).0,
                mean(&|arm| arm.donors).0,
                100.0 * mean(&|arm| arm.mean(|score| f64::from(u8::from(score.fallback)))).0,
                mean(&|arm| arm.wall_s).0,
            );
        }
        self.table_of_comparisons(&mut text);
        self.table_of_clusters(&mut text);
        text
    }

    fn labels(&self) -> Vec<&str> {
        let first = self.seeds.first();
        first.map_or_else(Vec::new, |seed| {
            seed.arms.iter().map(|arm| arm.label.as_str()).collect()
        })
    }

    fn table_of_comparisons(&self, text: &mut String) {
        if self.comparisons.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\nln AbsRel of the second less the first, by seed: positive means the first is better"
        );
        for planned in [true, false] {
            let chosen: Vec<&Comparison> = self.comparisons.iter().filter(|c| c.planned == planned).collect();
            if chosen.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{}", if planned { "planned:" } else { "descriptions:" });
            for c in chosen {
                let _ = write!(
                    text,
                    "  {:<11} over {:<11} {:+.3} [{:+.3}, {:+.3}], {}/{} seeds, sign p {:.3}",
                    c.first,
                    c.second,
                    c.mean,
                    c.interval.0,
                    c.interval.1,
                    c.wins,
                    c.differences.len(),
                    c.sign
                );
                if let Some(p) = c.wilcoxon {
                    let _ = write!(text, ", signed rank p {p:.3}");
                }
                if let Some(p) = c.holm {
                    let _ = write!(text, ", Holm {p:.3}");
                }
                let (share, low, high) = c.better;
                let _ = writeln!(
                    text,
                    ", better on {:.0}% [{:.0}, {:.0}] of sequences",
                    100.0 * share,
                    100.0 * low,
                    100.0 * high
                );
            }
        }
    }

    /// How clusters and domains lie to one another where the threshold was found in a gap.
    fn table_of_clusters(&self, text: &mut String) {
        let mut header = false;
        for seed in &self.seeds {
            for arm in seed.arms.iter().filter(|arm| arm.jump.is_some()) {
                if !header {
                    text.push_str("\nclusters where the threshold lies in the largest gap\n");
                    header = true;
                }
                let clusters: Vec<String> = arm
                    .clusters
                    .iter()
                    .map(|cluster| {
                        let mut counts = std::collections::BTreeMap::new();
                        for client in cluster {
                            let domain = seed.clients.get(*client).map_or("?", String::as_str);
                            *counts.entry(domain).or_insert(0_u32) += 1;
                        }
                        let parts: Vec<String> = counts
                            .iter()
                            .map(|(domain, count)| format!("{count} {domain}"))
                            .collect();
                        parts.join(" + ")
                    })
                    .collect();
                let shown = clusters.iter().take(6).cloned().collect::<Vec<_>>().join(" | ");
                let more = clusters.len().saturating_sub(6);
                let _ = writeln!(
                    text,
                    "  seed {} {}: gap x{:.2}, {} clusters: {shown}{}",
                    seed.seed,
                    arm.label,
                    arm.jump.unwrap_or(1.0),
                    clusters.len(),
                    if more > 0 {
                        format!(" | {more} more")
                    } else {
                        String::new()
                    }
                );
            }
        }
    }
}

/// Soft against hard at the same threshold, and against the hard arm with the most nearly equal number of donors.
fn described(seeds: &[SeedResult]) -> Vec<Compare> {
    let Some(first) = seeds.first() else {
        return Vec::new();
    };
    let donors = |label: &str| {
        let arms = seeds.iter().flat_map(|seed| &seed.arms);
        let of: Vec<f64> = arms
            .filter(|arm| arm.label == label)
            .map(|arm| arm.donors)
            .collect();
        mean_sd(&of).0
    };
    let hard: Vec<&str> = first
        .arms
        .iter()
        .map(|arm| arm.label.as_str())
        .filter(|label| label.starts_with("hard-"))
        .collect();
    let mut pairs = Vec::new();
    for arm in &first.arms {
        let Some(threshold) = arm.label.strip_prefix("soft-") else {
            continue;
        };
        let own = donors(&arm.label);
        let alike = hard
            .iter()
            .copied()
            .min_by(|a, b| (donors(a) - own).abs().total_cmp(&(donors(b) - own).abs()));
        let same = hard
            .iter()
            .copied()
            .find(|label| label.strip_prefix("hard-") == Some(threshold));
        for second in same.into_iter().chain(alike) {
            let pair = Compare {
                first: arm.label.clone(),
                second: second.to_owned(),
            };
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    pairs
}

fn compare(seeds: &[SeedResult], pair: &Compare, planned: bool) -> Option<Comparison> {
    let mut differences = Vec::new();
    let mut better = Vec::new();
    for seed in seeds {
        let arm = |label: &str| seed.arms.iter().find(|arm| arm.label == label);
        let (first, second) = (arm(&pair.first)?, arm(&pair.second)?);
        let log = |score: &Score| score.metrics.abs_rel.ln();
        differences.push(second.mean(log) - first.mean(log));
        let wins = first.scores.iter().zip(&second.scores).map(|(a, b)| {
            let (a, b) = (a.metrics.abs_rel, b.metrics.abs_rel);
            if a < b {
                1.0
            } else if a > b {
                0.0
            } else {
                0.5
            }
        });
        better.push(mean_sd(&wins.collect::<Vec<f64>>()).0);
    }
    let (low, high) = bootstrap(&better, DRAW);
    Some(Comparison {
        first: pair.first.clone(),
        second: pair.second.clone(),
        planned,
        mean: mean_sd(&differences).0,
        interval: bootstrap(&differences, DRAW),
        wins: differences.iter().filter(|d| **d > 0.0).count(),
        sign: sign_test(&differences),
        wilcoxon: wilcoxon(&differences),
        holm: None,
        better: (mean_sd(&better).0, low, high),
        differences,
    })
}

/// Seed of the intervals.
const DRAW: u64 = 1;
