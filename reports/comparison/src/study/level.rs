//! Means of arms on one level. Arms of a condition may have run different repeats: some are settled early, and runs fail. Each mean
//! is then that of the repeats in common with the baseline, moved by what the baseline's other repeats differ from those: as if the
//! arm had run them all (the least-squares mean of a model of arms and repeats; with common repeats, the plain mean). The quotient
//! of two such means is the ratio of the pairs.

use super::{ArmCell, Condition, JudgedRun, SpeedMeasure};
use crate::statistics::{Estimate, Summary, average, mean, sum, typical};
use recipe::Metric;
use std::collections::BTreeMap;

/// A mean of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub estimate: Estimate,
    /// Runs of the arm that it comes from.
    pub runs: usize,
}

impl Condition<'_> {
    /// The geometric mean of an arm's times, in seconds; the median of its runs if one of them did not reach the target.
    pub fn level(&self, cell: &ArmCell, measure: SpeedMeasure, confidence: f64) -> Option<Level> {
        self.level_of(cell, &|cell, judged| value(cell, judged, measure), confidence)
    }

    /// The same of any value of its runs.
    fn level_of(
        &self,
        cell: &ArmCell,
        value: &dyn Fn(&ArmCell, &JudgedRun) -> Option<f64>,
        confidence: f64,
    ) -> Option<Level> {
        let base = self.baseline_cell().map(|base| logarithms(base, value));
        level_beside(cell, base.flatten().as_ref(), value, confidence)
    }

    /// The geometric mean of the typical steps, in seconds.
    pub fn typical_step(&self, cell: &ArmCell, confidence: f64) -> Option<Estimate> {
        self.level_of(cell, &|_, judged| judged.typical_step(), confidence).map(|level| level.estimate)
    }

    /// The geometric mean of samples per second of training, all workers together.
    pub fn throughput(&self, cell: &ArmCell, confidence: f64) -> Option<f64> {
        let value = |_: &ArmCell, judged: &JudgedRun| {
            let training = judged.attempt.training.filter(|_| !judged.has_diverged())?.seconds();
            (training > 0.0).then(|| judged.attempt.samples as f64 / training)
        };
        self.level_of(cell, &value, confidence).map(|level| level.estimate.value)
    }

    /// [`Condition::level`] without the number of runs.
    pub fn time(&self, cell: &ArmCell, measure: SpeedMeasure, confidence: f64) -> Option<Estimate> {
        self.level(cell, measure, confidence).map(|level| level.estimate)
    }

    /// The mean of the metric's last values.
    pub fn final_metric(&self, cell: &ArmCell, metric: Metric, confidence: f64) -> Option<Estimate> {
        let ends = |cell: &ArmCell| cell.final_values(metric).into_iter().collect::<BTreeMap<_, _>>();
        let base = self.baseline_cell().map(ends);
        let estimate = at_level(&ends(cell), base.as_ref(), confidence)?.estimate;
        let possible =
            |value: f64| if metric.higher_is_better() { value.min(1.0) } else { value.max(metric.least()) };
        Some(estimate.map(possible))
    }

    fn baseline_cell(&self) -> Option<&ArmCell<'_>> {
        self.cell(self.baseline)
    }
}

/// The geometric mean of all of an arm's own times, in seconds, whatever repeats others have; the median of its runs if one of them did not
/// reach the target.
pub fn own_time(cell: &ArmCell, measure: SpeedMeasure, confidence: f64) -> Option<Estimate> {
    let value = |cell: &ArmCell, judged: &JudgedRun| value(cell, judged, measure);
    level_beside(cell, None, &value, confidence).map(|level| level.estimate)
}

fn level_beside(
    cell: &ArmCell,
    base: Option<&BTreeMap<u32, f64>>,
    value: &dyn Fn(&ArmCell, &JudgedRun) -> Option<f64>,
    confidence: f64,
) -> Option<Level> {
    let Some(own) = logarithms(cell, value) else {
        let values: Vec<f64> = cell.runs.iter().filter_map(|judged| value(cell, judged)).collect();
        let estimate = typical(&values, confidence)?;
        return Some(Level { estimate, runs: values.len() });
    };
    let found = at_level(&own, base, confidence)?;
    Some(Level { estimate: found.estimate.map(f64::exp), ..found })
}

