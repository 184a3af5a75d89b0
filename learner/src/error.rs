//! What can go wrong in a learner.

use crate::data::DataError;
use crate::descriptor::DescriptorError;
use crate::layout::LayoutError;
use crate::metrics::MetricsError;

/// What can go wrong in a learner, and what to do about it.
///
/// Every variant is a fault of this client's data, configuration or training, except where the text says that a message
/// was wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// A model that has no features to describe data by.
    #[error(
        "this model has no encoder to describe data by: choose a network that has one, or a policy without clustering"
    )]
    NoEncoder,
    /// A model whose gradients cannot be corrected.
    #[error(
        "this model takes no corrections of its gradient, so FedProx, FedDyn and SCAFFOLD cannot train it: choose another strategy or network"
    )]
    NoCorrection,
    /// A proximal weight that is no use.
    #[error("a proximal weight of {value} is no use: it must be a number from 0 up")]
    Proximal {
        /// The weight.
        value: f32,
    },
    /// A frame that is not there.
    #[error("there is no training frame {frame}")]
    NoFrame {
        /// The frame asked for, from 0.
        frame: u32,
    },
    /// The client's data cannot be described.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// A private tensor was offered for upload.
    #[error(
        "tensor '{tensor}' is private: it has no place in an upload; mark it shared in the model definition if it should travel"
    )]
    PrivateTensor {
        /// The tensor.
        tensor: String,
    },
    /// A shared tensor was declared private at run time.
    #[error("tensor '{tensor}' is not private in the layout: fix its class in the model definition")]
    NotPrivate {
        /// The tensor.
        tensor: String,
    },
    /// Saved private tensors that are not this model's.
    #[error(
        "the saved private tensors cannot be restored: {reason}; they belong to another model or strategy, or the checkpoint was cut"
    )]
    PrivateState {
        /// What is wrong.
        reason: &'static str,
    },
    /// A tensor's numbers do not fill its shape.
    #[error("tensor '{tensor}' of shape {shape:?} was given {found} numbers")]
    TensorLength {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Numbers given.
        found: usize,
    },
    /// Tensors missing, extra or out of order.
    #[error("found tensor '{found}' where the layout expects '{expected}': assemble uploads in layout order")]
    TensorOrder {
        /// What came.
        found: String,
        /// What should have come.
        expected: String,
    },
    /// A flat vector of the wrong length.
    #[error(
        "the model has {expected} uploaded numbers but the vector holds {found}: the sender uses another model, or the message was cut"
    )]
    Length {
        /// The layout's count.
        expected: usize,
        /// The vector's.
        found: usize,
    },
    /// Weights or updates of another model.
    #[error("layout digest {} does not match this model's {}: both sides must run the same model configuration", hex(.found), hex(.expected))]
    LayoutMismatch {
        /// This side's digest.
        expected: [u8; 32],
        /// The other's.
        found: [u8; 32],
    },
    /// NaN or infinity among weights or updates.
    #[error(
        "tensor '{tensor}' holds {value} at position {index}: refused, since one such number would spoil every average it enters; lower the learning rate or check the data"
    )]
    NonFinite {
        /// The tensor.
        tensor: String,
        /// Flat position inside it.
        index: usize,
        /// The number found.
        value: f32,
    },
    /// A mean of no models.
    #[error("there is no model to average: the list of models is empty")]
    NothingToAverage,
    /// The loss left the finite numbers.
    #[error(
        "round {round}, step {step}: the loss became {loss}; training stopped and the weights of the round's start were restored; lower the learning rate or check the depth range"
    )]
    NonFiniteLoss {
        /// Round of the plan.
        round: u32,
        /// Optimiser step, from 0.
        step: u32,
        /// The loss.
        loss: f64,
    },
    /// Training broke the weights although every loss was finite.
    #[error(
        "round {round}: tensor '{tensor}' became {value} at position {index} during training; the weights of the round's start were restored; lower the learning rate"
    )]
    Diverged {
        /// Round of the plan.
        round: u32,
        /// The tensor.
        tensor: String,
        /// Flat position inside it.
        index: usize,
        /// The number found.
        value: f32,
    },
    /// A training plan that asks for nothing or for nonsense.
    #[error("the training plan for round {round} is unusable: {what}")]
    Plan {
        /// Round of the plan.
        round: u32,
        /// What is wrong and what to set.
        what: String,
    },
    /// Nothing to train on.
    #[error(
        "client '{client}' has no training frame with valid depth: point it at a folder with a train split"
    )]
    NoTrainingData {
        /// The client's name.
        client: String,
    },
    /// A network configuration that cannot be built.
    #[error("network configuration: {what}")]
    Network {
        /// What is wrong and what to set.
        what: String,
    },
    /// More image patches than learned positions (AdaBins).
    #[error(
        "an input of {width}x{height} gives {patches} patches but the network has {limit} learned positions: use a smaller input or raise `bins.positions`"
    )]
    TooManyPatches {
        /// Input width in pixels.
        width: usize,
        /// Input height in pixels.
        height: usize,
        /// Patches the input gives.
        patches: usize,
        /// Learned positions.
        limit: usize,
    },
    /// Fewer image patches than the bin head reads (AdaBins).
    #[error(
        "an input of {width}x{height} gives {patches} patches but the bin head reads {needed} (one for the widths, the rest as queries): use a larger input or lower `bins.queries`"
    )]
    TooFewPatches {
        /// Input width in pixels.
        width: usize,
        /// Input height in pixels.
        height: usize,
        /// Patches the input gives.
        patches: usize,
        /// Patches needed.
        needed: usize,
    },
    /// A learner of another task.
    #[error(
        "{wanted} scores were asked for, but this learner's task is another: check the run's learner setting"
    )]
    Task {
        /// The task asked for.
        wanted: &'static str,
    },
    /// A device that is misspelt or absent.
    #[error(transparent)]
    Device(#[from] crate::device::DeviceError),
    /// Frames that cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Bird's-eye-view frames that cannot be used.
    #[error(transparent)]
    BevData(#[from] crate::data::BevDataError),
    /// Scores that cannot be computed.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Calibrations, grids or BEV maps that cannot be used.
    #[error(transparent)]
    Geometry(#[from] crate::bev::GeometryError),
    /// A list of tensors that is no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A file of pretrained weights that does not fit the network.
    #[error(
        "{}: {what}; nothing was loaded: check that the file is of this network and size, and which names it uses",
        path.display()
    )]
    Pretrained {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong, with the tensors' names.
        what: String,
    },
    /// libtorch refused an operation.
    #[cfg(feature = "torch")]
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
