//! The end of a run: asked for by the driver, or forced by a failure of the rank.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A waiting lane looks this often whether the run was stopped.
pub(crate) const STOP_LATENCY: Duration = Duration::from_millis(50);

/// Whether the rank must stop, at the next step or at once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    told: AtomicBool,
    soon: AtomicBool,
    now: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Stop {
    /// Stops at once because something beside the lanes failed; the first reason is kept.
    pub(crate) fn fail(&self, reason: String) {
        lock(&self.failure).get_or_insert(reason);
        self.order();
    }

    /// The failure beside the lanes.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Stops at the next step because the driver asks for it.
    pub(crate) fn ask(&self) {
        self.told.store(true, Ordering::Release);
        self.soon.store(true, Ordering::Release);
    }

    /// Stops at once: every wait ends.
    pub(crate) fn order(&self) {
        self.soon.store(true, Ordering::Release);
        self.now.store(true, Ordering::Release);
    }

    /// Whether the driver asked for the stop, not only a failure of this rank.
    pub(crate) fn told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Whether no further step may begin.
    pub(crate) fn asked(&self) -> bool {
        self.soon.load(Ordering::Acquire)
    }

    /// Whether every wait must end.
    pub(crate) fn ordered(&self) -> bool {
        self.now.load(Ordering::Acquire)
    }
}

/// A thread that panicked does not spoil the state for the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
