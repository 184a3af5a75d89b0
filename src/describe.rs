//! What the policy's clustering rule means for descriptors: how a client makes one, and what the server makes of them.

use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use veilsum_aggregation::cluster::{
    self, Demand, DivergenceError, Divergences, Gaussian, GaussianError, Noisy, Planned, Threshold,
    ThresholdError,
};
use veilsum_aggregation::privacy::{PrivacyError, zcdp};
use veilsum_attestation::release::planning_rule;
use veilsum_attestation::statement::{ClientSet, ClusteringRule, KeyBook, Policy};
use veilsum_crypto::ClientId;
use veilsum_crypto::label::Label;
use veilsum_learner::descriptor::{Draw, Noise, Pooling, Summary};
use veilsum_learner::{Descriptor, DescriptorError, LearnError, Learner};

/// Names what makes the features: the network, the weights its encoder is frozen at, and the pooling. Descriptors of other
/// sources do not compare.
#[must_use]
pub fn source(policy: &Policy, rule: &ClusteringRule) -> [u8; 32] {
    SOURCE
        .hash(&[
            policy.update.schema.as_bytes(),
            policy.initial.as_bytes(),
            &rule.channels.to_le_bytes(),
        ])
        .0
}

/// Describes a learner's training images. The learner must hold the policy's initial model.
///
/// # Errors
/// [`LearnError`]: no encoder, too few images, or noise that would drown the clusters.
pub fn describe<R: CryptoRng + ?Sized>(
    learner: &mut dyn Learner,
    policy: &Policy,
    rule: &ClusteringRule,
    seed: u64,
    rng: &mut R,
) -> Result<Descriptor, LearnError> {
    let noise = noise(rule);
    let draw = Draw {
        images: rule.images,
        exactly: noise.is_some(),
        seed,
        clip: noise.map(|noise| noise.clip),
        pooling: pooling(rule),
    };
    let summary = Summary::of(learner, draw)?;
    let source = source(policy, rule);
    Ok(match noise {
        Some(noise) => summary.noised(source, &noise, rng)?,
        None => summary.descriptor(source)?,
    })
}

/// Whether clients whose features have so many channels can do what the rule asks, and clusters survive it.
///
/// # Errors
/// [`DescribeError`]: more channels than there are, or noise that would drown every difference.
pub fn possible(rule: &ClusteringRule, channels: usize) -> Result<(), DescribeError> {
    if rule.channels as usize > channels {
        return Err(DescribeError::Features {
            asked: rule.channels,
            has: channels,
        });
    }
    if let Some(noise) = noise(rule) {
        noise.sizes(rule.images, rule.channels as usize)?;
    }
    Ok(())
}

/// What one descriptor costs in zero-concentrated differential privacy; `None` where it protects nothing.
///
/// # Errors
/// [`PrivacyError`] for a multiplier that is none; a checked policy has none such.
pub fn cost(rule: &ClusteringRule) -> Result<Option<f64>, PrivacyError> {
    noise(rule).map(|noise| zcdp::rho(noise.multiplier)).transpose()
}

/// Reads a client's descriptor and sees that it is what the policy asks for.
///
/// # Errors
/// [`DescribeError`], the client's fault.
pub fn read(bytes: &[u8], policy: &Policy, rule: &ClusteringRule) -> Result<Descriptor, DescribeError> {
    let descriptor = Descriptor::decode(bytes)?;
    if *descriptor.source() != source(policy, rule) {
        return Err(DescribeError::Source);
    }
    let (got, due) = (descriptor.mean().len(), rule.channels as usize);
    if got != due {
        return Err(DescribeError::Channels { got, due });
    }
    let noise = noise(rule);
    let images = descriptor.images();
    if images > rule.images || (noise.is_some() && images != rule.images) {
        return Err(DescribeError::Images {
            got: images,
            due: rule.images,
        });
    }
    let due = noise.map(|noise| noise.sizes(images, got)).transpose()?;
    if descriptor.noise() != due {
        return Err(DescribeError::Noise);
    }
    Ok(descriptor)
}

/// The normal distribution that a descriptor stands for.
///
/// # Errors
/// [`GaussianError`] for numbers that are none.
pub fn gaussian(descriptor: &Descriptor) -> Result<Gaussian, GaussianError> {
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect();
    Gaussian::new(wide(descriptor.mean()), wide(descriptor.variance()))
}

