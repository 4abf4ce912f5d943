//! `--time-budget`: no run is started that would end later, by what the runs of its cell took so far.

use crate::output::human;
use recipe::Plan;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time that a sweep may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBudget {
    begun: Instant,
    length: Duration,
}

/// What the runs of a sweep took.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    of_cells: BTreeMap<usize, (u32, Duration)>,
}

impl Durations {
    pub(crate) fn add(&mut self, cell: usize, took: Duration) {
        let (count, sum) = self.of_cells.entry(cell).or_default();
        (*count, *sum) = (*count + 1, *sum + took);
    }

    /// What a run of a cell takes: the mean of its own, else of all; nothing before the first.
    pub(crate) fn expected(&self, cell: usize) -> Duration {
        let own = self.of_cells.get(&cell).copied();
        let all = || {
            self.of_cells.values().fold((0, Duration::ZERO), |(count, sum), own| (count + own.0, sum + own.1))
        };
        let (count, sum) = own.unwrap_or_else(all);
        sum.checked_div(count).unwrap_or_default()
    }

    /// Whether each cell of a plan has one.
    fn know_all(&self, plan: &Plan) -> bool {
        (0..plan.cells.len())
            .all(|cell| plan.cells[cell].excluded.is_some() || self.of_cells.contains_key(&cell))
    }
}

impl TimeBudget {
    pub(crate) fn new(length: Duration) -> Self {
        Self { begun: Instant::now(), length }
    }

    /// Whether a run that takes this long ends in time.
    pub(crate) fn allows(&self, expected: Duration) -> bool {
        self.begun.elapsed() + expected <= self.length
    }

    /// How many repeats of every cell fit, once each cell has been run: `None` before that, where all of them fit, and where
    /// it is not known how many are needed.
    pub(crate) fn repeats(&self, plan: &Plan, durations: &Durations) -> Option<usize> {
        let (least, most) = plan.number_of_runs();
        if plan.search.is_some() || least != most || !durations.know_all(plan) {
            return None;
        }
        let each: Duration = durations.of_cells.keys().map(|cell| durations.expected(*cell)).sum();
        let left = self.length.saturating_sub(self.begun.elapsed());
        let more = left.as_nanos().checked_div(each.as_nanos()).unwrap_or(u128::MAX);
        let made = durations.of_cells.values().map(|(count, _)| *count as usize).min().unwrap_or(0);
        let fitting = made.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        let (_, planned) = plan.repeats_to_the_end();
        (fitting < planned).then_some(fitting)
    }

    /// What is said of it when no further run fits.
    pub(crate) fn used(&self, left: usize, expected: Duration) -> String {
        format!(
            "the time budget of {} is used: {} left, some {}; the same command continues with them",
            human::whole(self.length),
            human::count(left, "run") + if left == 1 { " is" } else { " are" },
            human::whole(expected)
        )
    }
}

/// What the repeats that fit can settle, in sentences.
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
    fn a_run_is_expected_to_take_as_long_as_those_of_its_cell() {
        let mut durations = Durations::default();
        assert_eq!(durations.expected(0), Duration::ZERO);
        durations.add(0, 4 * SECOND);
        assert_eq!(durations.expected(1), 4 * SECOND);
        durations.add(1, 9 * SECOND);
        durations.add(0, 6 * SECOND);
        assert_eq!([0, 1].map(|cell| durations.expected(cell)), [5 * SECOND, 9 * SECOND]);
    }

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
