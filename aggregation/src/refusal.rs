//! Why a client leaves a round, or is put out of one. A refusal reveals nothing.

use crate::message::MessageError;
use crate::update::UpdateError;
use veilsum_attestation::statement::{ClientSet, FalseComplaint, StatementError};
use veilsum_crypto::{AgreeError, ClientId, ClusterId, ShareError, WireError};

/// Why one party refuses another's message. Each says whose fault it is and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A message that is not canonical.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A statement that cannot be believed.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// A message for which this party is not waiting.
    #[error("a {got} message came while {waiting}; the peer does not follow the protocol")]
    OutOfOrder {
        /// What came.
        got: &'static str,
        /// What this party was doing.
        waiting: &'static str,
    },
    /// The plan is for another policy.
    #[error(
        "the plan names another policy than the one signed; check that both sides hold the same policy file"
    )]
    WrongPolicy,
    /// A round or attempt that is over.
    #[error("the message belongs to another round, attempt or plan")]
    WrongContext,
    /// The log does not extend the one this client knows.
    #[error(
        "the server's log does not extend the head this client holds: it was rolled back or forked; keep the head file and tell the auditors"
    )]
    Rollback,
    /// The plan's overlap would expose too few clients.
    #[error(
        "the plan would expose {clients:?}; nothing is sent. The server must merge clusters or cut second memberships"
    )]
    PlanLeaks {
        /// The smallest exposed combination found.
        clients: ClientSet,
    },
    /// Clients of the same clusters that are too few to be counted together.
    #[error(
        "only {clients:?} are in the same clusters, fewer than the policy counts together; nothing is sent. The server must cut second memberships or merge clusters"
    )]
    SmallBlock {
        /// The clients.
        clients: ClientSet,
    },
    /// Other clusters than before in the same clustering.
    #[error(
        "the clusters are others than in an earlier round of clustering {0}: sums over both would tell clients apart; nothing is sent. The server must keep the clusters, or your organisations sign another policy"
    )]
    Regrouped(u64),
    /// A clustering that is over.
    #[error(
        "the server asks for a descriptor for clustering {0}, and this client has taken part in a later one; nothing is sent"
    )]
    OldClustering(u64),
    /// The proposed release is not what the disclosure rule gives on these survivors.
    #[error(
        "the proposed release set is not what the disclosure rule gives on these survivors; nothing is revealed"
    )]
    ReleaseLeaks,
    /// The parameters are below this client's own floors.
    #[error(
        "{what} is {got}, and this client insists on {bound} {floor}; nothing is sent. Change that only if your organisation agrees"
    )]
    BelowFloor {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        got: u64,
        /// `at least` or `at most`.
        bound: &'static str,
        /// The floor.
        floor: u64,
    },
    /// The roster is not what clients can mask over.
    #[error("the roster is wrong: {0}; the server is at fault")]
    BadRoster(&'static str),
    /// The list of dealers is not what clients can mask over.
    #[error("the inbox is wrong: {0}; the server is at fault")]
    BadInbox(&'static str),
    /// A share that does not open, or is not what its dealer stated.
    #[error(
        "the share from {dealer} does not open or is not what it stated; {dealer} or the server relaying it is at fault"
    )]
    BadShare {
        /// The dealer.
        dealer: ClientId,
    },
    /// A complaint that convicts nobody but its maker.
    #[error("the complaint about a dealer is false: {0}")]
    BadComplaint(FalseComplaint),
    /// Fewer parties than the threshold.
    #[error("{have} {what} where the policy's threshold is {need}; nothing is sent")]
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many there are.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// The server shows different views to different clients, or one that contradicts what this client did.
    #[error("split view: {0}; nothing is revealed. Compare the evidence with other members")]
    SplitView(&'static str),
    /// A client is listed as survivor and dropped, or shares of both kinds are asked for.
    #[error("the server asks for both kinds of shares of one client; nothing is revealed")]
    BothKinds,
    /// This client has answered its one unmask request.
    #[error("this round's unmask request was already answered; a client answers once")]
    AlreadyAnswered,
    /// The learner's update does not fit.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The learner updated another model than the plan's.
    #[error("the update of {cluster} starts from another model than the plan's; load the plan's model first")]
    WrongModel {
        /// The cluster.
        cluster: ClusterId,
    },
    /// An update is missing or surplus.
    #[error("the learner's updates are not for the clusters of the plan")]
    WrongClusters,
    /// A peer's key is no key.
    #[error(transparent)]
    Agree(#[from] AgreeError),
    /// A round key that was used before, or for both purposes.
    #[error(
        "a round key was used before, or for both purposes; the client must make fresh keys in every attempt"
    )]
    UsedKey,
    /// Shares that cannot be dealt or read.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A message of ours exceeds its bound.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A second, different statement of one kind.
    #[error("a second, different {0} statement in one round; the first stands")]
    Conflict(&'static str),
    /// A vector, chunk or statement of the mask phase that does not fit.
    #[error("the masked upload does not fit: {0}")]
    BadMasked(&'static str),
    /// A descriptor that does not fit the policy or its statement.
    #[error(
        "the descriptor does not fit: {0}; the client that sent it is at fault and is in no cluster until the next clustering"
    )]
    BadDescriptor(&'static str),
    /// A clustering the policy does not have.
    #[error(
        "the server asks for a descriptor for clustering {0}, and the policy has none of that number; nothing is sent. The server is at fault"
    )]
    NoClustering(u64),
    /// After the deadline.
    #[error("too late: the phase is over; the vector is not counted and must not be sent again")]
    Late,
    /// Not a member of this round.
    #[error("{0} is not part of this round")]
    NotInvited(ClientId),
    /// The server ended the round.
    #[error("the server ended the round: {0}")]
    Ended(String),
}

