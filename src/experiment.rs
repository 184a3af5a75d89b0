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

pub mod averaging;
pub mod corrector;
pub mod disclosure;
pub mod federation;
pub mod masked;

pub use averaging::{Averaging, Plain, Update};
pub use corrector::Bend;
pub use disclosure::Disclosure;
pub use federation::{Buffers, Federation, Schedule};
pub use masked::{Masked, Masking};

use veilsum_learner::LearnError;

/// Why an experiment stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A learner, its data or its settings.
    #[error(transparent)]
    Learn(#[from] LearnError),
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
