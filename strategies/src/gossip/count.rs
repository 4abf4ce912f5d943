//! The count of consumed samples: the virtual counter k of AD-PSGD, which no worker has in the paper.
//!
//! It belongs to the measurement and not to the method. It hands out the budget, so that a run consumes less than one step
//! more than its budget, and it tells all workers at once that an evaluation point is reached, so that the evaluated models
//! are those that all workers hold at that moment, however long their steps are.
//!
//! Rank 0 holds it on lanes of their own: one for each worker, and one that announces evaluation points. A worker claims
//! its next step when it has a gradient, so that the reply arrives while the gradient is applied. The messages are a few
//! bytes long and pass no emulated card. A worker that loses rank 0 counts by the notes of its neighbours.

use crate::Progress;
use crate::gossip::Local;
use crate::message::{Fields, Message};
use crate::plan::TrainingPlan;
use crate::runtime::{Bell, Shared};
use crate::server::{TrainingEnd, WorkerClocks};
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::vector::Vector;
use crate::{GroupRank, Kind, StepError, Tag};
use record::{LaneId, Nanos, Phase};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// The rank that holds the count.
const HOLDER: GroupRank = GroupRank(0);

/// Deadlines in a row after which a worker counts as lost: its steps may be long.
const PATIENCE: u64 = 3;

/// Sent by a worker to the count: one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It asks for a further step.
    Claim,
    /// It has finished a step.
    Finished,
    /// It takes no further step.
    Leave,
}

impl Word {
    const ALL: [Self; 3] = [Self::Claim, Self::Finished, Self::Leave];
}

impl Message for Word {
    const NAME: &'static str = "a word to the sample count";

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let number = fields.u8()?;
        Self::ALL.into_iter().find(|word| *word as u8 == number)
    }
}

/// The reply of the count to a claim: 9 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reply {
    samples: u64,
    granted: bool,
}

impl Message for Reply {
    const NAME: &'static str = "a reply of the sample count";

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.samples.to_le_bytes());
        out.push(u8::from(self.granted));
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { samples: fields.u64()?, granted: fields.flag()? })
    }
}

/// An evaluation point that the run has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reached {
    /// Samples consumed by all ranks together.
    samples: u64,
    /// When the last of them was counted, on the clock of the run.
    at: Nanos,
}

/// Sent to every worker: 16 bytes; none when no further evaluation point follows.
impl Message for Option<Reached> {
    const NAME: &'static str = "an evaluation point";

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(Reached { samples, at }) = self {
            out.extend(samples.to_le_bytes());
            out.extend(at.0.to_le_bytes());
        }
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        if fields.is_empty() {
            return Some(None);
        }
        Some(Some(Reached { samples: fields.u64()?, at: Nanos(fields.u64()?) }))
    }
}

/// The count as a worker's compute lane sees it.
#[derive(Default)]
pub struct CountClient {
    /// Words sent so far.
    sent: u64,
    lost: bool,
}

impl CountClient {
    /// The client of a worker before its first step, which it need not claim.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the rank that holds the count is lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Claims the step after the current one.
    pub fn claim(&mut self, ctx: &mut ServiceContext, local: &Local) -> Result<(), StepError> {
        self.tell(ctx, local, Word::Claim)
    }

    /// The gradient is applied: returns whether the claimed step is granted. `known` samples are consumed as far as the
    /// worker's neighbours know.
    pub fn finished(
        &mut self,
        ctx: &mut ServiceContext,
        local: &Local,
        known: u64,
    ) -> Result<Progress, StepError> {
        let progress = self.reply(ctx, local, known)?;
        self.tell(ctx, local, Word::Finished)?;
        Ok(progress)
    }

    /// The worker takes no further step. Returns the progress of the run.
    pub fn leave(
        &mut self,
        ctx: &mut ServiceContext,
        local: &Local,
        known: u64,
    ) -> Result<Progress, StepError> {
        self.tell(ctx, local, Word::Leave)?;
        self.reply(ctx, local, known)
    }

    fn tell(&mut self, ctx: &mut ServiceContext, local: &Local, word: Word) -> Result<(), StepError> {
        if self.lost {
            return Ok(());
        }
        self.sent += 1;
        let tag = Tag::new(Kind::Count, self.sent);
        ctx.send_message(HOLDER, tag, &word).or_else(|error| self.lose_count(ctx, local, error))
    }

