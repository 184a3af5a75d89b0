//! What the hand does against the rules.

use crate::hand::THRESHOLD;
use veilsum_attestation::statement::*;
use veilsum_crypto::ClientId;

/// What is done against the rules.
pub(crate) struct Tricks {
    /// Clients that deal shares and upload nothing.
    pub(crate) dropped: Vec<u32>,
    /// How many survivors reveal, in order.
    pub(crate) revealers: usize,
    /// Commits to another seed than it deals and masks with.
    pub(crate) false_commitment: Option<u32>,
    /// Deals its seed on a polynomial of degree t whose first t shares give what it committed to.
    pub(crate) high_degree: Option<u32>,
    /// Deals shares of another mask secret than its public key's.
    pub(crate) false_mask_shares: Option<u32>,
    /// Uses its keys of the last attempt.
    pub(crate) old_keys: Option<u32>,
    /// Says it masks over fewer dealers than there are.
    pub(crate) other_sharers: Option<u32>,
    /// Joins on the empty head.
    pub(crate) other_head: Option<u32>,
    /// Leaves its pairwise masks out.
    pub(crate) bare: Option<u32>,
    /// Sends a weight that cancels the others' modulo 2^m.
    pub(crate) weightless: Option<u32>,
    pub(crate) finish: Finish,
    pub(crate) bend: Bend,
}

/// Changes to single statements, before they are signed.
pub(crate) struct Bend {
    pub(crate) plan: fn(&mut Plan),
    pub(crate) keys: fn(ClientId, &mut Keys),
    pub(crate) shares: fn(ClientId, &mut Shares),
    pub(crate) masked: fn(ClientId, &mut Masked),
    /// What all agree on.
    pub(crate) agree: fn(&mut Agree),
    /// What one client signs.
    pub(crate) sign: fn(ClientId, &mut Agree),
    pub(crate) reveal: fn(ClientId, &mut Reveal),
    pub(crate) sums: fn(&mut Sums),
    pub(crate) aborted: fn(&mut Aborted),
    /// Whether a client keeps a statement to itself.
    pub(crate) silent: fn(Kind, ClientId) -> bool,
    /// Clients that sign and reveal besides those that may.
    pub(crate) intruders: Vec<u32>,
    /// Written by the server before the reveals.
    pub(crate) late: Option<Late>,
}

impl Default for Bend {
    fn default() -> Self {
        Self {
            plan: |_| {},
            keys: |_, _| {},
            shares: |_, _| {},
            masked: |_, _| {},
            agree: |_| {},
            sign: |_, _| {},
            reveal: |_, _| {},
            sums: |_| {},
            aborted: |_| {},
            silent: |_, _| false,
            intruders: Vec::new(),
            late: None,
        }
    }
}

/// How the federation is founded, against the rules or not.
pub(crate) struct Founding {
    pub(crate) member: fn(&mut Member),
    pub(crate) policy: fn(&mut Policy),
    pub(crate) enrolled_by: Party,
    pub(crate) signed_by: Party,
}

impl Default for Founding {
    fn default() -> Self {
        Self {
            member: |_| {},
            policy: |_| {},
            enrolled_by: Party::Authority,
            signed_by: Party::Authority,
        }
    }
}

/// How the attempt ends.
pub(crate) enum Finish {
    Sums,
    Aborted(&'static str, Vec<u32>),
    Nothing,
}

impl Default for Tricks {
    fn default() -> Self {
        Self {
            dropped: Vec::new(),
            revealers: THRESHOLD,
            false_commitment: None,
            high_degree: None,
            false_mask_shares: None,
            old_keys: None,
            other_sharers: None,
            other_head: None,
            bare: None,
            weightless: None,
            finish: Finish::Sums,
            bend: Bend::default(),
        }
    }
}
