//! The data plane: packets between ranks.
//!
//! Each rank binds one ROUTER (the [`entrance`]) and connects one DEALER to each peer (a [`link`]); a link
//! carries messages one way, and credits the other. One thread per rank moves the bytes; lanes hand packets
//! over through a [`window`] of credits and take them out of an [`inbox`].
//!
//! A rank leaves in this order: it says good-bye on each link, after everything it sent; it waits until each
//! peer has confirmed that, or has said good-bye itself; it hangs up its links; and it waits until the peers that
//! said good-bye have hung up theirs, because then they have heard its confirmation. So nothing that was sent is
//! lost, and a rank that is done early disturbs nobody.

mod entrance;
mod frame;
mod hostile;
mod inbox;
mod incoming;
mod link;
mod plane;
mod shared;
mod window;

pub use hostile::data_frames;
pub use plane::{DataPlane, Stopper};
