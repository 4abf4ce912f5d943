//! Records the steps of a lane: where their time went, what they coded, and snapshots of the model.

use crate::plan::TrainingPlan;
use crate::runtime::{Checkpoint, Observer};
use crate::service_context::{RankInfo, ServiceContext};
use crate::strategy::{CENTRE, Evaluated, Service, Trainer};
use crate::worker_context::WorkerContext;
use crate::{Coding, Lane, Loss, State, StateError, StateVisitor, StepError, Traffic};
use record::{
    CodingRecord, Event, LaneId, Nanos, Phase, Rank, SamplesRecord, SnapshotRecord, SpanRecord, StepRecord,
    StepTiming, Work,
};
use std::sync::Arc;

/// Records the steps of one lane.
pub(crate) struct StepRecorder {
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) lane: LaneId,
    /// How the model of this lane is evaluated; `None` if only its digest is recorded.
    pub(crate) evaluated: Option<Evaluated>,
    pub(crate) digests: Digests,
    pub(crate) samples: Samples,
}

/// When the digest of the model is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digests {
    /// With each snapshot that is evaluated.
    OfSnapshots,
    /// After each step as well.
    OfEveryStep,
}

/// Whether the samples of each step are recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Samples {
    Unrecorded,
    Recorded,
}

/// The purpose of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotPurpose {
    /// Only the digest of the model is recorded.
    Digest,
    Evaluation,
    /// Evaluation of the model that the run ends with.
    Final,
}

/// A position of a lane in the run.
#[derive(Clone, Copy, Default)]
pub(crate) struct When {
    /// Steps that the lane has taken.
    pub(crate) step: u64,
    /// Samples that all ranks together have consumed, as far as the lane knows.
    pub(crate) samples: u64,
}

impl When {
    /// Saves or loads both counts.
    pub(crate) fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.number("step", &mut self.step)?;
        state.number("samples", &mut self.samples)
    }
}

/// The state of a lane at a checkpoint.
pub(crate) struct LaneState {
    /// The number of the checkpoint.
    pub(crate) number: u64,
    pub(crate) state: State,
}

/// A step of a lane, without its times.
pub(crate) struct StepSummary {
    pub(crate) samples: u64,
    pub(crate) own_samples: u32,
    pub(crate) loss: Option<Loss>,
    pub(crate) rate: Option<f32>,
    pub(crate) drain: bool,
}

impl StepSummary {
    /// The step of a service.
    pub(crate) fn served(samples: u64) -> Self {
        Self { samples, own_samples: 0, loss: None, rate: None, drain: false }
    }

    /// The time after the last step.
    pub(crate) fn drain(samples: u64) -> Self {
        Self { drain: true, ..Self::served(samples) }
    }
}

impl StepRecorder {
    /// Begins a step of the rank, at which the recipe may let something go wrong with it.
    pub(crate) fn begin_step(&self, lane: &Lane, step: u64) -> Result<(), StepError> {
        self.observer.step_begins(step, lane.clock.now())
    }

    /// The purpose of the snapshot after a step, if it needs one.
    pub(crate) fn purpose(&self, evaluation_due: bool) -> Option<SnapshotPurpose> {
        if evaluation_due {
            return Some(SnapshotPurpose::Evaluation);
        }
        (self.digests == Digests::OfEveryStep).then_some(SnapshotPurpose::Digest)
    }

    /// Records which samples a step used, if the recipe asks for it.
    pub(crate) fn record_samples(&self, ctx: &WorkerContext, step: u64) {
        if self.samples == Samples::Recorded {
            let samples = ctx.batch().examples.clone();
            self.observer.event(Event::Samples(SamplesRecord { rank: ctx.rank(), step, samples }));
        }
    }

    /// Ends a step, begins step `next`, and records where the time went.
    pub(crate) fn end_step(&self, rank: Rank, lane: &mut Lane, next: u64, summary: StepSummary) {
        let Traffic { bytes_out, bytes_in, .. } = std::mem::take(&mut lane.traffic);
        let StepTiming { step, begin, end, phases, hidden, spans } = lane.clock.next_step(next);
        for span in spans {
            self.observer.event(Event::Span(SpanRecord {
                rank,
                lane: self.lane,
                step,
                phase: span.phase,
                begin: span.begin,
                length: span.length,
                peer: span.peer,
                bytes: span.bytes,
            }));
        }
        self.observer.event(Event::Step(StepRecord {
            rank,
            lane: self.lane,
            step,
            samples: summary.samples,
            begin,
            length: end - begin,
            phases,
            bytes_out,
            bytes_in,
            loss: summary.loss.map(|loss| loss.0),
            own_samples: summary.own_samples,
            rate: summary.rate,
            drain: summary.drain,
            hidden,
        }));
    }

