//! What to do when: the supervisor of an attempt as a pure state machine.
//!
//! It is told what happens and when, and answers what to do. It starts no process, sends nothing and reads no
//! clock, so that every case is a line in a table of its tests.
//!
//! The life of an attempt: the ranks start; when all are prepared they run; when they ended, by themselves or
//! because they were told to, they leave; then the evaluator works off what is left, and leaves too. The
//! first cause that ends an attempt early is the attempt's verdict. A complaint about a silent peer is no
//! cause: it opens a moment of doubt, in which the peer's own end may still come to light.

mod blame;
mod evaluation;
mod input;
mod rank;
#[cfg(test)]
mod tests;

pub(crate) use blame::Verdict;
pub(crate) use input::{Action, Input, Judgement, Rules};

use crate::exit::Exit;
use crate::{RunPhase, Update};
use blame::{Cause, Fault};
use evaluation::Evaluation;
use mesh::{Member, ToDriver, ToMember};
use rank::RankState;
use record::{Event, MetricRecord, Nanos, Rank, RankEnd};
use std::time::Duration;

/// How long the true culprit is looked for after a complaint about another.
const DOUBT: Duration = Duration::from_secs(1);
/// How long healthy ranks may take to leave a run that failed.
const AFTER_FAULT: Duration = Duration::from_secs(2);
/// So many heartbeats without a sign of life, and a member counts as hanging.
const SILENT_BEATS: u32 = 10;

/// The supervisor of one attempt.
pub(crate) struct Supervisor {
    rules: Rules,
    ranks: Vec<RankState>,
    evaluation: Evaluation,
    stage: Stage,
    /// Whether the clock of the run runs.
    started: bool,
    verdict: Option<Verdict>,
    now: Nanos,
    actions: Vec<Action>,
}

/// Where the attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Ranks prepare.
    Starting,
    /// Ranks train, end and leave.
    Running,
    /// Somebody complained or left without a word: until then the culprit may show itself.
    Doubting { until: Nanos },
    /// The ranks were told to stop; then whoever is left is killed.
    Stopping { kill_at: Nanos },
    /// The ranks were killed; then they are given up.
    Killing { give_up: Nanos },
    /// The ranks are gone, the evaluator is not.
    Evaluating,
    /// Everybody is gone.
    Over,
}

impl Supervisor {
    /// The supervisor of an attempt whose ranks are being spawned at time zero, and its first actions.
    pub(crate) fn new(rules: Rules) -> (Self, Vec<Action>) {
        let ranks = (0..rules.ranks).map(|_| RankState::default()).collect();
        let mut supervisor = Self {
            rules,
            ranks,
            evaluation: Evaluation::default(),
            stage: Stage::Starting,
            started: false,
            verdict: None,
            now: Nanos(0),
            actions: vec![Action::Tell(Update::State(RunPhase::Starting))],
        };
        if supervisor.rules.evaluate_at_once {
            supervisor.spawn_evaluator();
        }
        let actions = std::mem::take(&mut supervisor.actions);
        (supervisor, actions)
    }

    /// Takes in what happened at `now`, and answers what to do, in order.
    pub(crate) fn on(&mut self, now: Nanos, input: Input) -> Vec<Action> {
        self.forgive_absence(now);
        self.now = self.now.max(now);
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

    /// How the attempt ended; final once [`Action::Finish`] was answered.
    pub(crate) fn judgement(&self) -> Judgement {
        blame::judge(self.verdict.as_ref(), &self.ranks, &self.rules)
    }

    /// A driver that was itself stopped or starved heard nobody: that time says nothing about the members.
    fn forgive_absence(&mut self, now: Nanos) {
        let absent = now.since(self.now);
        if absent > nanos(self.rules.deadlines.heartbeat * (SILENT_BEATS / 2)) {
            self.ranks.iter_mut().for_each(|rank| rank.heard += absent);
            self.evaluation.heard += absent;
        }
    }

    fn on_rank(&mut self, rank: Rank, message: ToDriver) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.heard = self.now;
        match message {
            ToDriver::Heartbeat(heartbeat) => {
                state.heartbeat = Some(heartbeat.clone());
                self.tell(Update::Heartbeat(rank, heartbeat));
            }
            ToDriver::Events(events) => {
                for event in &events {
                    self.on_event(rank, event);
                }
                self.tell(Update::Events(events));
            }
            ToDriver::Goodbye => state.goodbye = Some(self.now),
            ToDriver::Evaluated { .. } => {}
        }
    }

