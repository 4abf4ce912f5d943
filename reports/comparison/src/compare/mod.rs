//! Each arm against the baseline under each condition.
//!
//! Time to a target is the time per step times the steps to the target, and each has its own ratio, interval and grade. Runs are
//! paired by seed: what the seed does to both arms leaves the difference of their logarithms. A claim is a t test against the
//! edge of the smallest effect that matters, corrected by Holm's method over the arms of a condition. Arms whose weights are
//! equal bit for bit need the same steps, whatever the seed, and are compared by their step time alone.

mod contrast;
mod grade;
mod pairs;
mod quality;
mod same_weights;

pub use contrast::{Advice, Contrast, FEWEST_PAIRS, exact_p};
pub use grade::{Grade, Quality};
pub use quality::QualityGap;
pub use same_weights::same_weights;

use crate::looks;
use crate::statistics::{self, PlacedSummary};
use crate::study::{ArmCell, Condition, Lost, Resource, SpeedMeasure, Study};
use contrast::grade_family;
use pairs::Pairs;
use std::collections::{BTreeMap, BTreeSet};

/// Path of the axis whose values are the sweeps of a page of several; no key of a recipe is called like that.
pub const SWEEP_AXIS: &str = "sweep";

/// Thresholds of the grades, from the recipe.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Smallest difference that matters in times, and in metrics of which less is better, as a share.
    pub min_effect: f64,
    /// Smallest difference in accuracy that matters, as a share of one.
    pub min_quality: f64,
    /// Confidence of the claims of all looks together, as a share of one.
    pub confidence: f64,
    /// How often the runs are looked at, each time with a part of the level.
    pub looks: u32,
}

impl Thresholds {
    /// The level of one look.
    fn level(self) -> f64 {
        looks::level_of_each(self.confidence, self.looks)
    }
}

/// One arm against the baseline.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Index of the arm.
    pub arm: usize,
    /// Of the seconds per global batch.
    pub step_time: Contrast,
    /// `None` without a target.
    pub steps_to_target: Option<Contrast>,
    /// Of the time to the target; `None` without a target.
    pub time_to_target: Option<Contrast>,
    /// The number of seeds with equal final weights, if no common seed differs.
    pub same_weights: Option<usize>,
    /// The difference in the final metric; `None` where no pair of runs measured one.
    pub quality: Option<QualityGap>,
    /// The grade of the arm: of its speed, or of how its runs ended.
    pub grade: Grade,
}

impl Comparison {
    /// Contrast that the grade is about: of the times to the target, if there is one. Arms with equal weights differ in
    /// the time of their steps only, which is known best from all steady steps.
    pub fn speed(&self) -> &Contrast {
        match &self.time_to_target {
            Some(time) if self.same_weights.is_none() || self.step_time.ratio.is_none() => time,
            _ => &self.step_time,
        }
    }

    /// The contrasts of all measures.
    pub fn contrasts(&self) -> impl Iterator<Item = &Contrast> {
        [self.time_to_target.as_ref(), self.steps_to_target.as_ref(), Some(&self.step_time)]
            .into_iter()
            .flatten()
    }

    fn of_measure(&mut self, measure: SpeedMeasure) -> Option<&mut Contrast> {
        match measure {
            SpeedMeasure::TimeToTarget => self.time_to_target.as_mut(),
            SpeedMeasure::StepsToTarget => self.steps_to_target.as_mut(),
            SpeedMeasure::StepTime => Some(&mut self.step_time),
        }
    }
}

const MEASURES: [SpeedMeasure; 3] =
    [SpeedMeasure::TimeToTarget, SpeedMeasure::StepsToTarget, SpeedMeasure::StepTime];

/// Compares the arms of each condition with the baseline; a condition without the baseline has no comparison.
pub fn compare(study: &Study, thresholds: Thresholds) -> Vec<Vec<Comparison>> {
    compare_by(study, thresholds, Resource::Time)
}

/// The same by what their times use of a resource: a ratio of costs is one of times, times the constant ratio of what a second uses.
/// Arms of which that is not known have no comparison.
pub fn compare_by(study: &Study, thresholds: Thresholds, resource: Resource) -> Vec<Vec<Comparison>> {
    let measured = |condition| measured(condition, study.baseline, thresholds, resource);
    let mut found: Vec<Vec<Comparison>> = study.conditions.iter().map(measured).collect();
    let pools = pools(study);
    for measure in MEASURES {
        for pool in &pools {
            share_variance(&mut found, measure, pool);
        }
        for (condition, comparisons) in study.conditions.iter().zip(&mut found) {
            let mut family = Vec::new();
            let mut alone = Vec::new();
            let mut missed = 0;
            for comparison in comparisons {
                let lost = condition.cell(comparison.arm).and_then(|cell| condition.lost(cell));
                let claims =
                    lost.is_none() || lost == Some(Lost::Missed) && measure == SpeedMeasure::StepTime;
                missed += usize::from(!claims && lost == Some(Lost::Missed));
                let place = if claims { &mut family } else { &mut alone };
                place.extend(comparison.of_measure(measure));
            }
            grade_family(&mut family, missed, thresholds);
            // Nothing is claimed of the speed of these.
            for contrast in alone {
                grade_family(&mut [contrast], 0, thresholds);
            }
        }
    }
    for (condition, comparisons) in study.conditions.iter().zip(&mut found) {
        quality::grade_family(comparisons, thresholds);
        for comparison in comparisons {
            comparison.grade = match condition.cell(comparison.arm) {
                Some(cell) => grade(cell, condition, comparison),
                None => Grade::Open,
            };
        }
    }
    found
}

