//! Newtypes for ranks, lanes and time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A worker or server process of one run; workers are `0..p`, servers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank as an index into a vector ordered by rank.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// Nanoseconds: a duration, or a time since the start of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// As seconds, for people and statistics.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration since `earlier`; zero if that is in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.since(other)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 10_000 => write!(out, "{n} ns"),
            n if n < 10_000_000 => write!(out, "{:.1} us", n as f64 / 1e3),
            n if n < 10_000_000_000 => write!(out, "{:.1} ms", n as f64 / 1e6),
            n => write!(out, "{:.1} s", n as f64 / 1e9),
        }
    }
}

/// A line of execution inside a rank, with phases of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaneId {
    /// Trains: forward pass, backward pass, and the strategy's work in between.
    Compute,
    /// Communicates for the compute lane of the same rank.
    Communication,
    /// Receives weights from servers while the communication lane of the same rank sends gradients.
    Receiving,
    /// Serves all workers in one lane.
    Clients,
    /// Serves the worker of this rank.
    Client(u16),
    /// Counts the samples of the worker of this rank.
    Count(u16),
    /// Announces evaluation points to the workers.
    Announcer,
    /// Takes snapshots of the rank's model.
    Snapshot,
    /// A lane beside the compute lane in a record from before lanes named their purpose, by its number.
    Service(u16),
}

impl LaneId {
    /// Whether the lane does a server's work: its turns are exchanges with workers.
    pub fn serves(self) -> bool {
        match self {
            Self::Clients | Self::Client(_) | Self::Service(_) => true,
            Self::Compute
            | Self::Communication
            | Self::Receiving
            | Self::Count(_)
            | Self::Announcer
            | Self::Snapshot => false,
        }
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute => write!(out, "compute"),
            Self::Communication => write!(out, "communication"),
            Self::Receiving => write!(out, "receiving"),
            Self::Clients => write!(out, "clients"),
            Self::Client(rank) => write!(out, "client {rank}"),
            Self::Count(rank) => write!(out, "count {rank}"),
            Self::Announcer => write!(out, "announcer"),
            Self::Snapshot => write!(out, "snapshot"),
            Self::Service(number) => write!(out, "service-{number}"),
        }
    }
}