    /// Records the savings and losses of coding.
    pub(crate) fn record_coding(&self, rank: Rank, lane: &Lane) {
        if let Some(Coding { bytes, raw_bytes, squared, squared_error }) = lane.coding() {
            let lane = self.lane;
            let record = CodingRecord { rank, lane, bytes, raw_bytes, squared, squared_error };
            self.observer.event(Event::Coding(record));
        }
    }

    /// Hands over the state of a lane after a step; the lane is in [`Phase::Snapshot`].
    pub(crate) fn checkpoint(&self, rank: Rank, lane: &mut Lane, when: When, saved: LaneState) {
        let LaneState { number, state } = saved;
        let at = lane.clock.now();
        let size = state.size();
        let checkpoint = Checkpoint { rank, lane: self.lane, number, samples: when.samples, at, state };
        self.observer.checkpoint(checkpoint);
        lane.clock.timed(Phase::Snapshot, Work::Snapshot(size / size_of::<f32>()), || ());
    }

    /// Snapshots the model of a worker, and the centre that it holds.
    pub(crate) fn snapshot_worker(
        &self,
        ctx: &mut WorkerContext,
        strategy: &dyn Trainer,
        when: When,
        purpose: SnapshotPurpose,
    ) {
        let info = ctx.info().clone();
        let clock = &mut ctx.lane().clock;
        let before = clock.switch(Phase::Snapshot);
        let at = clock.now();
        let mut size = 0;
        if let Some(centre) = strategy.centre() {
            let judged = Evaluated::judged(CENTRE);
            self.observer.snapshot(Taken { when, at, purpose }.record(&info, Some(&judged)), centre);
            size += centre.len();
        }
        let digested = strategy.centre().is_none();
        if digested || purpose != SnapshotPurpose::Digest {
            let model = strategy.model(ctx);
            let record = Taken { when, at, purpose }.record(&info, self.evaluated.as_ref());
            self.observer.snapshot(SnapshotRecord { digested, ..record }, &model);
            size += model.len();
        }
        ctx.lane().clock.timed(Phase::Snapshot, Work::Snapshot(size), || ());
        ctx.lane().clock.switch(before);
    }

    /// Snapshots the model of a service, if it holds one.
    pub(crate) fn snapshot_service(
        &self,
        ctx: &mut ServiceContext,
        service: &dyn Service,
        when: When,
        purpose: SnapshotPurpose,
    ) {
        let Some(model) = service.model() else { return };
        let before = ctx.lane.clock.switch(Phase::Snapshot);
        let taken = Taken { when, at: ctx.lane.clock.now(), purpose };
        self.observer.snapshot(taken.record(&ctx.info, self.evaluated.as_ref()), model.as_ref());
        ctx.lane.clock.timed(Phase::Snapshot, Work::Snapshot(model.len()), || ());
        ctx.lane.clock.switch(before);
    }

    /// Snapshots a worker's model at an evaluation point, on a lane beside the one whose digests stand for the rank.
    pub(crate) fn snapshot_beside(&self, ctx: &ServiceContext, service: &dyn Service, when: When) {
        let Some(model) = service.model() else { return };
        let at = service.moment().unwrap_or(ctx.lane.clock.now());
        let taken = Taken { when, at, purpose: SnapshotPurpose::Evaluation };
        let record = taken.record(&ctx.info, self.evaluated.as_ref());
        self.observer.snapshot(SnapshotRecord { digested: false, ..record }, model.as_ref());
    }
}

/// The circumstances of a snapshot.
struct Taken {
    when: When,
    at: Nanos,
    purpose: SnapshotPurpose,
}

impl Taken {
    fn record(&self, info: &RankInfo, evaluated: Option<&Evaluated>) -> SnapshotRecord {
        let evaluated = evaluated.filter(|_| self.purpose != SnapshotPurpose::Digest);
        SnapshotRecord {
            rank: info.rank,
            model: evaluated.map(|evaluated| evaluated.name.clone()).unwrap_or_default(),
            step: self.when.step,
            samples: self.when.samples,
            at: self.at,
            file: String::new(),
            last: self.purpose == SnapshotPurpose::Final,
            mark: self.evaluation_point(&info.plan),
            standing: evaluated.map(|evaluated| evaluated.standing).unwrap_or_default(),
            group: evaluated.and_then(|evaluated| evaluated.group),
            sha256: String::new(),
            digested: true,
        }
    }

    /// The number of the evaluation point; the final model has one of its own, behind all others.
    fn evaluation_point(&self, plan: &TrainingPlan) -> u64 {
        match self.purpose {
            SnapshotPurpose::Final => plan.evaluations.count() + 1,
            SnapshotPurpose::Digest | SnapshotPurpose::Evaluation => plan.evaluations.last(self.when.samples),
        }
    }
}
