//! Everything that knows a tensor: models, their layouts, frames and scores.
//!
//! The rest of veilsum sees a flat vector of `f32` and a [`Layout`]; this crate depends on none of it.
//!
//! ```text
//! frames ([`data`]) ──> [`Learner`] ──weights──> [`Weights`] ──minus──> [`Delta`] ──> quantiser, masks, server
//!                          ^                                                                      │
//!                          └──────────────────────────load────────── [`Weights`] <────────────────┘
//! ```
//!
//! * [`layout`]: which tensors a model has and which of them may travel
//! * [`tensor`], [`weights`]: shared and private tensors as different types; only shared ones become an upload
//! * [`private`]: what stays, as bytes for a client's own encrypted checkpoint
//! * [`learner`]: the trait, training plans and reports
//! * [`correction`]: what a federated strategy adds to a gradient
//! * [`metrics`]: the usual depth scores
//! * [`schedule`]: how learning rates move
//! * [`bev`]: geometry, masks and scores of bird's-eye views
//! * [`data`]: folder reader, seeded generator
//! * [`descriptor`]: what a client says about its data so that it can be clustered
//! * [`demo`]: settings for a short demonstration
//! * [`toy`]: a pure-Rust model, so that everything runs without libtorch
#![cfg_attr(
    feature = "torch",
    doc = "* [`torch`]: networks through libtorch (feature `torch`)"
)]
#![cfg_attr(
    not(feature = "torch"),
    doc = "* `torch`: networks through libtorch (feature `torch`, not enabled)"
)]

pub mod bev;
pub mod correction;
pub mod data;
pub mod demo;
pub mod descriptor;
pub mod device;
pub mod error;
pub mod layout;
pub mod learner;
pub mod metrics;
pub mod private;
pub mod schedule;
mod shuffle;
pub mod tensor;
pub mod toy;
pub mod weights;

#[cfg(feature = "torch")]
pub mod torch;

pub use bev::{BevMetrics, GeometryError, PersonalPart};
pub use correction::{Correction, LocalOptimiser};
pub use data::{DataError, DepthDataset, Frame};
pub use descriptor::{Descriptor, DescriptorError};
pub use device::{DeviceChoice, DeviceError};
pub use error::LearnError;
pub use layout::{Layout, LayoutError, TensorClass, TensorSpec};
pub use learner::{
    BevExample, DepthExample, Evaluation, Example, Learner, Scores, TrainLength, TrainPlan, TrainReport,
};
pub use metrics::{DepthMetrics, DepthRange, MetricsError};
pub use private::PrivateState;
pub use schedule::Schedule;
pub use tensor::{PrivateTensor, SharedTensor};
pub use weights::{Delta, Weights};
