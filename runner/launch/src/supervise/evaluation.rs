//! The evaluator's part of an attempt: snapshots are handed to it one at a time.

use super::blame::Cause;
use super::{Action, Stage, Supervisor, Verdict, nanos};
use crate::exit::Exit;
use mesh::{Member, ToDriver, ToMember};
use record::{Event, MetricRecord, Nanos, SnapshotRecord};
use std::collections::VecDeque;

/// What is known of the evaluator.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// Whether its process was started and is not gone.
    pub(super) running: bool,
    /// What it has not seen yet.
    pub(super) waiting: VecDeque<SnapshotRecord>,
    /// What it works on.
    pub(super) current: Option<SnapshotRecord>,
    /// When it was given that.
    pub(super) given: Nanos,
    /// When it was told to leave.
    pub(super) leaving: Option<Nanos>,
    /// Whether it said good-bye.
    pub(super) goodbye: bool,
    /// Whether it was killed.
    pub(super) killed: bool,
}

impl Evaluation {
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
                // The models that a run begins and ends with are kept, for exports; the others have told what they
                // were made for.
                let passing = |snapshot: &SnapshotRecord| !snapshot.last && snapshot.step > 0;
                if let Some(snapshot) = self.evaluation.current.take().filter(passing) {
                    self.actions.push(Action::Discard(snapshot));
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

    fn on_metric(&mut self, metric: &MetricRecord) {
        let Some(target) = self.rules.target.filter(|target| target.stop) else { return };
        let in_time = target.after.is_none_or(|after| metric.at <= nanos(after));
        if self.started.is_some()
            && self.running()
            && metric.metric == target.metric
            && target.reached(metric.value)
            && in_time
        {
            self.verdict = Some(Verdict::TargetReached { at: metric.at, value: metric.value });
            self.stop_ranks(self.rules.deadlines.shut_down);
        }
    }

    pub(super) fn on_evaluator_exit(&mut self, exit: Exit) {
        let told_to_leave = self.evaluation.leaving.is_some() || self.evaluation.killed;
        self.evaluation.running = false;
        if !told_to_leave && self.wants_evaluation() {
            self.fault(Cause::Evaluator(format!("the evaluator {exit}")));
        }
    }

    pub(super) fn spawn_evaluator(&mut self) {
        self.evaluation.running = true;
        self.actions.push(Action::SpawnEvaluator);
    }

    /// Gives the evaluator its next snapshot, if it is there and free.
    pub(super) fn hand_over(&mut self) {
        if !self.evaluation.running || self.evaluation.killed || self.evaluation.current.is_some() {
            return;
        }
        if let Some(snapshot) = self.evaluation.waiting.pop_front() {
            self.evaluation.current = Some(snapshot.clone());
            self.evaluation.given = self.now;
            self.send(Member::Evaluator, ToMember::Evaluate(snapshot));
        }
    }

    pub(super) fn kill_evaluator(&mut self) {
        if self.evaluation.running && !self.evaluation.killed {
            self.evaluation.killed = true;
            self.evaluation.leaving = Some(self.now);
            self.kill(Member::Evaluator);
        }
    }

    /// Sees to it that the evaluator answers, and that it leaves when it is no longer needed. For every
    /// snapshot it has as long as ranks have to start: the first takes its own start and the reading of data.
    pub(super) fn watch_evaluator(&mut self) {
        let limit = self.rules.deadlines.start_up;
        let overdue = self.now.since(self.evaluation.given) > nanos(limit);
        if let Some(snapshot) =
            self.evaluation.current.as_ref().filter(|_| overdue && self.evaluation.running)
        {
            let (file, limit) = (&snapshot.file, limit.as_secs_f64());
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
                    self.note("the evaluator was told to leave, did not, and was killed".into());
                }
                self.kill_evaluator();
            }
            _ => {}
        }
    }
}