    fn on_event(&mut self, rank: Rank, event: &Event) {
        match event {
            Event::Prepared(prepared) => self.ranks[rank.index()].prepared = Some(prepared.clone()),
            Event::Snapshot(snapshot) => {
                self.evaluation.waiting.push_back(snapshot.clone());
                self.hand_over();
            }
            Event::Ended(ended) => self.on_ended(rank, &ended.end),
            _ => {}
        }
    }

    fn on_ended(&mut self, rank: Rank, end: &RankEnd) {
        self.ranks[rank.index()].ended = Some((self.now, end.clone()));
        self.send(Member::Rank(rank), ToMember::Leave);
        match end {
            RankEnd::Finished | RankEnd::Stopped { .. } => {}
            RankEnd::Diverged { .. } | RankEnd::Failed { peer: None, .. } => self.decide(),
            RankEnd::Failed { peer: Some(_), .. } => self.doubt(),
        }
    }

    fn on_rank_exit(&mut self, rank: Rank, exit: Exit) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.exit = Some((self.now, exit));
        match exit {
            _ if state.left_in_order() => {
                if exit != Exit::Code(0) && !state.killed {
                    self.note(format!("rank {rank} {exit} after it had said good-bye"));
                }
            }
            Exit::Signal(_) => self.decide(),
            // Its last words may still be on their way.
            Exit::Code(_) => self.doubt(),
        }
    }

    fn on_evaluator(&mut self, message: ToDriver) {
        self.evaluation.heard = self.now;
        match message {
            ToDriver::Heartbeat(_) => self.evaluation.beats = true,
            ToDriver::Events(events) => {
                for event in &events {
                    if let Event::Metric(metric) = event {
                        self.on_metric(metric);
                    }
                }
                self.tell(Update::Events(events));
            }
            ToDriver::Evaluated { file, failure } => {
                self.evaluation.current = None;
                match failure {
                    Some(reason) => {
                        self.fault(Cause::Evaluator(format!("the evaluator could not evaluate {file}: {reason}")));
                    }
                    None => self.hand_over(),
                }
            }
            ToDriver::Goodbye => self.evaluation.goodbye = true,
        }
    }

    fn on_metric(&mut self, metric: &MetricRecord) {
        let Some(target) = self.rules.target.filter(|target| target.stop) else { return };
        let in_time = target.after.is_none_or(|after| metric.at <= nanos(after));
        if self.running() && metric.metric == target.metric && target.reached(metric.value) && in_time {
            self.verdict = Some(Verdict::TargetReached { at: metric.at, value: metric.value });
            self.stop_ranks(self.rules.deadlines.shut_down);
        }
    }

    fn on_evaluator_exit(&mut self, exit: Exit) {
        let told_to_leave = self.evaluation.leaving.is_some() || self.evaluation.killed;
        self.evaluation.running = false;
        if !told_to_leave && self.wants_evaluation() {
            self.fault(Cause::Evaluator(format!("the evaluator {exit}")));
        }
    }

    /// Moves on for as long as there is something to move on to.
    fn advance(&mut self) {
        loop {
            let before = self.stage;
            self.check_timeout();
            match self.stage {
                Stage::Starting => self.advance_start(),
                Stage::Running => self.advance_run(),
                Stage::Doubting { until } => self.advance_doubt(until),
                Stage::Stopping { kill_at } => self.advance_stop(kill_at),
                Stage::Killing { give_up } => self.advance_kill(give_up),
                Stage::Evaluating => {}
                Stage::Over => return,
            }
            self.watch_evaluator();
            if self.stage == before {
                return;
            }
        }
    }

    fn advance_start(&mut self) {
        if self.ranks.iter().all(|rank| rank.prepared.is_some()) {
            if let Some(difference) = rank::difference(&self.ranks) {
                return self.fault(difference);
            }
            self.stage = Stage::Running;
            self.started = true;
            for rank in &mut self.ranks {
                rank.heard = self.now;
            }
            self.actions.push(Action::Start);
            self.tell(Update::State(RunPhase::Running));
        } else if self.now >= nanos(self.rules.deadlines.start_up) {
            let missing = self.ranks_where(|rank| rank.prepared.is_none());
            let culprit = missing.first().copied().filter(|_| missing.len() == 1);
            self.fail(Fault { culprit, place: None, cause: Cause::NotReady { missing, waited: self.now } });
        }
    }

    fn advance_run(&mut self) {
        let limit = nanos(self.rules.deadlines.heartbeat * SILENT_BEATS);
        if self.ranks.iter().any(|rank| rank.silence(self.now) > limit) {
            return self.decide();
        }
        self.hurry_leavers();
        if self.ranks.iter().all(|rank| rank.exit.is_some() && rank.left_in_order()) {
            let unbidden = self.ranks_where(|rank| matches!(rank.ended, Some((_, RankEnd::Stopped { .. }))));
            match unbidden.first() {
                Some(first) => self.fault_of(*first, Cause::Unbidden),
                None => self.ranks_are_gone(),
            }
        }
    }

    /// A rank that ended must say good-bye and go; what the run gave is complete only with the good-bye.
    fn hurry_leavers(&mut self) {
        // Both planes may take their time to settle, one after the other.
        let patience = nanos(self.rules.deadlines.shut_down * 2);
        for number in 0..self.rules.ranks {
            let rank = &self.ranks[number as usize];
            let Some((ended, _)) = rank.ended else { continue };
            let overdue = rank.exit.is_none() && self.now.since(ended.max(rank.goodbye.unwrap_or(ended))) > patience;
            match (overdue, rank.goodbye) {
                (true, None) => return self.fault_of(Rank(number), Cause::NoGoodbye),
                (true, Some(_)) if !rank.killed => {
                    self.note(format!("rank {number} did not go after it had said good-bye, and was killed"));
                    self.kill(Member::Rank(Rank(number)));
                }
                _ => {}
            }
        }
    }

    fn advance_doubt(&mut self, until: Nanos) {
        if !self.ranks.iter().any(RankState::is_doubtful) {
            // The last words of whoever left came after all.
            self.stage = if self.started { Stage::Running } else { Stage::Starting };
        } else if self.now >= until {
            self.decide();
        }
    }

    fn advance_stop(&mut self, kill_at: Nanos) {
        if self.ranks.iter().all(|rank| rank.exit.is_some()) {
            self.ranks_are_gone();
        } else if self.now >= kill_at {
            self.kill_ranks();
        }
    }

    fn advance_kill(&mut self, give_up: Nanos) {
        if self.ranks.iter().all(|rank| rank.exit.is_some()) {
            self.ranks_are_gone();
        } else if self.now >= give_up {
            let left = self.ranks_where(|rank| rank.exit.is_none());
            self.note(format!("{} cannot be killed: the system holds on to them", rank::list(&left)));
            self.finish();
        }
    }

    fn check_timeout(&mut self) {
        let late = self.rules.timeout.is_some_and(|limit| self.now >= nanos(limit));
        if !late || matches!(self.stage, Stage::Stopping { .. } | Stage::Killing { .. } | Stage::Over) {
            return;
        }
        if self.stage == Stage::Evaluating {
            if self.evaluation.is_busy() && !self.evaluation.killed {
                self.verdict = Some(Verdict::TimedOut);
                self.kill_evaluator();
            }
            return;
        }
        self.verdict = Some(Verdict::TimedOut);
        self.stop_ranks(self.rules.deadlines.shut_down);
    }

    fn interrupt(&mut self) {
        match self.stage {
            Stage::Starting => self.interrupt_now(),
            Stage::Running | Stage::Doubting { .. } => {
                self.verdict = Some(Verdict::Interrupted);
                self.stop_ranks(self.rules.deadlines.shut_down);
            }
            // What is evaluated would come after the stop; without it the run is not complete.
            Stage::Stopping { .. } | Stage::Killing { .. } | Stage::Evaluating => self.give_up_evaluation(),
            Stage::Over => {}
        }
    }

    fn interrupt_now(&mut self) {
        match self.stage {
            Stage::Over => {}
            Stage::Evaluating => self.give_up_evaluation(),
            _ => {
                if self.running() {
                    self.tell(Update::State(RunPhase::Stopping));
                }
                self.verdict.get_or_insert(Verdict::Interrupted);
                self.give_up_evaluation();
                self.kill_ranks();
            }
        }
    }

    fn give_up_evaluation(&mut self) {
        if self.wants_evaluation() && (self.evaluation.is_busy() || self.stage != Stage::Evaluating) {
            self.verdict = Some(Verdict::Interrupted);
        }
        self.kill_evaluator();
    }

    /// Somebody may be to blame, but it is not clear yet who.
    fn doubt(&mut self) {
        if self.running() && !matches!(self.stage, Stage::Doubting { .. }) {
            self.stage = Stage::Doubting { until: self.now + nanos(DOUBT) };
        }
    }

    /// Who is to blame is clear, or will not become clearer.
    fn decide(&mut self) {
        if self.running() {
            let verdict = blame::decide(&self.ranks, self.now, self.rules.deadlines.heartbeat);
            let patience = match verdict {
                Verdict::Failed(_) => AFTER_FAULT.min(self.rules.deadlines.shut_down),
                _ => self.rules.deadlines.shut_down,
            };
            self.verdict = Some(verdict);
            self.stop_ranks(patience);
        }
    }

    fn fault(&mut self, cause: Cause) {
        self.fail(Fault::of_nobody(cause));
    }

    fn fault_of(&mut self, rank: Rank, cause: Cause) {
        let place = self.ranks[rank.index()].place();
        self.fail(Fault { culprit: Some(rank), place, cause });
    }

    fn fail(&mut self, fault: Fault) {
        if self.running() {
            self.verdict = Some(Verdict::Failed(fault));
            self.stop_ranks(AFTER_FAULT.min(self.rules.deadlines.shut_down));
        } else if self.wants_evaluation() {
            self.verdict = Some(Verdict::Failed(fault));
            self.kill_evaluator();
        }
    }

    fn stop_ranks(&mut self, patience: Duration) {
        self.tell(Update::State(RunPhase::Stopping));
        for number in 0..self.rules.ranks {
            let rank = &self.ranks[number as usize];
            if rank.exit.is_none() && rank.ended.is_none() {
                self.send(Member::Rank(Rank(number)), ToMember::Stop);
            }
        }
        self.stage = Stage::Stopping { kill_at: self.now + nanos(patience) };
        if !self.wants_evaluation() {
            self.kill_evaluator();
        }
    }

    fn kill_ranks(&mut self) {
        for number in 0..self.rules.ranks {
            if self.ranks[number as usize].exit.is_none() {
                self.kill(Member::Rank(Rank(number)));
            }
        }
        self.stage = Stage::Killing { give_up: self.now + nanos(self.rules.deadlines.shut_down) };
    }

    fn ranks_are_gone(&mut self) {
        self.stage = Stage::Evaluating;
        if !self.wants_evaluation() {
            self.evaluation.waiting.clear();
            return self.kill_evaluator();
        }
        if self.evaluation.is_busy() {
            self.tell(Update::State(RunPhase::Evaluating));
            if !self.evaluation.running {
                self.spawn_evaluator();
                self.hand_over();
            }
        }
    }

    /// Whether the ranks are meant to go on.
    fn running(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Running | Stage::Doubting { .. })
    }

    /// Whether what the ranks set aside is still of use.
    fn wants_evaluation(&self) -> bool {
        matches!(
            self.verdict,
            None | Some(Verdict::TargetReached { .. } | Verdict::Diverged { .. })
        )
    }

    fn ranks_where(&self, condition: impl Fn(&RankState) -> bool) -> Vec<Rank> {
        (0..).map(Rank).zip(&self.ranks).filter(|(_, state)| condition(state)).map(|(rank, _)| rank).collect()
    }

    fn finish(&mut self) {
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

    fn note(&mut self, note: String) {
        self.tell(Update::Note(note));
    }
}

/// A duration in the unit of the machine's clock.
fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
