//! Which comparisons of a sweep are open after a look, and which cells need more repeats for them.

use crate::compare::{Grade, Thresholds};
use crate::looks::level_of_each;
use crate::study::ArmCell;
use crate::{Compared, UnknownBaseline, statistics};
use std::collections::BTreeSet;
use store::SweepRows;

/// The state of a sweep's comparisons after a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The cells of the plan that need more repeats: arms whose comparison with the baseline is open, and their baselines.
    pub needed: BTreeSet<usize>,
    /// Number of comparisons that are open, and that more repeats may settle.
    pub open: usize,
    /// Number of all comparisons.
    pub comparisons: usize,
}

/// Looks at the runs that a sweep has so far.
///
/// A comparison is settled by the speed's verdict: quality mostly needs many more runs. An arm that misses its target, or diverges, is
/// settled where that is no chance, or where the baseline does no better.
///
/// # Errors
/// The plan has no arm called `baseline`.
pub fn look(rows: &SweepRows, baseline: Option<&str>) -> Result<Look, UnknownBaseline> {
    let compared = Compared::of(rows, baseline)?;
    let mut look = Look { needed: BTreeSet::new(), open: 0, comparisons: 0 };
    for (condition, comparisons) in compared.conditions() {
        for comparison in comparisons {
            look.comparisons += 1;
            let sides = [comparison.arm, compared.study.baseline].map(|arm| condition.cell(arm));
            let [Some(arm), Some(baseline)] = sides else { continue };
            // More of the same does not help an arm all of whose runs failed.
            let judged = !arm.runs.is_empty() && !baseline.runs.is_empty();
            if judged && is_open(comparison.grade, arm, baseline, compared.thresholds) {
                look.open += 1;
                look.needed.extend([arm.index, baseline.index]);
            }
        }
    }
    Ok(look)
}

fn is_open(grade: Grade, arm: &ArmCell, baseline: &ArmCell, thresholds: Thresholds) -> bool {
    let may_be_chance = |[own, other]: [usize; 2]| {
        let p = statistics::fewer_by_chance(own, arm.runs.len(), other, baseline.runs.len());
        own + other > 0 && p >= level_of_each(thresholds.confidence, thresholds.looks)
    };
    let steady = |cell: &ArmCell| cell.runs.len() - cell.diverged();
    match grade {
        Grade::DidNotReach => may_be_chance([arm.reached(), baseline.reached()]),
        Grade::Diverged => may_be_chance([steady(arm), steady(baseline)]),
        grade => grade.is_open(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use record::Nanos;
    use store::RunState;

    /// Three repeats of what may be up to six, under two conditions; `slower` is how much longer the steps of the arm are under the second,
    /// from run to run.
    fn rows(slower: [f64; 3]) -> SweepRows {
        let sample =
            Sample { repeats: 6, looks: vec![3, 6], workers: vec![2, 4], target: None, ..Sample::duel() };
        let mut rows = sample.rows();
        for run in &mut rows.runs {
            if run.repeat >= 3 {
                (run.state, run.attempt) = (RunState::Pending, None);
            } else if run.cell == 3 {
                let attempt = run.attempt.as_mut().unwrap();
                for time in [&mut attempt.mean_step_time, &mut attempt.step_time] {
                    let longer = slower[run.repeat as usize];
                    *time = time.map(|time| Nanos((time.0 as f64 * longer) as u64));
                }
            }
        }
        rows
    }

    #[test]
    fn what_is_settled_needs_no_more_and_what_is_open_needs_its_baseline() {
        let look = |rows: &SweepRows| look(rows, None).unwrap();
        // A third faster in every run under the first condition; anything under the second.
        let open = look(&rows([0.8, 1.3, 2.0]));
        assert_eq!(open, Look { needed: [2, 3].into(), open: 1, comparisons: 2 });
        let settled = look(&rows([1.0; 3]));
        assert_eq!(settled, Look { needed: BTreeSet::new(), open: 0, comparisons: 2 });
    }

    /// None of three runs beside all of three may be chance at half the level, none of six beside six is not.
    #[test]
    fn a_target_that_is_missed_by_chance_is_open() {
        let missing = |made: u32, reached: u32| {
            let mut rows = Sample { repeats: 6, looks: vec![3, 6], ..Sample::duel() }.rows();
            for run in &mut rows.runs {
                if run.repeat >= made {
                    (run.state, run.attempt) = (RunState::Pending, None);
                } else if run.cell == 1 || run.repeat >= reached {
                    run.attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.value = 0.5);
                }
            }
            look(&rows, None).unwrap().open
        };
        assert_eq!((missing(3, 3), missing(6, 6), missing(3, 0)), (1, 0, 0));
    }

    #[test]
    fn arms_without_a_run_that_ended_well_are_not_tried_again() {
        let mut rows = rows([0.8, 1.3, 2.0]);
        for run in rows.runs.iter_mut().filter(|run| run.cell == 3) {
            (run.state, run.attempt) = (RunState::Failed, None);
        }
        assert_eq!(look(&rows, None).unwrap().open, 0);
    }
}
