//! The supervisor of an attempt as a pure state machine: events in, actions out.
//!
//! It starts no process, sends nothing and reads no clock, so each case is a line in a table of its tests.
//!
//! The life of an attempt: the ranks start; they run when all are prepared; they end, by themselves or because they were
//! asked to, and exit; then the evaluator works through the remaining snapshots and exits too. The first cause that ends
//! an attempt early is its conclusion. A complaint about a silent peer is no cause: it opens a short period of doubt, in
//! which the peer's own end may still be reported.
//!
//! After the start, a failed rank that the strategy tolerates does not end the attempt: the rank is lost, its process is
//! killed if it still runs, and the other ranks continue; the attempt is then degraded.

mod blame;
mod evaluation;
mod fault;
mod input;
mod lost_ranks;
mod planned;
mod rank;
mod snapshot_groups;
mod stages;
#[cfg(test)]
mod tests;

pub(crate) use blame::Conclusion;
pub(crate) use input::{Action, AttemptReport, Input, Rules};

use crate::{ProcessExit, RunPhase, Update};
use evaluation::Evaluation;
use fault::{Cause, Fault};
use mesh::{Member, ToDriver, ToMember};
use rank::RankState;
use record::{Event, Nanos, Rank, RankEnd};
use std::time::Duration;

/// How long to wait for evidence about the culprit after a complaint, and for the last messages of a process after it
/// exited.
const DOUBT: Duration = Duration::from_secs(1);
/// The same after a process was ended by a signal: few of its messages can still be under way.
const AFTER_SIGNAL: Duration = Duration::from_millis(200);
/// How long healthy ranks may take to exit after a run has failed.
const AFTER_FAULT: Duration = Duration::from_secs(2);
/// The same before the start: no result is lost, only their logs may still grow.
const BEFORE_START: Duration = Duration::from_millis(500);
/// Heartbeats without a message after which a member counts as hanging.
const SILENT_BEATS: u32 = 10;

/// The supervisor of one attempt.
pub(crate) struct Supervisor {
    rules: Rules,
    ranks: Vec<RankState>,
    evaluation: Evaluation,
    stage: Stage,
    /// When the run's clock started.
    started: Option<Nanos>,
    conclusion: Option<Conclusion>,
    /// The supervisor's clock. It stops while the driver itself is suspended, so that no member counts as late because of
    /// that.
    now: Nanos,
    /// How long the driver was suspended in all.
    absent: Nanos,
    actions: Vec<Action>,
}

/// The stage of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Processes start and ranks prepare; none trains yet.
    Starting,
    /// Ranks train, end and leave.
    Running,
    /// A rank complained or exited without a message: until then the culprit may be identified.
    Doubting { until: Nanos },
    /// The ranks were asked to stop; those that have not exited by then are killed.
    Stopping { kill_at: Nanos },
    /// The ranks were killed; those that have not exited by then are given up.
    Killing { give_up: Nanos },
    /// The ranks have exited, the evaluator has not.
    Evaluating,
    /// All processes have exited.
    Over,
}

impl Supervisor {
    /// The supervisor of an attempt whose ranks are being spawned at time zero, and its first actions.
    pub(crate) fn new(rules: Rules) -> (Self, Vec<Action>) {
        let ranks = rules.roles.iter().map(|_| RankState::default()).collect();
        let mut supervisor = Self {
            rules,
            ranks,
            evaluation: Evaluation::default(),
            stage: Stage::Starting,
            started: None,
            conclusion: None,
            now: Nanos(0),
            absent: Nanos(0),
            actions: vec![Action::Tell(Update::State(RunPhase::Starting))],
        };
        if supervisor.rules.evaluate_at_once {
            supervisor.spawn_evaluator();
        }
        let actions = std::mem::take(&mut supervisor.actions);
        (supervisor, actions)
    }

    /// Takes an event at `now` and returns the actions to carry out, in order.
    pub(crate) fn on(&mut self, now: Nanos, input: Input) -> Vec<Action> {
        if self.stage == Stage::Over {
            return Vec::new();
        }
        self.pass_to(now);
        match input {
            Input::Message(Member::Rank(rank), message) => self.on_rank(rank, message),
            Input::Message(Member::Evaluator, message) => self.on_evaluator(message),
            Input::Exited(Member::Rank(rank), exit) => self.on_rank_exit(rank, exit),
            Input::Exited(Member::Evaluator, exit) => self.on_evaluator_exit(exit),
            Input::Stop => self.interrupt(),
            Input::StopNow => self.interrupt_now(),
            Input::Tick => {}
        }
        self.advance();
        std::mem::take(&mut self.actions)
    }

