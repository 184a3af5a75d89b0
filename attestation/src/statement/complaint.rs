//! `complaint`: a receiver shows everybody that the box a dealer signed for it holds no good shares. Signed by the receiver.
//!
//! Anybody can judge it: the box is the one under the dealer's signature, the opening is proved to be the right one, and
//! what comes out is not what the dealer stated. A complaint that does not hold convicts its maker instead.

use super::{Kind, Statement};
use crate::dealing::BoxPlace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use veilsum_crypto::{BoundedVec, BoxEnds, BoxOpening, BoxPublic, ClientId, Digest, Wire};

/// A bad box, opened to everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the roster.
    pub roster: Digest,
    /// Who sealed the box.
    pub dealer: ClientId,
    /// The box: ciphertext and tag.
    pub sealed: BoundedVec<u8, 4096>,
    /// Proof that it is under the dealer's [`super::Shares::boxes`].
    pub proof: BoundedVec<Digest, 16>,
    /// Opens it.
    pub opening: BoxOpening,
}

impl Complaint {
    /// Whether the complaint convicts the dealer. `place` is the box's, `keys` are the roster's box keys.
    ///
    /// # Errors
    /// [`FalseComplaint`]: the receiver is at fault.
    pub fn check(
        &self,
        place: &BoxPlace<'_>,
        keys: &BTreeMap<ClientId, BoxPublic>,
    ) -> Result<(), FalseComplaint> {
        if self.dealer != place.dealer || self.roster != place.shares.roster || self.plan != place.shares.plan
        {
            return Err(FalseComplaint::WrongContext);
        }
        if !place.is_the_box(&self.sealed, &self.proof) {
            return Err(FalseComplaint::NotTheBox);
        }
        let key = |client| keys.get(&client).copied().ok_or(FalseComplaint::WrongContext);
        let ends = BoxEnds {
            dealer: place.dealer,
            dealer_key: key(place.dealer)?,
            receiver: place.receiver,
            receiver_key: key(place.receiver)?,
        };
        let key = self
            .opening
            .seal_key(&ends, place.context)
            .map_err(|_| FalseComplaint::BadOpening)?;
        match place.open(key, self.sealed.to_vec()) {
            Some(_) => Err(FalseComplaint::GoodBox),
            None => Ok(()),
        }
    }
}

impl Wire for Complaint {
    const KIND: &'static str = "complaint";
    const MAX_LEN: usize = 32 * 2 + 4 + 8 + 4096 + 8 + 32 * 16 + 96;
}

impl Statement for Complaint {
    const ENTRY_KIND: Kind = Kind::Complaint;
}

/// Why a complaint does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FalseComplaint {
    /// About another round, or a dealer that dealt nothing.
    #[error("it is about another plan, roster or dealer")]
    WrongContext,
    /// The dealer never signed this box.
    #[error("the dealer never signed the box it shows")]
    NotTheBox,
    /// The opening is not proved.
    #[error("the opening's proof does not hold")]
    BadOpening,
    /// The box holds exactly what the dealer stated.
    #[error("the box holds exactly the shares its dealer stated")]
    GoodBox,
}
