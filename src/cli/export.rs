//! `veilsum export`: the auditor's bundle of what a server has published so far.

use super::serve::config_failure;
use crate::config::{Located, ServerConfig};
use crate::exit::{Exit, Failure};
use crate::genesis::Genesis;
use crate::store::ServerStore;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use veilsum_aggregation::server::ServerSetup;

/// Arguments of `veilsum export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The server's configuration: `veilsum export --config consortium/server/server.toml`. The server must not run.
    #[arg(long)]
    config: PathBuf,
    /// Where the bundle goes; without it, where the configuration says.
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &ExportArgs) -> Result<Exit, Failure> {
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
    crate::bundle::export(&out, &resume.log, &store, &setup).map_err(config_failure)?;
    super::print(&format!(
        "{} entries, head {}: {}",
        resume.log.entries().len(),
        resume.log.head().root,
        out.display()
    ))?;
    Ok(Exit::Ok)
}
