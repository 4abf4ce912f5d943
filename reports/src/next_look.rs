//! Repeats until decided: which runs a sweep still needs after a look.

use crate::search;
use crate::verdict::whole_percent;
use crate::{Options, ReportError};
use comparison::Look;
use comparison::looks::{listed, under_way};
use recipe::Plan;
use store::{RunState, SweepRows};

/// Number of runs that were made, or are known to be needed.
pub fn made(rows: &SweepRows) -> usize {
    let under_way = under_way(rows);
    search::due(rows).filter(|run| run.repeat < under_way && run.state != RunState::NotNeeded).count()
}

/// What several looks mean for claims; `None` of a fixed number of repeats.
pub fn looks_in_words(plan: &Plan) -> Option<String> {
    let looks = plan.looks.as_slice();
    let together = whole_percent(plan.report.confidence).replace('\u{a0}', " ");
    let words = || {
        format!(
            "repeats until decided, looked at after {}: claims and ratios hold at {together} over all looks",
            listed(looks)
        )
    };
    (!looks.is_empty()).then(words)
}

/// Looks at the runs that a sweep has so far.
///
/// # Errors
/// The plan does not have the baseline of the options.
pub fn look(rows: &SweepRows, options: &Options) -> Result<Look, ReportError> {
    Ok(comparison::look(rows, options.baseline.as_deref())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use record::Nanos;
    use std::collections::BTreeSet;

    #[test]
    fn looks_are_said_where_there_are_several() {
        let plan = |looks: &[u32]| Sample { looks: looks.to_vec(), ..Sample::duel() }.rows().plan;
        let words = "repeats until decided, looked at after 3, 6 and 7 repeats: claims and ratios hold at 95 % over all looks";
        let said = |looks: &[u32]| looks_in_words(&plan(looks));
        assert_eq!((said(&[]), said(&[3, 6, 7])), (None, Some(words.to_owned())));
    }

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
        let look = |rows: &SweepRows| look(rows, &Options::default()).unwrap();
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
            look(&rows, &Options::default()).unwrap().open
        };
        assert_eq!((missing(3, 3), missing(6, 6), missing(3, 0)), (1, 0, 0));
    }

    #[test]
    fn arms_without_a_run_that_ended_well_are_not_tried_again() {
        let mut rows = rows([0.8, 1.3, 2.0]);
        for run in rows.runs.iter_mut().filter(|run| run.cell == 3) {
            (run.state, run.attempt) = (RunState::Failed, None);
        }
        assert_eq!(look(&rows, &Options::default()).unwrap().open, 0);
    }
}