/// How far apart descriptors are; with noise, unbiased estimates.
///
/// # Errors
/// [`DescribeError`] for descriptors that do not compare.
pub fn divergences(descriptors: &[Descriptor], threads: NonZeroUsize) -> Result<Divergences, DescribeError> {
    if descriptors.iter().all(|descriptor| descriptor.noise().is_none()) {
        let plain = descriptors.iter().map(gaussian).collect::<Result<Vec<_>, _>>()?;
        return Ok(Divergences::jeffreys(&plain, threads)?);
    }
    let noisy = descriptors
        .iter()
        .map(|descriptor| {
            let (mean_sd, log_variance_sd) = descriptor
                .noise()
                .map_or((0.0, 0.0), |noise| (noise.mean_sd, noise.log_variance_sd));
            Ok(Noisy {
                gaussian: gaussian(descriptor)?,
                mean_sd,
                log_variance_sd,
            })
        })
        .collect::<Result<Vec<_>, DescribeError>>()?;
    Ok(Noisy::estimate(&noisy, threads)?.divergences)
}

/// The plan that descriptors give under a policy: the same for the server that makes it and for whoever checks it.
///
/// # Errors
/// [`DescribeError`]: no threshold in the divergences, or no plan that hides everybody.
pub fn plan(
    descriptors: &BTreeMap<ClientId, Descriptor>,
    book: &KeyBook,
    policy: &Policy,
    rule: &ClusteringRule,
) -> Result<(Planned, Vec<ClientSet>), DescribeError> {
    let list: Vec<Descriptor> = descriptors.values().cloned().collect();
    let columns: Vec<ClientId> = descriptors.keys().copied().collect();
    let orgs = columns
        .iter()
        .map(|client| {
            let member = book.members().get(client);
            member
                .map(|member| member.org.0)
                .ok_or(DescribeError::Stranger(*client))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let divergences = divergences(&list, threads)?;
    let demand = Demand {
        rule: planning_rule(policy),
        alike: policy.blocks,
    };
    let planned = match cluster::plan(&divergences, rule.threshold.into(), &orgs, demand) {
        // No gap: the data does not fall apart, and nobody is to be kept from training for that.
        Err(ThresholdError::NoGap) => cluster::plan(&divergences, Threshold::Overlap(1.0), &orgs, demand)?,
        planned => planned?,
    };
    let matrix = &planned.repaired.clusters;
    let left = matrix.clusters();
    if left == 0 || !planned.repaired.verdict.is_safe() {
        return Err(DescribeError::NoPlan {
            clients: columns.len(),
            need: demand.rule.crowd.max(policy.blocks),
            orgs: demand.rule.crowd_orgs,
        });
    }
    let clusters = (0..left)
        .map(|cluster| {
            matrix
                .members(cluster)
                .filter_map(|column| columns.get(column).copied())
                .collect()
        })
        .collect();
    Ok((planned, clusters))
}

fn noise(rule: &ClusteringRule) -> Option<Noise> {
    rule.noise.map(|noise| Noise {
        clip: f64::from(noise.clip_micros) / 1e6,
        variance_floor: f64::from(noise.variance_floor_nanos) / 1e9,
        multiplier: f64::from(noise.multiplier_micros) / 1e6,
    })
}

fn pooling(rule: &ClusteringRule) -> Pooling {
    Pooling {
        channels: Some(rule.channels as usize),
        ..Pooling::default()
    }
}

/// Why a descriptor is not taken, the fault of the client that sent it, or why descriptors give no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// Not a descriptor.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// Of another encoder.
    #[error("the descriptor is of another network, other weights or another pooling than the policy's")]
    Source,
    /// Of another number of channels.
    #[error("the descriptor has {got} channels where the policy says {due}")]
    Channels {
        /// Channels it has.
        got: usize,
        /// Channels due.
        due: usize,
    },
    /// More channels asked for than the network's features have.
    #[error(
        "the policy asks for descriptors of {asked} channels, and the network's features have {has}: found the federation with fewer channels"
    )]
    Features {
        /// Channels asked for.
        asked: u32,
        /// Channels there are.
        has: usize,
    },
    /// Made from too many images, or, with noise, from another number than the policy's.
    #[error("the descriptor is made from {got} images where the policy says {due}")]
    Images {
        /// Images it is made from.
        got: u32,
        /// Images due.
        due: u32,
    },
    /// With other noise than the policy's.
    #[error("the descriptor's noise is not the policy's")]
    Noise,
    /// No normal distribution.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// Somebody who is not enrolled.
    #[error("a descriptor of {0}, who is not enrolled")]
    Stranger(ClientId),
    /// No threshold.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// Not even one cluster of everybody hides them.
    #[error(
        "not even one cluster of all {clients} clients with a descriptor may be opened: the policy asks for {need} clients \
         of {orgs} organisation(s); get more clients to describe their data, or agree on another policy"
    )]
    NoPlan {
        /// Clients with a descriptor.
        clients: usize,
        /// Clients needed: the crowd with its margins, or a group.
        need: u32,
        /// Organisations needed.
        orgs: u32,
    },
    /// Descriptors that do not compare.
    #[error(transparent)]
    Divergence(#[from] DivergenceError),
}

