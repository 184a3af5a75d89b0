//! Why a server stops before its rounds are done.

use crate::store::StoreError;
use veilsum_aggregation::Abort;
use veilsum_crypto::RoundId;

/// Why a server stops before its rounds are done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// One round failed too often.
    #[error("{attempts} attempts failed in a row, the last at {round}: {abort}")]
    Round {
        /// The round.
        round: RoundId,
        /// Attempts in a row.
        attempts: u32,
        /// The last reason.
        abort: Abort,
    },
    /// Too few clients came.
    #[error(
        "{have} clients are connected and {need} are needed to start a round; start more clients and run the server again: it goes on from its log"
    )]
    TooFewClients {
        /// Connected.
        have: usize,
        /// Threshold.
        need: usize,
    },
    /// Too few clients said what their data looks like.
    #[error(
        "{have} clients described their data, and {need} of {orgs} organisation(s) are needed to cluster them; look at the refusals above, start more clients, and run the server again: it goes on from its log"
    )]
    TooFewDescriptors {
        /// Descriptors there are.
        have: usize,
        /// Clients needed: the threshold, the crowd with its margins, or a group.
        need: usize,
        /// Organisations needed.
        orgs: usize,
    },
    /// Other clusters than those of the log, where clients are counted in groups.
    #[error(
        "the clusters in the configuration are others than in the log, and clients are counted in groups, which hold from the first round to the last: put the old clusters back, or sign another policy"
    )]
    Regrouped,
    /// The descriptors give no plan.
    #[error(
        "the clients cannot be clustered: {0}; the consortium must sign another policy: another threshold, a smaller crowd, or named clusters"
    )]
    Clustering(String),
    /// Too few witnesses cosigned the log's head.
    #[error(
        "the witnesses did not cosign the log's head, so no round starts ({0}); see that they run, and if one says that the log does not extend what it holds, stop and compare heads: `veilsum audit fork`"
    )]
    NoQuorum(String),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator.
    #[error("stopped by the operator; run the server again and it goes on from its log")]
    Stopped,
    /// The listener ended.
    #[error("the network listener ended; run the server again and it goes on from its log")]
    ListenerClosed,
    /// Standard output is gone.
    #[error("nobody reads this server's events any more")]
    NobodyListens,
    /// A bug.
    #[error("internal: {0}; please report this")]
    Internal(&'static str),
}
