//! What the lanes of a rank do at the same time: how much of its communication is hidden.
//!
//! Communication is *open* while a lane beside the compute lane moves or transforms what travels, or waits for a
//! peer of its choice; a lane that waits for whoever may come has nothing open. It is *hidden* while the compute
//! lane meanwhile neither communicates nor waits, and exposed otherwise.

use crate::{Category, Clock, LaneId, Nanos, Phase};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The one account of all lanes of a rank.
#[derive(Debug, Default)]
pub struct Overlap(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    /// Whether the compute lane neither communicates nor waits.
    busy: bool,
    /// Lanes beside it whose communication is open.
    open: u32,
    /// Until when the account is settled.
    settled: Nanos,
    /// What was hidden since the account was last asked.
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

/// What a lane does, as far as the account goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The compute lane neither communicates nor waits.
    Busy,
    /// Another lane's communication is open.
    Open,
    /// Anything else.
    Neither,
}

impl Activity {
    /// What a lane in this phase does.
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
    /// A lane goes over from one activity to another; answers when. The clock is read inside the account, so that
    /// lanes enter it in the order of their times.
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

    /// What was hidden since this was last asked.
    pub(crate) fn take(&self) -> Nanos {
        std::mem::take(&mut self.lock().hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
