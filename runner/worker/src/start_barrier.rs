//! The start barrier: opens when the driver starts the run.

use crate::stop::{STOP_LATENCY, Stop, lock};
use record::Nanos;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strategies::{Gate, StepError, Vector};

/// The barrier at which the lanes of the rank wait for the start of the run.
pub(crate) struct StartBarrier {
    state: Mutex<BarrierState>,
    changed: Condvar,
    stop: Arc<Stop>,
    patience: Duration,
}

#[derive(Default)]
struct BarrierState {
    lanes: usize,
    arrived: usize,
    weights: Option<String>,
    opened: Option<Instant>,
}

impl StartBarrier {
    /// Sets the number of lanes that must arrive.
    pub(crate) fn expect(&self, lanes: usize) {
        lock(&self.state).lanes = lanes;
    }

    /// A barrier at which no lane waits longer than `patience`.
    pub(crate) fn new(stop: Arc<Stop>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), stop, patience })
    }

    /// Lets the lanes pass, and notes the time.
    pub(crate) fn open(&self) {
        lock(&self.state).opened = Some(Instant::now());
        self.changed.notify_all();
    }

    /// The time since the run started, by a clock that no phase is measured with.
    pub(crate) fn since_opened(&self) -> Nanos {
        let opened = lock(&self.state).opened;
        Nanos(opened.map_or(0, |opened| opened.elapsed().as_nanos() as u64))
    }

    /// Waits until all lanes have arrived, and returns the digest of the initial weights; `None` if a lane failed and the rank
    /// is being stopped.
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
