//! The runs that are judged, and what each of them says.

use recipe::{Metric, Target};
use record::Nanos;
use store::{AttemptRow, MetricRow, RunRow, RunState};

/// A run that is judged: it counts in the statistics of its arm.
pub struct JudgedRun<'a> {
    /// Its row, with cell, repeat and seed.
    pub run: &'a RunRow,
    /// Last attempt at the run.
    pub attempt: &'a AttemptRow,
    /// The first evaluation at or beyond the target, if it came in time.
    pub hit: Option<&'a MetricRow>,
    /// The evaluation before it, or the last one without it.
    pub before: Option<&'a MetricRow>,
    /// Seconds on the clock of the run for which the target was watched.
    pub watched: f64,
    /// Time per global batch over all steady steps; of the median one where a run of the condition has no other.
    step: Option<Nanos>,
}

impl<'a> JudgedRun<'a> {
    fn new(run: &'a RunRow, attempt: &'a AttemptRow, target: Option<Target>, batch: u32) -> Self {
        let last_seen = attempt.metrics.iter().map(|row| row.at).max();
        let ran = attempt.training.or(last_seen).unwrap_or_default().seconds();
        let deadline =
            target.and_then(|target| target.after).map_or(f64::INFINITY, |after| after.as_secs_f64());
        let mut hit = None;
        let mut before = None;
        if let Some(target) = target {
            let rows = attempt.metrics.iter().filter(|row| row.metric == target.metric);
            for row in rows.filter(|row| row.at.seconds() <= deadline) {
                if target.reached(row.value) {
                    hit = Some(row);
                    break;
                }
                before = Some(row);
            }
        }
        let step = if run.state == RunState::Degraded {
            step_of_all(attempt, batch)
        } else {
            attempt.mean_step_time.or(attempt.step_time)
        };
        Self { run, attempt, hit, before, watched: ran.min(deadline), step }
    }

    /// Whether it trained to its end.
    pub(crate) fn ended_as_planned(&self) -> bool {
        matches!(self.run.state, RunState::Done | RunState::Degraded)
    }

    /// Whether its loss was not finite at last.
    pub fn has_diverged(&self) -> bool {
        self.run.state == RunState::Diverged
    }

    /// Seconds per global batch over all steady steps, or of the median one if a run of the condition was recorded before the mean
    /// was kept. A run that diverged has none that says anything.
    pub(crate) fn mean_step(&self) -> Option<f64> {
        self.step.filter(|_| self.has_steps()).map(Nanos::seconds)
    }

    fn has_steps(&self) -> bool {
        !self.has_diverged() && self.run.state != RunState::Failed
    }

    pub(super) fn forget_mean(&mut self) {
        if self.run.state != RunState::Degraded {
            self.step = self.attempt.step_time;
        }
    }

    /// Seconds of the median steady step.
    pub fn typical_step(&self) -> Option<f64> {
        self.attempt.step_time.filter(|_| self.has_steps()).map(Nanos::seconds)
    }

    /// Samples until the target, in global batches; infinite where it was not reached.
    pub fn steps_to_target(&self, batch: u32) -> f64 {
        self.hit.map_or(f64::INFINITY, |row| row.samples as f64 / f64::from(batch))
    }

    /// Seconds until the target; infinite where it was not reached.
    pub fn time_to_target(&self) -> f64 {
        self.hit.map_or(f64::INFINITY, |row| row.at.seconds())
    }

    /// The last value of a metric; `None` where it was never measured.
    pub fn last(&self, metric: Metric) -> Option<f64> {
        self.attempt.metrics.iter().rev().find(|row| row.metric == metric).map(|row| row.value)
    }
}

/// The judged runs of a cell, in the order of their repeats.
pub(super) fn judged<'a>(rows: &[&'a RunRow], target: Option<Target>, batch: u32) -> Vec<JudgedRun<'a>> {
    let mut judged: Vec<JudgedRun> = rows
        .iter()
        .filter(|run| is_judged(run) || (target.is_some() && has_failed_as_ordered(run)))
        .filter_map(|run| Some(JudgedRun::new(run, run.attempt.as_ref()?, target, batch)))
        .collect();
    judged.sort_by_key(|judged| (judged.run.repeat, judged.run.index));
    judged
}

