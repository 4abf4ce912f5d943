//! The lane of a server that snapshots the model for evaluation, until the last worker has left.

use crate::server::shards::Shards;
use crate::server::state::{Centre, ServerState};
use crate::server::worker_clocks::WorkerClocks;
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::vector::Vector;
use crate::{GroupRank, Kind, StepError, Tag};
use record::{LaneId, Phase, Work};
use std::borrow::Cow;

/// Snapshots the model at the evaluation points and at the end. Of several servers, the first one gathers the whole model:
/// the others send their parts, each as it is when their own clocks reach the evaluation point.
pub struct SnapshotLane<C> {
    state: ServerState<C>,
    shards: Shards,
    server: usize,
    /// Silences of another server before it counts as lost: it may wait for workers that others have lost.
    silences: u64,
    /// The whole model on the first server, the server's part on the others.
    model: Vector,
    /// The last evaluation point, from 1; one more at the end.
    point: u64,
    closed: bool,
}

impl<C: Centre> SnapshotLane<C> {
    /// The lane of a server; `silences` is the number of silences of a server until it knows that a worker is lost.
    pub fn new(state: ServerState<C>, shards: Shards, server: usize, silences: u64) -> Self {
        let model = Vector::zeros(shards.parameter_count());
        Self { state, shards, server, silences, model, point: 0, closed: false }
    }

    /// Copies the current weights, and gathers the parts of all servers on the first. Returns the samples that this
    /// server's part has seen.
    fn gather(&mut self, ctx: &mut ServiceContext) -> Result<u64, StepError> {
        let workers = ctx.info.plan.workers();
        let centre = self.state.take(ctx, workers)?;
        let samples = self.state.read(WorkerClocks::samples);
        let own = if self.server == 0 { self.shards.span(0) } else { 0..self.model.len() };
        ctx.lane.clock.timed(Phase::Snapshot, Work::Snapshot(0), || centre.copy(&mut self.model[own]));
        self.state.put_back(centre);
        let tag = Tag::new(Kind::Mark, self.point);
        if self.server > 0 {
            let at = self.shards.span(self.server).start;
            ctx.wire().exact().send(self.shards.place(0), tag, at, &self.model)?;
            return Ok(samples);
        }
        for other in 1..self.shards.servers() {
            let span = self.shards.span(other);
            let from = self.shards.place(other);
            let part = ctx.recv_patiently(self.silences, |ctx| ctx.wire().recv_packet(from, tag))?;
            ctx.wire().exact().decode(&part, &mut self.model[span])?;
        }
        Ok(samples)
    }
}

impl<C: Centre> Service for SnapshotLane<C> {
    fn lane(&self) -> LaneId {
        LaneId::Snapshot
    }

    fn start(&mut self, ctx: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        ctx.recv_broadcast(GroupRank(0), &mut self.model)?;
        let initial = self.model.clone();
        let own = self.shards.span(self.server);
        let mut centre = self.state.take(ctx, ctx.info.plan.workers())?;
        centre.load(&initial[own.clone()]);
        self.state.put_back(centre);
        if self.server > 0 {
            self.model = initial[own].to_vec().into();
        }
        Ok(Some(initial))
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.closed {
            return Ok(ServiceStep::Finished);
        }
        while self.point < ctx.info.plan.evaluations.count() {
            self.point += 1;
            let due = ctx.info.plan.evaluations.at(self.point);
            let reached = self.state.wait(&mut ctx.lane, |clocks| {
                if clocks.samples() >= due { Some(true) } else { clocks.is_closed().then_some(false) }
            })?;
            if reached {
                return self.gather(ctx).map(ServiceStep::Served);
            }
            // A worker was lost, and its last gradient may have reached some of the servers only. All servers gather at the
            // same points, so that the parts of one point never meet those of another.
            if self.shards.servers() > 1 {
                self.gather(ctx)?;
            }
        }
        self.point += 1;
        let abandoned =
            self.state.wait(&mut ctx.lane, |clocks| clocks.is_closed().then(|| clocks.is_abandoned()))?;
        if abandoned {
            return Err(StepError::Stopped);
        }
        self.closed = true;
        self.gather(ctx).map(ServiceStep::Served)
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        (self.server == 0).then_some(Cow::Borrowed(&self.model))
    }
}
