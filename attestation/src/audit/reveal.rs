//! Were exactly the agreed shares opened, by signers of the agreement, each share as its dealer stated it; was nobody's
//! self-mask *and* mask secret opened; and do the shares give the secrets their owners committed to, whichever t of them
//! are used?

use super::agreement::Agreed;
use super::complaint::Complaints;
use super::report::{Check, Report};
use super::scene::Scene;
use super::verdict::CheckName;
use crate::bundle::{End, Said};
use crate::statement::{ClientSet, Reveal};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_crypto::commit::commit;
use veilsum_crypto::share::{Reconstructor, Secret, ShareError, Shared, share_digest};
use veilsum_crypto::{ClientId, ClusterId, MaskSecret, SelfSeed, Share};

/// What the reveals of an attempt open.
#[derive(Default)]
pub(super) struct Opening {
    /// The self-mask seeds that came out as committed.
    pub(super) seeds: BTreeMap<(ClientId, ClusterId), SelfSeed>,
    /// The mask secrets of dropped clients that came out as published.
    pub(super) masks: BTreeMap<ClientId, MaskSecret>,
    /// Clients whose well-stated shares give another secret than they committed to.
    pub(super) bad_dealers: BTreeSet<ClientId>,
}

/// Good shares by what they open and who revealed them.
#[derive(Default)]
struct Shares {
    seeds: BTreeMap<(ClientId, ClusterId), BTreeMap<ClientId, Share>>,
    masks: BTreeMap<ClientId, BTreeMap<ClientId, Share>>,
}

/// Checks an attempt's reveals and puts the secrets together. Below the threshold nothing opens, which is as it must be
/// for an attempt that was aborted.
pub(super) fn check(
    scene: &Scene<'_>,
    agreed: Option<&Agreed<'_>>,
    complaints: &Complaints,
    report: &mut Report,
) -> Opening {
    let reveals = &scene.attempt.reveals;
    if reveals.is_empty() {
        return Opening::default();
    }
    one_kind(scene, report);
    let Some(agreed) = agreed else {
        return Opening::default();
    };
    requests(scene, agreed, complaints, report);
    let shares = stated(scene, report);

    let revealers: BTreeSet<ClientId> = reveals.iter().map(|(client, _)| *client).collect();
    if revealers.len() < scene.threshold() {
        return Opening::default();
    }
    // An abort that blames a dealer says itself that a secret does not come out; the ending's check holds it to that.
    let blamed = match &scene.attempt.end {
        Some(End::Aborted(said)) => said.body.culprits.clone(),
        Some(End::Sums(_)) | None => ClientSet::default(),
    };
    let mut opening = Opening::default();
    let mut bases = Bases::default();
    open_seeds(scene, agreed, &shares, &blamed, &mut opening, &mut bases, report);
    open_masks(scene, agreed, &shares, &blamed, &mut opening, &mut bases, report);
    opening
}

/// Both kinds for one client would open its single vector. Every reveal counts, wherever it stands and whatever else is
/// wrong with it.
fn one_kind(scene: &Scene<'_>, report: &mut Report) {
    let mut check = report.check(CheckName::OneKind, scene.place);
    let (mut selves, mut masks) = (BTreeSet::new(), BTreeSet::new());
    for (_, reveal) in &scene.attempt.reveals {
        selves.extend(reveal.body.self_shares.iter().map(|share| share.owner));
        masks.extend(reveal.body.mask_shares.iter().map(|share| share.owner));
    }
    for client in selves.intersection(&masks) {
        check.violated(|| {
            format!("shares of both the self-mask and the mask secret of {client} were revealed")
        });
    }
    check.done();
}

/// Who revealed, and which shares.
fn requests(scene: &Scene<'_>, agreed: &Agreed<'_>, complaints: &Complaints, report: &mut Report) {
    let mut check = report.check(CheckName::Reveals, scene.place);
    let seeds: BTreeSet<_> = wanted_seeds(scene, agreed).into_iter().collect();
    let masks: BTreeSet<_> = wanted_masks(agreed).into_iter().collect();
    for (client, reveal) in &scene.attempt.reveals {
        check.demand(agreed.signers.contains(client), || {
            format!("{client} revealed without having signed the agreement")
        });
        check.demand(reveal.body.agreement == agreed.digest, || {
            format!("{client} answered another agreement")
        });
        let own_seeds = seeds
            .iter()
            .copied()
            .filter(|(owner, _)| !complaints.between(*owner, *client))
            .collect();
        let own_masks = masks
            .iter()
            .copied()
            .filter(|owner| !complaints.between(*owner, *client))
            .collect();
        requested(&mut check, *client, reveal, &own_seeds, &own_masks);
    }
    check.done();
}