fn measured(
    condition: &Condition,
    baseline: usize,
    thresholds: Thresholds,
    resource: Resource,
) -> Vec<Comparison> {
    let Some(base) = condition.cell(baseline) else { return Vec::new() };
    let others = condition.cells.iter().filter(|cell| cell.arm != baseline);
    let compared = |cell| Some(compared(condition, cell, base, thresholds, Shift::of(cell, base, resource)?));
    others.filter_map(compared).collect()
}

/// The logarithms of what a second of the baseline counts, relative to one of the arm.
#[derive(Clone, Copy)]
struct Shift {
    to_target: f64,
    of_steps: f64,
}

impl Shift {
    /// By what a second uses of a resource; `None` where that is not known.
    fn of(cell: &ArmCell, base: &ArmCell, resource: Resource) -> Option<Self> {
        let rate = |cell: &ArmCell| cell.usage.rate(resource).filter(|rate| *rate > 0.0);
        let shift = (rate(base)? / rate(cell)?).ln();
        Some(Self { to_target: shift, of_steps: shift })
    }

    /// Of arms whose steps use other numbers of samples: by the time of a sample.
    fn per_sample(cell: &ArmCell, base: &ArmCell) -> Self {
        Self { to_target: 0.0, of_steps: (f64::from(cell.batch) / f64::from(base.batch)).ln() }
    }

    fn of_measure(self, measure: SpeedMeasure) -> f64 {
        match measure {
            SpeedMeasure::TimeToTarget => self.to_target,
            SpeedMeasure::StepTime => self.of_steps,
            SpeedMeasure::StepsToTarget => 0.0,
        }
    }
}

fn compared(
    condition: &Condition,
    cell: &ArmCell,
    base: &ArmCell,
    thresholds: Thresholds,
    shift: Shift,
) -> Comparison {
    let same_weights = same_weights(cell, base);
    let contrast = |measure: SpeedMeasure| {
        let mut pairs = Pairs::of(condition, cell, base, measure).shifted(shift.of_measure(measure));
        if same_weights.is_some() {
            // Both reach the target at the same moment of the same evaluation.
            pairs.grids = Default::default();
        }
        Contrast::new(cell, base, pairs, measure, same_weights.is_some())
    };
    let with_target = |measure: SpeedMeasure| condition.target.map(|_| contrast(measure));
    let steps = with_target(SpeedMeasure::StepsToTarget);
    Comparison {
        arm: cell.arm,
        step_time: contrast(SpeedMeasure::StepTime),
        steps_to_target: if same_weights.is_some() { steps.map(Contrast::equal_steps) } else { steps },
        time_to_target: with_target(SpeedMeasure::TimeToTarget),
        quality: QualityGap::of(condition, cell, base, same_weights.is_some(), thresholds),
        same_weights,
        grade: Grade::Open,
    }
}

/// The conditions that share what they know of spread: all of a sweep. Of several sweeps each keeps to itself, so that its verdicts are those of
/// its own page.
fn pools(study: &Study) -> Vec<BTreeSet<usize>> {
    let mut pools: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (number, condition) in study.conditions.iter().enumerate() {
        let cell = condition.cells.first().map(|cell| &study.rows.plan.cells[cell.index]);
        let sweep = cell.and_then(|cell| cell.axes.iter().find(|axis| axis.path == SWEEP_AXIS));
        pools.entry(sweep.map_or("", |sweep| sweep.text.as_str())).or_default().insert(number);
    }
    pools.into_values().collect()
}

/// Lets the comparisons of all arms under the conditions of a pool share what they know of spread. Those of equal weights share among
/// themselves: seeds do not spread them.
fn share_variance(found: &mut [Vec<Comparison>], measure: SpeedMeasure, pool: &BTreeSet<usize>) {
    let mut of_seeds = Vec::new();
    let mut of_machine = Vec::new();
    for (condition, comparisons) in found.iter_mut().enumerate().filter(|(place, _)| pool.contains(place)) {
        for comparison in comparisons {
            let same_weights = comparison.same_weights.is_some();
            let fewest = if same_weights { 2 } else { FEWEST_PAIRS };
            let contrast =
                comparison.of_measure(measure).filter(|contrast| contrast.pairs.exact().len() >= fewest);
            if let Some(summary) = contrast.and_then(|contrast| contrast.mean.as_mut()) {
                let samples = if same_weights { &mut of_machine } else { &mut of_seeds };
                samples.push(PlacedSummary { summary, condition });
            }
        }
    }
    statistics::moderate(&mut of_seeds);
    statistics::moderate(&mut of_machine);
}

