//! Why a lane cannot go on.

use crate::{Kind, Tag};
use record::{Nanos, Rank};
use std::fmt;

/// What a lane was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Exactly this message.
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

/// Why a lane cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// Nothing came within the deadline.
    #[error("rank {rank} waited {waited} for {wanted}{}", from(*peer))]
    Silent {
        /// Who waited.
        rank: Rank,
        /// For whom; nobody in particular if any peer would do.
        peer: Option<Rank>,
        /// For what.
        wanted: Wanted,
        /// For how long.
        waited: Nanos,
    },
    /// The peer is no longer there.
    #[error("rank {peer} is gone while rank {rank} waits for {wanted}")]
    Gone {
        /// Who waited.
        rank: Rank,
        /// Who left.
        peer: Rank,
        /// For what.
        wanted: Wanted,
    },
    /// A message out of order: the ranks disagree on what happens next.
    #[error("rank {rank} expected {wanted} from rank {peer}, but {got} came")]
    Unexpected {
        /// Who received.
        rank: Rank,
        /// Who sent.
        peer: Rank,
        /// What should have come.
        wanted: Tag,
        /// What came.
        got: Tag,
    },
    /// A packet that is no vector of the expected length.
    #[error("packet of {bytes} bytes cannot be a vector of {elements} elements")]
    Packet {
        /// Its size.
        bytes: usize,
        /// The length that was expected.
        elements: usize,
    },
    /// The transport itself failed.
    #[error("transport of rank {rank}: {reason}")]
    Transport {
        /// Whose.
        rank: Rank,
        /// What the system said.
        reason: String,
    },
    /// The loss of a rank's samples stopped being finite.
    #[error("loss {loss} in step {step}")]
    Diverged {
        /// In which step.
        step: u64,
        /// The loss.
        loss: f32,
    },
    /// The learner could not compute.
    #[error("learner: {0}")]
    Learner(String),
    /// Something beside the lanes went wrong: data, connections, the disk.
    #[error("{0}")]
    Environment(String),
    /// The run was told to stop.
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
    /// Whether it says no more than that this peer is not there any more, or stays silent.
    pub fn is_absence_of(&self, rank: Rank) -> bool {
        matches!(self, Self::Silent { .. } | Self::Gone { .. }) && self.peer() == Some(rank)
    }

    /// The peer that is to blame as far as this rank can see.
    pub fn peer(&self) -> Option<Rank> {
        match self {
            Self::Silent { peer, .. } => *peer,
            Self::Gone { peer, .. } | Self::Unexpected { peer, .. } => Some(*peer),
            _ => None,
        }
    }
}
