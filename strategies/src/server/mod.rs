//! Parameter servers: how weights are divided among them, and what the lanes of a server share that answers each
//! worker as it comes.
//!
//! Such a server has a lane for each worker and one more, the keeper, which puts the model aside for evaluation.
//! What becomes of a gradient is the algorithm's affair; who may go on, how stale a gradient was, and when the
//! training is over is written down here.

mod client;
mod courier;
mod floor;
mod keeper;
mod ledger;
mod shards;
mod turns;
mod visitor;

pub use client::Client;
pub use courier::{Courier, Post};
pub use floor::{Centre, Floor};
pub use keeper::Keeper;
pub use ledger::{Applied, Ledger};
pub use shards::Shards;
pub use turns::Turns;
pub use visitor::{Elastic, Grant, Visit, Visitor, drawn, pulled};
