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
