//! Who trains with whom: soft clusters from descriptors, and plans that give nobody away.
//!
//! ```text
//! descriptors ──> [`Divergences`] ──[`Threshold`]──> balls ──[`soft`]──> Membership ──[`repair`]──> a plan that is safe
//!   mean, variance     Jeffreys, N x N      tau        one per client        merged                   and says why
//! ```
//!
//! [`soft`] puts a ball of radius tau around every client and drops balls that lie inside another, so clusters overlap
//! and a client's model is the mean of its clusters' models (FeDepth). [`hard`] and [`by_label`] give disjoint clusters to
//! compare with. [`route`] picks the models for a sequence that belongs to no client. Whatever comes out is a 0/1
//! [`Membership`], the form in which the disclosure rule judges it.
//!
//! Everything is the same for every order of the clients and every number of threads. The memberships themselves are
//! seen by the server and stand in the log: that is a disclosure of its own, about who resembles whom.

mod divergence;
mod estimate;
mod gaussian;
mod hard;
mod kernel;
mod kind;
mod planner;
mod repair;
mod route;
mod soft;
mod threshold;

pub use divergence::{DivergenceError, Divergences};
pub use estimate::{Estimate, Noisy};
pub use gaussian::{Gaussian, GaussianError};
pub use hard::{Linkage, by_label, hard};
pub use kind::too_few_alike;
pub use planner::{Demand, Planned, plan};
pub use repair::{Action, Closeness, Moves, Reason, Repair, Repaired, Step, repair};
pub use route::{Route, route};
pub use soft::{balls, drop_contained, multi_membership, sharing, soft};
pub use threshold::{Tau, Threshold, ThresholdError};
pub use veilsum_attestation::disclosure::Membership;
