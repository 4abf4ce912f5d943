//! Lanes that wait for messages: who they are, and how they wait before they sleep.

use crate::shared_memory::Bell;
use record::Rank;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How long a lane may watch its bell before it sleeps. On an idle virtual machine a lane that sleeps runs 20 to 40 us after the ring.
const WATCH_TIME: Duration = Duration::from_micros(50);

/// A yield that takes longer suggests that a thread that computes had the core. A lane that sleeps usually gets a core sooner after its bell is rung than one
/// that has yielded to such a thread. Longer than [`WATCH_TIME`], so that a wait has at most one.
const LONG_YIELD: Duration = Duration::from_micros(200);

/// How many waits begin with sleep after a long yield: twice as many after each, one less after each wait that ended while its lane watched. A long
/// yield may cost a time slice of about 3 ms: 50 us for each of 64 waits, less than 1 us for each of 4,096. Both ends are chosen, not measured.
const SLEEPING_WAITS: RangeInclusive<u32> = 64..=4096;

/// The lanes that wait for messages of a kind. There should be one at most; several are woken together.
#[derive(Default)]
pub(super) struct Waiting {
    lanes: u32,
    /// The sender whose messages wake them; `None` for any sender.
    only: Option<Rank>,
    pub(super) watch: BellWatch,
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

/// How long a lane watches its bell before it sleeps. It yields between two looks, because ranks may share cores, and the one that it waits for may be runnable
/// on this one (`runner/xtask/SPEED.md` has the measurements).
pub(super) struct BellWatch {
    /// Zero where messages come through sockets: the plane's thread must be woken for them anyway, so that yielding gains nothing.
    time: Duration,
    /// Waits still to begin with sleep.
    pub(super) sleeping_waits: u32,
    /// How many waits will begin with sleep after the next long yield.
    pub(super) after_next: u32,
    /// Gives the core to another thread.
    pub(super) yield_core: fn(),
}

impl Default for BellWatch {
    /// Of a lane that sleeps at once.
    fn default() -> Self {
        let after_next = *SLEEPING_WAITS.start();
        Self { time: Duration::ZERO, sleeping_waits: 0, after_next, yield_core: std::thread::yield_now }
    }
}

/// Reason for which the watch of a bell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchEnd {
    Rung,
    TimeUp,
    LongYield,
}

impl BellWatch {
    /// Of a lane whose peers ring its bell themselves.
    pub(super) fn in_shared_memory() -> Self {
        Self { time: WATCH_TIME, ..Self::default() }
    }

    /// A wait begins: for how long its lane watches the bell.
    pub(super) fn begin_wait(&mut self) -> Duration {
        match self.sleeping_waits.checked_sub(1) {
            Some(left) => {
                self.sleeping_waits = left;
                Duration::ZERO
            }
            None => self.time,
        }
    }

    /// A wait ended while its lane watched the bell.
    pub(super) fn end_wait(&mut self) {
        self.after_next = (self.after_next - 1).max(*SLEEPING_WAITS.start());
    }

    /// A yield was long.
    pub(super) fn note_long_yield(&mut self) {
        self.sleeping_waits = self.after_next;
        self.after_next = (2 * self.after_next).min(*SLEEPING_WAITS.end());
    }
}

/// Watches a bell until it is rung once more than `seen`, or until `end`; a yield that takes longer is the last.
pub(super) fn watch(bell: &Bell, seen: u32, end: Instant, yield_core: impl Fn()) -> WatchEnd {
    let mut now = Instant::now();
    while bell.rung() == seen {
        if now >= end {
            return WatchEnd::TimeUp;
        }
        let before = now;
        yield_core();
        now = Instant::now();
        if now.duration_since(before) > LONG_YIELD {
            return WatchEnd::LongYield;
        }
    }
    WatchEnd::Rung
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How many waits begin with sleep from now on.
    fn sleeping_waits(watch: &mut BellWatch) -> usize {
        std::iter::repeat_with(|| watch.begin_wait()).take_while(Duration::is_zero).count()
    }

    #[test]
    fn each_long_yield_doubles_the_waits_that_begin_with_sleep() {
        let mut watch = BellWatch::in_shared_memory();
        assert_eq!(sleeping_waits(&mut watch), 0);
        for expected in [64, 128, 256, 512, 1024, 2048, 4096, 4096] {
            watch.note_long_yield();
            assert_eq!(sleeping_waits(&mut watch), expected);
        }
        assert!(BellWatch::default().begin_wait().is_zero());
    }

    #[test]
    fn each_wait_that_ends_without_sleep_takes_one_off() {
        let mut watch = BellWatch::in_shared_memory();
        watch.note_long_yield();
        assert_eq!(sleeping_waits(&mut watch), 64);
        (0..3).for_each(|_| watch.end_wait());
        watch.note_long_yield();
        assert_eq!(sleeping_waits(&mut watch), 125);
        (0..1000).for_each(|_| watch.end_wait());
        watch.note_long_yield();
        assert_eq!(sleeping_waits(&mut watch), 64);
    }

    #[test]
    fn a_bell_is_watched_until_it_is_rung_the_time_is_over_or_a_yield_is_long() {
        let bell = Bell::default();
        let later = Instant::now() + Duration::from_mins(5);
        let rung_at_the_third = || {
            let seen = bell.rung();
            let yields = Cell::new(0);
            let end = watch(&bell, seen, later, || {
                yields.set(yields.get() + 1);
                if yields.get() == 3 {
                    bell.ring(Rank(1));
                }
            });
            assert!(end == WatchEnd::LongYield || yields.get() == 3, "{end:?} after {} yields", yields.get());
            end == WatchEnd::Rung
        };
        // The system may interrupt a yield.
        assert!((0..100).any(|_| rung_at_the_third()));
        let seen = bell.rung();
        bell.ring(Rank(1));
        assert_eq!(watch(&bell, seen, later, || panic!("it was rung before")), WatchEnd::Rung);
        let seen = bell.rung();
        let computes = || std::thread::sleep(2 * LONG_YIELD);
        assert_eq!(watch(&bell, seen, later, computes), WatchEnd::LongYield);
        assert_eq!(watch(&bell, seen, Instant::now(), || ()), WatchEnd::TimeUp);
    }
}
