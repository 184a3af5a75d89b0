//! Waits for: `reveal` from t of those who agreed. Sends: the sums. May drop here: anybody, while t have revealed.
//! Every share is checked against its dealer's digest before it is used, so a wrong one names its revealer; a secret
//! that still comes out wrong names its dealer.

use super::share::Round;
use super::{Core, Opened, Outcome, PhaseName};
use crate::abort::Abort;
use crate::mask::MaskScope;
use crate::message::Agreement;
use crate::refusal::Refusal;
use crate::update;
use rand_core::CryptoRng;
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use veilsum_attestation::model_digest;
use veilsum_attestation::statement::{Agree, ClientSet, ClusterResult, Reveal, Shares, Sums};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::commit::commit;
use veilsum_crypto::share::{Reconstructor, Secret, Shared, share_digest};
use veilsum_crypto::{
    BoundedVec, ClientId, ClusterId, Digest, MaskPublic, MaskSecret, SelfSeed, Share, WireError,
};

/// What is opened once t have revealed.
pub(super) struct Unmasking {
    pub(super) round: Round,
    pub(super) dealers: BTreeMap<ClientId, Shares>,
    /// The dealers of bad boxes, each with the clients that have no share of it.
    pub(super) complaints: BTreeMap<ClientId, BTreeSet<ClientId>>,
    pub(super) sums: BTreeMap<ClusterId, Vec<u32>>,
    pub(super) agree: Agree,
}

/// Shares so far, by revealer.
pub(super) struct Unmask {
    round: Round,
    dealers: BTreeMap<ClientId, Shares>,
    complaints: BTreeMap<ClientId, BTreeSet<ClientId>>,
    sums: BTreeMap<ClusterId, Vec<u32>>,
    agree: Agree,
    digest: Digest,
    /// What every signer was sent, for those that come back without it.
    agreement: Agreement,
    revealed: BTreeMap<ClientId, Opening>,
}

/// One revealer's shares, each matching its dealer's digest.
struct Opening {
    seeds: BTreeMap<(ClientId, ClusterId), Share>,
    masks: BTreeMap<ClientId, Share>,
}

impl Unmask {
    pub(super) fn new(next: Unmasking, agreement: Agreement) -> Result<Self, WireError> {
        let digest = next.agree.digest()?;
        Ok(Self {
            round: next.round,
            dealers: next.dealers,
            complaints: next.complaints,
            sums: next.sums,
            agree: next.agree,
            digest,
            agreement,
            revealed: BTreeMap::new(),
        })
    }

    pub(super) fn agreement(&self) -> Agreement {
        self.agreement.clone()
    }

    /// Whether `holder` has a share of `owner`: not if the box was bad.
    fn has(&self, holder: ClientId, owner: ClientId) -> bool {
        !self
            .complaints
            .get(&owner)
            .is_some_and(|receivers| receivers.contains(&holder))
    }

