//! What `tch` does not bind of libtorch, in C++ of a page each: gradients of a tensor of any shape, and TorchScript modules with their
//! buffers and the modules inside.

mod failure;
mod gradients;
mod module;

pub use gradients::gradients;
pub use module::{Mode, ScriptModule};
