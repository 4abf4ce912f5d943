//! Parts of libtorch that `tch` does not bind, in C++ of a page each: gradients of a tensor of any shape, the memory
//! that tensors take, TorchScript modules with their buffers and the modules inside, and GPUs.

mod build;
mod failure;
mod gpu;
mod gradients;
mod memory;
mod module;

pub use build::build;
pub use gpu::{gpus, settle_gpu, use_gpus};
pub use gradients::gradients;
pub use memory::kept_bytes;
pub use module::{Mode, ScriptModule};
