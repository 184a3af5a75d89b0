//! What is checked beside the rounds.

use super::EngineError;
use super::federation::{AUTHORITY, Federation, identity};
use super::scenario::Check;
use super::world::World;
use crate::genesis::{Genesis, GenesisError, Trust};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use veilsum_aggregation::mask::MaskScope;
use veilsum_attestation::bundle::BundleError;
use veilsum_attestation::disclosure::{self, CrowdRule, Membership, Window};
use veilsum_attestation::statement::{
    ClientSet, Entry, Keys, Kind, Member, Party, Reveal, leaf_hash, roster_digest,
};
use veilsum_crypto::residue::unpack;
use veilsum_crypto::share::Reconstructor;
use veilsum_crypto::{ClientId, ClusterId, Digest, MaskPublic, SelfSeed, Share, wire};
use veilsum_learner::{SharedTensor, TensorClass, TensorSpec};

/// Whether a check needs no round.
pub(super) fn stands_alone(check: Check) -> bool {
    !matches!(check, Check::Residual | Check::Export | Check::StaticWindow)
}

/// Makes a check that needs no round; gives the name with which something was refused.
pub(super) fn alone(check: Check, federation: &Federation) -> Result<Vec<&'static str>, EngineError> {
    let trust = federation.trust()?;
    match check {
        Check::PolicyFile => Ok(policy_file(&federation.genesis, &trust)),
        Check::ForeignAuthority => {
            let other = Trust {
                authority: identity(federation.tag.wrapping_add(1), AUTHORITY, 0)?.public(),
                ..trust
            };
            Ok(policy_file(&federation.genesis, &other))
        }
        Check::SwappedMember => {
            let mut entries = federation.genesis.clone();
            if let Some(first) = entries.first_mut() {
                let mut entry: Entry = wire::decode(first)?;
                let mut member: Member = wire::decode(&entry.body)?;
                member.key = identity(federation.tag, 9, 9)?.public();
                entry.body = veilsum_crypto::BoundedVec::new(wire::encode(&member)?)
                    .map_err(|_| EngineError::Internal("a forged member is too long"))?;
                *first = wire::encode(&entry)?;
            }
            Ok(policy_file(&entries, &trust))
        }
        Check::PrivateTensor => {
            let spec = TensorSpec {
                name: "head.position".to_owned(),
                shape: vec![2],
                class: TensorClass::Private,
            };
            Ok(match SharedTensor::new(&spec, vec![0.0; 2]) {
                Err(veilsum_learner::LearnError::PrivateTensor { .. }) => vec!["PrivateTensor"],
                _ => Vec::new(),
            })
        }
        Check::OtherAuthority | Check::Expired | Check::Revoked => super::handshake::refused(check),
        Check::DescriptorWithoutNoise
        | Check::DescriptorReplayed
        | Check::DescriptorNotFinite
        | Check::Budget => super::describing::refused(check, federation),
        Check::QuorumMissing | Check::WitnessRefuses | Check::WitnessBehind | Check::WitnessCosignsFork => {
            super::witnessing::refused(check, federation)
        }
        Check::Residual | Check::Export | Check::StaticWindow => {
            Err(EngineError::Internal("this check needs a round"))
        }
    }
}

fn policy_file(entries: &[Vec<u8>], trust: &Trust) -> Vec<&'static str> {
    match Genesis::parse(&Genesis::file(entries), trust) {
        Ok(_) => Vec::new(),
        Err(GenesisError::Policy(_)) => vec!["PolicyUnsafe"],
        Err(_) => vec!["Unauthorised"],
    }
}

/// Tries to put into a bundle every vector that the server holds and the log does not call for.
pub(super) fn export(world: &World) -> Result<Vec<&'static str>, EngineError> {
    let mut writer = world.disk.writer(&world.federation)?;
    let due: BTreeSet<_> = due(world)?;
    let mut tried = 0;
    for (name, bytes) in world.disk.vectors.iter().filter(|(name, _)| !due.contains(*name)) {
        tried += 1;
        if !matches!(
            writer.vector(*name, bytes),
            Err(BundleError::ExportForbidden { .. })
        ) {
            return Ok(vec!["Exported"]);
        }
    }
    Ok(if tried == 0 {
        Vec::new()
    } else {
        vec!["ExportForbidden"]
    })
}

/// The vectors the log calls for.
fn due(world: &World) -> Result<BTreeSet<veilsum_attestation::bundle::VectorName>, EngineError> {
    let mut writer = world.disk.writer(&world.federation)?;
    let mut due = BTreeSet::new();
    while let Some(next) = writer.due() {
        match next {
            veilsum_attestation::bundle::Due::Model(_) => writer.skip_model(),
            veilsum_attestation::bundle::Due::Vector(name) => {
                due.insert(name);
                let bytes = world
                    .disk
                    .vectors
                    .get(&name)
                    .ok_or(EngineError::Internal("a vector is gone"))?;
                writer.vector(name, bytes)?;
            }
        }
    }
    Ok(due)
}

