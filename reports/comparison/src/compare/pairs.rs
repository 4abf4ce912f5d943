//! The runs of two arms, paired by seed.

use crate::statistics::Grid;
use crate::statistics::censored::{self, Difference};
use crate::study::{ArmCell, Condition, JudgedRun, SpeedMeasure};

/// Result of a run by one measure, in seconds or steps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// Value of the measure, above zero.
    Value(f64),
    /// Target not reached within this time, or number of steps.
    Missed(f64),
    /// Target that the run, which diverged, can never reach. Others were watched for this time, or number of steps.
    Never(f64),
}

/// Error that evaluations leave open in a mean difference of logarithms, because targets are reached between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hidden {
    /// By how much it may be smaller than it seems.
    pub below: f64,
    /// By how much it may be larger.
    pub above: f64,
}

/// The pairs of an arm and the baseline by one measure, on a logarithmic scale: baseline less arm, so that a faster arm is
/// above zero.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    pub differences: Vec<Difference>,
    /// Pairs of which neither side reached the target.
    pub both_missed: usize,
    /// Evaluation grids of the arm's and of the baseline's runs, in this order.
    pub grids: [Grid; 2],
    /// Logarithm of the value of a second of the baseline relative to one of the arm; `differences` include it.
    pub shift: f64,
}

impl Pairs {
    pub fn of(condition: &Condition, cell: &ArmCell, base: &ArmCell, measure: SpeedMeasure) -> Self {
        let horizon = horizon(condition, base, measure);
        let mut pairs = Self { grids: [cell, base].map(|cell| grid(cell, measure)), ..Self::default() };
        if cell.mostly_diverged() || base.mostly_diverged() {
            return pairs;
        }
        for judged in &cell.runs {
            let Some(other) = base.runs.iter().find(|other| other.run.seed == judged.run.seed) else {
                continue;
            };
            let Some(arm) = seen(judged, cell, measure, horizon) else { continue };
            let Some(base) = seen(other, base, measure, horizon) else { continue };
            match difference(base, arm) {
                Some(difference) => pairs.differences.push(difference),
                None => pairs.both_missed += 1,
            }
        }
        pairs
    }

    /// The same where a second of the baseline counts `exp(shift)` times as much as one of the arm.
    pub fn shifted(mut self, shift: f64) -> Self {
        self.differences.iter_mut().for_each(|difference| *difference = difference.shifted(shift));
        self.shift += shift;
        self
    }

    /// Pairs of which both sides have a value.
    pub fn exact(&self) -> Vec<f64> {
        let exact = |difference: &Difference| match difference {
            Difference::Exact(value) => Some(*value),
            _ => None,
        };
        self.differences.iter().filter_map(exact).collect()
    }

    /// The differences with each bound in the place of a value. Of a pair of which neither side reached the target it is not known which
    /// was slower: their times count as equal, and not as none, because those that reached may have been the fast ones.
    pub fn bounds(&self) -> Vec<f64> {
        let mut bounds = censored::with_bounds(&self.differences);
        bounds.extend(vec![self.shift; self.both_missed]);
        bounds
    }

    /// Pairs of which only the baseline missed.
    pub fn baseline_missed(&self) -> usize {
        let missed =
            |found: &&Difference| matches!(found, Difference::AtLeast(_) | Difference::MinuendNever(_));
        self.differences.iter().filter(missed).count()
    }

    /// Pairs of which only the arm missed.
    pub fn arm_missed(&self) -> usize {
        let missed =
            |found: &&Difference| matches!(found, Difference::AtMost(_) | Difference::SubtrahendNever(_));
        self.differences.iter().filter(missed).count()
    }

    /// By how much the mean difference may be smaller and larger than it seems. Each value is the end of its cell: the middle lies
    /// half a cell before it.
    pub fn hidden(&self) -> Hidden {
        let [arm, base] = self.grids;
        let shift = (base.width - arm.width) / 2.0;
        let error = base.error + arm.error;
        Hidden { below: (error + shift).max(0.0), above: (error - shift).max(0.0) }
    }