    /// The reply to the last word.
    fn reply(&mut self, ctx: &mut ServiceContext, local: &Local, known: u64) -> Result<Progress, StepError> {
        if !self.lost {
            let tag = Tag::new(Kind::Counted, self.sent);
            match ctx.recv_message(HOLDER, tag) {
                Ok(Reply { samples, granted }) => {
                    return Ok(Progress { samples: samples.max(known), over: !granted });
                }
                Err(error) => self.lose_count(ctx, local, error)?,
            }
        }
        Ok(Progress { samples: known, over: known >= ctx.info.plan.budget.samples() })
    }

    /// The count failed. If its rank is lost, the loss is recorded and the worker continues without it.
    fn lose_count(
        &mut self,
        ctx: &mut ServiceContext,
        local: &Local,
        error: StepError,
    ) -> Result<(), StepError> {
        // Words are counted here, not the holder's steps.
        ctx.lose_peer(ctx.info.everyone.rank(HOLDER), 0, error)?;
        self.lost = true;
        local.lose_count();
        ctx.resume(Phase::Other);
        Ok(())
    }
}

/// The count, shared by the lanes of the rank that holds it.
#[derive(Clone)]
pub struct SampleCount {
    state: Shared<State>,
}

struct State {
    clocks: WorkerClocks,
    /// The last evaluation point that was reached.
    point: u64,
    /// Evaluation points that are not announced yet.
    reached: VecDeque<Reached>,
}

impl SampleCount {
    /// The count of a run that has not begun; every worker is granted its first step.
    pub fn new(plan: &TrainingPlan, bell: Arc<dyn Bell>) -> Self {
        let clocks = WorkerClocks::new(plan, None, TrainingEnd::Here);
        Self { state: Shared::new(State { clocks, point: 0, reached: VecDeque::new() }, bell) }
    }

    /// The lanes that hold it.
    pub fn lanes(&self, workers: usize) -> Vec<Box<dyn Service>> {
        let server =
            |worker| Box::new(CountServer { count: self.clone(), worker, heard: 0 }) as Box<dyn Service>;
        let mut lanes: Vec<_> = (0..workers).map(server).collect();
        lanes.push(Box::new(EvaluationAnnouncer { count: self.clone(), announced: 0, closed: false }));
        lanes
    }

    /// A worker has finished a step.
    fn finished(&self, ctx: &ServiceContext, worker: usize) {
        let at = ctx.lane.clock.now();
        self.state.change(|state| {
            state.clocks.count(worker, 1);
            let samples = state.clocks.samples();
            let point = ctx.info.plan.evaluations.last(samples);
            if point > state.point {
                state.point = point;
                state.reached.push_back(Reached { samples, at });
            }
        });
    }

    fn grant(&self, worker: usize) -> Reply {
        let Progress { samples, over } = self.state.change(|state| state.clocks.release(worker));
        Reply { samples, granted: !over }
    }

    fn leave(&self, worker: usize) -> Reply {
        let samples = self.state.change(|state| {
            state.clocks.leave(worker);
            state.clocks.samples()
        });
        Reply { samples, granted: false }
    }
}

/// The lane of the count for one worker.
struct CountServer {
    count: SampleCount,
    worker: usize,
    heard: u64,
}

impl CountServer {
    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.heard += 1;
        let place = GroupRank(self.worker);
        let tag = Tag::new(Kind::Count, self.heard);
        let packet = ctx.recv_patiently(PATIENCE, |ctx| ctx.wire().exact().recv_unasked(place, tag))?;
        let word = Word::decode(&packet, ctx.info.rank)?;
        let reply = match word {
            Word::Finished => {
                self.count.finished(ctx, self.worker);
                return Ok(ServiceStep::Served(0));
            }
            Word::Claim => self.count.grant(self.worker),
            Word::Leave => self.count.leave(self.worker),
        };
        ctx.send_message(place, Tag::new(Kind::Counted, self.heard), &reply)?;
        Ok(if word == Word::Leave { ServiceStep::Finished } else { ServiceStep::Served(reply.samples) })
    }
}

impl Service for CountServer {
    fn lane(&self) -> LaneId {
        LaneId::Count(self.worker as u16)
    }