/// What several rounds together show of clients whose updates never change.
pub(super) struct WindowWords {
    pub(super) said: String,
    pub(super) wrong: Vec<String>,
}

/// Works out the crowd over all rounds of a run. It must not be larger than that of a single round, and rounds over different
/// survivors must be said to expose somebody: no rule on one round helps against that.
pub(super) fn static_window(world: &World) -> Result<WindowWords, EngineError> {
    let federation = &world.federation;
    let ragged = |_| EngineError::Internal("a round over another number of clients");
    let clients = federation.size.n as usize;
    let mut window = Window::new(
        clients,
        NonZeroUsize::MIN.saturating_add(world.facts.endings.len()),
    );
    let mut single = f64::INFINITY;
    let mut survivor_sets = BTreeSet::new();
    for (_, _, ending) in &world.facts.endings {
        let super::facts::Ending::Sum(outcome) = ending else {
            continue;
        };
        survivor_sets.insert(outcome.survivors.clone());
        let rows: Vec<Vec<usize>> = outcome
            .opened
            .iter()
            .map(|opened| {
                let members = federation.cluster_set(opened.cluster);
                let here = members.intersection(&outcome.survivors);
                here.map(|client| client.0 as usize).collect()
            })
            .collect();
        let matrix = Membership::from_members(clients, &rows).map_err(ragged)?;
        single = single.min(disclosure::crowd(&matrix));
        window.push(matrix).map_err(ragged)?;
    }
    let crowd = window.crowd();
    let orgs: Vec<u32> = federation
        .book
        .members()
        .values()
        .map(|member| member.org.0)
        .collect();
    let rule = CrowdRule {
        crowd: federation.size.need(),
        crowd_orgs: federation.size.c_orgs,
    };
    let mut wrong = Vec::new();
    if crowd > single + 1e-9 {
        wrong.push("more rounds give a larger crowd than one".to_owned());
    }
    let least = federation.policy.blocks;
    let together = CrowdRule {
        crowd: least,
        crowd_orgs: 1,
    };
    if least > 0 && !window.check(&orgs, &together).is_safe() {
        wrong.push(format!(
            "rounds together give fewer than {least} clients away, who are counted together"
        ));
    }
    if least == 0 && survivor_sets.len() > 1 && window.check(&orgs, &rule).is_safe() {
        wrong.push(
            "rounds over different survivors are said to be safe for updates that never change".to_owned(),
        );
    }
    Ok(WindowWords {
        said: format!(
            "static-window crowd {crowd:.2} over {} rounds, {single:.2} in one",
            window.rounds()
        ),
        wrong,
    })
}

/// The server and the last m clients pool everything they hold against each other client: what is left of its vector must be
/// uniform, and only the sum over all of the others must be plain.
pub(super) fn residual(world: &World) -> Result<Vec<String>, EngineError> {
    let mut wrong = Vec::new();
    let pool = Pool::of(world)?;
    let modulus = world.federation.policy.update.modulus;
    for cluster in pool.released.iter().copied() {
        let members = world.federation.cluster_set(cluster);
        let honest: BTreeSet<ClientId> = members
            .iter()
            .copied()
            .filter(|client| pool.survivors.contains(client) && !pool.colluders.contains(client))
            .collect();
        let mut sum: Vec<u32> = Vec::new();
        for client in honest.iter().copied() {
            let words = pool.residual(world, client, cluster)?;
            sum.resize(words.len(), 0);
            for (total, word) in sum.iter_mut().zip(&words) {
                *total = modulus.reduce(total.wrapping_add(*word));
            }
            for shift in [0, u32::from(modulus.bits()) - 4] {
                if chi_square(&words, shift) > UNLIKELY {
                    wrong.push(format!(
                        "what is left of {client}'s vector in {cluster} is not uniform"
                    ));
                }
            }
        }
        if sum != world.plain_sum(cluster, &honest) {
            wrong.push(format!(
                "the honest clients' masks in {cluster} do not cancel among themselves"
            ));
        }
    }
    // The test itself finds what is not uniform: the plain words of a client.
    let plain = world.plain_words(ClientId(0));
    if chi_square(&plain, u32::from(modulus.bits()) - 4) <= UNLIKELY {
        wrong.push("the uniformity test does not see a plain vector".into());
    }
    Ok(wrong)
}

/// What server and colluders know of one attempt.
struct Pool {
    colluders: BTreeSet<ClientId>,
    survivors: ClientSet,
    released: Vec<ClusterId>,
    keys: BTreeMap<ClientId, Keys>,
    reveals: BTreeMap<ClientId, Reveal>,
    context: veilsum_crypto::RoundContext,
    plan: veilsum_attestation::statement::Plan,
}

