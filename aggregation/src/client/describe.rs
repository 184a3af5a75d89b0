//! Between rounds: says what this client's data looks like, when the policy asks for it. The descriptor is the driver's;
//! the word that it is this client's, once for each clustering, is signed here.

use super::{Client, ClientOutput, Membership};
use crate::message::{Describe, Described, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use veilsum_attestation::statement::{Descriptor, Party, Signed, descriptor_digest};
use veilsum_crypto::{BoundedVec, RoundId, WireError};

/// Whether the policy has a clustering of that number.
pub(super) fn check(member: &Membership, ask: Describe) -> Result<(), Refusal> {
    let has = member
        .policy
        .clustering
        .is_some_and(|rule| (1..=rule.number(RoundId(member.policy.rounds))).contains(&ask.clustering));
    if has {
        Ok(())
    } else {
        Err(Refusal::NoClustering(ask.clustering))
    }
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
        check(&self.member, Describe { clustering })?;
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
}

const MAX_ENTRY: usize = 65_535;