impl Refusal {
    /// Whether the server is at fault by what it signed, so that it is worth keeping.
    #[must_use]
    pub fn blames_the_server(&self) -> bool {
        matches!(
            self,
            Self::WrongPolicy
                | Self::Rollback
                | Self::PlanLeaks { .. }
                | Self::SmallBlock { .. }
                | Self::ReleaseLeaks
                | Self::BadRoster(_)
                | Self::BadInbox(_)
                | Self::TooFew { .. }
                | Self::SplitView(_)
                | Self::BothKinds
        )
    }

    /// The reason's name, as scenario tables and wire refusals spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Message(_) => "Malformed",
            Self::Statement(_) => "BadStatement",
            Self::OutOfOrder { .. } => "OutOfOrder",
            Self::WrongPolicy => "WrongPolicy",
            Self::WrongContext => "WrongContext",
            Self::Rollback => "Rollback",
            Self::PlanLeaks { .. } => "PlanLeaks",
            Self::SmallBlock { .. } => "SmallBlock",
            Self::Regrouped(_) => "Regrouped",
            Self::OldClustering(_) => "OldClustering",
            Self::ReleaseLeaks => "ReleaseLeaks",
            Self::BelowFloor { .. } => "BelowFloor",
            Self::BadRoster(_) => "BadRoster",
            Self::BadInbox(_) => "BadInbox",
            Self::BadShare { .. } => "BadShare",
            Self::BadComplaint(_) => "BadComplaint",
            Self::TooFew { .. } => "TooFew",
            Self::SplitView(_) => "SplitView",
            Self::BothKinds => "BothKinds",
            Self::AlreadyAnswered => "AlreadyAnswered",
            Self::Update(_) => "BadUpdate",
            Self::WrongModel { .. } => "WrongModel",
            Self::WrongClusters => "WrongClusters",
            Self::Agree(_) => "BadKey",
            Self::UsedKey => "UsedKey",
            Self::Share(_) => "BadShareBytes",
            Self::Wire(_) => "MessageTooLarge",
            Self::Conflict(_) => "Conflict",
            Self::BadMasked(_) => "BadMasked",
            Self::BadDescriptor(_) => "BadDescriptor",
            Self::NoClustering(_) => "NoClustering",
            Self::Late => "Late",
            Self::NotInvited(_) => "NotInvited",
            Self::Ended(_) => "Ended",
        }
    }
}
