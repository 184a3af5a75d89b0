//! Networks through libtorch.
//!
//! A forward pass, from pixels to metres:
//!
//! ```text
//! [`encoder`] ──five maps, strides 2..32──> [`decoder`] ──map at stride 2──> [`bins`] ──> depth, bin centres
//! ```
//!
//! * [`adabins`]: configuration, presets and the network
//! * [`store`]: the network's tensors as a [`Layout`](crate::Layout); flat weights in and out
//! * [`initial`]: seeded start, equal on every machine
//! * [`loss`]: scale-invariant log loss and the bin-centre loss
//! * [`learner`]: [`DepthLearner`], which trains one client
//! * [`device`]: `auto`, `cpu` or `cuda:N`
//!
//! Shapes are checked when a network is built; after that a libtorch call can fail only for want of memory.

pub mod adabins;
pub mod bins;
mod block;
pub mod decoder;
pub mod device;
pub mod encoder;
pub mod initial;
pub mod learner;
pub mod loss;
pub mod store;

pub use adabins::{AdaBins, AdaBinsConfig};
pub use learner::{DepthLearner, DepthLearnerConfig};
