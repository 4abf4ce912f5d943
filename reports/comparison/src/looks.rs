//! Repeats until decided: what looking at a sweep several times costs.
//!
//! A sweep that is looked at k times, and stops where a comparison is settled, has k chances to make a false claim. Each look
//! tests at a k-th of the level (Bonferroni): p values and doubts count k times, and intervals are as wide as that takes, whichever look
//! an arm stopped at. For tests that know of the arm and the look alone that holds for any dependence between looks; what shared
//! variances add, which know of the other arms, is simulated.

use crate::compare::{Grade, Thresholds};
use crate::study::ArmCell;
use crate::{Compared, UnknownBaseline, statistics};
use recipe::Plan;
use std::collections::BTreeSet;
use store::{RunState, SweepRows};

/// Number of runs that were planned for a comparison that was settled without them.
pub fn not_needed(rows: &SweepRows) -> usize {
    rows.runs.iter().filter(|run| run.state == RunState::NotNeeded).count()
}

/// The number of repeats that a sweep has come to: those up to the look that it ended at, or is on the way to. Of later ones it is not known
/// whether they are needed. Of a fixed number of repeats no run is later.
pub fn under_way(rows: &SweepRows) -> u32 {
    let begun =
        rows.runs.iter().filter(|run| run.attempt.is_some()).map(|run| run.repeat + 1).max().unwrap_or(0);
    rows.plan.looks.iter().copied().find(|look| *look >= begun).unwrap_or(u32::MAX)
}

/// The number of looks that a plan has.
pub fn number(plan: &Plan) -> u32 {
    plan.looks.len().max(1) as u32
}

/// The level of one of `looks` looks, so that all together have `confidence`.
pub fn level_of_each(confidence: f64, looks: u32) -> f64 {
    (1.0 - confidence) / f64::from(looks)
}

/// `3, 6, 12 and 24 repeats`.
pub fn listed(looks: &[u32]) -> String {
    let words: Vec<String> = looks.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [] => "no repeat".to_owned(),
        [one] => format!("{one} repeats"),
        [first @ .., last] => format!("{} and {last} repeats", first.join(", ")),
    }
}

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

    #[test]
    fn each_look_has_its_part_of_the_level() {
        let plan = |looks: &[u32]| Sample { looks: looks.to_vec(), ..Sample::duel() }.rows().plan;
        for (looks, level) in [(&[][..], 0.05), (&[3, 6], 0.025), (&[3, 6, 12, 24], 0.0125)] {
            let found = level_of_each(0.95, number(&plan(looks)));
            assert!((found - level).abs() < 1e-12, "{found} is not {level}");
        }
        assert_eq!(listed(&[3, 6, 12, 24]), "3, 6, 12 and 24 repeats");
        assert_eq!(listed(&[3, 4]), "3 and 4 repeats");
        assert_eq!(listed(&[3]), "3 repeats");
    }
}