    pub(super) fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &[u8],
    ) -> Result<(), Refusal> {
        let signed = core.read::<Reveal>(entry, from)?;
        let reveal = signed.body();
        if reveal.agreement != self.digest {
            return Err(Refusal::WrongContext);
        }
        if self.revealed.contains_key(&from) {
            return Err(Refusal::AlreadyAnswered);
        }
        let opening = self.check(core, from, reveal)?;
        core.record_bytes(entry);
        self.revealed.insert(from, opening);
        Ok(())
    }

    /// Takes a reveal back from the log, where it stands already.
    pub(super) fn take_back<R>(
        &mut self,
        core: &Core<R>,
        from: ClientId,
        entry: &[u8],
    ) -> Result<(), Refusal> {
        let signed = veilsum_attestation::statement::Signed::<Reveal>::parse(entry)?;
        let reveal = signed.peek().body();
        if reveal.agreement != self.digest {
            return Err(Refusal::WrongContext);
        }
        let opening = self.check(core, from, reveal)?;
        self.revealed.insert(from, opening);
        Ok(())
    }

    /// Whether every secret the agreement asks for has `need` good shares.
    pub(super) fn is_enough(&self, need: usize) -> bool {
        self.have() >= need
    }

    /// All shares the agreement asks of `from`, no more, no fewer, each as its dealer stated.
    fn check<R>(&self, core: &Core<R>, from: ClientId, reveal: &Reveal) -> Result<Opening, Refusal> {
        let bad = Refusal::BadShare { dealer: from };
        let wanted_seeds = self.wanted_seeds(core);
        if !reveal
            .self_shares
            .iter()
            .map(|share| (share.owner, share.cluster))
            .eq(wanted_seeds
                .into_iter()
                .filter(|(owner, _)| self.has(from, *owner)))
        {
            return Err(bad);
        }
        if !reveal
            .mask_shares
            .iter()
            .map(|share| share.owner)
            .eq(self.dropped().filter(|owner| self.has(from, *owner)))
        {
            return Err(bad);
        }
        let read = |owner: ClientId, cluster: Option<ClusterId>, bytes: [u8; 32]| -> Result<Share, Refusal> {
            let share = Share::from_bytes(bytes)?;
            let clusters: Vec<_> = core.plan.clusters_of(owner).map(|(cluster, _)| cluster).collect();
            let stated = self
                .dealers
                .get(&owner)
                .and_then(|shares| shares.digest_for(from, cluster, self.round.roster.keys(), &clusters));
            let secret = cluster.map_or(Secret::MaskKey, Secret::SelfMask);
            let digest = share_digest(&share, owner, from, secret, &self.round.context);
            if stated == Some(digest) {
                Ok(share)
            } else {
                Err(bad.clone())
            }
        };
        let seeds = reveal
            .self_shares
            .iter()
            .map(|share| {
                Ok((
                    (share.owner, share.cluster),
                    read(share.owner, Some(share.cluster), share.share)?,
                ))
            })
            .collect::<Result<_, Refusal>>()?;
        let masks = reveal
            .mask_shares
            .iter()
            .map(|share| Ok((share.owner, read(share.owner, None, share.share)?)))
            .collect::<Result<_, Refusal>>()?;
        Ok(Opening { seeds, masks })
    }

    fn dropped(&self) -> impl Iterator<Item = ClientId> {
        self.agree
            .sharers
            .iter()
            .copied()
            .filter(|client| !self.agree.survivors.contains(client))
    }

    fn wanted_seeds<R>(&self, core: &Core<R>) -> Vec<(ClientId, ClusterId)> {
        self.agree
            .survivors
            .iter()
            .flat_map(|owner| {
                core.plan
                    .clusters_of(*owner)
                    .map(|(cluster, _)| (*owner, cluster))
            })
            .filter(|(_, cluster)| self.agree.release.contains(cluster))
            .collect()
    }

    /// Good shares there are of the secret that has the fewest.
    fn have(&self) -> usize {
        let spoilt = self
            .complaints
            .iter()
            .filter(|(owner, _)| self.agree.sharers.contains(owner))
            .map(|(_, receivers)| {
                self.revealed
                    .keys()
                    .filter(|client| receivers.contains(client))
                    .count()
            })
            .max()
            .unwrap_or_default();
        self.revealed.len() - spoilt
    }

    /// The phase ends once there are t good shares of every secret (more would be opened without need), or when nobody who
    /// could still answer is left.
    pub(super) fn count(&self, present: &BTreeSet<ClientId>, need: usize) -> (usize, usize) {
        let pending = present
            .iter()
            .filter(|client| !self.revealed.contains_key(client))
            .count();
        let have = self.have();
        (have, need.min(have + pending))
    }

    pub(super) fn finish<R: CryptoRng>(self, core: &mut Core<R>) -> Result<(), (Abort, PhaseName)> {
        let (have, need) = (self.have(), core.threshold());
        if have < need {
            return Err((Abort::TooFewReveal { have, need }, PhaseName::Unmask));
        }
        self.open(core, need).map_err(|abort| (abort, PhaseName::Unmask))
    }

    fn open<R: CryptoRng>(mut self, core: &mut Core<R>, need: usize) -> Result<(), Abort> {
        let internal = Abort::Internal("a revealed share is missing");
        let answering = std::mem::take(&mut self.revealed);
        let mut whole = Reconstructors::default();

        let mut masks = BTreeMap::new();
        for owner in self.dropped() {
            let shares = answering
                .iter()
                .filter_map(|(client, opening)| Some((*client, opening.masks.get(&owner)?)));
            let secret: MaskSecret = whole.open(shares, need).ok_or(internal.clone())?;
            let keys = self.round.roster.get(&owner).ok_or(internal.clone())?;
            if !secret.matches(&keys.mask_key) {
                return Err(Abort::BadDealer { client: owner });
            }
            masks.insert(owner, secret);
        }
        let mut seeds: BTreeMap<(ClientId, ClusterId), SelfSeed> = BTreeMap::new();
        for (owner, cluster) in self.wanted_seeds(core) {
            let shares = answering
                .iter()
                .filter_map(|(client, opening)| Some((*client, opening.seeds.get(&(owner, cluster))?)));
            let seed: SelfSeed = whole.open(shares, need).ok_or(internal.clone())?;
            let digest = commit(&seed, owner, cluster, &self.round.context.plan);
            let keys = self.round.roster.get(&owner).ok_or(internal.clone())?;
            if !keys
                .commitments
                .iter()
                .any(|commitment| commitment.cluster == cluster && commitment.digest == digest)
            {
                return Err(Abort::BadDealer { client: owner });
            }
            seeds.insert((owner, cluster), seed);
        }

        // Every secret holds: only now is anything opened.
        let mut opened = Vec::new();
        for cluster in &self.agree.release {
            let sum = self.sums.remove(cluster).ok_or(internal.clone())?;
            opened.push(self.open_cluster(core, *cluster, sum, &seeds, &masks)?);
        }
        let modulus = core.setup.policy.update.modulus;
        let results = opened
            .iter()
            .map(|opened| ClusterResult {
                cluster: opened.cluster,
                sum: Chunking::new(modulus, opened.sum.len()).root_of(&opened.sum),
                contributors: opened.contributors,
                weight: opened.sum.last().map_or(0, |word| u64::from(*word)),
                model: model_digest(&opened.model),
            })
            .collect();
        let sums = Sums {
            plan: core.plan_leaf,
            agreement: self.digest,
            results: BoundedVec::new(results).map_err(|_| internal)?,
        };
        let withheld = core
            .plan
            .numbered()
            .map(|(cluster, _)| cluster)
            .filter(|cluster| !self.agree.release.contains(cluster))
            .collect();
        let outcome = Outcome {
            round: core.plan.round,
            survivors: self.agree.survivors,
            opened,
            withheld,
        };
        core.publish(sums, outcome)
    }

    fn open_cluster<R: CryptoRng>(
        &self,
        core: &Core<R>,
        cluster: ClusterId,
        mut sum: Vec<u32>,
        seeds: &BTreeMap<(ClientId, ClusterId), SelfSeed>,
        masks: &BTreeMap<ClientId, MaskSecret>,
    ) -> Result<Opened, Abort> {
        let internal = Abort::Internal("a cluster of the release is not in the plan");
        let plan = core.plan.cluster(cluster).ok_or(internal.clone())?;
        let model = core.models.get(usize::from(cluster.0)).ok_or(internal)?;
        let here: ClientSet = plan
            .members
            .intersection(&self.agree.survivors)
            .copied()
            .collect();
        let keys: BTreeMap<ClientId, MaskPublic> = self
            .round
            .roster
            .iter()
            .map(|(client, keys)| (*client, keys.mask_key))
            .collect();
        let scope = MaskScope {
            context: &self.round.context,
            cluster,
            model: plan.model,
        };
        let mut on = scope.masks();
        for ((owner, _), seed) in seeds.iter().filter(|((_, of), _)| *of == cluster) {
            on.survivor(*owner, seed);
        }
        for (dropped, secret) in masks.iter().filter(|(client, _)| plan.members.contains(client)) {
            on.dropped(*dropped, secret, &here, &keys)
                .map_err(|_| Abort::BadDealer { client: *dropped })?;
        }
        on.apply(&mut sum);
        let rule = &core.setup.policy.update;
        for word in &mut sum {
            *word = rule.modulus.reduce(*word);
        }
        let contributors = u32::try_from(here.len()).unwrap_or(u32::MAX);
        let moved = update::apply(model, &sum, contributors, rule)
            .map_err(|_| Abort::Internal("a sum does not fit its model"))?;
        Ok(Opened {
            cluster,
            sum,
            contributors,
            model: Arc::from(moved),
        })
    }
}

/// Interpolation coefficients by who holds the shares: nearly always the same t clients.
#[derive(Default)]
struct Reconstructors(BTreeMap<Vec<ClientId>, Reconstructor>);

impl Reconstructors {
    /// A secret from the first `need` of its good shares; `None` when there are fewer.
    fn open<'a, S: Shared>(
        &mut self,
        shares: impl Iterator<Item = (ClientId, &'a Share)>,
        need: usize,
    ) -> Option<S> {
        let (holders, shares): (Vec<ClientId>, Vec<&Share>) = shares.take(need).unzip();
        if holders.len() < need {
            return None;
        }
        let whole = match self.0.entry(holders) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let whole = Reconstructor::new(slot.key()).ok()?;
                slot.insert(whole)
            }
        };
        whole.reconstruct(shares.into_iter()).ok()
    }
}
