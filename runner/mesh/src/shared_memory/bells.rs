//! How lanes wait for messages: a number for each kind, raised by the sender of a message for that kind's lane.
//!
//! The numbers lie in the shared memory where there is any, so that a peer wakes a lane by one system call, and by none where the lane
//! does not sleep. Nothing is read from them but that something may have come: a peer that writes nonsense there wakes a lane in vain,
//! or leaves it asleep until its own deadline.

use record::Rank;
use rustix::thread::futex;
use rustix::time::Timespec;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use strategies::Kind;

/// Of no lane, and of a lane that any message of the kind wakes. A lane that waits for one rank has its number plus [`FIRST`].
const NO_LANE: u32 = 0;
const ANYONE: u32 = 1;
const FIRST: u32 = 2;

/// The bells of a rank, one for each kind.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Bells([Bell; Kind::ALL.len()]);

impl Bells {
    pub(crate) fn of(&self, kind: Kind) -> &Bell {
        &self.0[kind as usize]
    }

    /// Rings the bells of all kinds, which wakes every lane.
    pub(crate) fn ring_all(&self) {
        for bell in &self.0 {
            bell.rung.fetch_add(1, Ordering::SeqCst);
            bell.wake();
        }
    }
}

/// A bell, in a cache line of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// How often it was rung.
    rung: AtomicU32,
    /// The sender for whose messages a lane sleeps.
    wanted: AtomicU32,
}

impl Bell {
    /// How often it was rung: to be read before a lane looks for messages, and given to [`sleep`](Self::sleep) after it.
    pub(crate) fn rung(&self) -> u32 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Tells which messages the lanes sleep for: those of one rank or of any, or that none sleeps. To be set before sleeping.
    pub(crate) fn want(&self, lanes: u32, only: Option<Rank>) {
        let wanted = match only {
            _ if lanes == 0 => NO_LANE,
            Some(rank) => rank.0.saturating_add(FIRST),
            None => ANYONE,
        };
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    /// A message of `from` can be seen: the lanes that sleep for it look.
    pub(crate) fn ring(&self, from: Rank) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted == ANYONE || wanted == from.0.saturating_add(FIRST) {
            self.wake();
        }
    }

    /// Sleeps until it is rung once more than `seen`, at most for `limit`. May return early.
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        // Fails where it has been rung meanwhile, or the time is over: the caller looks again in each case.
        let _ = futex::wait(&self.rung, futex::Flags::empty(), seen, Some(&limit));
    }

    fn wake(&self) {
        let _ = futex::wake(&self.rung, futex::Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_bell_that_was_rung_before_the_sleep_is_heard() {
        let bell = Bell::default();
        let seen = bell.rung();
        bell.want(1, Some(Rank(3)));
        bell.ring(Rank(0));
        let begun = Instant::now();
        bell.sleep(seen, LONG);
        assert!(begun.elapsed() < LONG / 2, "the number is another, for any ringer");
    }

    #[test]
    fn who_sleeps_for_a_rank_is_woken_by_it_and_by_all_for_everybody() {
        let bells = Arc::new(Bells::default());
        for (only, ring_all) in [(Some(Rank(3)), false), (None, false), (Some(Rank(9)), true)] {
            let bell = bells.of(Kind::Pull);
            let seen = bell.rung();
            bell.want(1, only);
            let ringer = bells.clone();
            let begun = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(30));
                    if ring_all { ringer.ring_all() } else { ringer.of(Kind::Pull).ring(Rank(3)) }
                });
                while bell.rung() == seen {
                    bell.sleep(seen, LONG);
                }
            });
            assert!(begun.elapsed() < LONG / 2);
        }
    }
}
