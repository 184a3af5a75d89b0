//! Why a client stops.

use super::super::model;
use super::WorkError;
use crate::private::PrivateError;
use crate::store::StoreError;
use veilsum_aggregation::Refusal;
use veilsum_aggregation::client::RestoreError;
use veilsum_aggregation::privacy::PrivacyError;
use veilsum_transport::TransportError;

/// Why a client stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The network refuses this client or this server, and trying again would not help.
    #[error(transparent)]
    Transport(TransportError),
    /// The server is not there.
    #[error("the server could not be reached for {seconds} s: {reason}")]
    ServerLost {
        /// How long.
        seconds: u64,
        /// The last reason.
        reason: String,
    },
    /// The journal.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A message that is no message, or a policy below this client's floors.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A message of ours that is too long.
    #[error(transparent)]
    Wire(#[from] veilsum_crypto::WireError),
    /// A model that does not fit.
    #[error(transparent)]
    Model(#[from] model::ModelError),
    /// The private tensors.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The privacy ledger.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
    /// The learner.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Standard output is gone.
    #[error("nobody reads this client's events any more")]
    NobodyListens,
    /// A bug.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}