fn value(cell: &ArmCell, judged: &JudgedRun, measure: SpeedMeasure) -> Option<f64> {
    match measure {
        SpeedMeasure::TimeToTarget => Some(judged.time_to_target()),
        SpeedMeasure::StepsToTarget => Some(judged.steps_to_target(cell.batch)),
        SpeedMeasure::StepTime => judged.mean_step(),
    }
}

/// By repeat; `None` if a run has no positive finite value.
fn logarithms(
    cell: &ArmCell,
    value: &dyn Fn(&ArmCell, &JudgedRun) -> Option<f64>,
) -> Option<BTreeMap<u32, f64>> {
    let found = cell.runs.iter().filter_map(|judged| Some((judged.run.repeat, value(cell, judged)?)));
    found.map(|(repeat, value)| (value.is_finite() && value > 0.0).then(|| (repeat, value.ln()))).collect()
}

/// The mean over the repeats in common, and what the baseline's mean over all its repeats is above that over the common ones. With w the
/// share of the baseline's repeats that the arm lacks, it is the mean of arm less w baseline over the common ones, and w times the
/// baseline's mean over the others: two independent parts, of which the interval is made.
fn at_level(own: &BTreeMap<u32, f64>, base: Option<&BTreeMap<u32, f64>>, confidence: f64) -> Option<Level> {
    let plain = || Some(Level { estimate: mean(&listed(own), confidence)?, runs: own.len() });
    let Some(base) = base.filter(|base| !base.keys().eq(own.keys())) else { return plain() };
    let pairs: Vec<(f64, f64)> =
        own.iter().filter_map(|(repeat, value)| Some((*value, *base.get(repeat)?))).collect();
    if pairs.is_empty() {
        return plain();
    }
    let lacked: Vec<f64> =
        base.iter().filter(|(repeat, _)| !own.contains_key(repeat)).map(|(_, value)| *value).collect();
    let weight = lacked.len() as f64 / base.len() as f64;
    let common: Vec<f64> = pairs.iter().map(|(own, base)| own - weight * base).collect();
    let runs = common.len();
    let Some(beyond) = average(&lacked) else {
        return Some(Level { estimate: mean(&common, confidence)?, runs });
    };
    let value = average(&common)? + weight * beyond;
    let spread = Summary::of(&listed(base));
    let lacked = spread.map(|all| Summary {
        mean: weight * beyond,
        variance: weight.powi(2) * all.variance,
        size: lacked.len() as f64,
        ..all
    });
    let both = Summary::of(&common).zip(lacked).map(|(common, lacked)| sum(common, lacked));
    let interval = both.and_then(|sum| sum.estimate(confidence).interval);
    Some(Level { estimate: Estimate { value, interval }, runs })
}

