//! The communication lane of a worker with servers: gradients up and weights down, bucket by bucket.

use super::Shards;
use crate::all_reduce::{CommQueue, ReduceJob, Reduced};
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::{Kind, Request, StepError, Tag};
use record::LaneId;

/// Exchanges each bucket for its new weights, in the order in which they were sent, so that all workers and servers agree on it.
pub struct BucketLane {
    queue: CommQueue,
    shards: Shards,
    /// The step of the last bucket, and how many each server had of it.
    step: u64,
    sent: Vec<u32>,
}

impl BucketLane {
    /// The lane that serves `queue`.
    pub fn new(queue: CommQueue, shards: Shards) -> Self {
        Self { queue, shards, step: 0, sent: vec![0; shards.servers()] }
    }
}

impl Service for BucketLane {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work }) = self.queue.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let ReduceJob { mut x, at, tag, .. } = work;
        if tag.step != self.step {
            self.step = tag.step;
            self.sent.fill(0);
        }
        let began = ctx.lane.clock.now();
        let parts: Vec<_> = self.shards.of_part(at..at + x.len()).collect();
        let call = |kind, sent: u32| Tag { call: sent, ..Tag::new(kind, tag.step) };
        for (server, span) in &parts {
            let push = call(Kind::Push, self.sent[*server]);
            let values = &x[span.start - at..span.end - at];
            ctx.wire().send(self.shards.place(*server), push, span.start, values)?;
        }
        for (server, span) in parts {
            let pull = call(Kind::Pull, self.sent[server]);
            let values = &mut x[span.start - at..span.end - at];
            ctx.wire().weights().recv_into(self.shards.place(server), pull, values)?;
            self.sent[server] += 1;
        }
        self.queue.reply(ticket, Reduced { x, began, ended: ctx.lane.clock.now() });
        // The bucket at the beginning of the gradient is the last one of the step.
        let steps = if at == 0 { tag.step } else { tag.step - 1 };
        Ok(ServiceStep::Served(ctx.info.plan.budget.samples_after(steps)))
    }
}
