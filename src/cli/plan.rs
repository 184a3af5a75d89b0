//! `veilsum plan`: who is in which cluster, and whether the sums would give anybody away. Works on files alone, without a
//! federation.

mod check;
mod draw;
mod explain;
mod file;
mod input;
mod make;
mod record;
mod replay;
mod route;
mod sheet;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;
use crate::exit::{Exit, Failure};

/// Arguments of `veilsum plan`.
#[derive(Clone, Debug, Args)]
pub(super) struct PlanArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Cluster clients by their descriptors or divergences, repair the plan, and write it as CSV and JSON.
    Make(MakeArgs),
    /// Say whether a plan's sums expose too few clients or organisations. Exit 0 when safe, 4 when not.
    Check(CheckArgs),
    /// Say why each pair of clients shares a cluster or not, and what the repair did.
    Explain(ExplainArgs),
    /// Say which clusters' models serve sequences that belong to no client: `veilsum plan route plan.json --descriptors
    /// depot-*.desc --unseen tunnel.desc`.
    Route(RouteArgs),
    /// Say whether the plans of a log follow from the clients' descriptors: `veilsum plan replay auditor/bundle.veil
    /// --descriptors server/state/descriptors`. Exit 0 when they do, 6 when one does not.
    Replay(ReplayArgs),
}

/// What every combination of sums must cover.
#[derive(Clone, Copy, Debug, Args)]
struct RuleArgs {
    /// Fewest clients in any combination of the sums that may be opened.
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..))]
    crowd: u32,
    /// Fewest organisations in any such combination.
    #[arg(long, value_name = "O", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    orgs: u32,
    /// Clients that may collude or drop out, on top of the crowd.
    #[arg(long, value_name = "M", default_value_t = 0)]
    margin: u32,
    /// Fewest clients in the same clusters, where the policy counts clients in groups (blocks); 0 where it does not.
    #[arg(long, value_name = "B", default_value_t = 0)]
    blocks: u32,
}

#[derive(Clone, Debug, Args)]
struct CheckArgs {
    /// The plan: CSV (a row per cluster, a 0/1 column per client) or JSON.
    file: PathBuf,
    #[command(flatten)]
    rule: RuleArgs,
    /// Divergences of the clients, as CSV, to draw beside the plan.
    #[arg(long, value_name = "FILE")]
    divergences: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Debug, Args)]
struct MakeArgs {
    #[command(flatten)]
    from: Source,
    #[command(flatten)]
    threshold: ThresholdArgs,
    #[command(flatten)]
    rule: RuleArgs,
    /// The organisation of each client, as CSV lines `client,organisation`. Without it each client stands for itself.
    #[arg(long, value_name = "FILE")]
    organisations: Option<PathBuf>,
    /// Where the plan goes: this name with `.csv` and with `.json`.
    #[arg(long, value_name = "NAME")]
    out: PathBuf,
    /// How to print.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Where the divergences come from.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A symmetric matrix as CSV, with an optional header of client ids.
    #[arg(long, value_name = "FILE")]
    divergences: Option<PathBuf>,
    /// Descriptor files, one a client, named after it.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    descriptors: Vec<PathBuf>,
}

/// When two clients are close.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
struct ThresholdArgs {
    /// So that this share of all pairs is close, from 0 to 1.
    #[arg(long, value_name = "SHARE")]
    overlap: Option<f64>,
    /// In the largest relative gap between the divergences.
    #[arg(long)]
    gap: bool,
    /// Up to this divergence.
    #[arg(long, value_name = "DIVERGENCE")]
    tau: Option<f64>,
}

#[derive(Clone, Debug, Args)]
struct RouteArgs {
    /// The plan: what `veilsum plan make` wrote, or CSV.
    file: PathBuf,
    /// The descriptors of the plan's clients, one file each, named after them.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    descriptors: Vec<PathBuf>,
    /// Descriptors of the sequences to be served, one file each.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    unseen: Vec<PathBuf>,
    /// The threshold; that of the plan without it.
    #[arg(long, value_name = "DIVERGENCE")]
    tau: Option<f64>,
    /// How to print.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Debug, Args)]
struct ReplayArgs {
    /// The auditor's bundle. Only its log is read; `veilsum audit` judges the rest.
    bundle: PathBuf,
    /// A folder with the descriptors, as the server keeps them.
    #[arg(long, value_name = "FOLDER")]
    descriptors: PathBuf,
    /// Whom to trust; without it, `auditor.toml` beside the bundle.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Debug, Args)]
struct ExplainArgs {
    /// The plan's JSON, as `veilsum plan make` wrote it.
    file: PathBuf,
    /// Only pairs with this client.
    #[arg(long, value_name = "ID")]
    client: Option<String>,
}

pub(super) fn run(args: &PlanArgs) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Make(args) => make::run(args),
        Verb::Check(args) => check::run(args),
        Verb::Explain(args) => explain::run(args),
        Verb::Route(args) => route::run(args),
        Verb::Replay(args) => replay::run(args),
    }
}
