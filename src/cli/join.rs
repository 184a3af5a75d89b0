//! `veilsum join`.

use super::serve::{config_failure, limits};
use super::{Format, runtime, system_seed};
use crate::config::{ClientConfig, Frames, Located};
use crate::describe;
use crate::drive::client::{JoinError, JoinPlan, Work, join};
use crate::events::{ClientEvent, JsonLines, Sink, Talk};
use crate::exit::{Exit, Failure};
use crate::genesis::Genesis;
use crate::network;
use crate::store::ClientStore;
use crate::watch::{ClientWatch, LogProbe, Watched};
use chacha20::ChaCha20Rng;
use clap::Args;
use rand_core::SeedableRng;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use veilsum_aggregation::client::Membership;
use veilsum_attestation::statement::ClusteringRule;
use veilsum_crypto::{ClientId, Digest};
use veilsum_learner::{LearnError, Learner};
use veilsum_transport::{PeerId, QuicConnector};

/// Arguments of `veilsum join`.
#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// The client's configuration: `veilsum join --config consortium/clients/client-03/client.toml`.
    #[arg(long)]
    config: PathBuf,
    /// How events are printed on standard output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Stop in the middle of the upload of this round, for demonstrations of a dropout.
    #[arg(long, hide = true)]
    stall_upload_in_round: Option<u64>,
    /// Die at this step, for tests of crashes.
    #[arg(long, hide = true)]
    crash_at_step: Option<u64>,
}

pub(super) fn run(args: &JoinArgs) -> Result<Exit, Failure> {
    let mut sink: Box<dyn Sink<ClientEvent>> = match args.format {
        Format::Human => Box::new(Talk(std::io::stdout())),
        Format::Json => Box::new(JsonLines(std::io::stdout())),
    };
    let result = join_all(args, sink.as_mut());
    if let Err(failure) = &result {
        let reason = format!("{:?}", failure.exit);
        let _ = sink.emit(
            0,
            &ClientEvent::Failed {
                reason,
                detail: failure.to_string(),
            },
        );
    }
    result
}

fn join_all(args: &JoinArgs, sink: &mut dyn Sink<ClientEvent>) -> Result<Exit, Failure> {
    let config = Located::<ClientConfig>::read(&args.config).map_err(config_failure)?;
    let settings = &config.settings;
    let trust = settings.trust.trust().map_err(config_failure)?;
    let genesis = Genesis::read(&config.path(&settings.policy), &trust).map_err(config_failure)?;
    let me = ClientId(settings.client);
    let identity = config.identity(&settings.key).map_err(config_failure)?;
    let enrolled = genesis.book.members().get(&me).ok_or_else(|| {
        Failure::say(
            Exit::Config,
            format!(
                "client {} is not among the {} of the policy",
                me.0, genesis.policy.clients
            ),
        )
    })?;
    if enrolled.key != identity.public() {
        return Err(Failure::say(
            Exit::Config,
            format!(
                "client.key is not the key that the policy names for client {}",
                me.0
            ),
        ));
    }
    let (tls, roots) = config.tls(&settings.tls).map_err(config_failure)?;
    if tls.peer_id().0 != enrolled.tls.0 {
        return Err(Failure::say(
            Exit::Config,
            format!(
                "the TLS certificate is not the one that the policy names for client {}",
                me.0
            ),
        ));
    }
    settings.check().map_err(config_failure)?;
    if let Some(watch) = &settings.watch {
        watch.check().map_err(config_failure)?;
    }
    // Frames and network are tried before the server hears of this client.
    let base = args.config.parent().unwrap_or(Path::new(""));
    let loaded = settings
        .data
        .load(base, network::frame_size(&settings.learner))
        .map_err(config_failure)?;
    tracing::info!("{}", loaded.summary);
    let scores = loaded.frames.has_tests();
    if let Frames::Depth(data) = &loaded.frames
        && let Ok(baseline) = data.mean_picture_score()
    {
        sink.emit(
            0,
            &ClientEvent::Baseline {
                images: u32::try_from(data.test().len()).unwrap_or(u32::MAX),
                metrics: baseline.into(),
            },
        )
        .map_err(|_| Failure::say(Exit::Config, GONE))?;
    }
    let mut learner = network::learner(&settings.learner, loaded.frames).map_err(config_failure)?;
    if Digest(learner.layout().digest()) != genesis.policy.update.schema {
        return Err(Failure::say(
            Exit::Config,
            "this client's network does not have the shared tensors that the policy was signed for",
        ));
    }
    if let Some(rule) = &genesis.policy.clustering {
        can_describe(&mut *learner, rule)?;
    }
    let store = ClientStore::open(&config.path(&settings.state)).map_err(config_failure)?;
    let member = Arc::new(Membership {
        me,
        identity,
        book: genesis.book,
        policy_leaf: genesis.policy_leaf,
        floors: settings.floors.into(),
        policy: genesis.policy,
    });
    let pinned = PeerId(member.policy.server_tls.0);
    let plan = JoinPlan {
        genesis: genesis.entries,
        addr: settings.server.to_string(),
        give_up_after: Duration::from_secs(settings.give_up_after_s),
        stall_upload_in_round: args.stall_upload_in_round,
        crash_at_step: args.crash_at_step,
        member,
    };
    let work = Work::new(learner, settings.training.clone(), scores);
    let rng = ChaCha20Rng::from_seed(system_seed()?);
    runtime()?.block_on(async {
        let connector =
            QuicConnector::new(settings.server, settings.server_name.clone(), tls, roots, Some(pinned), limits())
                .map_err(|error| Failure::new(Exit::Config, error))?;
        let watch = ClientWatch::new();
        let mut sink = Watched::new(|event: &ClientEvent| watch.observe(event), sink);
        if let Some(at) = &settings.watch {
            let disk = LogProbe::new(config.path(&settings.state), None);
            let addr = super::watched(at, Arc::clone(&watch) as _, disk).await?;
            sink.emit(0, &ClientEvent::Watching { addr })
                .map_err(|_| Failure::say(Exit::Config, GONE))?;
        }
        let result = tokio::select! {
            biased;
            () = super::told_to_stop() => Err(Failure::say(Exit::Interrupted, "interrupted; run the client again and it takes part in the next round")),
            result = join(&connector, plan, work, store, &mut sink, rng) => result.map_err(join_failure),
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), connector.wait_closed()).await;
        result
    })?;
    Ok(Exit::Ok)
}

/// Whether this client's network has what the policy clusters clients by. What is wrong with its images alone is told when
/// they are described.
fn can_describe(learner: &mut dyn Learner, rule: &ClusteringRule) -> Result<(), Failure> {
    match learner.features(0) {
        Ok(features) => describe::possible(rule, features.channels).map_err(config_failure),
        Err(error @ LearnError::NoEncoder) => Err(config_failure(error)),
        Err(_) => Ok(()),
    }
}

fn join_failure(error: JoinError) -> Failure {
    let exit = match &error {
        JoinError::Transport(_) | JoinError::Refusal(_) => Exit::Refused,
        JoinError::ServerLost { .. } => Exit::TryAgain,
        JoinError::Store(_) | JoinError::Work(_) | JoinError::Restore(_) | JoinError::Private(_) => {
            Exit::Config
        }
        _ => Exit::Bug,
    };
    Failure::new(exit, error)
}

const GONE: &str = "nobody reads this client's events any more";