    /// The variance that reading both sides on their grids adds to a difference: few pairs may agree by chance.
    pub fn rounding(&self) -> f64 {
        self.grids.iter().map(Grid::variance).sum()
    }
}

/// The longest that any run of the condition was watched, or of a baseline of another one.
fn horizon(condition: &Condition, base: &ArmCell, measure: SpeedMeasure) -> f64 {
    let watched = |cell: &ArmCell| {
        cell.runs.iter().map(|judged| watched(judged, cell, measure)).fold(0.0_f64, f64::max)
    };
    condition.cells.iter().chain([base]).map(watched).fold(0.0, f64::max)
}

fn watched(judged: &JudgedRun, cell: &ArmCell, measure: SpeedMeasure) -> f64 {
    match measure {
        SpeedMeasure::TimeToTarget => judged.watched,
        SpeedMeasure::StepsToTarget => {
            let last = judged.hit.or(judged.before).map_or(0, |row| row.samples);
            last as f64 / f64::from(cell.batch)
        }
        SpeedMeasure::StepTime => 0.0,
    }
}

fn seen(judged: &JudgedRun, cell: &ArmCell, measure: SpeedMeasure, horizon: f64) -> Option<Seen> {
    let positive = |value: f64| (value > 0.0 && value.is_finite()).then_some(value);
    if measure == SpeedMeasure::StepTime {
        return judged.mean_step().and_then(positive).map(Seen::Value);
    }
    let value = match measure {
        SpeedMeasure::TimeToTarget => judged.time_to_target(),
        SpeedMeasure::StepsToTarget | SpeedMeasure::StepTime => judged.steps_to_target(cell.batch),
    };
    if value.is_finite() {
        return positive(value).map(Seen::Value);
    }
    if judged.has_diverged() {
        return positive(horizon).map(Seen::Never);
    }
    positive(watched(judged, cell, measure)).map(Seen::Missed)
}

/// ln(base / arm); `None` if neither reached the target.
fn difference(base: Seen, arm: Seen) -> Option<Difference> {
    Some(match (base, arm) {
        (Seen::Value(base), Seen::Value(arm)) => Difference::Exact((base / arm).ln()),
        (Seen::Missed(base), Seen::Value(arm)) => Difference::AtLeast((base / arm).ln()),
        (Seen::Never(base), Seen::Value(arm)) => Difference::MinuendNever((base / arm).ln()),
        (Seen::Value(base), Seen::Missed(arm)) => Difference::AtMost((base / arm).ln()),
        (Seen::Value(base), Seen::Never(arm)) => Difference::SubtrahendNever((base / arm).ln()),
        (Seen::Missed(_) | Seen::Never(_), Seen::Missed(_) | Seen::Never(_)) => return None,
    })
}

/// The cells of the evaluation grid in which the runs of an arm reached the target. Before the first evaluation of a
/// trained model lies at least one step.
fn grid(cell: &ArmCell, measure: SpeedMeasure) -> Grid {
    let ends = |judged: &JudgedRun| {
        let hit = judged.hit?;
        let before = judged.before.map_or(0, |row| row.samples).max(u64::from(cell.batch)).min(hit.samples);
        let (low, high) = match measure {
            SpeedMeasure::StepTime => return None,
            SpeedMeasure::StepsToTarget => (before as f64, hit.samples as f64),
            SpeedMeasure::TimeToTarget => {
                let high = hit.at.seconds();
                let of_row = judged.before.filter(|row| row.samples > 0).map(|row| row.at.seconds());
                (of_row.unwrap_or(high * before as f64 / hit.samples.max(1) as f64), high)
            }
        };
        (low > 0.0 && high >= low).then(|| (low.ln(), high.ln()))
    };
    Grid::of(&cell.runs.iter().filter_map(ends).collect::<Vec<_>>())
}
