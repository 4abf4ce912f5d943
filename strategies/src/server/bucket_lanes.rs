//! The lanes of a worker whose gradient goes to servers bucket by bucket: one sends gradients, the other receives the new weights, so that
//! a bucket leaves while the weights of those before it are awaited.

use super::Shards;
use crate::all_reduce::{CommQueue, ReduceJob, Reduced};
use crate::handoff::{Handoff, Request, Ticket};
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::vector::Vector;
use crate::{Kind, StepError, Tag};
use record::{LaneId, Nanos};
use std::convert::Infallible;
use std::ops::Range;

/// Buckets on their way, from the lane that sends to the lane that receives, which replies to the compute lane.
pub type SentBuckets = Handoff<SentBucket, Infallible>;

/// A bucket whose gradient was sent.
pub struct SentBucket {
    /// Of the compute lane's request.
    ticket: Ticket,
    /// The gradient, in whose place the weights go.
    x: Vector,
    /// Position of its first element.
    at: usize,
    step: u64,
    /// When it was sent.
    began: Nanos,
    parts: Vec<BucketPart>,
}

/// Part of a bucket that one server holds.
struct BucketPart {
    server: usize,
    span: Range<usize>,
    /// Number of the server's buckets in this step before it.
    call: u32,
}

impl BucketPart {
    fn tag(&self, kind: Kind, step: u64) -> Tag {
        Tag { call: self.call, ..Tag::new(kind, step) }
    }
}

/// Sends buckets in the order of the compute lane, so that all workers and servers agree on it.
pub struct SendingLane {
    queue: CommQueue,
    sent: SentBuckets,
    shards: Shards,
    /// The step of the last bucket, and how many each server had of it.
    step: u64,
    calls: Vec<u32>,
}

impl SendingLane {
    /// The lane that serves `queue` and hands what it sent to the lane of `sent`.
    pub fn new(queue: CommQueue, sent: SentBuckets, shards: Shards) -> Self {
        Self { queue, sent, shards, step: 0, calls: vec![0; shards.servers()] }
    }

    /// Parts of a bucket, one for each server that holds any of it.
    fn parts(&mut self, bucket: Range<usize>, step: u64) -> Vec<BucketPart> {
        if step != self.step {
            self.step = step;
            self.calls.fill(0);
        }
        let calls = &mut self.calls;
        let part = |(server, span): (usize, Range<usize>)| {
            let call = calls[server];
            calls[server] += 1;
            BucketPart { server, span, call }
        };
        self.shards.of_part(bucket).map(part).collect()
    }
}

impl Service for SendingLane {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work }) = self.queue.next(&mut ctx.lane)? else {
            self.sent.close();
            return Ok(ServiceStep::Finished);
        };
        let ReduceJob { x, at, tag: Tag { step, .. }, .. } = work;
        let began = ctx.lane.clock.now();
        let parts = self.parts(at..at + x.len(), step);
        for part in &parts {
            let values = &x[part.span.start - at..part.span.end - at];
            let server = self.shards.place(part.server);
            let push = part.tag(Kind::Push, step);
            ctx.wire().send(server, push, part.span.start, values)?;
        }
        self.sent.hand_on(SentBucket { ticket, x, at, step, began, parts });
        Ok(ServiceStep::Served(samples_after_bucket(ctx, at, step)))
    }
}

/// Receives the weights of each bucket, in the order in which the buckets were sent.
pub struct ReceivingLane {
    queue: CommQueue,
    sent: SentBuckets,
    shards: Shards,
    /// When the weights of the last bucket had come.
    free: Nanos,
}

impl ReceivingLane {
    /// The lane that replies to `queue` for what was sent.
    pub fn new(queue: CommQueue, sent: SentBuckets, shards: Shards) -> Self {
        Self { queue, sent, shards, free: Nanos(0) }
    }
}

impl Service for ReceivingLane {
    fn lane(&self) -> LaneId {
        LaneId::Receiving
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { work, .. }) = self.sent.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let SentBucket { ticket, mut x, at, step, began, parts } = work;
        for part in parts {
            let values = &mut x[part.span.start - at..part.span.end - at];
            let server = self.shards.place(part.server);
            let pull = part.tag(Kind::Pull, step);
            ctx.wire().weights().recv_into(server, pull, values)?;
        }
        let began = began.max(self.free);
        let ended = ctx.lane.clock.now();
        self.free = ended;
        self.queue.reply(ticket, Reduced { x, began, ended });
        Ok(ServiceStep::Served(samples_after_bucket(ctx, at, step)))
    }
}

/// The bucket at the beginning of the gradient is the last one of its step.
fn samples_after_bucket(ctx: &ServiceContext, at: usize, step: u64) -> u64 {
    ctx.info.plan.budget.samples_after(if at == 0 { step } else { step - 1 })
}
