//! Waits for: the learner's updates, then the roster. Sends: `keys`. May drop here: yes, no mask is owed before shares.
//! Fresh keys and self-mask seeds every attempt (Bonawitz et al. 2017, round 0, with a commitment to each seed).

use super::plan::{Scope, Training};
use super::{ClientUpdate, Membership};
use crate::message::{EntryBytes, ToServer};
use crate::refusal::Refusal;
use crate::update::Quantised;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use veilsum_attestation::statement::{Commitment, Keys, Party, Signed};
use veilsum_crypto::commit::commit;
use veilsum_crypto::{BoundedVec, BoxSecret, ClusterId, MaskSecret, SelfSeed, WireError};

/// The secrets of one attempt. Dropped, and so wiped, when the round ends.
pub(super) struct Secrets {
    pub(super) boxes: BoxSecret,
    pub(super) masks: MaskSecret,
    pub(super) seeds: BTreeMap<ClusterId, SelfSeed>,
}

/// Keys are out; waiting for everybody else's.
pub(super) struct Advertised {
    pub(super) scope: Scope,
    pub(super) secrets: Secrets,
    pub(super) quantised: BTreeMap<ClusterId, Quantised>,
    pub(super) keys: EntryBytes,
}

impl Training {
    pub(super) fn on_update<R: CryptoRng>(
        self,
        member: &Membership,
        updates: &[ClientUpdate],
        weight: u32,
        rng: &mut R,
    ) -> Result<(Advertised, ToServer), Refusal> {
        let scope = self.scope;
        if updates.len() != scope.mine.len() {
            return Err(Refusal::WrongClusters);
        }
        let mut quantised = BTreeMap::new();
        for (update, (cluster, model)) in updates.iter().zip(&scope.mine) {
            if update.cluster != *cluster {
                return Err(Refusal::WrongClusters);
            }
            if update.model != *model {
                return Err(Refusal::WrongModel { cluster: *cluster });
            }
            quantised.insert(
                *cluster,
                Quantised::encode(&update.delta, weight, &member.policy.update, rng)?,
            );
        }
        let seeds: BTreeMap<ClusterId, SelfSeed> = scope
            .mine
            .iter()
            .map(|(cluster, _)| (*cluster, SelfSeed::generate(rng)))
            .collect();
        let secrets = Secrets {
            boxes: BoxSecret::generate(rng),
            masks: MaskSecret::generate(rng),
            seeds,
        };
        let commitments = secrets
            .seeds
            .iter()
            .map(|(cluster, seed)| Commitment {
                cluster: *cluster,
                digest: commit(seed, member.me, *cluster, &scope.context),
            })
            .collect();
        let body = Keys {
            plan: scope.leaf,
            box_key: secrets.boxes.public(),
            mask_key: secrets.masks.public(),
            commitments: BoundedVec::new(commitments).map_err(|_| Refusal::WrongClusters)?,
            head: scope.plan.head,
        };
        let keys = sign(member, body, rng)?;
        Ok((
            Advertised {
                scope,
                secrets,
                quantised,
                keys: keys.clone(),
            },
            ToServer::Keys(keys),
        ))
    }
}

/// Signs a statement as this client and gives its entry's bytes.
pub(super) fn sign<S: veilsum_attestation::statement::Statement, R: CryptoRng>(
    member: &Membership,
    body: S,
    rng: &mut R,
) -> Result<EntryBytes, Refusal> {
    let signed = Signed::make(
        body,
        Party::Client(member.me),
        &member.identity,
        member.book.federation(),
        rng,
    )?;
    entry_bytes(signed.bytes()?)
}

fn entry_bytes(bytes: Vec<u8>) -> Result<EntryBytes, Refusal> {
    let got = bytes.len();
    BoundedVec::new(bytes).map_err(|_| {
        Refusal::Wire(WireError::OwnTooLong {
            kind: "entry",
            got,
            max: 65_535,
        })
    })
}
