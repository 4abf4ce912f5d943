//! Faults of a simulated world.

use record::{Nanos, Rank};

/// A fault at a moment of a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rank's process is killed.
    Kill(Rank),
    /// A rank's process is stopped, and stays so.
    Stop(Rank),
    /// The driver is killed, and all ranks with it.
    KillAll,
    /// No snapshot can be written any more.
    FullDisk,
    /// The link of the first rank with the second drops.
    DropLink(Rank, Rank),
}

/// The faults of a world, and the deadline of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The deadline of every wait.
    pub patience: Nanos,
    /// Each with its moment, counted from the beginning of the world.
    pub faults: Vec<(Nanos, Fault)>,
}
