//! Strategies beside one another on the same data: who averages what, under plain averaging or under masks.
//!
//! ```text
//! scenario ──> clients ──set-up, with leave──> clusters ──rounds──> models ──routing──> scores ──seeds──> statistics
//! ```
//!
//! * [`federation`]: clients, clusters and rounds
//! * [`averaging`], [`masked`]: the means, plainly and by the protocol
//! * [`corrector`]: `FedProx`, `FedDyn` and SCAFFOLD
//! * [`disclosure`]: what a set-up shows of single clients
//! * [`profile`], [`subspace`]: what that is, and how far apart two are
//! * [`strategy`], [`scenario`], [`config`]: what a file says
//! * [`run`], [`results`], [`statistics`]: what comes of it

pub mod averaging;
pub mod config;
pub mod corrector;
pub mod disclosure;
pub mod federation;
pub mod masked;
pub mod profile;
pub mod results;
pub mod run;
pub mod scenario;
pub mod statistics;
pub mod strategy;
pub mod subspace;

pub use averaging::{Averaging, Plain, Update};
pub use config::{Aggregation, ExperimentConfig};
pub use corrector::Bend;
pub use disclosure::Disclosure;
pub use federation::{Buffers, Federation, Schedule};
pub use masked::{Masked, Masking};

use crate::network::NetworkError;
use veilsum_learner::LearnError;

/// Why an experiment stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A learner, its data or its settings.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// A network that cannot be had.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Parameters under which a statement exceeds its bound.
    #[error(transparent)]
    Wire(#[from] veilsum_crypto::WireError),
    /// A wrong setting.
    #[error("{key}: {reason}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What is wrong and what to set.
        reason: String,
    },
    /// What clients show of themselves gives no clusters.
    #[error("the set-up gives no clusters: {0}")]
    Set(String),
    /// Clusters that a method cannot work with.
    #[error("clusters: {0}")]
    Clusters(&'static str),
    /// A set-up that shows more of single clients than there is leave for.
    #[error(
        "strategy `{strategy}` would show the server {words}: put `{name}` into `leave` if that may be, or take the strategy out"
    )]
    Disclosure {
        /// The strategy.
        strategy: String,
        /// The disclosure's name.
        name: &'static str,
        /// What it is.
        words: &'static str,
    },
    /// A masked round that came to no sum.
    #[error("the masked round came to no sum: {0}")]
    Round(String),
    /// An update that the quantiser would cut.
    #[error(
        "client {client}'s update reaches {largest:.3}, beyond the range {range} of the masked sums: raise `masking.range`"
    )]
    Range {
        /// The client.
        client: u32,
        /// Its largest entry times its share of the largest weight.
        largest: f64,
        /// The range.
        range: f64,
    },
}
