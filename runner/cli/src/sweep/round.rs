//! A round of a sweep: its runs are reused, or begun as soon as nothing is in their way, and waited for together.

use super::crowd::Crowd;
use super::outcome::Attempted;
use super::places::Occupied;
use super::{Pace, Rounds, Sweep};
use crate::exit::Failure;
use crate::output::human;
use crate::resume;
use crate::reuse::{Action, Decision};
use recipe::Run;
use std::time::Duration;
use store::{AttemptEnd, RunId, RunRef, RunState, SweepEnd};

/// A run that is made or reused in a round.
struct Planned<'p> {
    /// Its place in the plan's order.
    place: usize,
    run: &'p Run,
    id: &'p RunId,
    decision: &'p Decision,
    occupied: Occupied,
}

impl Planned<'_> {
    fn is_trained(&self) -> bool {
        !matches!(self.decision.action, Action::Reuse(_))
    }
}

type UnderWay<'f> = Crowd<'f, Planned<'f>, Result<Attempted, Failure>>;

impl Sweep<'_> {
    /// Makes those of the chosen runs that were not tried before; interrupted if it ends before the last of them.
    pub(super) async fn round(
        &self,
        all: &mut Rounds<'_>,
        chosen: impl Fn(&Run) -> bool,
    ) -> Result<SweepEnd, Failure> {
        let ids = all.ids;
        let mut waiting = self.chosen(ids, &all.tried, chosen);
        self.announce(all, &waiting);
        let mut under_way = Crowd::new();
        let mut stopped = false;
        loop {
            while !stopped && let Some(position) = self.startable(&waiting, &under_way) {
                if self.must_stop(all, &waiting, position, &under_way) {
                    stopped = true;
                    break;
                }
                let planned = waiting.remove(position);
                all.tried[planned.place] = true;
                self.store.record_identity(planned.id, &planned.decision.identity).await?;
                match &planned.decision.action {
                    Action::Reuse(finished) => self.reuse(&planned, finished).await?,
                    Action::Run | Action::Repeat | Action::Resume(_) => {
                        let tries = self.try_until_it_ends(planned.run, planned.id, planned.decision);
                        under_way.begin(planned, tries);
                    }
                }
            }
            let Some((planned, attempted)) = under_way.next().await else { break };
            stopped |= self.is_the_last(all, planned.run, &attempted?);
        }
        Ok(if stopped || !waiting.is_empty() { SweepEnd::Interrupted } else { SweepEnd::Done })
    }

    fn chosen<'p>(
        &'p self,
        ids: &'p [RunId],
        tried: &[bool],
        chosen: impl Fn(&Run) -> bool,
    ) -> Vec<Planned<'p>> {
        let runs = self.plan.runs.iter().zip(ids).zip(self.decisions).enumerate();
        runs.filter(|(place, ((run, _), _))| !tried[*place] && chosen(run))
            .map(|(place, ((run, id), decision))| {
                let occupied = self.pace.occupied(self.plan, run);
                Planned { place, run, id, decision, occupied }
            })
            .collect()
    }

    /// Shows how many runs there are, and how many of them are reused.
    fn announce(&self, all: &mut Rounds<'_>, round: &[Planned<'_>]) {
        self.progress.add(round.len());
        // Of the runs that are made in any case that was said before the first of them.
        let reused = |planned: &&Planned<'_>| !self.plan.is_certain(planned.run) && !planned.is_trained();
        match round.iter().filter(reused).count() {
            0 => {}
            reused => self.progress.looked(&format!(
                "{reused} of {} finished before and reused",
                human::count(round.len(), "run")
            )),
        }
        for planned in round.iter().filter(|planned| !planned.is_trained()) {
            all.durations.reused(planned.run.cell);
        }
        self.tell_what_fits(all);
    }

    /// The first run that can begin now. One that has to wait keeps its machines from those behind it, so that no run waits for ever.
    fn startable(&self, waiting: &[Planned<'_>], under_way: &UnderWay<'_>) -> Option<usize> {
        let mut taken: Vec<&Occupied> = under_way.under_way().map(|planned| &planned.occupied).collect();
        let is_full = taken.len() >= self.pace.most();
        for (position, planned) in waiting.iter().enumerate() {
            let is_free = taken.iter().all(|other| other.is_apart_from(&planned.occupied));
            if !planned.is_trained() || is_free && !is_full {
                return Some(position);
            }
            taken.push(&planned.occupied);
        }
        None
    }

    /// Whether no further run is begun, the one at `position` the next.
    fn must_stop(
        &self,
        all: &Rounds<'_>,
        waiting: &[Planned<'_>],
        position: usize,
        under_way: &UnderWay<'_>,
    ) -> bool {
        let next = &waiting[position];
        let others = waiting.iter().filter(|other| other.place != next.place);
        let left = std::iter::once(next).chain(others).filter(|planned| planned.is_trained());
        let left: Vec<usize> = left.map(|planned| planned.run.cell).collect();
        let begun = under_way.under_way().map(|planned| planned.run.cell);
        // How long jobs wait is the queue's secret.
        if !matches!(self.pace, Pace::Queued(_)) {
            self.progress.expect(all.durations.together(left.iter().copied().chain(begun)));
        }
        next.is_trained() && self.is_used_up(all, &left)
            || self.session.interrupted().is_some()
            || self.max_fail.is_some_and(|most| all.failed >= most)
    }

    async fn reuse(&self, planned: &Planned<'_>, finished: &RunRef) -> Result<(), Failure> {
        // Its driver may have been killed between its end and this.
        let directory = self.store.shown_directory(&finished.run).await?.unwrap_or_default();
        resume::delete_checkpoints(self.store, std::slice::from_ref(&finished.run), &directory);
        if let Pace::Queued(queue) = self.pace {
            queue.folder(&planned.decision.identity).remove()?;
        }
        self.store.record_reuse(planned.id, &finished.run).await?;
        self.progress.reused(self.plan, planned.run);
        Ok(())
    }

    /// Takes the end of a run into account; whether no further one is begun.
    fn is_the_last(&self, all: &mut Rounds<'_>, run: &Run, attempted: &Attempted) -> bool {
        let Attempted { end: AttemptEnd { state, wall, .. }, as_ordered, is_the_last, .. } = attempted;
        // A run that failed, or was ended, does not tell how long it would have taken.
        if let (RunState::Done | RunState::Diverged, Some(wall)) = (state, wall) {
            all.durations.add(run.cell, Duration::from_nanos(wall.0));
        }
        self.tell_what_fits(all);
        all.failed += u32::from(matches!(state, RunState::Failed | RunState::TimedOut) && !as_ordered);
        *is_the_last || *state == RunState::Interrupted && self.session.interrupted().is_some()
    }
}
