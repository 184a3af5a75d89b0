//! `veilsum init`.

use super::system_seed;
use crate::config::LearnerKind;
use crate::exit::{Exit, Failure};
use crate::kit::{self, KitError, KitRequest};
use crate::network::feature_channels;
use chacha20::ChaCha20Rng;
use clap::{Args, Subcommand};
use rand_core::SeedableRng;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::SystemTime;
use veilsum_attestation::statement::{ClusteringRule, NoiseRule, ThresholdRule};
use veilsum_learner::bev::PersonalPart;

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
    /// Cluster clients by what their data looks like: `gap`, `overlap:SHARE` of the pairs, or `tau:DIVERGENCE`. Every client
    /// sends a descriptor of its images.
    #[arg(long, value_parser = parse_threshold, conflicts_with = "clusters")]
    cluster_by: Option<ThresholdRule>,
    #[command(flatten)]
    descriptors: DescriptorArgs,
    /// Count clients of the same clusters in groups of at least so many, all or none, so that no number of rounds tells one
    /// of them apart. A dropout takes its group along.
    #[arg(long, default_value_t = 0)]
    blocks: u32,
    /// Published rounds for which the server keeps masked vectors; then it throws them away, and auditors no longer ask for
    /// them. 0 for no window.
    #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
    keep_rounds: u64,
    /// Fewest clients that any combination of opened sums may cover.
    #[arg(long, default_value_t = 3)]
    crowd: u32,
    /// Fewest organisations that it may cover.
    #[arg(long, default_value_t = 2)]
    crowd_orgs: u32,
    /// Colluding clients that are reckoned with.
    #[arg(long, default_value_t = 1)]
    colluders: u32,
    /// Dropouts that a plan allows for.
    #[arg(long, default_value_t = 1)]
    dropouts: u32,
    /// Clients that every step of a round needs; the smallest safe number without it.
    #[arg(long)]
    threshold: Option<u32>,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// The server's UDP address.
    #[arg(long, default_value = "127.0.0.1:4433", value_parser = parse_address)]
    addr: SocketAddr,
    /// The network: `depth` needs libtorch, `linear` does not.
    #[arg(long, value_enum, default_value_t = default_learner())]
    learner: LearnerKind,
    /// What bird's-eye-view clients keep to themselves: `camera-embeddings` (`FedCaP`), `nothing`, `encoder`, `head`, `attention`
    /// or `everything`.
    #[arg(long, value_parser = parse_personal, default_value = "camera-embeddings")]
    personal: PersonalPart,
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

/// What goes into descriptors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Descriptors")]
struct DescriptorArgs {
    /// Cluster anew every so many rounds; once without it.
    #[arg(long, default_value_t = 0, requires = "cluster_by")]
    recluster: u64,
    /// Images of a descriptor.
    #[arg(long, default_value_t = 256, requires = "cluster_by")]
    images: u32,
    /// Average the features down to so many channels.
    #[arg(long, requires = "cluster_by")]
    channels: Option<u32>,
    /// Noise that hides single images: its standard deviation over what one image can change. Needs `--clip` and
    /// `--variance-floor`.
    #[arg(long, requires_all = ["cluster_by", "clip", "variance_floor"])]
    noise: Option<f64>,
    /// Length to which an image's features are clipped under noise.
    #[arg(long, requires = "noise")]
    clip: Option<f64>,
    /// Least variance that is told apart under noise.
    #[arg(long, requires = "noise")]
    variance_floor: Option<f64>,
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
        clustering: clustering(args)?,
        blocks: args.blocks,
        keep_rounds: args.keep_rounds,
        crowd: args.crowd,
        crowd_orgs: args.crowd_orgs,
        colluders: args.colluders,
        dropouts: args.dropouts,
        threshold: args.threshold,
        rounds: args.rounds,
        learner: args.learner,
        personal: args.personal,
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

fn parse_personal(text: &str) -> Result<PersonalPart, String> {
    let named = serde_json::Value::String(text.to_owned());
    serde_json::from_value(named).map_err(|_| {
        "`camera-embeddings`, `nothing`, `encoder`, `head`, `attention` or `everything` is needed".to_owned()
    })
}

/// The policy's rule from the flags.
fn clustering(args: &ConsortiumArgs) -> Result<Option<ClusteringRule>, Failure> {
    let Some(threshold) = args.cluster_by else {
        return Ok(None);
    };
    let given = &args.descriptors;
    let Some(features) = feature_channels(args.learner) else {
        return Err(Failure::say(
            Exit::Usage,
            "--cluster-by: this network has no features to cluster clients by; name the clusters with --clusters",
        ));
    };
    let noise = match (given.noise, given.clip, given.variance_floor) {
        (Some(multiplier), Some(clip), Some(floor)) => Some(NoiseRule {
            clip_micros: whole("--clip", clip, 1e6)?,
            variance_floor_nanos: whole("--variance-floor", floor, 1e9)?,
            multiplier_micros: whole("--noise", multiplier, 1e6)?,
        }),
        _ => None,
    };
    Ok(Some(ClusteringRule {
        threshold,
        every: given.recluster,
        images: given.images,
        channels: given.channels.unwrap_or(features),
        noise,
    }))
}

/// A positive number in units of `1 / scale`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be in range"
)]
fn whole(flag: &str, value: f64, scale: f64) -> Result<u32, Failure> {
    let scaled = (value * scale).round();
    if scaled >= 1.0 && scaled <= f64::from(u32::MAX) {
        Ok(scaled as u32)
    } else {
        let most = f64::from(u32::MAX) / scale;
        Err(Failure::say(
            Exit::Usage,
            format!(
                "{flag} {value}: a number from {} to {most:.3} is needed",
                1.0 / scale
            ),
        ))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be in range"
)]
fn parse_threshold(text: &str) -> Result<ThresholdRule, String> {
    let number = |text: &str, most: f64| {
        text.parse::<f64>()
            .ok()
            .filter(|value| (0.0..=most).contains(value))
            .ok_or_else(|| format!("`{text}` is not a number from 0 to {most}"))
    };
    match text.split_once(':') {
        None if text == "gap" => Ok(ThresholdRule::Gap),
        Some(("overlap", share)) => Ok(ThresholdRule::Overlap((number(share, 1.0)? * 1e6).round() as u32)),
        Some(("tau", tau)) => Ok(ThresholdRule::Fixed((number(tau, 1e12)? * 1e6).round() as u64)),
        _ => Err("`gap`, `overlap:0.2` or `tau:3.5` is needed".to_owned()),
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address and a port are needed, such as 192.0.2.10:4433 or [2001:db8::1]:4433; names are not looked up"
            .to_owned()
    })
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
    fn thresholds_are_named_and_in_range() {
        assert_eq!(parse_threshold("gap"), Ok(ThresholdRule::Gap));
        assert_eq!(
            parse_threshold("overlap:0.2"),
            Ok(ThresholdRule::Overlap(200_000))
        );
        assert_eq!(parse_threshold("tau:3.5"), Ok(ThresholdRule::Fixed(3_500_000)));
        for bad in [
            "",
            "overlap",
            "overlap:1.1",
            "overlap:-1",
            "overlap:nan",
            "tau:x",
            "tau:-1",
            "gap:1",
        ] {
            assert!(parse_threshold(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn clusters_are_ranges_and_numbers() {
        assert_eq!(parse_clusters("0-2,5;4").unwrap(), [vec![0, 1, 2, 5], vec![4]]);
        for bad in ["", "a", "3-1", "1-5000", "1;;2"] {
            assert!(parse_clusters(bad).is_err(), "{bad}");
        }
    }
}