/// The grade of the arm: that of its speed, unless its runs did not end as planned.
fn grade(cell: &ArmCell, condition: &Condition, comparison: &Comparison) -> Grade {
    match condition.lost(cell) {
        Some(Lost::Diverged) => Grade::Diverged,
        Some(Lost::Missed) => Grade::DidNotReach,
        None => comparison.speed().grade,
    }
}

/// An arm under a condition, and what it is compared with under another one that has the same target.
#[derive(Clone, Copy)]
pub struct Across<'s, 'a> {
    /// Condition under which the arm ran.
    pub condition: &'s Condition<'a>,
    /// Runs of the arm.
    pub cell: &'s ArmCell<'a>,
    /// Runs that those of the arm are compared with.
    pub control: &'s ArmCell<'a>,
}

/// Compares arms with controls under other conditions, by their time to the target or of a sample; all of them are one family.
pub fn across(asked: &[Across], thresholds: Thresholds) -> Vec<Comparison> {
    let lost =
        |asked: &Across| asked.condition.lost(asked.cell).or_else(|| asked.condition.lost(asked.control));
    let compared = |Across { condition, cell, control }: &Across| {
        compared(condition, cell, control, thresholds, Shift::per_sample(cell, control))
    };
    // Arms with one control share its runs, as the arms of a condition share the baseline's.
    let controls = asked.chunk_by(|one, other| one.control.index == other.control.index);
    let mut found: Vec<Vec<Comparison>> =
        controls.map(|asked| asked.iter().map(compared).collect()).collect();
    let everything: BTreeSet<usize> = (0..found.len()).collect();
    for measure in MEASURES {
        share_variance(&mut found, measure, &everything);
        let mut family = Vec::new();
        let mut alone = Vec::new();
        for (asked, comparison) in asked.iter().zip(found.iter_mut().flatten()) {
            let place = if lost(asked).is_none() { &mut family } else { &mut alone };
            place.extend(comparison.of_measure(measure));
        }
        grade_family(&mut family, alone.len(), thresholds);
        // Nothing is claimed of the speed of these.
        for contrast in alone {
            grade_family(&mut [contrast], 0, thresholds);
        }
    }
    for (asked, comparison) in asked.iter().zip(found.iter_mut().flatten()) {
        comparison.grade = match asked.condition.lost(asked.cell) {
            Some(Lost::Diverged) => Grade::Diverged,
            Some(Lost::Missed) => Grade::DidNotReach,
            None if lost(asked).is_some() => Grade::Open,
            None => comparison.speed().grade,
        };
    }
    let mut found: Vec<Comparison> = found.into_iter().flatten().collect();
    // Of what misses its target or diverges no quality is claimed, and it makes no other claim weaker.
    for (asked, comparison) in asked.iter().zip(&mut found) {
        comparison.quality = comparison.quality.take().filter(|_| lost(asked).is_none());
    }
    quality::grade_family(&mut found, thresholds);
    found
}

/// An arm's speed against another arm that need not be the baseline.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Index of the other arm.
    pub arm: usize,
    /// Grade of the arm's speed against the other's.
    pub grade: Grade,
    /// How sure the arm is faster than the other by more than the smallest effect that matters.
    pub sure_faster: Option<f64>,
}

/// The grades of an arm against each other arm whose speed is compared, in the plan's order, corrected for their number.
pub fn beside(condition: &Condition, leader: &ArmCell, thresholds: Thresholds) -> Vec<Beside> {
    beside_by(condition, leader, thresholds, Resource::Time)
}

/// The same by what their times use of a resource.
pub fn beside_by(
    condition: &Condition,
    leader: &ArmCell,
    thresholds: Thresholds,
    resource: Resource,
) -> Vec<Beside> {
    let others = || condition.cells.iter().filter(|cell| cell.arm != leader.arm && !cell.runs.is_empty());
    let missed = others().filter(|cell| condition.lost(cell) == Some(Lost::Missed)).count();
    let mut found: Vec<Comparison> = others()
        .filter(|cell| condition.lost(cell).is_none())
        .filter_map(|other| {
            let shift = Shift::of(leader, other, resource)?;
            Some(Comparison { arm: other.arm, ..compared(condition, leader, other, thresholds, shift) })
        })
        .collect();
    for measure in MEASURES {
        let mut family: Vec<&mut Contrast> =
            found.iter_mut().filter_map(|comparison| comparison.of_measure(measure)).collect();
        grade_family(&mut family, missed, thresholds);
    }
    let sure = |speed: &Contrast| speed.sure.map(|sure| if speed.is_faster() { sure } else { 0.0 });
    let beside = |found: &Comparison| Beside {
        arm: found.arm,
        grade: found.speed().grade,
        sure_faster: sure(found.speed()),
    };
    found.iter().map(beside).collect()
}

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod error_rates;
#[cfg(test)]
mod made_up;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod until_decided;
