//! `--time-budget`: no run is started that would end later, by what the runs of its cell took so far.

use crate::durations::{Durations, Estimate};
use crate::output::human;
use recipe::Plan;
use std::time::{Duration, Instant};

/// The time that a sweep may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBudget {
    begun: Instant,
    length: Duration,
}

impl TimeBudget {
    pub(crate) fn new(length: Duration) -> Self {
        Self { begun: Instant::now(), length }
    }

    /// Whether a run that takes this long ends in time.
    pub(crate) fn allows(&self, expected: Duration) -> bool {
        self.begun.elapsed() + expected <= self.length
    }

    /// How many repeats of every cell fit, once each cell has been run, here or earlier: `None` before that, where all of them fit,
    /// and where it is not known how many are needed.
    pub(crate) fn repeats(&self, plan: &Plan, durations: &Durations) -> Option<usize> {
        let runs = plan.number_of_runs();
        let cells = || (0..plan.cells.len()).filter(|cell| plan.cells[*cell].excluded.is_none());
        if plan.search.is_some() || runs.least != runs.most || !cells().all(|cell| durations.knows(cell)) {
            return None;
        }
        let each = durations.together(cells())?.length;
        let left = self.length.saturating_sub(self.begun.elapsed());
        let more = left.as_nanos().checked_div(each.as_nanos()).unwrap_or(u128::MAX);
        let made = cells().map(|cell| durations.made(cell) as usize).min().unwrap_or(0);
        let fitting = made.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        let planned = plan.repeats_to_the_end().most;
        (fitting < planned).then_some(fitting)
    }

    /// The message where no further run fits.
    pub(crate) fn used(&self, left: usize, expected: &Estimate) -> String {
        format!(
            "the time budget of {} is used: {} left, some {} {}; the same command continues with them",
            human::whole(self.length),
            human::count(left, "run") + if left == 1 { " is" } else { " are" },
            human::whole(expected.length),
            expected.by()
        )
    }
}

/// Sentences about the evidence that the first `repeats` repeats of a plan can give.
pub(crate) fn outlook(plan: &Plan, repeats: usize) -> Vec<String> {
    let mut fitting = plan.clone();
    fitting.runs.retain(|run| (run.repeat as usize) < repeats);
    reports::outlook(&fitting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::sample::Sample;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_repeats_that_fit_are_known_after_the_first() {
        let plan = Sample::duel().rows().plan;
        let mut durations = Durations::default();
        durations.add(0, 10 * SECOND);
        let budget = |seconds: u32| TimeBudget::new(seconds * SECOND);
        assert_eq!(budget(70).repeats(&plan, &durations), None);
        durations.add(1, 20 * SECOND);
        // Of five planned, one is made.
        assert_eq!(
            [20, 70, 1_000].map(|left| budget(left).repeats(&plan, &durations)),
            [Some(1), Some(3), None]
        );
        assert!(!budget(5).allows(10 * SECOND) && budget(15).allows(10 * SECOND));
        assert_ne!(outlook(&plan, 2), reports::outlook(&plan));
    }
}
