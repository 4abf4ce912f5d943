//! The outcome of a simulated world: records of its ranks, or why it came to an end too early.

use super::blocked::Blocked;
use super::kernel::{Kernel, State};
use crate::{Checkpoint, StepError, Vector};
use record::{Event, LaneId, Nanos, Rank, StepRecord};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A run that ended.
#[derive(Debug)]
pub struct WorldOutcome {
    /// Records of all ranks, in their order.
    pub ranks: Vec<RankOutcome>,
    /// When the last lane ended, since the start of the run.
    pub time: Nanos,
    /// Number of messages sent by all ranks.
    pub messages: u64,
    /// Bytes of these messages, as they were encoded.
    pub bytes: u64,
    /// How often the scheduler changed lanes.
    pub switches: u64,
}

/// The records of a rank.
#[derive(Debug)]
pub struct RankOutcome {
    /// Everything it recorded, in order.
    pub events: Vec<Event>,
    /// Its model after each step that was hashed; the last entry is the final one.
    pub weights: BTreeMap<u64, Vector>,
    /// Its own model beside a centre that it holds, whose digest stands for it.
    pub beside: BTreeMap<u64, Vector>,
    /// The checkpoints of its lanes, in order.
    pub checkpoints: Vec<Checkpoint>,
}

impl RankOutcome {
    /// The model that the rank ended with.
    pub fn model(&self) -> &Vector {
        static NONE: std::sync::LazyLock<Vector> = std::sync::LazyLock::new(Vector::default);
        self.weights.last_key_value().map_or(&NONE, |(_, weights)| weights)
    }

    /// The steps of one lane.
    pub fn steps(&self, lane: LaneId) -> Vec<&StepRecord> {
        let steps = self.events.iter().filter_map(|event| match event {
            Event::Step(step) if step.lane == lane => Some(step),
            _ => None,
        });
        steps.collect()
    }
}

/// The records of a rank, while it runs.
#[derive(Default)]
pub(super) struct RankLog {
    pub(super) events: Vec<Event>,
    pub(super) weights: BTreeMap<u64, Vector>,
    pub(super) beside: BTreeMap<u64, Vector>,
    pub(super) checkpoints: Vec<Checkpoint>,
}

/// Why a world came to an end too early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum WorldError {
    /// Nothing can happen any more, but lanes still wait.
    #[error("deadlock: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Deadlock(Vec<Blocked>),
    /// A lane returned an error.
    #[error("{lane} of rank {rank}: {source}")]
    Failed { rank: Rank, lane: LaneId, source: StepError },
    /// The lanes could not be built.
    #[error(transparent)]
    Unbuildable(StepError),
    /// The system gave no memory for a stack.
    #[error("no memory for the stack of a lane: {0}")]
    Stack(std::io::Error),
}

/// The outcome of a kernel whose lanes are over.
pub(super) fn outcome(kernel: &Kernel, logs: Vec<Arc<Mutex<RankLog>>>) -> WorldOutcome {
    let ranks = logs.into_iter().map(|log| {
        let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        RankOutcome {
            events: log.events,
            weights: log.weights,
            beside: log.beside,
            checkpoints: log.checkpoints,
        }
    });
    let ranks = ranks.collect();
    let State { now, origin, messages, bytes, switches, .. } = *kernel.lock();
    WorldOutcome { ranks, time: now - origin, messages, bytes, switches }
}
