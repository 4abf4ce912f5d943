//! The end of the lanes of a world in which something goes wrong.

use super::blocked::blocked;
use super::kernel::health::Condition;
use super::kernel::{Actor, ActorState, Kernel, Next, State, Wait};
use super::lanes::{Lane, unwind};
use super::outcome::{WorldError, WorldOutcome};
use crate::StepError;
use corosensei::CoroutineResult;
use record::{LaneId, Nanos, Phase, Rank};

/// The outcome of a world with faults.
#[derive(Debug)]
pub struct Aftermath {
    /// The records of its ranks.
    pub outcome: WorldOutcome,
    /// When the run's clock started, counted from the beginning of the world; zero if it never did.
    pub origin: Nanos,
    /// How each lane ended.
    pub endings: Vec<Ending>,
}

/// How a lane ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The rank of the lane.
    pub rank: Rank,
    /// Its purpose on its rank.
    pub lane: LaneId,
    /// When, counted from the beginning of the world; of a lane that hangs: since when.
    pub at: Nanos,
    /// In which step it was.
    pub step: u64,
    /// In which phase it was.
    pub phase: Phase,
    /// The way in which it ended.
    pub end: LaneEnd,
}

/// The ways in which a lane ends.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneEnd {
    /// It came to the end of its work.
    Finished,
    /// It was killed with its process.
    Killed,
    /// Not at all: its process is stopped.
    Hangs,
    /// It failed with this error.
    Failed(StepError),
}

/// Runs the lanes of a world with faults to their end.
pub(super) fn schedule(kernel: &Kernel, lanes: &mut [Lane]) -> Result<Vec<Ending>, WorldError> {
    let mut endings = Vec::new();
    loop {
        let actor = match kernel.advance() {
            Next::Ready(actor) => actor,
            Next::Later => continue,
            Next::Quiet => break,
        };
        if let CoroutineResult::Return(result) = lanes[actor].resume(()) {
            let mut state = kernel.lock();
            state.actors[actor].wait = Wait::Done;
            endings.push(state.ended(actor, result));
        }
    }
    let state = kernel.lock();
    let left = (0..lanes.len()).filter(|actor| !matches!(state.actors[*actor].wait, Wait::Done));
    let left: Vec<Ending> = left.map(|actor| state.left_behind(actor)).collect();
    let stuck = left.iter().any(|ending| state.health.runs(ending.rank));
    let waiting = blocked(&state);
    drop(state);
    unwind(kernel, lanes);
    if stuck {
        return Err(WorldError::Deadlock(waiting));
    }
    endings.extend(left);
    endings.sort_by_key(|ending| (ending.rank, ending.lane));
    Ok(endings)
}

impl State {
    /// A lane returned: what becomes of its rank.
    fn ended(&mut self, actor: Actor, result: Result<(), StepError>) -> Ending {
        let rank = self.actors[actor].rank;
        let result = match (result, self.health.ending(rank)) {
            (Ok(()) | Err(StepError::Stopped), Some(reason)) => Err(reason.clone()),
            (result, _) => result,
        };
        if let Err(error) = &result
            && self.health.is_well(rank)
        {
            // The others have nothing to say of their own.
            let reason = if *error == StepError::Stopped { error.clone() } else { StepError::Stopped };
            self.end_lanes(rank, reason);
        }
        let over = |actor: &ActorState| actor.rank != rank || matches!(actor.wait, Wait::Done);
        if self.actors.iter().all(over) {
            self.depart(rank, Condition::Left);
        }
        let end = result.map_or_else(LaneEnd::Failed, |()| LaneEnd::Finished);
        Ending { at: self.now, end, ..self.left_behind(actor) }
    }

    fn left_behind(&self, actor: Actor) -> Ending {
        let lane = &self.actors[actor];
        let killed = self.health.lost(lane.rank);
        Ending {
            rank: lane.rank,
            lane: lane.lane,
            at: lane.since,
            step: lane.place.0,
            phase: lane.place.1,
            end: if killed { LaneEnd::Killed } else { LaneEnd::Hangs },
        }
    }
}
