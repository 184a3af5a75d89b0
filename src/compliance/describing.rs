//! Descriptors that must not be taken, and a policy that costs a client more than it allows.

use super::EngineError;
use super::federation::Federation;
use super::scenario::Check;
use crate::describe;
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::sync::Arc;
use veilsum_aggregation::message::Described;
use veilsum_aggregation::server::ServerSetup;
use veilsum_aggregation::{Client, ClientOutput, Gathering};
use veilsum_attestation::statement::{ClusteringRule, NoiseRule, ThresholdRule};
use veilsum_attestation::{Head, Log};
use veilsum_crypto::ClientId;
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::toy::ToyDepth;

/// Makes the check; gives the name of the refusal, and nothing when there is none.
pub(super) fn refused(check: Check, federation: &Federation) -> Result<Vec<&'static str>, EngineError> {
    match check {
        Check::Budget => budget(federation),
        // The statement is for the first clustering and the server collects for the second.
        Check::DescriptorReplayed => offered(federation, true, 1, |_| ()),
        Check::DescriptorWithoutNoise => offered(federation, false, 2, |_| ()),
        Check::DescriptorNotFinite => offered(federation, true, 2, |bytes| {
            if let Some(mean) = bytes.get_mut(FIRST_MEAN..FIRST_MEAN + 4) {
                mean.copy_from_slice(&f32::NAN.to_le_bytes());
            }
        }),
        _ => Err(EngineError::Internal("this check is not about descriptors")),
    }
}

/// A client offers the server a descriptor; what is wrong with it is `bend` or where it comes from.
fn offered(
    federation: &Federation,
    noised: bool,
    clustering: u64,
    bend: impl FnOnce(&mut Vec<u8>),
) -> Result<Vec<&'static str>, EngineError> {
    let mut policy = federation.policy.clone();
    let rule = rule(1);
    policy.clustering = Some(rule);
    let own = ClusteringRule {
        noise: rule.noise.filter(|_| noised),
        ..rule
    };
    let mut learner = frames().and_then(|data| {
        ToyDepth::new(data).map_err(|_| EngineError::Internal("the frames do not fit the model"))
    })?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut bytes = describe::describe(&mut learner, &policy, &own, 1, &mut rng)
        .map_err(|_| EngineError::Internal("the frames cannot be described"))?
        .encode();
    bend(&mut bytes);
    let me = ClientId(0);
    let mut member = federation.member(me)?;
    let signer = Arc::get_mut(&mut member).ok_or(EngineError::Internal("a member is shared too early"))?;
    signer.policy = policy.clone();
    let mut client = Client::new(member, Head::empty(), rng)?;
    client.described(clustering, bytes)?;
    let Some(ClientOutput::KeepDescriptor { described, .. }) = client.poll_output() else {
        return Err(EngineError::Internal("a descriptor was not signed"));
    };
    let setup = ServerSetup {
        policy: policy.clone(),
        ..Arc::into_inner(federation.server_setup()?).ok_or(EngineError::Internal("a setup is shared"))?
    };
    let gathering = Gathering::new(Arc::new(setup), Log::from_entries(federation.genesis.clone()), 2);
    Ok(taken(&gathering, me, &described, &policy, &rule))
}

/// What the server says to an answer.
fn taken(
    gathering: &Gathering,
    from: ClientId,
    described: &Described,
    policy: &veilsum_attestation::statement::Policy,
    rule: &ClusteringRule,
) -> Vec<&'static str> {
    match gathering.check(from, described) {
        Err(refusal) => vec![refusal.name()],
        Ok(_) => match describe::read(&described.descriptor, policy, rule) {
            Err(_) => vec!["BadDescriptor"],
            Ok(_) => Vec::new(),
        },
    }
}

/// A client that allows less than all clusterings cost does not join.
fn budget(federation: &Federation) -> Result<Vec<&'static str>, EngineError> {
    let join = |max| {
        let mut member = federation.member(ClientId(0))?;
        let own = Arc::get_mut(&mut member).ok_or(EngineError::Internal("a member is shared too early"))?;
        own.policy.clustering = Some(rule(1));
        own.floors.max_epsilon_micros = max;
        Ok::<_, EngineError>(Client::new(member, Head::empty(), ChaCha20Rng::seed_from_u64(1)).err())
    };
    // The same policy is fine for a client that allows anything.
    match (join(u64::MAX)?, join(1_000)?) {
        (None, Some(refusal)) => Ok(vec![refusal.name()]),
        _ => Ok(Vec::new()),
    }
}

fn rule(every: u64) -> ClusteringRule {
    ClusteringRule {
        threshold: ThresholdRule::Gap,
        every,
        images: 16,
        channels: 12,
        noise: Some(NoiseRule {
            clip_micros: 4_000_000,
            variance_floor_nanos: 1_000_000_000,
            multiplier_micros: 50_000,
        }),
    }
}

fn frames() -> Result<veilsum_learner::DepthDataset, EngineError> {
    Generator {
        platform: Platform::Ugv,
        place: Place::Street,
        light: Light::Day,
        width: 32,
        height: 24,
        train: 16,
        test: 1,
        seed: 1,
    }
    .dataset()
    .map_err(|_| EngineError::Internal("no frames are generated"))
}

/// Where the first mean of a descriptor with noise begins.
const FIRST_MEAN: usize = 42 + 16;
