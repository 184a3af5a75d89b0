//! `veilsum export`: what a server hands to its auditor, its members, the public and those who check plans.

use super::serve::config_failure;
use crate::bundle::Numbered;
use crate::config::{Located, ServerConfig};
use crate::exit::{Exit, Failure};
use crate::genesis::Genesis;
use crate::store::ServerStore;
use clap::{Args, ValueEnum};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use veilsum_aggregation::server::ServerSetup;
use veilsum_attestation::bundle::subset::NoisedDescriptor;
use veilsum_attestation::bundle::tier::{Tier, salted_client};
use veilsum_crypto::ClientId;
use veilsum_learner::descriptor::Descriptor;

/// Arguments of `veilsum export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The server's configuration: `veilsum export --config consortium/server/server.toml`. The server must not run.
    #[arg(long)]
    config: PathBuf,
    /// Where the file goes; without it, for the auditor, where the configuration says.
    #[arg(long, required_if_eq_any([("tier", "public"), ("tier", "member"), ("tier", "plan")]))]
    out: Option<PathBuf>,
    /// Who is to read it. Each tier holds what it needs and is refused the rest by name.
    #[arg(long, value_enum, default_value_t = TierName::Auditor)]
    tier: TierName,
    /// The member a file of the member tier is for.
    #[arg(long, value_name = "NUMBER", required_if_eq("tier", "member"))]
    client: Option<u32>,
    /// Throw masked vectors away, and leave them out, once so many more rounds are published; for a policy that sets no
    /// window of its own.
    #[arg(long, value_name = "ROUNDS")]
    keep_rounds: Option<u64>,
    /// The noised descriptors that plans were made from, in the order of their clients (plan tier).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    descriptors: Vec<PathBuf>,
}

/// The tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TierName {
    /// Signed heads, cosignatures, and proofs of where sums stand.
    Public,
    /// One member's own statements, the agreements and the roots of sums.
    Member,
    /// Every statement, and the masked vectors behind every released sum.
    Auditor,
    /// Plans and noised descriptors.
    Plan,
}

pub(super) fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    let tier = args.tier()?;
    let config = Located::<ServerConfig>::read(&args.config).map_err(config_failure)?;
    let settings = &config.settings;
    let trust = settings.trust.trust().map_err(config_failure)?;
    let genesis = Genesis::read(&config.path(&settings.policy), &trust).map_err(config_failure)?;
    let identity = config.identity(&settings.key).map_err(config_failure)?;
    let (store, resume) =
        ServerStore::open(&config.path(&settings.state), &genesis.entries).map_err(config_failure)?;
    let setup = Arc::new(ServerSetup {
        identity,
        book: genesis.book,
        policy: genesis.policy,
        policy_leaf: genesis.policy_leaf,
        deadlines: settings.deadlines.deadlines(),
    });
    let out = args.out.clone().unwrap_or_else(|| config.path(&settings.bundle));
    let mut gone = 0;
    if tier == Tier::Auditor {
        gone = crate::bundle::bundle(&out, &resume.log, &store, &setup, args.keep_rounds)
            .map_err(config_failure)?;
    } else {
        if let Tier::Member(client) = tier
            && !setup.book.members().contains_key(&client)
        {
            return Err(Failure::say(Exit::Config, format!("{client} is not enrolled")));
        }
        let read = args
            .descriptors
            .iter()
            .map(|path| read_descriptor(path))
            .collect::<Result<Vec<_>, _>>()?;
        let salt = match read.len() {
            0 => [0; 32],
            _ => store
                .salt(&tier.to_string(), super::system_seed()?)
                .map_err(config_failure)?,
        };
        let descriptors: Vec<Numbered<'_>> = (0..)
            .zip(&read)
            .map(|(client, descriptor)| Numbered {
                number: salted_client(&salt, tier, ClientId(client)),
                descriptor: noised(descriptor),
            })
            .collect();
        crate::bundle::subset(&out, tier, &resume.log, &store, &setup, &descriptors)
            .map_err(config_failure)?;
    }
    let mut text = format!(
        "{} entries, head {}: {}",
        resume.log.entries().len(),
        resume.log.head().root,
        out.display()
    );
    if gone > 0 {
        let _ = write!(text, "; the vectors of {gone} attempt(s) are gone by retention");
    }
    super::print(&text)?;
    Ok(Exit::Ok)
}

impl ExportArgs {
    fn tier(&self) -> Result<Tier, Failure> {
        let tier = match self.tier {
            TierName::Public => Tier::Public,
            TierName::Member => Tier::Member(ClientId(self.client.unwrap_or_default())),
            TierName::Auditor => Tier::Auditor,
            TierName::Plan => Tier::Plan,
        };
        let wrong = |what: &'static str| Err(Failure::say(Exit::Usage, what));
        if self.client.is_some() && self.tier != TierName::Member {
            return wrong("--client goes with --tier member");
        }
        if self.keep_rounds.is_some() && tier != Tier::Auditor {
            return wrong("--keep-rounds goes with --tier auditor: no other tier holds vectors");
        }
        Ok(tier)
    }
}

/// The number of images a descriptor states is not passed on.
fn noised(descriptor: &Descriptor) -> NoisedDescriptor<'_> {
    let noise = descriptor.noise();
    NoisedDescriptor {
        source: *descriptor.source(),
        mean_sd: noise.map_or(0.0, |noise| noise.mean_sd),
        log_variance_sd: noise.map_or(0.0, |noise| noise.log_variance_sd),
        means: descriptor.mean(),
        variances: descriptor.variance(),
    }
}

fn read_descriptor(path: &Path) -> Result<Descriptor, Failure> {
    let named = |error: String| Failure::say(Exit::Config, format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| named(error.to_string()))?;
    Descriptor::decode(&bytes).map_err(|error| named(error.to_string()))
}