impl Pool {
    fn of(world: &World) -> Result<Self, EngineError> {
        let missing = EngineError::Internal("the round has no agreement");
        let attempts = super::invariant::attempts(world.disk.entries())?;
        let last = attempts.last().ok_or(missing.clone())?;
        let plan = last.plan.clone().ok_or(missing.clone())?;
        let (agree, _) = last.agrees.values().next().ok_or(missing)?;
        let (mut keys, mut leaves, mut reveals) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for bytes in world.disk.entries() {
            let entry: Entry = wire::decode(bytes)?;
            let Party::Client(client) = entry.signer else {
                continue;
            };
            match entry.kind {
                Kind::Keys => {
                    keys.insert(client, wire::decode::<Keys>(&entry.body)?);
                    leaves.insert(client, leaf_hash(bytes));
                }
                Kind::Reveal => {
                    reveals.insert(client, wire::decode::<Reveal>(&entry.body)?);
                }
                _ => {}
            }
        }
        let leaves: Vec<Digest> = leaves.into_values().collect();
        let federation = &world.federation;
        let context = plan
            .context(federation.policy.suite, *federation.book.federation(), agree.plan)
            .with_roster(roster_digest(&leaves));
        let size = federation.size;
        Ok(Self {
            colluders: (size.n - size.m..size.n).map(ClientId).collect(),
            survivors: agree.survivors.clone(),
            released: agree.release.to_vec(),
            keys,
            reveals,
            context,
            plan,
        })
    }

    /// A client's vector less everything the pool can take off it.
    fn residual(&self, world: &World, client: ClientId, cluster: ClusterId) -> Result<Vec<u32>, EngineError> {
        let federation = &world.federation;
        let missing = EngineError::Internal("a part of the round is missing");
        let bytes = world
            .disk
            .vectors
            .iter()
            .find(|(name, _)| (name.client, name.cluster) == (client, cluster))
            .map(|(_, bytes)| bytes)
            .ok_or(missing.clone())?;
        let entries = usize::try_from(federation.policy.update.entries).unwrap_or_default() + 1;
        let modulus = federation.policy.update.modulus;
        let mut words = unpack(modulus, bytes, entries).map_err(|_| missing.clone())?;
        let scope = MaskScope {
            context: &self.context,
            cluster,
            model: self.plan.cluster(cluster).ok_or(missing.clone())?.model,
        };
        scope.take_off_self(&mut words, client, &self.seed(world, client, cluster)?);
        let mine: ClientSet = [client].into_iter().collect();
        let publics: BTreeMap<ClientId, MaskPublic> = self
            .keys
            .iter()
            .map(|(client, keys)| (*client, keys.mask_key))
            .collect();
        let members = federation.cluster_set(cluster);
        for colluder in self
            .colluders
            .iter()
            .filter(|colluder| members.contains(*colluder))
        {
            let keys = self.keys.get(colluder).ok_or(missing.clone())?;
            let heard = world.taps.get(colluder).ok_or(missing.clone())?;
            let secret = heard.mask_secret(&keys.mask_key)?;
            scope
                .take_off_dropped(&mut words, *colluder, &secret, &mine, &publics)
                .map_err(|_| missing.clone())?;
        }
        Ok(words.into_iter().map(|word| modulus.reduce(word)).collect())
    }

    /// A survivor's self-mask seed, from t revealed shares.
    fn seed(&self, world: &World, client: ClientId, cluster: ClusterId) -> Result<SelfSeed, EngineError> {
        let bad = |_| EngineError::Internal("revealed shares give nothing back");
        let threshold = world.federation.policy.threshold as usize;
        let mut holders = Vec::new();
        let mut shares = Vec::new();
        for (holder, reveal) in self.reveals.iter().take(threshold) {
            for share in reveal
                .self_shares
                .iter()
                .filter(|share| (share.owner, share.cluster) == (client, cluster))
            {
                holders.push(*holder);
                shares.push(Share::from_bytes(share.share).map_err(bad)?);
            }
        }
        Reconstructor::new(&holders)
            .and_then(|whole| whole.reconstruct(shares.iter()))
            .map_err(bad)
    }
}

/// Pearson's statistic of four bits of each word over sixteen equal classes.
#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
fn chi_square(words: &[u32], shift: u32) -> f64 {
    let mut counts = [0u32; 16];
    for word in words {
        if let Some(count) = counts.get_mut((word >> shift & 15) as usize) {
            *count += 1;
        }
    }
    let expected = words.len() as f64 / 16.0;
    counts
        .iter()
        .map(|count| (f64::from(*count) - expected).powi(2) / expected)
        .sum()
}

/// With 15 degrees of freedom a uniform vector exceeds this once in some 10^8 tests.
const UNLIKELY: f64 = 70.0;