const SOURCE: Label = Label::new("descriptor-source");

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use veilsum_attestation::statement::{NoiseRule, ThresholdRule, UpdateRule};
    use veilsum_crypto::{BoundedVec, Digest, Modulus, PublicIdentity, SuiteId};
    use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
    use veilsum_learner::toy::ToyDepth;

    fn rule(noise: Option<NoiseRule>) -> ClusteringRule {
        ClusteringRule {
            threshold: ThresholdRule::Gap,
            every: 0,
            images: 16,
            channels: 4,
            noise,
        }
    }

    fn policy() -> Policy {
        Policy {
            suite: SuiteId::SUITE_1,
            name: BoundedVec::new(b"test".to_vec()).unwrap(),
            server: PublicIdentity([0; 32]),
            server_tls: Digest([0; 32]),
            clients: 5,
            members: Digest([0; 32]),
            threshold: 4,
            colluders: 0,
            dropouts: 0,
            crowd: 2,
            crowd_orgs: 1,
            update: UpdateRule {
                entries: 10,
                schema: Digest([1; 32]),
                value_bits: 16,
                modulus: Modulus::new(20).unwrap(),
                range_micros: 1,
                max_weight: 1,
            },
            initial: Digest([2; 32]),
            rounds: 5,
            clustering: Some(rule(None)),
            blocks: 0,
            keep_rounds: 0,
        }
    }

    fn learner(light: Light, train: usize) -> ToyDepth {
        let frames = Generator {
            platform: Platform::Ugv,
            place: Place::Street,
            light,
            width: 32,
            height: 24,
            train,
            test: 1,
            seed: 3,
        };
        ToyDepth::new(frames.dataset().unwrap()).unwrap()
    }

    #[test]
    fn what_a_client_makes_the_server_reads_and_nothing_else() {
        let (policy, plain) = (policy(), rule(None));
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let made = describe(&mut learner(Light::Day, 20), &policy, &plain, 7, &mut rng).unwrap();
        assert_eq!((made.images(), made.mean().len()), (16, 4));
        assert_eq!(read(&made.encode(), &policy, &plain).unwrap(), made);
        let again = describe(&mut learner(Light::Day, 20), &policy, &plain, 7, &mut rng).unwrap();
        let other = describe(&mut learner(Light::Day, 20), &policy, &plain, 8, &mut rng).unwrap();
        assert_eq!(again, made);
        assert_ne!(other, made);
        let elsewhere = Policy {
            initial: Digest([3; 32]),
            ..policy.clone()
        };
        assert!(matches!(
            read(&made.encode(), &elsewhere, &plain),
            Err(DescribeError::Source)
        ));
        let fewer = ClusteringRule { images: 15, ..plain };
        assert!(matches!(
            read(&made.encode(), &policy, &fewer),
            Err(DescribeError::Images { got: 16, due: 15 })
        ));
        let noise = NoiseRule {
            clip_micros: 1_000_000,
            variance_floor_nanos: 1_000_000_000,
            multiplier_micros: 3_000_000,
        };
        let noised = rule(Some(noise));
        assert!(matches!(
            read(&made.encode(), &policy, &noised),
            Err(DescribeError::Noise)
        ));
        let hidden = describe(&mut learner(Light::Day, 20), &policy, &noised, 7, &mut rng).unwrap();
        assert_eq!(read(&hidden.encode(), &policy, &noised).unwrap(), hidden);
        assert!(matches!(
            read(&hidden.encode(), &policy, &plain),
            Err(DescribeError::Noise)
        ));
        // 1 / (2 · 3²).
        assert!((cost(&noised).unwrap().unwrap() - 1.0 / 18.0).abs() < 1e-12);
        assert_eq!(cost(&plain).unwrap(), None);
        // With noise the number of images is part of the promise.
        assert!(describe(&mut learner(Light::Day, 15), &policy, &noised, 7, &mut rng).is_err());
        assert!(describe(&mut learner(Light::Day, 15), &policy, &plain, 7, &mut rng).is_ok());
    }

    #[test]
    fn night_is_farther_from_day_than_day_from_day() {
        let (policy, rule) = (policy(), rule(None));
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut make =
            |light, seed| describe(&mut learner(light, 20), &policy, &rule, seed, &mut rng).unwrap();
        let all = [make(Light::Day, 1), make(Light::Day, 2), make(Light::Night, 3)];
        let far = divergences(&all, NonZeroUsize::MIN).unwrap();
        assert!(
            far.at(0, 1) * 10.0 < far.at(0, 2),
            "{} {}",
            far.at(0, 1),
            far.at(0, 2)
        );
    }
}
