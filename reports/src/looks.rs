//! Repeats until decided: which runs a sweep still needs, and what looking at it several times costs.
//!
//! A sweep that is looked at k times, and stops where a comparison is settled, has k chances to claim what is not so. Each look
//! tests at a k-th of the level (Bonferroni), whichever look it stopped at, so that all of them together err no more often than one:
//! it holds for any dependence between looks, and without knowing at which of them an arm was left.

use crate::comparison::Advice;
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::whole_percent;
use crate::{Options, ReportError};
use recipe::Plan;
use std::collections::BTreeSet;
use store::SweepRows;

/// The confidence of one look, so that all together have `confidence`.
pub(crate) fn confidence_of_each(confidence: f64, looks: &[u32]) -> f64 {
    1.0 - (1.0 - confidence) / looks.len().max(1) as f64
}

/// `3, 6, 12 and 24 repeats`.
pub(crate) fn listed(looks: &[u32]) -> String {
    let words: Vec<String> = looks.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last} repeats", first.join(", ")),
        _ => number_format::plural(looks.first().map_or(0, |look| *look as usize), "repeat"),
    }
}

/// Why the intervals of a sweep that runs until it is decided have the confidence that they have; `None` of a fixed number of repeats.
pub fn looks_in_words(plan: &Plan) -> Option<String> {
    let looks = plan.looks.as_slice();
    let percent = |confidence| whole_percent(confidence).replace('\u{a0}', " ");
    (!looks.is_empty()).then(|| {
        format!(
            "{} at each of the looks after {}, so that all together hold {}",
            percent(confidence_of_each(plan.report.confidence, looks)),
            listed(looks),
            percent(plan.report.confidence)
        )
    })
}

/// What is known of a sweep's comparisons after a look.
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
/// A comparison is settled by the speed's verdict: quality mostly needs many more runs. One that only more evaluations can settle
/// needs no repeats either.
///
/// # Errors
/// The rows do not fit the options, such as a baseline that the plan does not have.
pub fn look(rows: &SweepRows, options: &Options) -> Result<Look, ReportError> {
    let findings = Findings::of(rows, options)?;
    let mut look = Look { needed: BTreeSet::new(), open: 0, comparisons: 0 };
    for (condition, comparisons) in findings.conditions() {
        for comparison in comparisons {
            look.comparisons += 1;
            let hidden = comparison.speed().advice(findings.thresholds) == Some(Advice::EvaluateMoreOften);
            let sides = [comparison.arm, findings.study.baseline].map(|arm| condition.cell(arm));
            // More of the same does not help an arm all of whose runs failed.
            let judged: Vec<usize> = sides
                .into_iter()
                .flatten()
                .filter(|cell| !cell.runs.is_empty())
                .map(|cell| cell.index)
                .collect();
            if comparison.grade.is_open() && !hidden && judged.len() == 2 {
                look.open += 1;
                look.needed.extend(judged);
            }
        }
    }
    Ok(look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use record::Nanos;
    use store::RunState;

    #[test]
    fn each_look_has_its_part_of_the_level() {
        let close =
            |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
        close(confidence_of_each(0.95, &[]), 0.95);
        close(confidence_of_each(0.95, &[3]), 0.95);
        close(confidence_of_each(0.95, &[3, 6, 12, 24]), 0.9875);
        assert_eq!(listed(&[3, 6, 12, 24]), "3, 6, 12 and 24 repeats");
        assert_eq!(listed(&[3, 4]), "3 and 4 repeats");
        assert_eq!(listed(&[1]), "1 repeat");
        let said = |looks: &[u32]| {
            let sample = Sample { looks: looks.to_vec(), ..Sample::duel() };
            looks_in_words(&sample.rows().plan)
        };
        let words = "98.33 % at each of the looks after 3, 6 and 7 repeats, so that all together hold 95 %";
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

    #[test]
    fn arms_without_a_run_that_ended_well_are_not_tried_again() {
        let mut rows = rows([0.8, 1.3, 2.0]);
        for run in rows.runs.iter_mut().filter(|run| run.cell == 3) {
            (run.state, run.attempt) = (RunState::Failed, None);
        }
        assert_eq!(look(&rows, &Options::default()).unwrap().open, 0);
    }
}
