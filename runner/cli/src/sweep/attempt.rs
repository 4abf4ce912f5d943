//! An attempt at a run by this process: launched, recorded, and closed in the store's books.

use super::outcome::{
    Attempted, changed, changed_data, ended, is_of_the_infrastructure, lost, without_machines,
};
use super::{Pace, Sweep};
use crate::environment::Environment;
use crate::exit::Failure;
use crate::machines::Machines;
use crate::output::human;
use crate::progress::RunEnd;
use crate::queue;
use crate::recorder::Recorder;
use crate::resume;
use crate::reuse::{Action, Decision};
use launch::{Attempt, Continuation, Deadlines, LaunchError, Outcome, StopSignal, Update};
use recipe::{Access, Plan, Run, RunSpec};
use std::path::Path;
use std::time::Instant;
use store::{AttemptEnd, AttemptId, NewAttempt, NodeId, RunId, RunState, StoreError};
use tokio::sync::mpsc;

/// Updates that wait for the recorder; beyond them the launcher keeps them.
pub(crate) const CHANNEL: usize = 1024;

impl Sweep<'_> {
    /// Tries a run; faults of the infrastructure are tried again as often as the recipe allows.
    pub(super) async fn try_until_it_ends(
        &self,
        run: &Run,
        id: &RunId,
        decision: &Decision,
    ) -> Result<Attempted, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let attempted = match self.pace {
                Pace::Queued(queue) => self.attempt_in(queue, run, id, decision).await?,
                Pace::OneByOne | Pace::AtOnce(_) => self.attempt(run, id, decision).await?,
            };
            if attempted.is_left {
                self.progress.left(run);
                return Ok(attempted);
            }
            let end = &attempted.end;
            let again = attempted.may_do_better
                && tries <= self.plan.limits.retries
                && self.session.interrupted().is_none();
            if again {
                self.progress.again(self.plan, run, &end.detail);
                continue;
            }
            let as_ordered = attempted.as_ordered;
            let told = RunEnd { state: end.state, wall: end.wall, detail: &end.detail, as_ordered };
            self.progress.ended(self.plan, run, &told);
            return Ok(attempted);
        }
    }

    /// The runs from whose checkpoints a run may continue: itself when it is tried again, and those before it.
    pub(super) fn continued(id: &RunId, decision: &Decision) -> Vec<RunId> {
        match &decision.action {
            Action::Resume(earlier) => earlier.iter().chain([id]).cloned().collect(),
            Action::Run | Action::Repeat | Action::Reuse(_) => vec![id.clone()],
        }
    }

    async fn attempt(&self, run: &Run, id: &RunId, decision: &Decision) -> Result<Attempted, StoreError> {
        let spec = match self.pace {
            Pace::AtOnce(places) => &places.placed(self.plan, run),
            Pace::OneByOne | Pace::Queued(_) => &self.plan.cells[run.cell].spec,
        };
        // A machine without ranks has no row and needs none; its position must not shift the others.
        let row =
            |node: &recipe::Node| self.nodes.get(&node.name).or_else(|| self.nodes.values().next()).copied();
        let nodes: Vec<NodeId> = spec.cluster.nodes.iter().filter_map(row).collect();
        let new = NewAttempt { started: human::now(), cluster: &spec.cluster, nodes: &nodes };
        let attempt = self.store.record_attempt(id, &new).await?;
        self.store.record_surroundings(attempt, human::now(), &decision.surroundings).await?;
        let number = self.store.attempt_number(attempt).await?;
        let directory = self.store.attempt_directory(id, number);
        self.progress.attempt(self.plan, run, number);
        let (updates, arriving) = mpsc::channel(CHANNEL);
        let recorder = Recorder {
            store: self.store.clone(),
            attempt,
            run: *run,
            directory: directory.clone(),
            progress: self.progress.clone(),
        };
        let recording = tokio::spawn(recorder.record(arriving));
        let continued = Self::continued(id, decision);
        let execution = Execution {
            plan: self.plan,
            spec,
            seed: run.seed,
            directory: &directory,
            environment: self.environment,
            resume: resume::continuation(&resume::attempts(self.store, &continued), spec),
        };
        let begun = Instant::now();
        let outcome = execute(execution, self.session.stop(), updates).await;
        let recorded = recording.await;
        let is_lost = is_of_the_infrastructure(&outcome);
        let ordered = outcome.as_ref().is_ok_and(|outcome| outcome.as_ordered);
        let mut end = ended(outcome, begun);
        let detail = end.detail.clone();
        match recorded {
            Ok(Ok(())) => {}
            Ok(Err(error)) => lost(&mut end, &error.to_string()),
            Err(fault) => lost(&mut end, &fault.to_string()),
        }
        if let Some(why) = changed_data(&spec.dataset.source, &decision.surroundings.data).await {
            changed(&mut end, &why);
        }
        let has_failed = end.state == RunState::Failed && !ordered;
        let gone = if has_failed && is_allocated(spec) { queue::ended_allocation().await } else { None };
        if let Some(allocation) = &gone {
            without_machines(&mut end, allocation);
        }
        // Where its records are whole.
        let as_ordered = ordered && end.detail == detail;
        self.record_end(attempt, &end, as_ordered).await?;
        if matches!(end.state, RunState::Done | RunState::Diverged) {
            resume::delete_checkpoints(self.store, &continued, &directory);
        }
        let may_do_better = is_lost && gone.is_none();
        Ok(Attempted { end, may_do_better, as_ordered, is_left: false, is_the_last: gone.is_some() })
    }

    /// Writes the end of an attempt; what its recipe ordered comes before it.
    pub(super) async fn record_end(
        &self,
        attempt: AttemptId,
        end: &AttemptEnd,
        as_ordered: bool,
    ) -> Result<(), StoreError> {
        if as_ordered {
            self.write_last(|| self.store.record_ordered(attempt, end.ended, &end.detail)).await?;
        }
        self.write_last(|| self.store.record_attempt_end(attempt, end)).await
    }
}

/// Whether it has machines of an allocation, which ends.
fn is_allocated(spec: &RunSpec) -> bool {
    spec.cluster.nodes.iter().any(|node| matches!(node.access, Access::Slurm { .. }))
}

/// An attempt to be made by this process.
pub(crate) struct Execution<'a> {
    /// The plan that the run belongs to.
    pub(crate) plan: &'a Plan,
    /// Specification of the run, placed on its machines.
    pub(crate) spec: &'a RunSpec,
    /// Of everything random in it.
    pub(crate) seed: u64,
    /// Directory for the attempt's files.
    pub(crate) directory: &'a Path,
    /// The worker program and the machines.
    pub(crate) environment: &'a Environment,
    /// Where the run continues, if it does not begin.
    pub(crate) resume: Option<Continuation>,
}

/// Makes an attempt on the machines of its run.
pub(crate) async fn execute(
    execution: Execution<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let Execution { plan, spec, seed, directory, environment, resume } = execution;
    let order = Attempt {
        spec,
        seed,
        // Workers may be started from any folder.
        directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        worker: environment.worker.path.clone(),
        forks: environment.forks(),
        deadlines: Deadlines::default(),
        timeout: plan.limits.run_timeout,
        resume,
    };
    match &environment.machines {
        Machines::Hosts(hosts) if launch::needs_hosts(&spec.cluster) => {
            launch::run_on_hosts(hosts, plan.hosts.ports, order, stop, updates).await
        }
        Machines::Hosts(_) | Machines::Here => launch::run(order, stop, updates).await,
    }
}
