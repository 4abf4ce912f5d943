//! Stage transitions of an attempt, driven by the elapsed time and by the events received so far.

use super::fault::{Cause, Fault};
use super::rank::{self, RankState};
use super::{Action, Conclusion, SILENT_BEATS, Stage, Supervisor, nanos};
use crate::{RunPhase, Update};
use mesh::Member;
use record::{Nanos, Rank, RankEnd};

impl Supervisor {
    /// Makes transitions until none applies.
    pub(super) fn advance(&mut self) {
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
            if let Some(difference) = rank::difference(&self.ranks, &self.rules.replica_groups()) {
                return self.fault(difference);
            }
            self.stage = Stage::Running;
            self.started = Some(self.now);
            for rank in &mut self.ranks {
                rank.heard = Some(self.now);
            }
            self.actions.push(Action::Start);
            self.tell(Update::State(RunPhase::Running));
        } else if self.a_rank_hangs() {
            self.decide();
        } else if self.now >= nanos(self.rules.deadlines.start_up) {
            let missing = self.ranks_where(|rank| rank.prepared.is_none());
            let mute = self.ranks_where(|rank| rank.prepared.is_none() && rank.heard.is_none());
            let only = |ranks: &[Rank]| ranks.first().copied().filter(|_| ranks.len() == 1);
            // A rank that has sent messages may be waiting for the one that has not.
            let culprit = only(&missing).or(only(&mute));
            let mute = only(&mute);
            let cause = Cause::NotReady { missing, mute, waited: self.now };
            self.fail(Fault { culprit, place: None, cause });
        }
    }

    fn advance_run(&mut self) {
        if self.a_rank_hangs() {
            return self.decide();
        }
        self.hurry_leavers();
        let patience = nanos(self.rules.deadlines.shut_down);
        if self.ranks.iter().all(|rank| rank.is_settled(self.now, patience)) {
            self.note_what_cannot_be_killed();
            let unbidden = self.ranks_where(|rank| {
                rank.lost.is_none() && matches!(rank.ended, Some((_, RankEnd::Stopped { .. })))
            });
            match unbidden.first() {
                Some(first) => self.fault_of(*first, Cause::Unbidden),
                None => self.ranks_are_gone(),
            }
        }
    }

    /// A rank that ended must say goodbye and exit: without the goodbye its records may be incomplete.
    fn hurry_leavers(&mut self) {
        // Both planes are closed, one after the other, each within its own limit.
        let patience = nanos(self.rules.deadlines.shut_down * 2);
        for number in 0..self.rules.ranks() {
            let rank = &self.ranks[number as usize];
            let Some((ended, _)) = rank.ended else { continue };
            if rank.lost.is_some() {
                continue;
            }
            let overdue =
                rank.exit.is_none() && self.now.since(ended.max(rank.goodbye.unwrap_or(ended))) > patience;
            match (overdue, rank.goodbye) {
                (true, None) => return self.fault_of(Rank(number), Cause::NoGoodbye),
                (true, Some(_)) if !rank.killed => {
                    self.note(format!(
                        "rank {number} did not exit after it had said goodbye, and was killed"
                    ));
                    self.kill(Member::Rank(Rank(number)));
                }
                _ => {}
            }
        }
    }

    fn advance_doubt(&mut self, until: Nanos) {
        if !self.ranks.iter().any(RankState::is_doubtful) {
            // The last messages of the rank in doubt have arrived.
            self.stage = if self.started.is_some() { Stage::Running } else { Stage::Starting };
        } else if self.now >= until || self.a_rank_hangs() {
            self.decide();
        }
    }

    fn a_rank_hangs(&self) -> bool {
        let limit = nanos(self.rules.deadlines.heartbeat * SILENT_BEATS);
        self.ranks.iter().any(|rank| rank.silence(self.now) > limit)
    }

    fn advance_stop(&mut self, kill_at: Nanos) {
        if self.ranks.iter().all(|rank| rank.exit.is_some()) {
            self.ranks_are_gone();
        } else if self.now >= kill_at || self.waits_for_steps() && self.a_rank_hangs() {
            self.kill_ranks();
        }
    }

    /// Whether healthy ranks were asked to stop: they finish their steps first.
    fn waits_for_steps(&self) -> bool {
        matches!(self.conclusion, Some(Conclusion::Interrupted | Conclusion::TargetReached { .. }))
    }

    fn advance_kill(&mut self, give_up: Nanos) {
        if self.ranks.iter().all(|rank| rank.exit.is_some()) {
            self.ranks_are_gone();
        } else if self.now >= give_up {
            self.note_what_cannot_be_killed();
            self.finish();
        }
    }

    fn note_what_cannot_be_killed(&mut self) {
        let left = self.ranks_where(|rank| rank.exit.is_none());
        if !left.is_empty() {
            let why = if self.rules.hosts.is_empty() {
                "the system holds on to them"
            } else {
                "the system holds on to them, or their host cannot be reached; then its agent ends them"
            };
            self.note(format!("{} cannot be killed: {why}", rank::list(&left)));
        }
    }

    fn check_timeout(&mut self) {
        let late = self.rules.timeout.is_some_and(|limit| self.now >= nanos(limit));
        if !late || matches!(self.stage, Stage::Stopping { .. } | Stage::Killing { .. } | Stage::Over) {
            return;
        }
        if self.stage == Stage::Evaluating {
            if self.evaluation.is_busy() && !self.evaluation.killed {
                self.conclusion = Some(Conclusion::TimedOut);
                self.kill_evaluator();
            }
            return;
        }
        self.conclusion = Some(Conclusion::TimedOut);
        self.stop_ranks(self.rules.deadlines.shut_down);
    }
}
