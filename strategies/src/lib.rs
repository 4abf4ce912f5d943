//! What a rank does between two batches: strategies, collectives, compressors, and the world to test them in.
//!
//! No tensor library, no sockets, no runtime: a strategy is straight-line code against a `Node`, and the same
//! file runs in real processes, in tests, and in the simulator.

pub mod algorithm;
mod arithmetic;
pub mod buffers;
mod build;
pub mod collective;
pub mod compress;
mod course;
mod deal;
mod desk;
pub mod draw;
pub mod emulation;
mod error;
pub mod gossip;
mod host;
mod learner;
pub mod memory;
mod messenger;
mod node;
mod optimizer;
pub mod projection;
pub mod server;
pub mod sim;
mod strategy;
pub mod toy;
mod training;
mod transport;
pub mod vector;
mod wire;

pub use build::{Blueprint, Body, LaneBody, panic_text};
pub use course::Course;
pub use deal::Deal;
pub use desk::{Desk, Seat};
pub use error::{StepError, Wanted};
pub use host::{Bell, Gate, Host, Observer, Shared};
pub use learner::{Batch, Learner};
pub use messenger::{Jobs, Messenger, Pending};
pub use node::{LayerGradient, Node, Parts};
pub use optimizer::Optimizer;
pub use strategy::{Evaluated, Progress, Roles, Service, Strategy, Turn};
pub use transport::{Envelope, Kind, Packet, Tag, Transport};
pub use vector::{Block, Layout, LayoutLayer, Vector};
pub use wire::{Coding, Group, Lane, Place, Traffic, Wire};

/// The mean loss over some samples, in nats per sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss(pub f32);
