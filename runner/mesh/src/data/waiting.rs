//! Lanes that wait for messages: who they are, and how they wait before they sleep.

use crate::shared_memory::Bell;
use record::Rank;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// How long a lane reads its bell before it sleeps, where each rank has a core, in microseconds: at most as long as it takes to be
/// woken, less where that was in vain, because then it may keep the rank that it waits for from running.
const SPIN: RangeInclusive<u32> = 10..=50;

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

/// How long a lane reads its bell before it sleeps, in microseconds; of all lanes of a rank.
pub(super) struct Spin(AtomicU32);

impl Spin {
    /// Lanes sleep at once.
    pub(super) fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn longest() -> Self {
        Self(AtomicU32::new(*SPIN.end()))
    }

    /// Whether a lane that began to wait at `begin` reads its bell still.
    pub(super) fn may_go_on(&self, begin: Instant) -> bool {
        begin.elapsed().as_micros() < u128::from(self.0.load(Relaxed))
    }

    /// Reads the bell until it is rung once more than `seen`, or until a lane that began to wait at `begin` should sleep.
    pub(super) fn until_rung(&self, bell: &Bell, seen: u32, begin: Instant) {
        let length = self.0.load(Relaxed);
        while self.may_go_on(begin) {
            if bell.rung() != seen {
                self.0.store((2 * length).min(*SPIN.end()), Relaxed);
                return;
            }
            std::hint::spin_loop();
        }
        self.0.store((length / 2).max(*SPIN.start()), Relaxed);
    }
}
