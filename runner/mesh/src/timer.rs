//! Precise waiting for emulated networks and step times, which the timers of an asynchronous runtime cannot provide.

use record::{Clock, Nanos};
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::sync::Arc;
use strategies::StepError;
use strategies::emulation::Timer;

/// A sleeping thread wakes some tens of microseconds late, so the end of each wait is spent reading the clock.
const SPIN: Nanos = Nanos(80_000);

/// How long a wait can last after the run was stopped.
const STOP_LATENCY: Nanos = Nanos(50_000_000);

/// Waits on the clock of the run: sleeps until shortly before the moment, then reads the clock until it has come.
pub struct PreciseTimer {
    clock: Arc<dyn Clock>,
    stopped: Box<dyn Fn() -> bool + Send + Sync>,
}

impl PreciseTimer {
    /// A timer on a clock that runs as fast as the machine's own. Waits fail once `stopped` returns true.
    pub fn new(clock: Arc<dyn Clock>, stopped: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { clock, stopped: Box::new(stopped) })
    }

    fn sleep_until(&self, moment: Nanos) -> Result<(), StepError> {
        loop {
            if (self.stopped)() {
                return Err(StepError::Stopped);
            }
            let left = moment.since(self.clock.now());
            if left == Nanos(0) {
                return Ok(());
            }
            sleep(left.min(STOP_LATENCY));
        }
    }
}

impl Timer for PreciseTimer {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wait_until(&self, moment: Nanos) -> Result<(), StepError> {
        self.sleep_until(moment - SPIN)?;
        while self.clock.now() < moment {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn doze_until(&self, moment: Nanos) -> Result<(), StepError> {
        self.sleep_until(moment)
    }
}

/// Sleeps for `length`. The system gets an absolute time, so that a delay between reading the clock and falling asleep is
/// not added. A signal may end the sleep early; the caller checks the clock again.
fn sleep(length: Nanos) {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = now.tv_nsec as u64 + length.0;
    let until = Timespec {
        tv_sec: now.tv_sec + (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as _,
    };
    // By default the system wakes a thread up to 50 us late, to save wake-ups.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Work;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    struct Since(Instant);

    impl Clock for Since {
        fn now(&self) -> Nanos {
            Nanos(self.0.elapsed().as_nanos() as u64)
        }
        fn spend(&self, _: Work) {}
    }

    #[test]
    fn a_wait_never_ends_early() {
        let timer = PreciseTimer::new(Arc::new(Since(Instant::now())), || false);
        for length in [0, 1_000, 50_000, 300_000, 2_000_000, 70_000_000] {
            let moment = timer.now() + Nanos(length);
            timer.wait_until(moment).unwrap();
            assert!(timer.now() >= moment);
            timer.doze_until(moment).unwrap();
        }
        timer.wait_until(Nanos(0)).unwrap();
    }

    #[test]
    fn a_long_wait_ends_when_the_run_is_stopped() {
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = stopped.clone();
        let timer = PreciseTimer::new(Arc::new(Since(Instant::now())), move || seen.load(Ordering::Relaxed));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| timer.wait_until(Nanos(u64::MAX / 2)));
            stopped.store(true, Ordering::Relaxed);
            assert_eq!(waiting.join().unwrap(), Err(StepError::Stopped));
        });
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}
