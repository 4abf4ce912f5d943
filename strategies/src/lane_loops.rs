//! The loops that drive lanes: the training loop of every strategy, and the loops of services.

use crate::plan::Progress;
use crate::runtime::Gate;
use crate::service_context::ServiceContext;
use crate::step_recorder::{LaneState, SnapshotPurpose, StepRecorder, StepSummary, When};
use crate::strategy::{Service, ServiceStep, Trainer};
use crate::worker_context::WorkerContext;
use crate::{State, StateVisitor, StepError};
use record::{Event, Phase};

/// Drives the compute lane.
pub(crate) fn train(
    mut ctx: WorkerContext,
    mut strategy: Box<dyn Trainer>,
    gate: &dyn Gate,
    recorder: &StepRecorder,
    resumed: Option<State>,
) -> Result<(), StepError> {
    strategy.start(&mut ctx)?;
    gate.pass(Some(ctx.weights()))?;
    let plan = ctx.info().plan.clone();
    ctx.lane().restart(1);
    let mut last = When::default();
    if let Some(state) = resumed {
        state.load(|state| worker_state(&mut ctx, strategy.as_mut(), &mut last, state))?;
        ctx.lane().clock.restart(last.step + 1);
    } else {
        recorder.snapshot_worker(&mut ctx, strategy.as_ref(), last, SnapshotPurpose::Evaluation);
    }
    let first = last.step;
    for step in first + 1.. {
        if recorder.observer.stopping() {
            return Err(StepError::Stopped);
        }
        recorder.begin_step(ctx.lane(), step)?;
        ctx.begin(step, last.samples);
        let loss = strategy.step(&mut ctx)?;
        if !loss.0.is_finite() {
            return Err(StepError::Diverged { step, loss: loss.0 });
        }
        let Progress { samples, over } = strategy.progress(&ctx);
        let due = strategy.snapshots_at_evaluations() && plan.evaluations.due(last.samples, samples);
        let checkpoint = plan.checkpoint(last.samples, samples);
        last = When { step, samples };
        if let Some(purpose) = recorder.purpose(due).filter(|_| !over) {
            recorder.snapshot_worker(&mut ctx, strategy.as_ref(), last, purpose);
        }
        if due && let Some(record) = ctx.schedule_record() {
            // A run that is stopped at its target ends here.
            recorder.observer.event(Event::Schedule(record));
        }
        if let Some(number) = checkpoint {
            let before = ctx.lane().clock.switch(Phase::Snapshot);
            let state = State::save(|state| worker_state(&mut ctx, strategy.as_mut(), &mut last, state))?;
            recorder.checkpoint(ctx.rank(), ctx.lane(), last, LaneState { number, state });
            ctx.lane().clock.switch(before);
        }
        recorder.record_samples(&ctx, step);
        let own_samples = ctx.batch().examples.len() as u32;
        let summary =
            StepSummary { samples, own_samples, loss: Some(loss), rate: Some(ctx.rate()), drain: false };
        recorder.end_step(ctx.rank(), ctx.lane(), step + 1, summary);
        if over {
            break;
        }
    }
    ctx.set_consumed(last.samples);
    strategy.finish(&mut ctx)?;
    // A worker at its own pace may learn only now how much the others have consumed.
    last.samples = last.samples.max(strategy.progress(&ctx).samples);
    ctx.close_comm_queue();
    if let Some(record) = ctx.schedule_record() {
        recorder.observer.event(Event::Schedule(record));
    }
    recorder.snapshot_worker(&mut ctx, strategy.as_ref(), last, SnapshotPurpose::Final);
    let summary = StepSummary { rate: Some(ctx.rate()), ..StepSummary::drain(last.samples) };
    recorder.end_step(ctx.rank(), ctx.lane(), last.step + 2, summary);
    recorder.record_coding(ctx.rank(), ctx.lane());
    recorder.observer.event(Event::Usage(ctx.usage(last.step - first)));
    Ok(())
}

/// Everything that the next step of a compute lane depends on.
fn worker_state(
    ctx: &mut WorkerContext,
    strategy: &mut dyn Trainer,
    last: &mut When,
    state: &mut StateVisitor<'_>,
) -> Result<(), StepError> {
    last.state(state)?;
    state.within("strategy", |state| strategy.state(ctx, state))?;
    Ok(ctx.state(state)?)
}

/// Drives a service from its start, or from the state in `resumed`, to its last step.
pub(crate) fn serve(
    mut ctx: ServiceContext,
    mut service: Box<dyn Service>,
    gate: &dyn Gate,
    recorder: &StepRecorder,
    resumed: Option<State>,
) -> Result<(), StepError> {
    let initial = service.start(&mut ctx)?;
    gate.pass(initial.as_ref())?;
    drop(initial);
    ctx.lane.restart(1);
    let plan = ctx.info.plan.clone();
    let rank = ctx.info.rank;
    let mut last = When::default();
    if let Some(state) = resumed {
        state.load(|state| service_state(&mut ctx, service.as_mut(), &mut last, state))?;
        ctx.lane.clock.restart(last.step + 1);
    } else {
        recorder.snapshot_service(&mut ctx, service.as_ref(), last, SnapshotPurpose::Evaluation);
    }
    for step in last.step + 1.. {
        // The steps of a worker are those of its compute lane.
        if ctx.info.trainers.is_none() {
            recorder.begin_step(&ctx.lane, step)?;
        }
        let ServiceStep::Served(samples) = service.step(&mut ctx)? else {
            recorder.snapshot_service(&mut ctx, service.as_ref(), last, SnapshotPurpose::Final);
            recorder.end_step(rank, &mut ctx.lane, step + 1, StepSummary::drain(last.samples));
            recorder.record_coding(rank, &ctx.lane);
            return Ok(());
        };
        let purpose = recorder.purpose(plan.evaluations.due(last.samples, samples));
        let checkpoint = plan.checkpoint(last.samples, samples);
        last = When { step, samples };
        if let Some(purpose) = purpose.filter(|_| samples < plan.budget.samples()) {
            recorder.snapshot_service(&mut ctx, service.as_ref(), last, purpose);
        }
        if let Some(number) = checkpoint {
            let before = ctx.lane.clock.switch(Phase::Snapshot);
            let state = State::save(|state| service_state(&mut ctx, service.as_mut(), &mut last, state))?;
            recorder.checkpoint(rank, &mut ctx.lane, last, LaneState { number, state });
            ctx.lane.clock.switch(before);
        }
        recorder.end_step(rank, &mut ctx.lane, step + 1, StepSummary::served(samples));
    }
    Ok(())
}

/// Everything that the next step of a service depends on.
fn service_state(
    ctx: &mut ServiceContext,
    service: &mut dyn Service,
    last: &mut When,
    state: &mut StateVisitor<'_>,
) -> Result<(), StepError> {
    last.state(state)?;
    state.within("service", |state| service.state(state))?;
    Ok(state.within("lane", |state| ctx.lane.state(state))?)
}

/// Drives a lane of the measurement: its time is in no phase, only its snapshots are recorded.
pub(crate) fn attend(
    mut ctx: ServiceContext,
    mut service: Box<dyn Service>,
    gate: &dyn Gate,
    recorder: &StepRecorder,
) -> Result<(), StepError> {
    service.start(&mut ctx)?;
    gate.pass(None)?;
    ctx.lane.restart(1);
    for step in 1.. {
        let ServiceStep::Served(samples) = service.step(&mut ctx)? else { break };
        recorder.snapshot_beside(&ctx, service.as_ref(), When { step, samples });
    }
    Ok(())
}
