//! The log as the C2SP transparency-log texts lay it out, so that tools written for other logs read ours.
//!
//! | file | text |
//! | --- | --- |
//! | `tile` | tlog-tiles: names and contents of tiles and entry bundles, proofs from tiles |
//! | `folder` | a log kept as such files, written beside and renamed |
//! | `cosignature` | tlog-cosignature, the Ed25519 form `cosignature/v1` |
//! | `proof` | tlog-proof: one entry, its place and the head, in one file |
//! | `policy` | tlog-policy: logs, witnesses, groups and a quorum |
//! | `witness` | tlog-witness: `add-checkpoint`, both ends, without sockets |
//! | `fork` | two heads of one log that do not fit each other, as a file anybody can check |
//!
//! Checkpoints and signed notes are in [`crate::checkpoint`] and [`crate::note`].

mod cosignature;
mod folder;
mod fork;
mod policy;
mod proof;
mod tile;
mod witness;

pub use cosignature::{Cosigner, CosignerKey};
pub use folder::{FolderError, LogFolder, Reopened};
pub use fork::{Fork, ForkError, Relation, compare};
pub use policy::{Accepted, Fault, Group, LogLine, PolicyFault, QuorumError, TrustPolicy, WitnessLine};
pub use proof::{LogProof, ProofError};
pub use tile::{TILE_WIDTH, Tile, TileError, TileKind, TileTree, join_entries, split_entries, tiles};
pub use witness::{
    AddCheckpoint, Answer, Asked, Exchange, Pending, Refused, RequestError, Stored, Witness, WitnessFault,
    WitnessState,
};
