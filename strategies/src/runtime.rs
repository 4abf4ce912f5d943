//! The services that lanes run on: clocks, bells, transports, a start barrier and an observer. The simulator and the
//! real worker each implement [`Runtime`].

use crate::transport::Transport;
use crate::vector::Vector;
use crate::{Lane, State, StepError};
use record::{Clock, Event, LaneId, Nanos, Phase, Rank, SnapshotRecord};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event count. Read [`Bell::count`], look at the shared state, then [`Bell::wait`]: no ring is lost in
/// between.
pub trait Bell: Send + Sync {
    /// Number of rings so far.
    fn count(&self) -> u64;
    /// Rings the bell once, which wakes the lanes that wait for it.
    fn ring(&self);
    /// Waits until it has rung more than `seen` times.
    fn wait(&self, seen: u64) -> Result<(), StepError>;
    /// The shared state was read: for a world that distinguishes its states.
    fn looked(&self) {}
}

/// The start barrier, at which the lanes of a rank wait until all ranks are prepared.
pub trait Gate: Send + Sync {
    /// Announces that this lane holds these initial weights, and waits for the start of the run; the run's clock
    /// starts when it returns. Every lane of the rank passes once.
    fn pass(&self, weights: Option<&Vector>) -> Result<(), StepError>;
}

/// The state of a lane at the end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The rank of the lane.
    pub rank: Rank,
    /// Unique on its rank.
    pub lane: LaneId,
    /// The number of the checkpoint, from 1: the same on all lanes of the run.
    pub number: u64,
    /// Samples that all ranks together have consumed.
    pub samples: u64,
    /// When, on the run's clock.
    pub at: Nanos,
    /// Everything that the lane's next step depends on.
    pub state: State,
}

/// Receives the records of a rank. None of its methods may take notable time.
pub trait Observer: Send + Sync {
    /// Records an event of the rank.
    fn event(&self, event: Event);
    /// A copy of the model for the evaluator; `record.file` is filled in by the observer.
    fn snapshot(&self, record: SnapshotRecord, weights: &Vector);
    /// The state of a lane, from which the run may be continued.
    fn checkpoint(&self, checkpoint: Checkpoint);
    /// Whether the run must stop at the next step.
    fn stopping(&self) -> bool;
    /// A step of the rank begins at `at`: what the recipe lets go wrong there does, and may take its time. Nothing does where
    /// there is no process that it could happen to.
    fn step_begins(&self, step: u64, at: Nanos) -> Result<(), StepError> {
        let _ = (step, at);
        Ok(())
    }
}

/// The services that the lanes of a rank run on.
pub trait Runtime: Send + Sync {
    /// The clock of a rank.
    fn clock(&self, rank: Rank) -> Arc<dyn Clock>;
    /// A handle to the rank's transport, one for each lane.
    fn transport(&self, rank: Rank) -> Box<dyn Transport>;
    /// A bell; the name is what a report of a deadlock prints.
    fn bell(&self, name: String) -> Arc<dyn Bell>;
    /// The start barrier of a rank with `lanes` lanes.
    fn gate(&self, rank: Rank, lanes: usize) -> Arc<dyn Gate>;
    /// The observer of a rank.
    fn observer(&self, rank: Rank) -> Arc<dyn Observer>;
}

/// State that the lanes of one rank share: the only way from lane to lane.
pub struct Shared<T> {
    cell: Arc<Mutex<T>>,
    bell: Arc<dyn Bell>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), bell: self.bell.clone() }
    }
}

impl<T> Shared<T> {
    /// Shares `value`; each change rings `bell`.
    pub fn new(value: T, bell: Arc<dyn Bell>) -> Self {
        Self { cell: Arc::new(Mutex::new(value)), bell }
    }

    /// Reads the value. `f` must not wait for anything.
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        self.bell.looked();
        f(&self.lock())
    }

    /// Changes the value and wakes the lanes that wait for it. `f` must not wait for anything.
    pub fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let result = f(&mut self.lock());
        self.bell.ring();
        result
    }

    /// Waits in [`Phase::WaitLane`] until `f` returns a value. `f` runs under the lock.
    pub fn wait<R>(&self, lane: &mut Lane, mut f: impl FnMut(&mut T) -> Option<R>) -> Result<R, StepError> {
        let before = lane.clock.switch(Phase::WaitLane);
        let answer = loop {
            let seen = self.bell.count();
            self.bell.looked();
            let answer = f(&mut self.lock());
            if let Some(answer) = answer {
                break answer;
            }
            self.bell.wait(seen)?;
        };
        lane.clock.switch(before);
        Ok(answer)
    }

    /// A lane that panicked is reported by itself; the others may still read the state that it left.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