fn requested(
    check: &mut Check<'_>,
    client: ClientId,
    reveal: &Said<Reveal>,
    seeds: &BTreeSet<(ClientId, ClusterId)>,
    masks: &BTreeSet<ClientId>,
) {
    let given: Vec<_> = reveal
        .body
        .self_shares
        .iter()
        .map(|share| (share.owner, share.cluster))
        .collect();
    let own: BTreeSet<_> = given.iter().copied().collect();
    for (owner, cluster) in own.difference(seeds) {
        check.violated(|| {
            format!(
                "{client} revealed a self-mask share of {owner} for {cluster}, which was not to be opened"
            )
        });
    }
    for (owner, cluster) in seeds.difference(&own) {
        check.violated(|| format!("{client} withheld its self-mask share of {owner} for {cluster}"));
    }
    let given_masks: Vec<_> = reveal.body.mask_shares.iter().map(|share| share.owner).collect();
    let own: BTreeSet<_> = given_masks.iter().copied().collect();
    for owner in own.difference(masks) {
        check.violated(|| format!("{client} revealed a mask share of {owner}, who did not drop"));
    }
    for owner in masks.difference(&own) {
        check.violated(|| format!("{client} withheld its mask share of {owner}, who dropped"));
    }
    // The same shares in another order, or one of them twice, is another statement than the one asked for.
    let sorted = given.is_sorted_by(|a, b| a < b) && given_masks.is_sorted_by(|a, b| a < b);
    check.demand(sorted, || {
        format!("{client} revealed a share twice, or out of order")
    });
}

/// Every share against its dealer's statement. Only those that match are used further.
fn stated(scene: &Scene<'_>, report: &mut Report) -> Shares {
    let mut check = report.check(CheckName::Shares, scene.place);
    let mut shares = Shares::default();
    for (revealer, reveal) in &scene.attempt.reveals {
        for given in &reveal.body.self_shares {
            if let Some(share) = read(scene, *revealer, given.owner, Some(given.cluster), given.share) {
                let slot = shares.seeds.entry((given.owner, given.cluster)).or_default();
                slot.insert(*revealer, share);
            } else {
                check.violated(|| {
                    format!(
                        "{revealer} revealed another self-mask share of {} for {} than it was dealt",
                        given.owner, given.cluster
                    )
                });
            }
        }
        for given in &reveal.body.mask_shares {
            if let Some(share) = read(scene, *revealer, given.owner, None, given.share) {
                shares
                    .masks
                    .entry(given.owner)
                    .or_default()
                    .insert(*revealer, share);
            } else {
                check.violated(|| {
                    format!(
                        "{revealer} revealed another mask share of {} than it was dealt",
                        given.owner
                    )
                });
            }
        }
    }
    check.done();
    shares
}

/// A share, if it is the one its dealer stated for the revealer.
fn read(
    scene: &Scene<'_>,
    revealer: ClientId,
    dealer: ClientId,
    cluster: Option<ClusterId>,
    bytes: [u8; 32],
) -> Option<Share> {
    let share = Share::from_bytes(bytes).ok()?;
    let roster = scene.attempt.keys.keys();
    let dealt = &scene.attempt.shares.get(&dealer)?.body;
    let stated = dealt.digest_for(revealer, cluster, roster, &scene.clusters_of(dealer))?;
    let secret = cluster.map_or(Secret::MaskKey, Secret::SelfMask);
    (share_digest(&share, dealer, revealer, secret, &scene.context) == stated).then_some(share)
}

fn open_seeds(
    scene: &Scene<'_>,
    agreed: &Agreed<'_>,
    shares: &Shares,
    blamed: &ClientSet,
    opening: &mut Opening,
    bases: &mut Bases,
    report: &mut Report,
) {
    let mut check = report.check(CheckName::SelfSeeds, scene.place);
    for (owner, cluster) in wanted_seeds(scene, agreed) {
        let committed = scene.attempt.keys.get(&owner).and_then(|keys| {
            let commitments = &keys.body.commitments;
            commitments
                .iter()
                .find(|commitment| commitment.cluster == cluster)
                .map(|one| one.digest)
        });
        let matches = |seed: &SelfSeed| Some(commit(seed, owner, cluster, &scene.context.plan)) == committed;
        match whole(
            shares.seeds.get(&(owner, cluster)),
            scene.threshold(),
            bases,
            matches,
        ) {
            Whole::Opened(seed) => {
                opening.seeds.insert((owner, cluster), seed);
            }
            Whole::TooFew(have) => {
                check.violated(|| {
                    format!("only {have} good shares of the self-mask of {owner} for {cluster}")
                });
            }
            Whole::Wrong => {
                opening.bad_dealers.insert(owner);
                if !blamed.contains(&owner) {
                    check.violated(|| {
                        format!("{owner} dealt shares that do not give the self-mask it committed to for {cluster}")
                    });
                }
            }
        }
    }
    check.done();
}

