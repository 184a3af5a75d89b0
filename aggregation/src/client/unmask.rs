//! Waits for: at least t signatures on what this client signed, then the sums. Sends: `reveal`, once. May drop here:
//! yes, while t others answer. (Bonawitz et al. 2017, round 4.)

use super::advertise::sign;
use super::agree::Agreed;
use super::plan::Scope;
use super::{ClientOutput, Membership};
use crate::message::{Agreement, EntryBytes, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::BTreeSet;
use veilsum_attestation::statement::{Agree, MaskShare, Party, Reveal, SelfShare, Signed, Sums};
use veilsum_crypto::{BoundedVec, ClusterId, Digest};

/// This client has answered; the shares it held are gone.
pub(super) struct Revealed {
    pub(super) scope: Scope,
    pub(super) agreement: Digest,
    pub(super) release: Vec<ClusterId>,
    /// The answer, for a server that may not have it: never another.
    pub(super) entry: EntryBytes,
}

impl Agreed {
    pub(super) fn on_agreement<R: CryptoRng>(
        self,
        member: &Membership,
        message: &Agreement,
        rng: &mut R,
    ) -> Result<(Revealed, ToServer), Refusal> {
        let mut signers = BTreeSet::new();
        for entry in &message.agrees {
            let signed = member.book.verify(Signed::<Agree>::parse(entry)?)?.into_inner();
            if *signed.body() != self.agree {
                return Err(Refusal::SplitView(
                    "another client signed another survivor set, head or release",
                ));
            }
            match signed.signer() {
                Party::Client(client) if self.agree.survivors.contains(&client) => signers.insert(client),
                _ => {
                    return Err(Refusal::SplitView(
                        "the agreement is signed by somebody who is no survivor",
                    ));
                }
            };
        }
        let need = member.policy.threshold as usize;
        if signers.len() < need {
            return Err(Refusal::TooFew {
                what: "signatures on the agreement",
                have: signers.len(),
                need,
            });
        }
        let (mut self_shares, mut mask_shares) = (Vec::new(), Vec::new());
        for (owner, held) in &self.held {
            // One kind or the other, never both: the branch is on membership of one set.
            if self.agree.survivors.contains(owner) {
                self_shares.extend(
                    held.seeds
                        .iter()
                        .filter(|(cluster, _)| self.agree.release.contains(cluster))
                        .map(|(cluster, share)| SelfShare {
                            owner: *owner,
                            cluster: *cluster,
                            share: *share.to_bytes(),
                        }),
                );
            } else {
                mask_shares.push(MaskShare {
                    owner: *owner,
                    share: *held.mask.to_bytes(),
                });
            }
        }
        let agreement = self.agree.digest()?;
        let body = Reveal {
            agreement,
            self_shares: BoundedVec::new(self_shares)
                .map_err(|_| Refusal::BadInbox("too many shares for one reveal"))?,
            mask_shares: BoundedVec::new(mask_shares)
                .map_err(|_| Refusal::BadInbox("too many shares for one reveal"))?,
        };
        let entry = sign(member, body, rng)?;
        let release = self.agree.release.to_vec();
        Ok((
            Revealed {
                scope: self.scope,
                agreement,
                release,
                entry: entry.clone(),
            },
            ToServer::Reveal(entry),
        ))
    }
}

impl Revealed {
    pub(super) fn on_sums(self, member: &Membership, sums: &Sums) -> Result<ClientOutput, Refusal> {
        if sums.plan != self.scope.leaf || sums.agreement != self.agreement {
            return Err(Refusal::WrongContext);
        }
        if !sums
            .results
            .iter()
            .map(|result| result.cluster)
            .eq(self.release.iter().copied())
        {
            return Err(Refusal::SplitView(
                "the sums opened are not the clusters agreed on",
            ));
        }
        let mine = self.scope.plan.clusters_of(member.me).map(|(cluster, _)| cluster);
        let (released, withheld): (Vec<_>, Vec<_>) = mine.partition(|cluster| self.release.contains(cluster));
        let models = sums
            .results
            .iter()
            .filter(|result| released.contains(&result.cluster))
            .map(|result| (result.cluster, result.model))
            .collect();
        Ok(ClientOutput::Done {
            round: self.scope.plan.round,
            models,
            withheld,
        })
    }
}
