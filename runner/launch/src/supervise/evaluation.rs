//! The evaluator's part of an attempt: it is given one snapshot at a time, or those of one evaluation point together.

use super::fault::Cause;
use super::snapshot_groups::SnapshotGroups;
use super::{Action, Conclusion, Stage, Supervisor, nanos};
use crate::ProcessExit;
use mesh::{Member, ToDriver, ToMember};
use record::{Event, MetricRecord, Nanos, Rank, SnapshotRecord, Standing};
use std::collections::{BTreeMap, VecDeque};

/// The evaluator's state and its tasks.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// Whether its process was started and has not exited.
    pub(super) running: bool,
    /// Tasks that were not given to it yet.
    pub(super) waiting: VecDeque<Task>,
    /// The task that it works on.
    pub(super) current: Option<Task>,
    /// Snapshots that wait for those of other ranks.
    pub(super) groups: SnapshotGroups,
    /// When it was given its task.
    pub(super) given: Nanos,
    /// When it was asked to exit.
    pub(super) leaving: Option<Nanos>,
    /// Whether it said goodbye.
    pub(super) goodbye: bool,
    /// Whether the driver killed it.
    pub(super) killed: bool,
}

/// A task for the evaluator.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Evaluate one model by itself.
    One(SnapshotRecord),
    /// Average the models of one evaluation point, at least one.
    Together(Vec<SnapshotRecord>),
}

impl Task {
    fn snapshots(&self) -> &[SnapshotRecord] {
        match self {
            Self::One(snapshot) => std::slice::from_ref(snapshot),
            Self::Together(snapshots) => snapshots,
        }
    }

    fn file(&self) -> &str {
        self.snapshots().first().map_or("", |snapshot| &snapshot.file)
    }

    fn message(&self) -> ToMember {
        match self {
            Self::One(snapshot) => ToMember::Evaluate(snapshot.clone()),
            Self::Together(snapshots) => ToMember::Average(snapshots.clone()),
        }
    }
}

impl Evaluation {
    /// Whether a snapshot's file is still needed.
    fn needs(&self, snapshot: &SnapshotRecord) -> bool {
        let tasks = self.waiting.iter().chain(&self.current);
        self.groups.hold(snapshot) || tasks.flat_map(Task::snapshots).any(|other| other.file == snapshot.file)
    }

    /// Whether anything is left to evaluate.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }
}

impl Supervisor {
    pub(super) fn on_evaluator(&mut self, message: ToDriver) {
        match message {
            ToDriver::Events(events) => {
                let before = self.actions.len();
                for event in &events {
                    if let Event::Metric(metric) = event {
                        self.on_metric(metric);
                    }
                }
                self.tell_first(before, events);
            }
            ToDriver::Evaluated { file, failure } => {
                if let Some(task) = self.evaluation.current.take() {
                    self.discard(task.snapshots().to_vec());
                }
                match failure {
                    Some(reason) => {
                        self.fault(Cause::Evaluator(format!(
                            "the evaluator could not evaluate {file}: {reason}"
                        )));
                    }
                    None => self.hand_over(),
                }
            }
            ToDriver::Goodbye => self.evaluation.goodbye = true,
            ToDriver::Heartbeat(_) => {}
        }
    }

    /// Queues a snapshot for evaluation.
    pub(super) fn on_snapshot(&mut self, snapshot: &SnapshotRecord) {
        if snapshot.standing != Standing::Member {
            self.evaluation.waiting.push_back(Task::One(snapshot.clone()));
        }
        if snapshot.group.is_some() {
            self.evaluation.groups.add(snapshot);
        }
        if !self.evaluation.needs(snapshot) {
            self.discard(vec![snapshot.clone()]);
        }
        self.gather();
        self.hand_over();
    }

    /// Queues the evaluation points that are complete. They do not wait for a lost rank, nor, once all ranks have exited,
    /// for one that exited without a goodbye.
    pub(super) fn gather(&mut self) {
        let gone = self.stage == Stage::Evaluating;
        let ranks = &self.ranks;
        let lost = |rank: Rank| {
            ranks.get(rank.index()).is_some_and(|state| state.is_given_up() || gone && !state.left_in_order())
        };
        while let Some(together) = self.evaluation.groups.take(lost) {
            self.evaluation.waiting.push_back(Task::Together(together));
        }
    }

    /// Gives up the evaluation points that can no longer be complete.
    pub(super) fn forget_incomplete_marks(&mut self) {
        let left = self.evaluation.groups.give_up();
        self.discard(left);
    }