fn open_masks(
    scene: &Scene<'_>,
    agreed: &Agreed<'_>,
    shares: &Shares,
    blamed: &ClientSet,
    opening: &mut Opening,
    bases: &mut Bases,
    report: &mut Report,
) {
    let mut check = report.check(CheckName::MaskSecrets, scene.place);
    for owner in wanted_masks(agreed) {
        let public = scene.attempt.keys.get(&owner).map(|keys| keys.body.mask_key);
        let matches = |secret: &MaskSecret| public.is_some_and(|public| secret.matches(&public));
        match whole(shares.masks.get(&owner), scene.threshold(), bases, matches) {
            Whole::Opened(secret) => {
                opening.masks.insert(owner, secret);
            }
            Whole::TooFew(have) => {
                check.violated(|| format!("only {have} good shares of the mask secret of {owner}"));
            }
            Whole::Wrong => {
                opening.bad_dealers.insert(owner);
                if !blamed.contains(&owner) {
                    check.violated(|| {
                        format!("{owner} dealt shares that do not give the mask secret of its public key")
                    });
                }
            }
        }
    }
    check.done();
}

/// A secret put together.
enum Whole<S> {
    Opened(S),
    TooFew(usize),
    Wrong,
}

/// Puts a secret together from its first t shares, then again with each further share in the place of the t-th: when all
/// give the same secret, all shares lie on one polynomial of degree below t, so every t of them give it.
fn whole<S: Shared>(
    shares: Option<&BTreeMap<ClientId, Share>>,
    threshold: usize,
    bases: &mut Bases,
    matches: impl Fn(&S) -> bool,
) -> Whole<S> {
    let shares: Vec<(ClientId, &Share)> = shares
        .into_iter()
        .flatten()
        .map(|(holder, share)| (*holder, share))
        .collect();
    let fixed = threshold.saturating_sub(1);
    let (Some(base), Some(others)) = (shares.get(..fixed), shares.get(fixed..)) else {
        return Whole::TooFew(shares.len());
    };
    let mut opened = None;
    for last in others {
        let chosen: Vec<(ClientId, &Share)> = base.iter().chain([last]).copied().collect();
        let secret = bases
            .of(chosen.iter().map(|(holder, _)| *holder).collect())
            .and_then(|whole| whole.reconstruct::<S>(chosen.iter().map(|(_, share)| *share)));
        match secret {
            Ok(secret) if matches(&secret) => opened = Some(secret),
            Ok(_) | Err(_) => return Whole::Wrong,
        }
    }
    opened.map_or(Whole::TooFew(shares.len()), Whole::Opened)
}

/// What puts the shares of one set of holders together. All secrets of an attempt have the same few sets, and coefficients
/// cost more than what is done with them.
#[derive(Default)]
struct Bases {
    known: BTreeMap<Vec<ClientId>, Reconstructor>,
    coefficients: usize,
}

impl Bases {
    fn of(&mut self, holders: Vec<ClientId>) -> Result<&Reconstructor, ShareError> {
        // Complaints can make ever other sets; memory stays bounded.
        if self.coefficients > MOST_COEFFICIENTS {
            *self = Self::default();
        }
        match self.known.entry(holders) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let made = Reconstructor::new(new.key())?;
                self.coefficients += new.key().len();
                Ok(new.insert(made))
            }
        }
    }
}

/// The self-mask seeds the agreement opens: every survivor's, in its released clusters, ascending.
fn wanted_seeds(scene: &Scene<'_>, agreed: &Agreed<'_>) -> Vec<(ClientId, ClusterId)> {
    let release: BTreeSet<ClusterId> = agreed.body.release.iter().copied().collect();
    agreed
        .body
        .survivors
        .iter()
        .flat_map(|owner| {
            scene
                .clusters_of(*owner)
                .into_iter()
                .map(|cluster| (*owner, cluster))
        })
        .filter(|(_, cluster)| release.contains(cluster))
        .collect()
}

/// The mask secrets the agreement opens: of everybody who dealt shares and did not upload, ascending.
fn wanted_masks(agreed: &Agreed<'_>) -> Vec<ClientId> {
    agreed
        .body
        .sharers
        .difference(&agreed.body.survivors)
        .copied()
        .collect()
}

/// Coefficients held at a time: some 36 MiB, the sets of a thousand clients twice over.
const MOST_COEFFICIENTS: usize = 1 << 20;
