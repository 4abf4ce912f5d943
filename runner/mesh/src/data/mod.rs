//! The data plane: packets between ranks.

mod plane;

pub use plane::DataPlane;
