//! The clock of the run, and the clocks of its lanes.

use record::{Clock, Nanos, Phase, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// The clock of the run. Its zero is set by the driver, the same on all ranks of a machine.
#[derive(Debug)]
pub(crate) struct RunClock {
    origin: AtomicI64,
}

impl RunClock {
    /// A clock that starts now, until the driver sets the start of the run.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { origin: AtomicI64::new(monotonic() as i64) })
    }

    /// Sets the zero, in nanoseconds of the monotonic clock.
    pub(crate) fn start(&self, origin: i64) {
        self.origin.store(origin, Ordering::Release);
    }
}

impl Clock for RunClock {
    fn now(&self) -> Nanos {
        // Not before zero.
        Nanos((monotonic() as i64).saturating_sub(self.origin.load(Ordering::Acquire)).max(0) as u64)
    }

    fn spend(&self, _: Work) {}
}

/// The run's clock as one lane reads it, with the step and the phase of the lane.
#[derive(Debug)]
pub(crate) struct LaneClock {
    run: Arc<RunClock>,
    step: AtomicU64,
    phase: AtomicU8,
    switches: AtomicU64,
}

impl LaneClock {
    /// The clock of a lane that has not begun.
    pub(crate) fn new(run: Arc<RunClock>) -> Arc<Self> {
        Arc::new(Self {
            run,
            step: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Other as u8),
            switches: AtomicU64::new(0),
        })
    }

    /// The step and the phase of the lane.
    pub(crate) fn whereabouts(&self) -> (u64, Phase) {
        let phase = Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed)));
        (self.step.load(Ordering::Relaxed), phase.copied().unwrap_or(Phase::Other))
    }

    /// Number of phase changes of the lane.
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
