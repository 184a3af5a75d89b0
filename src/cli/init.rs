//! `veilsum init`.

use super::system_seed;
use crate::config::LearnerKind;
use crate::exit::{Exit, Failure};
use crate::kit::{self, KitError, KitRequest};
use chacha20::ChaCha20Rng;
use clap::{Args, Subcommand};
use rand_core::SeedableRng;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::SystemTime;

/// Arguments of `veilsum init`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A whole consortium in one folder: `veilsum init consortium --dir ./consortium --orgs 4 --clients 8`.
    Consortium(ConsortiumArgs),
}

#[derive(Debug, Args)]
struct ConsortiumArgs {
    /// Folder to make.
    #[arg(long)]
    dir: PathBuf,
    /// The federation's name.
    #[arg(long, default_value = "demo consortium")]
    name: String,
    /// Organisations.
    #[arg(long, default_value_t = 4)]
    orgs: u32,
    /// Clients.
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Clusters, such as `0-4;3-7`: client numbers and ranges, clusters separated by `;`.
    #[arg(long, value_parser = parse_clusters)]
    clusters: Option<Clusters>,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// The server's UDP address.
    #[arg(long, default_value = "127.0.0.1:4433")]
    addr: SocketAddr,
    /// The network: `depth` needs libtorch, `linear` does not.
    #[arg(long, value_enum, default_value_t = default_learner())]
    learner: LearnerKind,
    /// Where the network runs: `auto`, `cpu` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// A folder with `clients/<name>/{train,test}/{rgb,depth}/*.png`; without it, frames are generated.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Seed of the common start and of generated frames. Keys never come from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

type Clusters = Vec<Vec<u32>>;

/// The depth network where it is built in.
#[must_use]
pub(super) fn default_learner() -> LearnerKind {
    if cfg!(feature = "torch") {
        LearnerKind::Depth
    } else {
        LearnerKind::Linear
    }
}

pub(super) fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let What::Consortium(args) = &args.what;
    let request = KitRequest {
        name: args.name.clone(),
        orgs: args.orgs,
        clients: args.clients,
        clusters: args.clusters.clone(),
        rounds: args.rounds,
        learner: args.learner,
        device: args.device.clone(),
        data: args.data.clone(),
        seed: args.seed,
        ..KitRequest::for_learner(args.dir.clone(), args.addr, args.learner)
    };
    let mut rng = ChaCha20Rng::from_seed(system_seed()?);
    let made = kit::create(&request, SystemTime::now(), &mut rng).map_err(|error| {
        let exit = if matches!(error, KitError::Request(_)) {
            Exit::Usage
        } else {
            Exit::Config
        };
        Failure::new(exit, error)
    })?;
    let mut text = format!(
        "{} clients of {} organisations, threshold {}:\n  veilsum serve --config {}",
        request.clients,
        request.orgs,
        made.policy.threshold,
        made.server.display()
    );
    for client in &made.clients {
        let _ = write!(text, "\n  veilsum join --config {}", client.display());
    }
    let _ = write!(text, "\nthen: veilsum audit {}", made.bundle.display());
    super::print(&text)?;
    Ok(Exit::Ok)
}

fn parse_clusters(text: &str) -> Result<Clusters, String> {
    text.split(';').map(parse_cluster).collect()
}

fn parse_cluster(text: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|_| format!("`{text}` is not a client number"))
    };
    let mut members = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((low, high)) => {
                let (low, high) = (number(low)?, number(high)?);
                if low > high || high > 4095 {
                    return Err(format!("`{part}` is not a range of client numbers below 4096"));
                }
                members.extend(low..=high);
            }
            None => members.push(number(part)?),
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_ranges_and_numbers() {
        assert_eq!(parse_clusters("0-2,5;4").unwrap(), [vec![0, 1, 2, 5], vec![4]]);
        for bad in ["", "a", "3-1", "1-5000", "1;;2"] {
            assert!(parse_clusters(bad).is_err(), "{bad}");
        }
    }
}