    /// Gives up all tasks. An attempt that continues this one evaluates the models itself, and needs them for that.
    pub(super) fn forget_everything(&mut self) {
        if self.rules.continues && !self.wants_evaluation() {
            self.evaluation.waiting.clear();
            self.evaluation.current = None;
            self.evaluation.groups.give_up();
            return;
        }
        let tasks = self.evaluation.waiting.drain(..).chain(self.evaluation.current.take());
        // A snapshot may be part of two tasks: alone and in its group.
        let left: BTreeMap<String, SnapshotRecord> = tasks
            .flat_map(|task| task.snapshots().to_vec())
            .map(|snapshot| (snapshot.file.clone(), snapshot))
            .collect();
        self.discard(left.into_values().collect());
        self.forget_incomplete_marks();
    }

    /// Deletes snapshots that no task needs. The models that a run begins and ends with are kept, for exports.
    fn discard(&mut self, snapshots: Vec<SnapshotRecord>) {
        for snapshot in snapshots {
            if !snapshot.is_kept() && !self.evaluation.needs(&snapshot) {
                self.actions.push(Action::Discard(snapshot));
            }
        }
    }

    fn on_metric(&mut self, metric: &MetricRecord) {
        let Some(target) = self.rules.target.filter(|target| target.stop) else { return };
        let in_time = target.after.is_none_or(|after| metric.at <= nanos(after));
        if metric.judged
            && self.started.is_some()
            && self.running()
            && metric.metric == target.metric
            && target.reached(metric.value)
            && in_time
        {
            self.conclusion = Some(Conclusion::TargetReached { at: metric.at, value: metric.value });
            self.stop_ranks(self.rules.longest_step());
        }
    }

    pub(super) fn on_evaluator_exit(&mut self, exit: ProcessExit) {
        let dismissed = self.evaluation.leaving.is_some() || self.evaluation.killed;
        self.evaluation.running = false;
        if !dismissed && self.wants_evaluation() {
            self.fault(Cause::EvaluatorExited(exit));
        }
    }

    pub(super) fn spawn_evaluator(&mut self) {
        self.evaluation.running = true;
        self.actions.push(Action::SpawnEvaluator);
    }

    /// Gives the evaluator its next task if it is running and idle.
    pub(super) fn hand_over(&mut self) {
        if !self.evaluation.running || self.evaluation.killed || self.evaluation.current.is_some() {
            return;
        }
        if let Some(task) = self.evaluation.waiting.pop_front() {
            let message = task.message();
            self.evaluation.current = Some(task);
            self.evaluation.given = self.now;
            self.send(Member::Evaluator, message);
        }
    }

    pub(super) fn kill_evaluator(&mut self) {
        if self.evaluation.running && !self.evaluation.killed {
            self.evaluation.killed = true;
            self.evaluation.leaving = Some(self.now);
            self.kill(Member::Evaluator);
        }
    }

    /// Checks that the evaluator finishes its task in time, and dismisses it when it is no longer needed. The limit for each
    /// task is that of starting up, because the first one includes its own start and the reading of data.
    pub(super) fn watch_evaluator(&mut self) {
        let limit = self.rules.deadlines.start_up;
        let overdue = self.now.since(self.evaluation.given) > nanos(limit);
        if let Some(task) = self.evaluation.current.as_ref().filter(|_| overdue && self.evaluation.running) {
            let file = task.file();
            let limit = limit.as_secs_f64();
            let told = format!("the evaluator did not evaluate {file} within {limit:.1} s");
            self.fault(Cause::Evaluator(told));
            self.kill_evaluator();
        }
        if self.stage == Stage::Evaluating {
            self.dismiss_evaluator();
        }
    }

    fn dismiss_evaluator(&mut self) {
        if !self.evaluation.running {
            return self.finish();
        }
        let patience = nanos(self.rules.deadlines.shut_down * 2);
        match self.evaluation.leaving {
            None if !self.evaluation.is_busy() => {
                self.evaluation.leaving = Some(self.now);
                self.send(Member::Evaluator, ToMember::Leave);
            }
            Some(since) if self.now.since(since) > patience && self.evaluation.killed => {
                self.note("the evaluator cannot be killed: the system holds on to it".into());
                self.finish();
            }
            Some(since) if self.now.since(since) > patience => {
                if !self.evaluation.goodbye {
                    self.note("the evaluator was asked to exit, did not, and was killed".into());
                }
                self.kill_evaluator();
            }
            _ => {}
        }
    }
}
