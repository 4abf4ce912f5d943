//! Ranks as threads of one process.

use record::{Clock, Nanos, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::Transport;
use strategies::in_process::InProcessRank;
use transport_contract::{Crew, TestMember};

struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

/// A rank of its own thread.
struct ThreadRank(InProcessRank);

impl ThreadRank {
    fn every(ranks: Vec<InProcessRank>) -> ((), Vec<Self>) {
        ((), ranks.into_iter().map(Self).collect())
    }
}

impl TestMember for ThreadRank {
    type Ground = ();

    fn all(ranks: u32, patience: Duration) -> ((), Vec<Self>) {
        Self::every(InProcessRank::all(ranks, patience, Arc::new(RealClock(Instant::now()))))
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> ((), Vec<Self>) {
        let clock = Arc::new(RealClock(Instant::now()));
        Self::every(InProcessRank::all_with_window(ranks, patience, clock, window))
    }

    fn transport(&self) -> Box<dyn Transport> {
        self.0.transport()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn close(self) -> Result<(), String> {
        self.0.close();
        Ok(())
    }
}

transport_contract::world_tests!(Crew<ThreadRank>);
transport_contract::member_tests!(ThreadRank);
