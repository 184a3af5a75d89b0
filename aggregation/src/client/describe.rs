//! Between rounds: says what this client's data looks like, when the policy asks for it. The descriptor is the driver's;
//! the word that it is this client's, once for each clustering, is signed here.

use super::{Client, ClientOutput, Membership};
use crate::message::{Described, NotDescribed, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use veilsum_attestation::statement::{Descriptor, Party, Signed, descriptor_digest};
use veilsum_crypto::{Attempt, BoundedVec, RoundId, WireError};

/// Whether the policy has a clustering of that number, and this client has not taken part in a later one.
///
/// A client that was away cannot know which clustering is next, so it answers any later one. What that gives away is
/// bounded: every clustering of the policy is in the budget that its organisation agreed to.
pub(super) fn check(
    member: &Membership,
    clustering: u64,
    last: Option<(RoundId, Attempt)>,
) -> Result<(), Refusal> {
    let Some(rule) = member.policy.clustering else {
        return Err(Refusal::NoClustering(clustering));
    };
    if !(1..=rule.number(RoundId(member.policy.rounds))).contains(&clustering) {
        return Err(Refusal::NoClustering(clustering));
    }
    if last.is_some_and(|(round, _)| clustering < rule.number(round)) {
        return Err(Refusal::OldClustering(clustering));
    }
    Ok(())
}

impl<R: CryptoRng> Client<R> {
    /// Signs the descriptor that [`ClientOutput::Describe`] asked for.
    ///
    /// The driver keeps the answer before it is sent, and sends the kept one whenever it is asked again: a second descriptor
    /// for one clustering would be new noise on the same data.
    ///
    /// # Errors
    /// [`Refusal`] for a clustering the policy does not have, or a descriptor that exceeds a message.
    pub fn described(&mut self, clustering: u64, descriptor: Vec<u8>) -> Result<(), Refusal> {
        check(&self.member, clustering, self.last)?;
        let got = descriptor.len();
        let body = Descriptor {
            policy: self.member.policy_leaf,
            clustering,
            digest: descriptor_digest(&descriptor),
        };
        let signed = Signed::make(
            body,
            Party::Client(self.member.me),
            &self.member.identity,
            self.member.book.federation(),
            &mut self.rng,
        )?;
        let too_long = |got, max| WireError::OwnTooLong {
            kind: "descriptor",
            got,
            max,
        };
        let entry = signed.bytes()?;
        let length = entry.len();
        let described = Described {
            entry: BoundedVec::new(entry).map_err(|_| too_long(length, MAX_ENTRY))?,
            descriptor: BoundedVec::new(descriptor).map_err(|_| too_long(got, Described::MAX_DESCRIPTOR))?,
        };
        self.outputs.push_back(ClientOutput::KeepDescriptor {
            clustering,
            described: described.clone(),
        });
        self.send(ToServer::Described(described));
        Ok(())
    }

    /// Tells the server that there will be no descriptor, so that it does not wait. It hears the name of the reason only.
    pub fn not_described(&mut self, clustering: u64, reason: &str) {
        self.send(ToServer::NotDescribed(NotDescribed::named(clustering, reason)));
    }
}

const MAX_ENTRY: usize = 65_535;
