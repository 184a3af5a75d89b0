//! `veilsum serve`.

use super::{Format, runtime, system_seed};
use crate::config::{Located, ServerConfig};
use crate::describe;
use crate::drive::server::{ServeError, ServePlan, log_head, serve};
use crate::events::{JsonLines, ServerEvent, Sink, Talk};
use crate::exit::{Exit, Failure};
use crate::genesis::Genesis;
use crate::store::{Resume, ServerStore, model_from_bytes};
use crate::watch::{DescriptorCost, Facts, LogProbe, Watch, Watched};
use crate::witness::Quorum;
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use veilsum_aggregation::message::MESSAGE_CAP;
use veilsum_aggregation::server::ServerSetup;
use veilsum_attestation::model_digest;
use veilsum_attestation::statement::ClientSet;
use veilsum_attestation::tlog::TrustPolicy;
use veilsum_crypto::ClientId;
use veilsum_transport::{Limits, QuicListener};

/// Arguments of `veilsum serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// The server's configuration: `veilsum serve --config consortium/server/server.toml`.
    #[arg(long)]
    config: PathBuf,
    /// How events are printed on standard output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Die at this step, for tests of crashes.
    #[arg(long, hide = true)]
    crash_at_step: Option<u64>,
}

pub(super) fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    let mut sink: Box<dyn Sink<ServerEvent>> = match args.format {
        Format::Human => Box::new(Talk(std::io::stdout())),
        Format::Json => Box::new(JsonLines(std::io::stdout())),
    };
    let result = runtime()?.block_on(serve_all(args, sink.as_mut()));
    if let Err(failure) = &result {
        let reason = format!("{:?}", failure.exit);
        let _ = sink.emit(
            0,
            &ServerEvent::Failed {
                reason,
                detail: failure.to_string(),
            },
        );
    }
    result
}

async fn serve_all(args: &ServeArgs, sink: &mut dyn Sink<ServerEvent>) -> Result<Exit, Failure> {
    let config = Located::<ServerConfig>::read(&args.config).map_err(config_failure)?;
    let settings = &config.settings;
    if let Some(watch) = &settings.watch {
        watch.check().map_err(config_failure)?;
    }
    let trust = settings.trust.trust().map_err(config_failure)?;
    let genesis = Genesis::read(&config.path(&settings.policy), &trust).map_err(config_failure)?;
    let identity = config.identity(&settings.key).map_err(config_failure)?;
    if identity.public() != genesis.policy.server {
        return Err(Failure::say(
            Exit::Config,
            "server.key is not the key that the policy names for the server",
        ));
    }
    let (tls, roots) = config.tls(&settings.tls).map_err(config_failure)?;
    let initial = config.bytes(&settings.initial_model).map_err(config_failure)?;
    let initial = model_from_bytes(&initial)
        .filter(|model| model.len() as u64 == genesis.policy.update.entries)
        .ok_or_else(|| {
            Failure::say(
                Exit::Config,
                format!(
                    "the initial model does not have the policy's {} entries",
                    genesis.policy.update.entries
                ),
            )
        })?;
    if initial.iter().any(|entry| !entry.is_finite()) || model_digest(&initial) != genesis.policy.initial {
        return Err(Failure::say(
            Exit::Config,
            format!(
                "{} is not the model the policy was signed for; take the file that came with the policy",
                config.path(&settings.initial_model).display()
            ),
        ));
    }
    let (mut store, resume) =
        ServerStore::open(&config.path(&settings.state), &genesis.entries).map_err(config_failure)?;
    let rounds = genesis.policy.rounds;
    let clusters: Vec<ClientSet> = settings
        .round
        .clusters
        .iter()
        .map(|members| members.iter().copied().map(ClientId).collect())
        .collect();
    match (genesis.policy.clustering, clusters.is_empty()) {
        (Some(_), false) => {
            return Err(Failure::say(
                Exit::Config,
                "round.clusters names clusters, and the policy clusters clients by their data: take the key out, or have a policy signed without clustering",
            ));
        }
        (None, true) => {
            return Err(Failure::say(
                Exit::Config,
                "round.clusters names no cluster, and the policy does not cluster clients by their data: name the members of each cluster",
            ));
        }
        _ => {}
    }
    let plan = ServePlan {
        setup: Arc::new(ServerSetup {
            identity,
            book: genesis.book.clone(),
            policy: genesis.policy.clone(),
            policy_leaf: genesis.policy_leaf,
            deadlines: settings.deadlines.deadlines(),
        }),
        clusters,
        initial: Arc::from(initial),
        wait_for: settings.round.wait_for,
        start_after: Duration::from_secs(settings.round.start_after_s),
        describe_within: Duration::from_secs(settings.round.describe_s),
        attempts: settings.round.attempts,
        witnesses: settings
            .witnesses
            .as_ref()
            .map(|path| quorum(&config.path(path)))
            .transpose()?,
        crash_at_step: args.crash_at_step,
        seed: system_seed()?,
    };
    let setup = Arc::clone(&plan.setup);
    let watch = Watch::new(watched_facts(
        &trust.federation,
        &genesis,
        plan.witnesses.as_ref(),
        &resume,
    ));
    let mut sink = Watched::new(|event: &ServerEvent| watch.observe(event), sink);
    let sink: &mut dyn Sink<ServerEvent> = &mut sink;
    let listener = QuicListener::bind(settings.listen, tls, roots, limits()).map_err(|error| {
        Failure::say(
            Exit::Config,
            format!("cannot listen on {}: {error}", settings.listen),
        )
    })?;
    let addr = listener.local_addr().to_string();
    sink.emit(0, &ServerEvent::Listening { addr })
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    open_site(&config, &watch, sink).await?;
    let served = serve(listener, plan, &mut store, resume, sink, super::told_to_stop()).await;
    // Whatever ended it, the rounds that are published can be audited.
    let bundle = config.path(&settings.bundle);
    let log = store.reload(&genesis.entries).map_err(config_failure)?;
    let exported = crate::bundle::export(&bundle, &log, &store, &setup);
    served.map_err(serve_failure)?;
    exported.map_err(config_failure)?;
    let finished = ServerEvent::Finished {
        rounds,
        bundle: bundle.display().to_string(),
        head: log_head(log.head()),
    };
    sink.emit(0, &finished)
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    Ok(Exit::Ok)
}

