//! What the lanes of a real rank stand on: the monotonic clock, threads that wake each other, the data plane,
//! and a start line that opens when the driver says so.

use crate::emulation::Emulation;
use crate::recorder::Recorder;
use mesh::DataPlane;
use record::{Clock, Nanos, Phase, Rank, Work};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strategies::{Bell, Gate, Observer, Runtime, StepError, Transport, Vector};

/// How often a lane that waits for another one looks whether the run was stopped.
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// The clock of the run: zero where the driver says, the same on all ranks of a machine.
#[derive(Debug)]
pub(crate) struct RunClock {
    origin: AtomicU64,
}

impl RunClock {
    /// A clock that starts now, until it is told when the run starts.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { origin: AtomicU64::new(monotonic()) })
    }

    /// Sets the moment that is zero.
    pub(crate) fn start(&self, origin: u64) {
        self.origin.store(origin, Ordering::Release);
    }
}

impl Clock for RunClock {
    fn now(&self) -> Nanos {
        Nanos(monotonic().saturating_sub(self.origin.load(Ordering::Acquire)))
    }

    fn spend(&self, _: Work) {}
}

/// The run's clock as one lane reads it; remembers what the lane is doing.
#[derive(Debug)]
pub(crate) struct LaneClock {
    run: Arc<RunClock>,
    step: AtomicU64,
    phase: AtomicU8,
    switches: AtomicU64,
}

impl LaneClock {
    /// A clock that no lane has read yet.
    pub(crate) fn new(run: Arc<RunClock>) -> Arc<Self> {
        Arc::new(Self {
            run,
            step: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Other as u8),
            switches: AtomicU64::new(0),
        })
    }

    /// The step and the phase that the lane is in.
    pub(crate) fn place(&self) -> (u64, Phase) {
        let phase = Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed)));
        (self.step.load(Ordering::Relaxed), phase.copied().unwrap_or(Phase::Other))
    }

    /// How often the lane changed its phase.
    pub(crate) fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }
}

impl Clock for LaneClock {
    fn now(&self) -> Nanos {
        self.run.now()
    }

    fn spend(&self, _: Work) {}

    fn entered(&self, step: u64, phase: Phase) {
        // Only this lane writes, so a load and a store do not lose a count.
        self.switches.store(self.switches.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// Whether the rank is to stop, and whether at the next step or at once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    told: AtomicBool,
    soon: AtomicBool,
    now: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Stop {
    /// At once, because something beside the lanes went wrong; the first reason is kept.
    pub(crate) fn fail(&self, reason: String) {
        lock(&self.failure).get_or_insert(reason);
        self.order();
    }

    /// What went wrong beside the lanes.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// The driver asks for the end of the run at the next step.
    pub(crate) fn ask(&self) {
        self.told.store(true, Ordering::Release);
        self.soon.store(true, Ordering::Release);
    }

    /// At once: every wait ends.
    pub(crate) fn order(&self) {
        self.soon.store(true, Ordering::Release);
        self.now.store(true, Ordering::Release);
    }

    /// Whether the driver asked for it, and not only this rank's own trouble.
    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Whether no further step may begin.
    pub(crate) fn asked(&self) -> bool {
        self.soon.load(Ordering::Acquire)
    }

    /// Whether every wait is to end.
    pub(crate) fn ordered(&self) -> bool {
        self.now.load(Ordering::Acquire)
    }
}

/// What the lanes of this process stand on.
pub(crate) struct WorkerRuntime {
    clock: Arc<RunClock>,
    plane: Arc<DataPlane>,
    recorder: Arc<Recorder>,
    stop: Arc<Stop>,
    line: Arc<StartBarrier>,
    emulation: Arc<Emulation>,
    lanes: Mutex<Vec<Arc<LaneClock>>>,
}

impl WorkerRuntime {
    /// The runtime of one rank.
    pub(crate) fn new(
        clock: Arc<RunClock>,
        plane: Arc<DataPlane>,
        recorder: Arc<Recorder>,
        line: Arc<StartBarrier>,
        emulation: Arc<Emulation>,
    ) -> Self {
        let stop = recorder.stop().clone();
        Self { clock, plane, recorder, stop, line, emulation, lanes: Mutex::default() }
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
        lock(&self.line.state).lanes = lanes;
        self.line.clone()
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

    /// Has no deadline of its own: it ends when the other lane does anything at all, and every wait of that
    /// lane has one.
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

/// Where the lanes of the rank wait for the start of the run.
pub(crate) struct StartBarrier {
    state: Mutex<LineState>,
    changed: Condvar,
    stop: Arc<Stop>,
    patience: Duration,
}

#[derive(Default)]
struct LineState {
    lanes: usize,
    arrived: usize,
    weights: Option<String>,
    opened: Option<Instant>,
}

impl StartBarrier {
    /// A line at which nobody waits longer than `patience`.
    pub(crate) fn new(stop: Arc<Stop>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), stop, patience })
    }

    /// Lets everyone go.
    pub(crate) fn open(&self) {
        lock(&self.state).opened = Some(Instant::now());
        self.changed.notify_all();
    }

    /// The time since the run started, by a clock that no phase is measured with.
    pub(crate) fn since_opened(&self) -> Nanos {
        let opened = lock(&self.state).opened;
        Nanos(opened.map_or(0, |opened| opened.elapsed().as_nanos() as u64))
    }

    /// Waits until all lanes have arrived; answers the digest of the initial weights, or nothing if a lane
    /// failed on the way and the rank is being stopped.
    pub(crate) fn all_arrived(&self) -> Option<String> {
        let mut state = lock(&self.state);
        while state.arrived < state.lanes || state.lanes == 0 {
            if self.stop.asked() {
                return None;
            }
            state = self.changed.wait_timeout(state, STOP_LATENCY).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(state.weights.clone().unwrap_or_default())
    }
}

impl Gate for StartBarrier {
    fn pass(&self, weights: Option<&Vector>) -> Result<(), StepError> {
        let digest = weights.map(Vector::sha256);
        let begun = Instant::now();
        let mut state = lock(&self.state);
        state.arrived += 1;
        if state.weights.is_none() {
            state.weights = digest;
        }
        self.changed.notify_all();
        while state.opened.is_none() {
            if self.stop.asked() || begun.elapsed() > self.patience {
                return Err(StepError::Stopped);
            }
            state = self.changed.wait_timeout(state, STOP_LATENCY).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