fn listed(values: &BTreeMap<u32, f64>) -> Vec<f64> {
    values.values().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Thresholds, compare};
    use crate::sample::Sample;
    use crate::study::Study;
    use store::{RunState, SweepRows};

    /// The second arm of two has `fewer` repeats less than the baseline, the first.
    fn with_fewer(fewer: u32) -> SweepRows {
        let mut rows = Sample::duel().rows();
        let kept = 5 - fewer;
        let spared = |run: &&mut store::RunRow| run.cell == 1 && run.repeat >= kept;
        rows.runs.iter_mut().filter(spared).for_each(|run| run.state = RunState::NotNeeded);
        rows
    }

    fn close(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 1e-12, "{found} is not {wanted}");
    }

    #[test]
    fn with_common_repeats_it_is_the_mean() {
        let rows = with_fewer(0);
        let study = Study::new(&rows, None).unwrap();
        let condition = &study.conditions[0];
        for cell in &condition.cells {
            let level = condition.level(cell, SpeedMeasure::TimeToTarget, 0.95).unwrap();
            let plain = typical(&cell.values(SpeedMeasure::TimeToTarget), 0.95).unwrap();
            assert_eq!((level.estimate, level.runs), (plain, 5));
        }
    }

    #[test]
    fn quotients_of_times_are_the_ratios() {
        let rows = with_fewer(2);
        let study = Study::new(&rows, None).unwrap();
        let condition = &study.conditions[0];
        let thresholds = Thresholds { min_effect: 0.05, min_quality: 0.01, confidence: 0.95, looks: 1 };
        let compared = &compare(&study, thresholds)[0][0];
        let measures = [SpeedMeasure::TimeToTarget, SpeedMeasure::StepsToTarget, SpeedMeasure::StepTime];
        let contrasts =
            [compared.time_to_target.as_ref(), compared.steps_to_target.as_ref(), Some(&compared.step_time)];
        for (measure, contrast) in measures.into_iter().zip(contrasts) {
            let [base, arm] =
                [0, 1].map(|arm| condition.level(&condition.cells[arm], measure, 0.95).unwrap());
            close(base.estimate.value / arm.estimate.value, contrast.unwrap().ratio.unwrap().value);
            assert_eq!((base.runs, arm.runs), (5, 3));
            assert!(arm.estimate.interval.is_some());
        }
        let plain = typical(&condition.cells[1].values(SpeedMeasure::StepTime), 0.95).unwrap();
        let level = condition.time(&condition.cells[1], SpeedMeasure::StepTime, 0.95).unwrap();
        assert!((level.value / plain.value - 1.0).abs() > 1e-6, "{level:?}");
    }

    #[test]
    fn an_arm_with_the_weights_of_the_baseline_has_its_metric() {
        let mut rows = with_fewer(2);
        for repeat in 0..5 {
            let metrics = |cell: usize, rows: &SweepRows| {
                let of = rows.runs.iter().find(|run| run.cell == cell && run.repeat == repeat);
                of.unwrap().attempt.as_ref().unwrap().metrics.clone()
            };
            let same = metrics(0, &rows);
            let arm = rows.runs.iter_mut().find(|run| run.cell == 1 && run.repeat == repeat);
            arm.unwrap().attempt.as_mut().unwrap().metrics = same;
        }
        let study = Study::new(&rows, None).unwrap();
        let condition = &study.conditions[0];
        let metric = |arm: usize| condition.final_metric(&condition.cells[arm], Metric::TestAccuracy, 0.95);
        let [base, arm] = [0, 1].map(|arm| metric(arm).unwrap());
        close(arm.value, base.value);
    }

    #[test]
    fn arms_without_a_common_repeat_have_their_own_means() {
        let own = BTreeMap::from([(0, 1.0), (1, 3.0)]);
        let base = BTreeMap::from([(2, 10.0), (3, 20.0)]);
        close(at_level(&own, Some(&base), 0.95).unwrap().estimate.value, 2.0);
        let base = BTreeMap::from([(1, 2.0), (2, 8.0), (3, 11.0)]);
        let one = at_level(&own, Some(&base), 0.95).unwrap();
        assert_eq!((one.estimate, one.runs), (Estimate { value: 8.0, interval: None }, 1));
    }

    /// The baseline's mean is in both parts of the difference: taken for independent, they are one and a half times too wide here.
    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        use rand_chacha::rand_core::{Rng, SeedableRng};
        for (common, all, of_seeds) in [(3, 6, 1.0), (5, 6, 0.0), (10, 5, 0.0), (23, 24, 1.0)] {
            let mut draws = rand_chacha::ChaCha8Rng::seed_from_u64(20_261_126);
            let mut normal =
                || (0..12).map(|_| f64::from(draws.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0;
            let mut held = 0;
            for _ in 0..2_000 {
                let seeds: Vec<f64> = (0..24).map(|_| of_seeds * normal()).collect();
                let mut runs = |count: usize| -> BTreeMap<u32, f64> {
                    (0..count).map(|repeat| (repeat as u32, seeds[repeat] + normal())).collect()
                };
                let own = runs(common);
                let base = runs(all);
                let found = at_level(&own, Some(&base), 0.95).unwrap().estimate.interval.unwrap();
                held += usize::from(found.0 <= 0.0 && found.1 >= 0.0);
            }
            println!("{common} of {all}, seeds spread by {of_seeds}: {held}");
            assert!((1_850..1_950).contains(&held), "{common} of {all}: {held}");
        }
    }
}
