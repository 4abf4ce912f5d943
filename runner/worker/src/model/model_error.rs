//! Why a model cannot be trained.

use recipe::{ModelKind, Shape};
use std::path::PathBuf;
use tch::TchError;

/// A model that cannot be trained on a data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ModelError {
    /// The file of the model cannot be read.
    #[error("the model file {} cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    /// The file is no TorchScript.
    #[error("{} is no TorchScript file: {reason}", file.display())]
    NotTorchScript { file: PathBuf, reason: String },
    /// libtorch cannot run it.
    #[error("the model file {} does not run: {reason}", file.display())]
    Script { file: PathBuf, reason: String },
    /// It runs, and cannot be trained here.
    #[error("the model file {} cannot be trained: {reason}", file.display())]
    Unsuited { file: PathBuf, reason: String },
    /// It is not the file that was described.
    #[error("the model file {} has changed: its SHA-256 is {found}, and was {expected} when the run was planned", file.display())]
    Changed { file: PathBuf, found: String, expected: String },
    /// A tensor that was described is not there.
    #[error("the model file {} has no 32-bit tensor `{name}` of shape {shape:?}", file.display())]
    Tensor { file: PathBuf, name: String, shape: Vec<usize> },
    /// The GPU cannot be used.
    #[error(
        "`cuda:{index}` cannot be used: {reason}; set `nodes.device = \"cpu\"`, another number, or a libtorch with CUDA (`libtorch` of the \
         inventory, or LIBTORCH when bakeoff is built)"
    )]
    Gpu { index: u32, reason: String },
    /// There is nothing to train.
    #[error("model `{kind}` has no layer with weights; add a linear or convolution layer")]
    NoWeights { kind: ModelKind },
    /// Examples of another shape.
    #[error(
        "model `{kind}` takes {model:?}, but the examples of the data set are {data:?}; choose another model \
         or data set"
    )]
    Input {
        kind: ModelKind,
        /// Shape of the model's input.
        model: Shape,
        /// Shape of an example of the data set.
        data: Shape,
    },
    /// Weights that are not trained have no place in memory.
    #[error("the frozen weights of model `{kind}` cannot be drawn: {reason}")]
    Frozen { kind: ModelKind, reason: String },
    /// The model has fewer classes than the data set.
    #[error("model `{kind}` tells {model} classes apart, but the data set has {data}; widen the last layer")]
    Classes {
        kind: ModelKind,
        /// Width of its last layer.
        model: usize,
        /// Classes of the data set.
        data: usize,
    },
}

impl ModelError {
    /// A GPU that libtorch refuses.
    pub(in crate::model) fn gpu(index: u32, error: &TchError) -> Self {
        let text = match error {
            TchError::Torch(text) => text.clone(),
            other => other.to_string(),
        };
        Self::Gpu { index, reason: text.lines().next().unwrap_or_default().to_owned() }
    }
}