    /// How the attempt ended; final once [`Action::Finish`] was returned.
    pub(crate) fn report(&self) -> AttemptReport {
        let begun = self.started.unwrap_or_default();
        blame::report_of(self.conclusion.as_ref(), &self.ranks, &self.rules, begun)
    }

    /// The activity of the rank that is furthest behind, as the end of a sentence.
    pub(crate) fn whereabouts(&self) -> String {
        blame::furthest_behind(&self.ranks)
    }

    /// Advances the clock, but not over a time in which the driver itself was stopped or starved and could receive nothing.
    fn pass_to(&mut self, now: Nanos) {
        let passed = now.since(self.now + self.absent);
        if passed > nanos(self.rules.deadlines.heartbeat * (SILENT_BEATS / 2)) {
            self.absent += passed;
        } else {
            self.now += passed;
        }
    }

    fn on_rank(&mut self, rank: Rank, message: ToDriver) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.heard = Some(self.now);
        match message {
            ToDriver::Heartbeat(heartbeat) => {
                state.heartbeat = Some(heartbeat.clone());
                self.tell(Update::Heartbeat(rank, heartbeat));
            }
            ToDriver::Events(events) => {
                let before = self.actions.len();
                for event in &events {
                    self.on_event(rank, event);
                }
                self.tell_first(before, events);
            }
            ToDriver::Goodbye => state.goodbye = Some(self.now),
            ToDriver::Evaluated { .. } => {}
        }
    }

    fn on_event(&mut self, rank: Rank, event: &Event) {
        match event {
            Event::Prepared(prepared) => self.ranks[rank.index()].prepared = Some(prepared.clone()),
            Event::Snapshot(snapshot) => self.on_snapshot(snapshot),
            Event::Ended(ended) => self.on_ended(rank, &ended.end),
            Event::Lost(missed) => self.on_missed(missed),
            Event::Struck(struck) => self.on_struck(rank, struck.fault),
            _ => {}
        }
    }

    fn on_ended(&mut self, rank: Rank, end: &RankEnd) {
        self.ranks[rank.index()].ended = Some((self.now, end.clone()));
        self.send(Member::Rank(rank), ToMember::Leave);
        match end {
            // It is lost already: its end changes nothing.
            _ if self.ranks[rank.index()].lost.is_some() => {}
            RankEnd::Finished | RankEnd::Stopped { .. } => {}
            RankEnd::Diverged { .. } | RankEnd::Failed { peer: None, .. } => self.decide(),
            RankEnd::Failed { peer: Some(_), .. } => self.doubt(DOUBT),
        }
    }

    fn on_rank_exit(&mut self, rank: Rank, exit: ProcessExit) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.exit = Some((self.now, exit.clone()));
        match exit {
            _ if state.lost.is_some() => {}
            _ if state.left_in_order() => {
                if exit != ProcessExit::Code(0) && !state.killed {
                    self.note(format!("rank {rank} {exit} after it had said goodbye"));
                }
            }
            // Its last messages may still be under way.
            ProcessExit::Signal(_) | ProcessExit::HostLost { .. } => self.doubt(AFTER_SIGNAL),
            ProcessExit::Code(_) => self.doubt(DOUBT),
        }
    }

    fn interrupt(&mut self) {
        match self.stage {
            Stage::Starting => self.interrupt_now(),
            Stage::Running | Stage::Doubting { .. } => {
                self.conclusion = Some(Conclusion::Interrupted);
                self.stop_ranks(self.rules.longest_step());
            }
            // Without the remaining evaluations the run is not complete.
            Stage::Stopping { .. } | Stage::Killing { .. } | Stage::Evaluating => self.give_up_evaluation(),
            Stage::Over => {}
        }
    }

    fn interrupt_now(&mut self) {
        match self.stage {
            Stage::Over => {}
            Stage::Killing { .. } | Stage::Evaluating => self.give_up_evaluation(),
            _ => {
                if self.running() {
                    self.tell(Update::State(RunPhase::Stopping));
                }
                self.conclusion.get_or_insert(Conclusion::Interrupted);
                self.give_up_evaluation();
                self.kill_ranks();
            }
        }
    }

    fn give_up_evaluation(&mut self) {
        if self.wants_evaluation() && (self.evaluation.is_busy() || self.stage != Stage::Evaluating) {
            self.conclusion = Some(Conclusion::Interrupted);
        }
        self.kill_evaluator();
    }

    /// Waits for evidence: it is not clear yet which rank is to blame.
    fn doubt(&mut self, patience: Duration) {
        let until = self.now + nanos(patience);
        match self.stage {
            Stage::Doubting { until: sooner } if sooner <= until => {}
            _ if self.running() => self.stage = Stage::Doubting { until },
            _ => {}
        }
    }

    /// Concludes: the rank to blame is known, or no more evidence will come.
    fn decide(&mut self) {
        if self.running() {
            let conclusion = blame::decide(&self.ranks, self.now, self.rules.deadlines.heartbeat);
            let Some(conclusion) = self.unless_tolerated(conclusion) else { return };
            let patience = match conclusion {
                Conclusion::Failed(_) => AFTER_FAULT.min(self.rules.deadlines.shut_down),
                _ => self.rules.deadlines.shut_down,
            };
            self.conclusion = Some(conclusion);
            self.stop_ranks(patience);
        }
    }

    fn fault(&mut self, cause: Cause) {
        self.fail(Fault::of_no_rank(cause));
    }

    fn fault_of(&mut self, rank: Rank, cause: Cause) {
        let place = self.ranks[rank.index()].place();
        let fault = Fault { culprit: Some(rank), place, cause };
        if let Some(Conclusion::Failed(fault)) = self.unless_tolerated(Conclusion::Failed(fault)) {
            self.fail(fault);
        }
    }

    fn fail(&mut self, fault: Fault) {
        if self.running() {
            self.conclusion = Some(Conclusion::Failed(fault));
            self.stop_ranks(AFTER_FAULT.min(self.rules.deadlines.shut_down));
        } else if self.wants_evaluation() {
            self.conclusion = Some(Conclusion::Failed(fault));
            self.kill_evaluator();
        }
    }

    fn stop_ranks(&mut self, patience: Duration) {
        self.tell(Update::State(RunPhase::Stopping));
        for number in 0..self.rules.ranks() {
            let rank = &self.ranks[number as usize];
            if rank.exit.is_none() && rank.ended.is_none() && rank.lost.is_none() {
                self.send(Member::Rank(Rank(number)), ToMember::Stop);
            }
        }
        let patience = if self.started.is_some() { patience } else { patience.min(BEFORE_START) };
        self.stage = Stage::Stopping { kill_at: self.now + nanos(patience) };
        if !self.wants_evaluation() {
            self.kill_evaluator();
        }
    }

    fn kill_ranks(&mut self) {
        for number in 0..self.rules.ranks() {
            if self.ranks[number as usize].exit.is_none() {
                self.kill(Member::Rank(Rank(number)));
            }
        }
        self.stage = Stage::Killing { give_up: self.now + nanos(self.rules.deadlines.shut_down) };
    }

    fn ranks_are_gone(&mut self) {
        self.stage = Stage::Evaluating;
        if !self.wants_evaluation() {
            self.kill_evaluator();
            return self.forget_everything();
        }
        self.gather();
        self.forget_incomplete_marks();
        if self.evaluation.is_busy() {
            self.tell(Update::State(RunPhase::Evaluating));
            if !self.evaluation.running {
                self.spawn_evaluator();
            }
            self.hand_over();
        }
    }

    /// Whether the ranks are expected to continue.
    fn running(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Running | Stage::Doubting { .. })
    }

    /// Whether the ranks' snapshots are still to be evaluated.
    pub(super) fn wants_evaluation(&self) -> bool {
        matches!(self.conclusion, None | Some(Conclusion::TargetReached { .. } | Conclusion::Diverged { .. }))
    }

    fn ranks_where(&self, condition: impl Fn(&RankState) -> bool) -> Vec<Rank> {
        (0..).map(Rank).zip(&self.ranks).filter(|(_, state)| condition(state)).map(|(rank, _)| rank).collect()
    }

    fn finish(&mut self) {
        self.forget_everything();
        self.stage = Stage::Over;
        self.actions.push(Action::Finish);
    }

    fn kill(&mut self, member: Member) {
        if let Member::Rank(rank) = member {
            self.ranks[rank.index()].killed = true;
        }
        self.actions.push(Action::Kill(member));
    }

    fn send(&mut self, to: Member, message: ToMember) {
        self.actions.push(Action::Send(to, message));
    }

    fn tell(&mut self, update: Update) {
        self.actions.push(Action::Tell(update));
    }

    /// Reports events before the actions that follow from them.
    fn tell_first(&mut self, before: usize, events: Vec<Event>) {
        self.actions.insert(before, Action::Tell(Update::Events(events)));
    }

    fn note(&mut self, note: String) {
        self.tell(Update::Note(note));
    }
}

/// A duration in nanoseconds.
fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
