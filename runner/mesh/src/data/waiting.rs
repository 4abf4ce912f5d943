//! Lanes that wait for messages: who they are, and how they wait before they sleep.

use crate::shared_memory::Bell;
use record::Rank;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a lane of a rank that shares memory reads its bell before it sleeps: about as long as it takes to be woken.
const READS: Duration = Duration::from_micros(50);

/// A yield that takes longer gave the core to a thread that computes. A lane that is runnable then runs when that thread's time slice is over, one that
/// sleeps as soon as it is woken.
const LONG_YIELD: Duration = Duration::from_micros(200);

/// How many waits begin with sleep after a long yield: twice as many after each, one less after each wait that ended without sleep.
const PAUSE: RangeInclusive<u32> = 64..=4096;

/// The lanes that wait for messages of a kind. There should be one at most; several are woken together.
#[derive(Default)]
pub(super) struct Waiting {
    lanes: u32,
    /// The sender whose messages wake them; `None` for any sender.
    only: Option<Rank>,
}

impl Waiting {
    pub(super) fn enter(&mut self, from: Option<Rank>, bell: &Bell) {
        self.lanes += 1;
        self.only = from.filter(|_| self.lanes == 1);
        bell.want(self.lanes, self.only);
    }

    pub(super) fn leave(&mut self, bell: &Bell) {
        self.lanes -= 1;
        bell.want(self.lanes, self.only);
    }
}

/// How the lanes of a rank wait before they sleep: they read their bells and yield between two looks, because ranks may share cores, and the one that is
/// waited for may be runnable on this one.
///
/// Measured in `runner/xtask/SPEED.md`. Where messages come through sockets it gains nothing: the plane's thread is woken in any case.
pub(super) struct Yielding {
    reads: Duration,
    /// Waits that begin with sleep.
    paused: AtomicU32,
    /// How many those are after the next long yield.
    pause: AtomicU32,
}

impl Yielding {
    /// Lanes sleep at once.
    pub(super) fn none() -> Self {
        Self { reads: Duration::ZERO, paused: AtomicU32::new(0), pause: AtomicU32::new(*PAUSE.start()) }
    }

    /// Of a rank that shares memory with its peers.
    pub(super) fn in_shared_memory() -> Self {
        Self { reads: READS, ..Self::none() }
    }

    /// How long a lane whose wait begins reads its bell.
    pub(super) fn reads(&self) -> Duration {
        let sleeps = self.paused.try_update(Relaxed, Relaxed, |paused| paused.checked_sub(1)).is_ok();
        if sleeps { Duration::ZERO } else { self.reads }
    }

    /// Reads the bell until it is rung once more than `seen`, or for `reads` since `begin`, when the lane began to wait.
    pub(super) fn until_rung(&self, bell: &Bell, seen: u32, begin: Instant, reads: Duration) {
        while begin.elapsed() < reads {
            if bell.rung() != seen {
                return self.pause.store((self.pause.load(Relaxed) - 1).max(*PAUSE.start()), Relaxed);
            }
            let before = Instant::now();
            std::thread::yield_now();
            self.note(before.elapsed());
        }
    }

    /// Notes how long a yield took.
    fn note(&self, yielded: Duration) {
        if yielded > LONG_YIELD {
            let pause = self.pause.load(Relaxed);
            self.paused.store(pause, Relaxed);
            self.pause.store((2 * pause).min(*PAUSE.end()), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many waits begin with sleep from now on.
    fn paused(yielding: &Yielding) -> usize {
        (0..).take_while(|_| yielding.reads().is_zero()).count()
    }

    #[test]
    fn waits_begin_with_sleep_while_a_yield_gives_the_core_to_one_that_computes() {
        let yielding = Yielding::in_shared_memory();
        assert_eq!(paused(&yielding), 0);
        yielding.note(LONG_YIELD);
        assert_eq!(paused(&yielding), 0, "no longer than a wait may take");
        let pauses = [64, 128, 256, 512, 1024, 2048, 4096, 4096].map(|expected| {
            yielding.note(2 * LONG_YIELD);
            (paused(&yielding), expected)
        });
        assert!(pauses.iter().all(|(found, expected)| found == expected), "{pauses:?}");
    }

    #[test]
    fn a_bell_that_is_rung_ends_the_reading_and_shortens_the_next_pause() {
        let (yielding, bell) = (Yielding::in_shared_memory(), Bell::default());
        yielding.note(2 * LONG_YIELD);
        assert_eq!(paused(&yielding), 64);
        let seen = bell.rung();
        bell.ring(Rank(1));
        let begin = Instant::now();
        yielding.until_rung(&bell, seen, begin, Duration::from_mins(1));
        assert!(begin.elapsed() < Duration::from_secs(30));
        yielding.note(2 * LONG_YIELD);
        assert_eq!(paused(&yielding), 127);
    }

    #[test]
    fn a_bell_that_is_not_rung_is_read_no_longer_than_it_should_be() {
        let (yielding, bell) = (Yielding::in_shared_memory(), Bell::default());
        let begin = Instant::now();
        yielding.until_rung(&bell, bell.rung(), begin, READS);
        assert!(begin.elapsed() >= READS);
        assert!(Yielding::none().reads().is_zero());
    }
}
