//! One value's secrecy, bytes and arithmetic.
//!
//! No I/O, no clock and no global random generator live here: randomness is an argument, so a seed replays a round.
//! Everything two implementations must agree on byte for byte starts in [`wire`] (canonical encoding) and [`label`]
//! (domain-separated hashing).
//!
//! Reading order: [`id`] names things, [`label`] hashes them, [`wire`] writes them down; [`identity`] says who signed;
//! [`context`] is what every derivation is bound to; [`agree`] gives two clients one seed, [`share`] lets t of n give a
//! secret back, [`seal`] carries shares between clients and
//! [`dispute`] opens one box to everybody; [`stream`] turns a seed into masks, [`residue`] holds the masked
//! numbers and [`chunk`] commits to them; [`commit`] is what an auditor checks afterwards.

pub mod agree;
pub mod chunk;
pub mod commit;
pub mod context;
pub mod dispute;
pub mod id;
pub mod identity;
pub mod label;
pub mod residue;
pub mod seal;
mod secret;
pub mod share;
pub mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod wire;

pub use agree::{AgreeError, BoxPublic, BoxSecret, MaskPublic, MaskSecret, PairSecret};
pub use context::{PlanContext, RoundContext};
pub use dispute::{BoxEnds, BoxOpening};
pub use id::{Attempt, ClientId, ClusterId, OrgId, RoundId, SuiteId};
pub use identity::{Identity, IdentityError, PublicIdentity, Signature, Unverified, Verified};
pub use label::{Digest, Label};
pub use residue::{Modulus, ResidueError};
pub use share::{SelfSeed, Share, ShareError};
pub use stream::{MaskStream, StreamSeed};
pub use wire::{BoundedVec, Wire, WireError};
