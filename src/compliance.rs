//! The compliance engine: 54 scenarios of what can go wrong, each run with the real machines at several sizes, each with the
//! outcome it must have.
//!
//! ```text
//!   configs/scenarios/NN-name.toml ── scenario ──┐
//!                                    grid ───────┤  sizes, clusters
//!                                                v
//!        hand, script ──────> world <────── federation        the real machines, virtual time
//!                               │
//!                               v
//!        invariant, judge ──> run ──> table, page, junit, statement
//! ```
//!
//! Reading order: [`scenario`] is what people write, [`fault`] its vocabulary, [`run`] what becomes of it, [`coverage`] the
//! gate. A scenario is run by a deterministic scheduler: one seed gives one transcript.

pub mod catalog;
pub mod coverage;
pub mod fault;
pub mod grid;
pub mod junit;
pub mod page;
pub mod quic;
pub mod run;
pub mod scenario;
pub mod statement;
pub mod table;

mod check;
mod describing;
mod disk;
mod facts;
mod federation;
mod hand;
mod handshake;
mod invariant;
mod judge;
mod network;
mod script;
mod tap;
mod witnessing;
mod world;

use veilsum_aggregation::Refusal;
use veilsum_attestation::audit::AuditError;
use veilsum_attestation::bundle::BundleError;
use veilsum_attestation::statement::StatementError;
use veilsum_crypto::WireError;
use veilsum_transport::{PkiError, TransportError};

/// Why a scenario could not be run to its end. The scenario, its file or this engine is at fault, not the machines.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A word of the scenario file has no meaning here.
    #[error("{0}; see docs/compliance.md for the words a scenario may use")]
    Words(String),
    /// A statement that cannot be made.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// Bytes that cannot be made or read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A client that does not start.
    #[error(transparent)]
    Client(#[from] Refusal),
    /// A client that does not start from its journal.
    #[error("{0}")]
    Restore(String),
    /// There is no bundle.
    #[error("{0}")]
    Bundle(String),
    /// There is no verdict.
    #[error("{0}")]
    Audit(String),
    /// The loopback network.
    #[error("the network on loopback: {0}")]
    Network(String),
    /// A bug.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}

impl From<BundleError> for EngineError {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error.to_string())
    }
}

impl From<AuditError> for EngineError {
    fn from(error: AuditError) -> Self {
        Self::Audit(error.to_string())
    }
}

impl From<TransportError> for EngineError {
    fn from(error: TransportError) -> Self {
        Self::Network(error.to_string())
    }
}

impl From<PkiError> for EngineError {
    fn from(error: PkiError) -> Self {
        Self::Network(error.to_string())
    }
}
