//! What `tch` does not bind of libtorch, in C++ of a page each: gradients of a tensor of any shape, the memory that tensors take,
//! TorchScript modules with their buffers and the modules inside, and graphics cards.

mod build;
mod card;
mod failure;
mod gradients;
mod memory;
mod module;

pub use build::build;
pub use card::{cards, settle_card, use_cards};
pub use gradients::gradients;
pub use memory::kept_bytes;
pub use module::{Mode, ScriptModule};