/// Training time per global batch of a run that lost ranks: the paces of its workers would count those that are lost to the end.
fn step_of_all(attempt: &AttemptRow, batch: u32) -> Option<Nanos> {
    let batches = attempt.samples as f64 / f64::from(batch.max(1));
    let training = attempt.training.filter(|_| batches > 0.0)?;
    Some(Nanos((training.0 as f64 / batches).round() as u64))
}

/// Whether it failed because the recipe let a rank fail that its strategy cannot spare. It did not reach a target unless before that; leaving
/// it out would keep the fast seeds alone. Its steps are no measure of time.
fn has_failed_as_ordered(run: &RunRow) -> bool {
    run.state == RunState::Failed && run.is_as_ordered()
}

/// Whether a run counts in the statistics of its arm. A run that diverged or ran out of time is a result: it did not
/// reach the target. One that failed or was interrupted says nothing about its arm. Neither does one that continued
/// without a rank: from then on it had fewer workers, and the same accident ends a run of a strategy that cannot lose a
/// rank, which is left out as well. Where the recipe lets the rank fail, it fails in every arm, and the run is what was to be seen.
pub fn is_judged(run: &RunRow) -> bool {
    match run.state {
        RunState::Done | RunState::Degraded | RunState::Diverged | RunState::TimedOut => {
            run.is_as_ordered() || !is_degraded(run)
        }
        RunState::Pending
        | RunState::NotNeeded
        | RunState::Running
        | RunState::Failed
        | RunState::Interrupted => false,
    }
}

/// Whether the run continued after losing a rank, however it ended.
pub fn is_degraded(run: &RunRow) -> bool {
    run.state == RunState::Degraded || run.attempt.as_ref().is_some_and(|attempt| !attempt.lost.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::study::{SpeedMeasure, Study};
    use store::SweepRows;

    #[test]
    fn the_median_run_did_not_diverge_unless_all_did() {
        let mut rows = Sample { target: None, ..Sample::duel() }.rows();
        let median = |rows: &SweepRows| {
            let study = Study::new(rows, None).unwrap();
            study.conditions[0].cells[1].median_index(SpeedMeasure::StepTime)
        };
        let before = median(&rows).unwrap();
        let of_arm = |rows: &SweepRows| -> Vec<usize> {
            (0..rows.runs.len()).filter(|place| rows.runs[*place].cell == 1).collect()
        };
        let places = of_arm(&rows);
        rows.runs[places[before]].state = RunState::Diverged;
        assert_ne!(median(&rows), Some(before));
        for place in places {
            rows.runs[place].state = RunState::Diverged;
        }
        assert!(median(&rows).is_some());
    }

    #[test]
    fn a_run_that_loses_a_rank_as_ordered_takes_what_it_trained_and_a_failed_one_misses_its_target() {
        let mut rows = Sample::duel().rows();
        for (run, state) in [(0, RunState::Degraded), (1, RunState::Failed)] {
            rows.runs[run].state = state;
            let attempt = rows.runs[run].attempt.as_mut().unwrap();
            attempt.as_ordered = true;
            attempt.training = Some(Nanos(2 * attempt.samples * 1_000));
            if state == RunState::Failed {
                attempt.metrics.retain(|row| row.value < 0.9);
            }
        }
        let cells = [0, 1].map(|run| rows.runs[run].cell);
        let study = Study::new(&rows, None).unwrap();
        let judged = |run: usize| {
            let cell = study.conditions[0].cells.iter().find(|cell| cell.index == cells[run]).unwrap();
            let found = cell.runs.iter().find(|judged| judged.run.index == run).unwrap();
            (found.mean_step(), found.time_to_target(), f64::from(cell.batch))
        };
        let (step, _, batch) = judged(0);
        assert!((step.unwrap() - batch * 2e-6).abs() < 1e-9, "{step:?}");
        assert_eq!((judged(1).0, judged(1).1), (None, f64::INFINITY));
        // Without a target a failed run says nothing.
        for cell in &mut rows.plan.cells {
            cell.spec.train.target = None;
        }
        let study = Study::new(&rows, None).unwrap();
        assert!(
            study.conditions[0].cells.iter().flat_map(|cell| &cell.runs).all(|judged| judged.run.index != 1)
        );
    }
}
