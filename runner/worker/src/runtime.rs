//! The runtime of a real rank: the monotonic clock, threads that wake each other, the data plane, and the start barrier.

use crate::clock::{LaneClock, RunClock};
use crate::emulation::Emulation;
use crate::recorder::Recorder;
use crate::start_barrier::StartBarrier;
use crate::stop::{STOP_LATENCY, Stop, lock};
use mesh::DataPlane;
use record::{Clock, Rank};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use strategies::{Bell, Gate, Observer, Runtime, StepError, Transport};

/// The runtime of the lanes of this process.
pub(crate) struct WorkerRuntime {
    clock: Arc<RunClock>,
    plane: Arc<DataPlane>,
    recorder: Arc<Recorder>,
    stop: Arc<Stop>,
    barrier: Arc<StartBarrier>,
    emulation: Arc<Emulation>,
    lanes: Mutex<Vec<Arc<LaneClock>>>,
}

impl WorkerRuntime {
    /// The runtime of one rank.
    pub(crate) fn new(
        clock: Arc<RunClock>,
        plane: Arc<DataPlane>,
        recorder: Arc<Recorder>,
        barrier: Arc<StartBarrier>,
        emulation: Arc<Emulation>,
    ) -> Self {
        let stop = recorder.stop().clone();
        Self { clock, plane, recorder, stop, barrier, emulation, lanes: Mutex::default() }
    }

    /// The clocks of the lanes, in the order in which the lanes were built: the compute lane, if there is one,
    /// is the first.
    pub(crate) fn lane_clocks(&self) -> Vec<Arc<LaneClock>> {
        lock(&self.lanes).clone()
    }
}

impl Runtime for WorkerRuntime {
    fn clock(&self, _: Rank) -> Arc<dyn Clock> {
        let lane = LaneClock::new(self.clock.clone());
        lock(&self.lanes).push(lane.clone());
        self.emulation.clock(lane)
    }

    fn transport(&self, _: Rank) -> Box<dyn Transport> {
        self.emulation.transport(&self.plane)
    }

    fn bell(&self, _: String) -> Arc<dyn Bell> {
        Arc::new(ThreadBell { count: Mutex::new(0), rung: Condvar::new(), stop: self.stop.clone() })
    }

    fn gate(&self, _: Rank, lanes: usize) -> Arc<dyn Gate> {
        self.barrier.expect(lanes);
        self.barrier.clone()
    }

    fn observer(&self, _: Rank) -> Arc<dyn Observer> {
        self.recorder.clone()
    }
}

struct ThreadBell {
    count: Mutex<u64>,
    rung: Condvar,
    stop: Arc<Stop>,
}

impl Bell for ThreadBell {
    fn count(&self) -> u64 {
        *lock(&self.count)
    }

    fn ring(&self) {
        *lock(&self.count) += 1;
        self.rung.notify_all();
    }

    /// Has no deadline of its own: it ends when another lane rings, and every wait of that lane has a deadline.
    fn wait(&self, seen: u64) -> Result<(), StepError> {
        let mut count = lock(&self.count);
        while *count <= seen {
            if self.stop.ordered() {
                return Err(StepError::Stopped);
            }
            count = self.rung.wait_timeout(count, STOP_LATENCY).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
