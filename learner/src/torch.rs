//! Networks through libtorch.
//!
//! A forward pass, from pixels to metres:
//!
//! ```text
//! AdaBins: [`encoder`] ──five maps, strides 2..32──> [`decoder`] ──map at stride 2──> [`bins`] ──> depth, bin centres
//! NeWCRFs: [`swin`] ──four maps, strides 4..32──> pyramid ──stride 32──> random fields, coarse to fine ──> depth
//! DCDepth: [`swin`] ──four maps──> fusion ──stride 32──> random fields ──stride 8──> nine steps ──> coefficients, depth
//! ```
//!
//! * [`network`]: the three by name and size, and what they predict
//! * [`adabins`], [`newcrfs`], [`dcdepth`]: configurations, presets and the networks
//! * [`pass`]: scoring, or training with its random omissions
//! * [`bevt`]: the bird's-eye-view transformer with its learner; [`resnet`]: its image encoder
//! * [`store`]: the network's tensors as a [`Layout`](crate::Layout); flat weights in and out
//! * [`initial`]: seeded start, equal on every machine
//! * [`loss`]: the losses; [`objective`]: their weights
//! * [`augment`]: random changes to training pictures, mirrored scoring
//! * [`pretrained`]: weights from files that others wrote
//! * [`learner`]: [`DepthLearner`], which trains one client
//! * [`device`]: `auto`, `cpu` or `cuda:N`
//!
//! Shapes are checked when a network is built; after that a libtorch call can fail only for want of memory.

pub mod adabins;
pub mod augment;
pub mod bevt;
pub mod bins;
mod block;
mod correct;
mod crf;
pub mod dcdepth;
mod dct;
pub mod decoder;
pub mod device;
mod efficientnet;
pub mod encoder;
pub mod initial;
mod layer;
pub mod learner;
pub mod loss;
mod names;
pub mod network;
pub mod newcrfs;
pub mod objective;
pub mod pass;
pub mod pretrained;
pub mod pyramid;
pub mod resnet;
pub mod store;
pub mod swin;
mod window;

pub use adabins::{AdaBins, AdaBinsConfig};
pub use bevt::{BevLearner, BevLearnerConfig, Bevt, BevtConfig};
pub use learner::{DepthLearner, DepthLearnerConfig};
pub use network::{DepthNetwork, NetworkConfig, NetworkKind, NetworkSize};
