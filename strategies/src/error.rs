//! Errors that end a lane.

use crate::{Kind, Tag};
use record::{Nanos, Rank};
use std::fmt;

/// Object of a lane's wait: a message, or room to send one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The message with this tag.
    Message(Tag),
    /// Any message of this kind.
    Any(Kind),
    /// Room to send this message: credits of the peer.
    Credit(Tag),
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(tag) => write!(out, "{tag}"),
            Self::Any(kind) => write!(out, "any {kind:?}"),
            Self::Credit(tag) => write!(out, "room to send {tag}"),
        }
    }
}

/// An error that ends a lane.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum StepError {
    /// Nothing came within the deadline.
    #[error("rank {rank} waited {waited} for {wanted}{}", from(*peer))]
    Silent {
        rank: Rank,
        /// The peer; `None` if any peer would do.
        peer: Option<Rank>,
        wanted: Wanted,
        /// The length of the wait.
        waited: Nanos,
    },
    /// The peer left or was lost.
    #[error("rank {peer} is gone while rank {rank} waits for {wanted}")]
    Gone {
        rank: Rank,
        /// The rank that left.
        peer: Rank,
        wanted: Wanted,
    },
    /// A message out of order: the ranks disagree on what happens next.
    #[error("rank {rank} expected {wanted} from rank {peer}, but {got} came")]
    Unexpected { rank: Rank, peer: Rank, wanted: Tag, got: Tag },
    /// A packet that is not a vector of the expected length.
    #[error("packet of {bytes} bytes cannot be a vector of {elements} elements")]
    Packet {
        /// Length of the packet.
        bytes: usize,
        elements: usize,
    },
    /// Bytes that are not the small message that was expected.
    #[error("rank {rank} received {bytes} bytes that are not {expected}")]
    Message {
        rank: Rank,
        /// Length of the packet.
        bytes: usize,
        /// The noun of the expected message, with its article.
        expected: &'static str,
    },
    /// The transport itself failed.
    #[error("transport of rank {rank}: {reason}")]
    Transport {
        /// The rank whose transport failed.
        rank: Rank,
        reason: String,
    },
    /// The loss of a rank is not finite.
    #[error("loss {loss} in step {step}")]
    Diverged {
        /// The step, from 1.
        step: u64,
        /// The loss, which is not finite.
        loss: f32,
    },
    /// The learner could not compute.
    #[error("learner: {0}")]
    Learner(String),
    /// Something beside the lanes failed: data, connections, the disk.
    #[error("{0}")]
    Environment(String),
    /// A checkpoint does not fit this run.
    #[error("the checkpoint does not fit: {0}")]
    State(#[from] crate::state::StateError),
    /// The driver stopped the run.
    #[error("the run was stopped")]
    Stopped,
    /// A lane of this rank panicked.
    #[error("panicked: {0}")]
    Panicked(String),
}

fn from(peer: Option<Rank>) -> String {
    peer.map_or_else(String::new, |peer| format!(" from rank {peer}"))
}

impl StepError {
    /// Whether the error only says that this peer left or stayed silent.
    pub fn is_absence_of(&self, rank: Rank) -> bool {
        matches!(self, Self::Silent { .. } | Self::Gone { .. }) && self.peer() == Some(rank)
    }

    /// The peer that this rank blames.
    pub fn peer(&self) -> Option<Rank> {
        match self {
            Self::Silent { peer, .. } => *peer,
            Self::Gone { peer, .. } | Self::Unexpected { peer, .. } => Some(*peer),
            Self::Packet { .. }
            | Self::Message { .. }
            | Self::Transport { .. }
            | Self::Diverged { .. }
            | Self::Learner(_)
            | Self::Environment(_)
            | Self::State(_)
            | Self::Stopped
            | Self::Panicked(_) => None,
        }
    }
}
