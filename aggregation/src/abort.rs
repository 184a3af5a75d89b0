//! How a round ends without a sum, as the server sees it: each reason says whose fault it is and what to do next.

use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::{ClientId, WireError};

/// Whose fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// These clients misbehaved.
    Clients(ClientSet),
    /// This side's configuration or code.
    Ours,
    /// Nobody's: too few are left.
    Nobody,
}

/// Why a round was aborted. Nothing was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Abort {
    /// Fewer than t clients sent keys in time.
    #[error(
        "{have} clients sent keys and {need} are needed; wait for more clients, or lengthen the advertise deadline"
    )]
    TooFewKeys {
        /// Clients there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// Fewer than t clients dealt shares in time.
    #[error("{have} clients dealt shares and {need} are needed; try the round again")]
    TooFewShares {
        /// Clients there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// Fewer than t masked vectors arrived in time.
    #[error(
        "{have} clients uploaded in time and {need} are needed; try again, or lengthen the mask deadline"
    )]
    TooFewMasked {
        /// Clients there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// Fewer than t survivors signed the agreement.
    #[error(
        "{have} survivors signed the agreement and {need} are needed; nothing was opened, try the round again"
    )]
    TooFewAgree {
        /// Clients there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// Fewer than t valid reveals arrived.
    #[error(
        "{have} clients revealed valid shares and {need} are needed; nothing was opened, try the round again"
    )]
    TooFewReveal {
        /// Clients there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// The plan's overlap would expose too few clients.
    #[error(
        "the plan would expose {clients:?}: merge clusters, or lower the second memberships (`veilsum plan check` explains)"
    )]
    PlanLeaks {
        /// The smallest exposed combination found.
        clients: ClientSet,
    },
    /// Clients of the same clusters that are too few to be counted together.
    #[error(
        "only {clients:?} are in the same clusters, fewer than the policy counts together: cut second memberships, or merge clusters (`veilsum plan check --blocks` explains)"
    )]
    SmallBlock {
        /// The clients.
        clients: ClientSet,
    },
    /// After the dropouts no cluster may be opened.
    #[error(
        "after the dropouts no cluster sum can be opened without exposing too few clients; try the round again"
    )]
    ReleaseLeaks,
    /// A dealer's shares do not belong to what it committed to.
    #[error("{client} dealt shares that do not give back what it committed to; leave it out and try again")]
    BadDealer {
        /// The dealer.
        client: ClientId,
    },
    /// The server stopped in the middle of the attempt and was started again.
    #[error(
        "the server stopped in the middle of this attempt; nothing was opened, and it goes on with the next"
    )]
    ServerLost,
    /// The plan does not fit the policy.
    #[error("the plan does not fit the policy: {0}")]
    BadPlan(&'static str),
    /// A message of ours exceeds its bound.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A rule of this machine was broken from inside.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}

impl Abort {
    /// The reason's name, as it stands in `aborted` statements.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::TooFewKeys { .. } => "TooFewKeys",
            Self::TooFewShares { .. } => "TooFewShares",
            Self::TooFewMasked { .. } => "TooFewMasked",
            Self::TooFewAgree { .. } => "TooFewAgree",
            Self::TooFewReveal { .. } => "TooFewReveal",
            Self::PlanLeaks { .. } => "PlanLeaks",
            Self::SmallBlock { .. } => "SmallBlock",
            Self::ReleaseLeaks => "ReleaseLeaks",
            Self::BadDealer { .. } => "BadDealer",
            Self::ServerLost => "ServerLost",
            Self::BadPlan(_) => "BadPlan",
            Self::Wire(_) => "MessageTooLarge",
            Self::Internal(_) => "Internal",
        }
    }

    /// Whose fault it is. Exhaustive: a new reason must decide.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::TooFewKeys { .. }
            | Self::TooFewShares { .. }
            | Self::TooFewMasked { .. }
            | Self::TooFewAgree { .. }
            | Self::TooFewReveal { .. }
            | Self::ReleaseLeaks => Fault::Nobody,
            Self::BadDealer { client } => Fault::Clients([*client].into_iter().collect()),
            Self::ServerLost
            | Self::PlanLeaks { .. }
            | Self::SmallBlock { .. }
            | Self::BadPlan(_)
            | Self::Wire(_)
            | Self::Internal(_) => Fault::Ours,
        }
    }

    /// The clients at fault, if any.
    #[must_use]
    pub fn culprits(&self) -> ClientSet {
        match self.fault() {
            Fault::Clients(clients) => clients,
            Fault::Ours | Fault::Nobody => ClientSet::default(),
        }
    }
}
