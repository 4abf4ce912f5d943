//! How much of a rank's communication its compute lane hides.
//!
//! Communication is *open* while a lane beside the compute lane transfers or transforms messages, or waits for a certain
//! peer; a lane that waits for any peer has nothing open. Open communication is *hidden* while the compute lane neither
//! communicates nor waits, and exposed otherwise.

use crate::clock::Clock;
use crate::{Category, LaneId, Nanos, Phase};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The account that all lanes of a rank share.
#[derive(Debug, Default)]
pub struct Overlap(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    /// Whether the compute lane neither communicates nor waits.
    busy: bool,
    /// Lanes beside it whose communication is open.
    open: u32,
    /// The time up to which the account is settled.
    settled: Nanos,
    /// Hidden communication since the last call of `take`.
    hidden: Nanos,
}

impl Account {
    fn settle(&mut self, now: Nanos) {
        if self.busy && self.open > 0 {
            self.hidden += now.since(self.settled);
        }
        self.settled = now;
    }
}

/// A lane's activity, as the account distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The compute lane neither communicates nor waits.
    Busy,
    /// Another lane's communication is open.
    Open,
    /// The compute lane communicates or waits, or another lane has no open communication.
    Neither,
}

impl Activity {
    /// The activity of a lane in a phase.
    pub(crate) fn of(lane: LaneId, phase: Phase) -> Self {
        let moves = phase.category() == Category::Communication;
        let waits = phase.category() == Category::Waiting;
        if lane == LaneId::Compute {
            return if moves || waits { Self::Neither } else { Self::Busy };
        }
        if moves || phase == Phase::WaitPeer { Self::Open } else { Self::Neither }
    }
}

impl Overlap {
    /// A lane changes its activity; returns the time. The clock is read under the lock, so that changes are booked in the
    /// order of their times.
    pub(crate) fn moved(&self, clock: &dyn Clock, from: Activity, to: Activity) -> Nanos {
        let mut account = self.lock();
        let now = clock.now();
        account.settle(now);
        match from {
            Activity::Busy => account.busy = false,
            Activity::Open => account.open = account.open.saturating_sub(1),
            Activity::Neither => {}
        }
        match to {
            Activity::Busy => account.busy = true,
            Activity::Open => account.open += 1,
            Activity::Neither => {}
        }
        now
    }

    /// Hidden communication since the last call.
    pub(crate) fn take(&self) -> Nanos {
        std::mem::take(&mut self.lock().hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
