//! Exchanges between the ranks of a group that compute a model together: rows of their batches below the layers that
//! they split, and columns of these layers' outputs. Activations and their gradients travel bit for bit.

pub mod modulo;
pub mod shard;

pub use modulo::Round;
