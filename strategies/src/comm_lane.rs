//! The communication lane: runs all-reduces while the compute lane computes.

use crate::all_reduce::{AllReduce, CommQueue, ReduceJob, Reduced};
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::{Request, StateVisitor, StepError};
use record::LaneId;

/// Runs all-reduces in the order in which they were sent, so that all ranks agree on it.
pub struct CommLane {
    queue: CommQueue,
    all_reduce: AllReduce,
}

impl CommLane {
    /// The lane that serves `queue`.
    pub fn new(queue: CommQueue, all_reduce: AllReduce) -> Self {
        Self { queue, all_reduce }
    }
}

impl Service for CommLane {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        Ok(self.all_reduce.state(state)?)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work }) = self.queue.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let ReduceJob { mut x, at, group, tag, steps } = work;
        let began = ctx.lane.clock.now();
        self.all_reduce.mean(&mut x, tag, ctx.lane.wire(&group).of_part(at))?;
        self.queue.reply(ticket, Reduced { x, began, ended: ctx.lane.clock.now() });
        Ok(ServiceStep::Served(ctx.info.plan.budget.samples_after(steps)))
    }
}