/// Opens the page and the metrics, where the configuration says so.
async fn open_site(
    config: &Located<ServerConfig>,
    watch: &Arc<Watch>,
    sink: &mut dyn Sink<ServerEvent>,
) -> Result<(), Failure> {
    let Some(at) = &config.settings.watch else {
        return Ok(());
    };
    let disk = LogProbe::new(config.path(&config.settings.state), Some("log.veil"));
    let addr = super::watched(at, Arc::clone(watch) as _, disk).await?;
    sink.emit(0, &ServerEvent::Watching { addr })
        .map_err(|error| Failure::new(Exit::Bug, error))
}

/// What is known of the federation before it starts.
fn watched_facts(federation: &str, genesis: &Genesis, witnesses: Option<&Quorum>, resume: &Resume) -> Facts {
    let policy = &genesis.policy;
    let members = genesis.book.members();
    let organisations: BTreeSet<_> = members.values().map(|member| member.org).collect();
    Facts {
        federation: federation.to_owned(),
        rounds: policy.rounds,
        clients: policy.clients,
        organisations: u32::try_from(organisations.len()).unwrap_or(u32::MAX),
        threshold: policy.threshold,
        crowd: policy.crowd,
        crowd_orgs: policy.crowd_orgs,
        descriptors: match policy.clustering.map(|rule| describe::cost(&rule)) {
            None => DescriptorCost::Nothing,
            Some(Ok(Some(rho))) => DescriptorCost::Rho(rho),
            Some(_) => DescriptorCost::Unbounded,
        },
        clusterings: policy
            .clustering
            .zip(resume.planned)
            .map_or(0, |(rule, round)| rule.number(round)),
        witnesses: witnesses.map(Quorum::names).unwrap_or_default(),
        round: resume.round.0,
        head: log_head(resume.log.head()),
    }
}

/// The witnesses of a policy file.
fn quorum(path: &Path) -> Result<Quorum, Failure> {
    let fail = |error: String| Failure::say(Exit::Config, format!("{}: {error}", path.display()));
    let text = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
    let policy = TrustPolicy::parse(&text).map_err(|error| fail(error.to_string()))?;
    Quorum::new(policy, WITNESS_TIMEOUT).map_err(|error| fail(error.to_string()))
}

/// How long a witness may take to answer.
const WITNESS_TIMEOUT: Duration = Duration::from_secs(10);

/// What one peer may take: control messages grow with the number of clients.
pub(super) fn limits() -> Limits {
    Limits {
        control_max: u32::try_from(MESSAGE_CAP).unwrap_or(u32::MAX),
        ..Limits::default()
    }
}

pub(super) fn config_failure(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Exit::Config, error)
}

fn serve_failure(error: ServeError) -> Failure {
    let exit = match &error {
        ServeError::Round { .. } => Exit::Aborted,
        ServeError::TooFewClients { .. }
        | ServeError::ListenerClosed
        | ServeError::NoQuorum(_)
        | ServeError::TooFewDescriptors { .. } => Exit::TryAgain,
        ServeError::Clustering(_) => Exit::Refused,
        ServeError::Stopped => Exit::Interrupted,
        ServeError::Store(_) | ServeError::Regrouped => Exit::Config,
        _ => Exit::Bug,
    };
    Failure::new(exit, error)
}
