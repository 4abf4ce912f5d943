//! Ranks as threads of one process.

use crate::contract::{self, Crew, Member};
use record::{Clock, Nanos, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::Transport;
use strategies::in_process::InProcessRank;

struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

impl Member for InProcessRank {
    type Ground = ();

    fn all(ranks: u32, patience: Duration) -> ((), Vec<Self>) {
        ((), InProcessRank::all(ranks, patience, Arc::new(RealClock(Instant::now()))))
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> ((), Vec<Self>) {
        ((), InProcessRank::all_with_window(ranks, patience, Arc::new(RealClock(Instant::now())), window))
    }

    fn transport(&self) -> Box<dyn Transport> {
        InProcessRank::transport(self)
    }

    fn stop(&self) {
        InProcessRank::stop(self);
    }

    fn close(self) -> Result<(), String> {
        InProcessRank::close(self);
        Ok(())
    }
}

contract::world_tests!(Crew<InProcessRank>);
contract::member_tests!(InProcessRank);
