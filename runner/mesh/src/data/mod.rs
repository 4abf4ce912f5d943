//! The data plane: packets between ranks.
//!
//! Each rank binds one ROUTER ([`accept`]) and connects one DEALER to each peer (a [`link`]). A link carries messages
//! one way and credits the other. One thread per rank moves the bytes; lanes hand packets over through a [`window`] of
//! credits and take them out of an [`inbox`]. Ranks that share memory pass most messages [directly](direct), from lane to lane.
//!
//! A rank leaves in four steps, so that nothing that was sent is lost and the other ranks are not disturbed. It says
//! goodbye on each link, after its last message. It waits until each peer has confirmed the goodbye or has said goodbye
//! itself. It closes its links. It waits until the peers that said goodbye have closed theirs, because only then have
//! they received its confirmation.

mod accept;
mod direct;
mod frame;
mod fuzz_targets;
mod inbox;
mod incoming;
mod link;
mod plane;
mod presence;
mod requests;
mod shared;
mod waiting;
mod window;

pub use fuzz_targets::data_frames;
pub use plane::{DataPlane, LinkDropper, Stopper};
