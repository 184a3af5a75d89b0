//! What can be proved later.
//!
//! [`statement`] is the vocabulary: the signed bodies the parties exchange *are* the records. [`log`] keeps them in order
//! under a Merkle tree ([`merkle`]), a [`checkpoint`] signs its head as a C2SP [`note`], [`tlog`] lays it out in tiles and
//! has it witnessed, [`disclosure`] decides which overlapping sums may be opened, [`dealing`] is what a sealed box of
//! shares holds, [`block`] counts clients in groups, [`heir`] says which model a new cluster starts from, [`evidence`] convicts a party without a log, [`bundle`] is what an auditor is handed and [`audit`] replays it to a verdict.

pub mod audit;
pub mod block;
pub mod bundle;
pub mod checkpoint;
pub mod dealing;
pub mod disclosure;
pub mod evidence;
pub mod heir;
pub mod log;
pub mod merkle;
pub mod model;
pub mod note;
pub mod release;
pub mod statement;
pub mod tlog;

pub use audit::{Auditor, Trust};
pub use bundle::{BundleReader, BundleWriter};
pub use log::{Head, Log};
pub use model::model_digest;