    /// The step that a lost worker had claimed is granted to another.
    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.serve(ctx).or_else(|error| {
            ctx.lose_peer(ctx.info.everyone.rank(GroupRank(self.worker)), 0, error)?;
            self.count.state.change(|state| state.clocks.lose(self.worker));
            Ok(ServiceStep::Finished)
        })
    }
}

/// The lane of the count that announces evaluation points to all workers.
struct EvaluationAnnouncer {
    count: SampleCount,
    announced: u64,
    closed: bool,
}

impl Service for EvaluationAnnouncer {
    fn lane(&self) -> LaneId {
        LaneId::Announcer
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.closed {
            return Ok(ServiceStep::Finished);
        }
        let reached = self.count.state.wait(&mut ctx.lane, |state| match state.reached.pop_front() {
            Some(reached) => Some(Some(reached)),
            None => state.clocks.is_closed().then_some(None),
        })?;
        self.announced += 1;
        let tag = Tag::new(Kind::Mark, self.announced);
        for worker in (0..ctx.info.plan.workers()).map(GroupRank) {
            let sent = ctx.send_message(worker, tag, &reached);
            let rank = ctx.info.everyone.rank(worker);
            // Another lane records that this worker is lost.
            if let Err(error) = sent
                && !ctx.is_absence_of(rank, &error)
            {
                return Err(error);
            }
        }
        self.closed = reached.is_none();
        Ok(ServiceStep::Served(reached.map_or(0, |reached| reached.samples)))
    }
}

/// The lane of a worker that snapshots its model at an evaluation point, while the compute lane computes.
pub struct EvaluationSnapshots {
    local: Local,
    heard: u64,
    snapshot: Option<(Vector, Nanos)>,
}

impl EvaluationSnapshots {
    /// The lane of the worker that has this model.
    pub fn new(local: Local) -> Self {
        Self { local, heard: 0, snapshot: None }
    }

    /// The next evaluation point; `None` after the last, and if the count is lost.
    fn next(&mut self, ctx: &mut ServiceContext) -> Result<Option<Reached>, StepError> {
        self.heard += 1;
        let tag = Tag::new(Kind::Mark, self.heard);
        let holder = ctx.info.everyone.rank(HOLDER);
        loop {
            let received = ctx.wire().exact().recv_unasked(HOLDER, tag);
            match received {
                Ok(packet) => return Message::decode(&packet, ctx.info.rank),
                // Evaluation points may be far apart; the compute lane finds out whether the count is lost.
                Err(StepError::Silent { .. }) if self.local.is_counted() => ctx.resume(Phase::Other),
                Err(error) if ctx.is_absence_of(holder, &error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Service for EvaluationSnapshots {
    fn lane(&self) -> LaneId {
        LaneId::Snapshot
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.snapshot = None;
        let Some(Reached { samples, at }) = self.next(ctx)? else { return Ok(ServiceStep::Finished) };
        let model = self.local.snapshot(ctx, samples);
        self.snapshot = Some((model, at));
        Ok(ServiceStep::Served(samples))
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        self.snapshot.as_ref().map(|(model, _)| Cow::Borrowed(model))
    }

    fn moment(&self) -> Option<Nanos> {
        self.snapshot.as_ref().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;
    use record::Rank;

    #[test]
    fn messages_come_back_and_other_bytes_do_not() {
        for word in Word::ALL {
            assert_eq!(Word::decode(&word.encode(), Rank(0)), Ok(word));
        }
        for granted in [false, true] {
            let reply = Reply { samples: u64::MAX - 1, granted };
            assert_eq!(Reply::decode(&reply.encode(), Rank(0)), Ok(reply));
        }
        for reached in [None, Some(Reached { samples: 7, at: Nanos(u64::MAX) })] {
            assert_eq!(Message::decode(&reached.encode(), Rank(0)), Ok(reached));
        }
        for length in 0..40 {
            let packet = Packet(vec![4; length].into());
            assert!(Word::decode(&packet, Rank(0)).is_err());
            assert!(Reply::decode(&packet, Rank(0)).is_err());
            assert_eq!(Option::<Reached>::decode(&packet, Rank(0)).is_ok(), length == 0 || length == 16);
        }
    }
}
