//! Arm and baseline by one measure: ratio, interval, tests, grade.

use super::Thresholds;
use super::grade::Grade;
use super::pairs::{Hidden, Pairs};
use crate::statistics::censored::{self, Side};
use crate::statistics::{self, CHANCE, Estimate, MOST_REPEATS, Question, Summary, student_below};
use crate::study::{ArmCell, SpeedMeasure};

/// Below this number of pairs nothing is settled, unless the weights are equal, or there are two whole pairs of at least three seeds.
pub const FEWEST_PAIRS: usize = censored::FEWEST;

/// The same for arms whose weights are equal bit for bit: their seeds tell nothing, only the machine spreads.
const FEWEST_EQUAL: usize = 2;

/// An arm against the baseline by one measure.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// Time to target, steps to target or step time.
    pub measure: SpeedMeasure,
    /// Baseline over arm: above 1 the arm is faster, or needs fewer steps.
    pub ratio: Option<Estimate>,
    /// A ratio that is only a lower bound, because the baseline did not reach the target.
    pub at_least: Option<f64>,
    /// The differences of the logarithms, seed by seed.
    pub pairs: Pairs,
    /// Judged runs of both sides with a seed in common; without one, of the side that has more.
    runs: usize,
    /// The mean difference of logarithms.
    pub mean: Option<Summary>,
    /// The same of the pairs that both reached the target alone, if there are others. Bounds depend on the value of the other
    /// side, which the fit does not know of: a claim must hold in all readings.
    pub whole: Option<Summary>,
    /// The same with the runs of the arm behind bounds near the values as slow ones, if there are such.
    slow_arm: Option<Summary>,
    /// The same of the baseline.
    slow_baseline: Option<Summary>,
    /// A lower bound of it, with each miss of the baseline as soon as it can have been.
    least: Option<Summary>,
    /// An upper bound, with each miss of the arm as soon as it can have been.
    most: Option<Summary>,
    /// Whether the number of runs can settle anything.
    enough: bool,
    /// The number of tests that a claim is taken from: looks at the runs, and two where the better of two tests counts.
    tests: f64,
    /// Two-sided p of a difference beyond the smallest effect that matters, before Holm's correction.
    pub p_beyond: Option<f64>,
    /// The same after it.
    pub p_holm: Option<f64>,
    /// How sure it is that the arm is faster, or slower, by more than the smallest effect that matters, so that the
    /// claims on all arms of a condition hold together.
    pub sure: Option<f64>,
    /// The same of any difference.
    pub sure_at_all: Option<f64>,
    /// Corrected for the number of arms.
    pub grade: Grade,
    /// Number of comparisons that it is corrected for.
    family: usize,
}

/// Advice on how to settle an open comparison, if its ratio and its spread stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advice {
    /// This number of repeats in all; `None` if more than [`Self::MOST`].
    Repeats {
        /// Number that settles it with a probability of [`CHANCE`].
        likely: Option<usize>,
        /// Number that settles it with a probability of one half.
        even: Option<usize>,
    },
    /// No number of repeats shows what lies between two evaluations.
    EvaluateMoreOften,
}

/// Uncorrected p values of the three questions.
#[derive(Clone, Copy, Debug)]
struct Claims {
    /// There is a difference.
    differs: f64,
    /// It is beyond the smallest effect that matters.
    beyond: f64,
    /// It is within it.
    within: f64,
}

impl Contrast {
    /// `equal` says that the weights of both are equal bit for bit.
    pub fn new(cell: &ArmCell, base: &ArmCell, pairs: Pairs, measure: SpeedMeasure, equal: bool) -> Self {
        let exact = pairs.exact();
        let whole = Summary::of(&exact).filter(|_| exact.len() < pairs.differences.len());
        let missed = [pairs.baseline_missed(), pairs.arm_missed()];
        let fewest = if equal { FEWEST_EQUAL } else { FEWEST_PAIRS };
        let mut mean = censored::fit(&pairs.differences).or_else(|| Summary::of(&exact));
        let mut enough = exact.len() >= fewest;
        let whole_sides = measure == SpeedMeasure::StepTime
            || [cell, base].iter().all(|side| side.reached() == side.runs.len());
        let comparable = !cell.mostly_diverged() && !base.mostly_diverged() && whole_sides;
        if exact.len() < FEWEST_PAIRS && missed == [0, 0] && !equal && comparable {
            // Seeds that the arms do not have in common.
            let values = [base, cell].map(|cell| logarithms(&cell.values(measure)));
            let usable = values.iter().all(|values| values.len() >= FEWEST_PAIRS);
            if let Some(unpaired) = statistics::difference(&values[0], &values[1]).filter(|_| usable) {
                let shifted = Summary { mean: unpaired.mean + pairs.shift, ..unpaired };
                (mean, enough) = (Some(shifted), true);
            }
        }
        // Where most pairs are whole, the bounds are part of the fit; a second test of the same data would double its errors.
        let few = exact.len() < FEWEST_PAIRS || exact.len() * 2 < pairs.differences.len();
        let bounded = pairs.differences.len() >= FEWEST_PAIRS && few;
        let least = of_bounds(&pairs).filter(|_| bounded && missed[0] > 0 && missed[1] == 0);
        let most = of_bounds(&pairs).filter(|_| bounded && missed[1] > 0 && missed[0] == 0);
        if has_two_pairs(&pairs) {
            // Two pairs have one degree of freedom between them, and a claim needs the more.
            enough = true;
        } else if least.is_some() || most.is_some() {
            // The few whole pairs are those that happened to be fast on both sides: they would contradict the bound.
            mean = None;
        }
        let whole = whole.filter(|_| enough && mean.is_some());
        let slow = |side| {
            censored::fit_near(&pairs.differences, side, pairs.rounding())
                .filter(|_| enough && mean.is_some())
        };
        let [slow_baseline, slow_arm] = Side::ALL.map(slow);
        Self {
            measure,
            ratio: None,
            at_least: None,
            mean,
            whole,
            slow_arm,
            slow_baseline,
            least,
            most,
            enough,
            tests: 1.0,
            runs: common_runs(cell, base, &pairs),
            p_beyond: None,
            p_holm: None,
            sure: None,
            sure_at_all: None,
            grade: Grade::Open,
            family: 1,
            pairs,
        }
    }

    /// Of arms whose weights are equal: both need the same steps.
    pub(crate) fn equal_steps(mut self) -> Self {
        self.mean = None;
        self.ratio = Some(Estimate { value: 1.0, interval: Some((1.0, 1.0)) });
        self.sure = Some(0.0);
        self.grade = Grade::NoDifference;
        self.enough = true;
        self
    }

    /// Ratio and uncorrected tests, from the variance as it is now.
    fn settle(&mut self, thresholds: Thresholds) -> Option<Claims> {
        let hidden = self.pairs.hidden();
        let confidence = thresholds.confidence;
        self.tests = f64::from(thresholds.looks);
        let rounding = self.pairs.rounding();
        for summary in self.summaries().into_iter().flatten() {
            summary.variance = summary.variance.max(rounding);
        }
        let edge = (1.0 + thresholds.min_effect).ln();
        self.choose(thresholds, hidden);
        let one_sided = self.pairs.baseline_missed() > 0 && self.pairs.arm_missed() == 0;
        if self.mean.is_none() && one_sided {
            self.at_least = statistics::average(&self.pairs.bounds()).map(f64::exp);
        }
        let whole = censored::exact_mean(&self.pairs.differences)
            .filter(|_| self.least.is_none() && self.most.is_none());
        let centre = self.mean.map(|mean| mean.mean).or(whole).filter(|_| self.at_least.is_none());
        self.ratio = centre.map(|value| {
            let interval = self.interval(confidence, hidden);
            Estimate { value, interval }.map(f64::exp)
        });
        self.sure = self.one_sided(edge, hidden);
        self.sure_at_all = self.one_sided(0.0, hidden);
        let claims = self
            .claims(edge, hidden)
            .filter(|_| self.enough || self.least.is_some() || self.most.is_some())?;
        self.p_beyond = Some(claims.beyond);
        Some(claims)
    }

    fn summaries(&mut self) -> [&mut Option<Summary>; 6] {
        let Self { mean, whole, slow_arm, slow_baseline, least, most, .. } = self;
        [mean, whole, slow_arm, slow_baseline, least, most]
    }

    /// Of two pairs and of their bound, which are tests of the same data, keeps the bound if it claims something and more than
    /// the pairs. Either counts at twice its p.
    fn choose(&mut self, thresholds: Thresholds, hidden: Hidden) {
        let bounded = self.least.is_some() || self.most.is_some();
        if self.mean.is_none() || !bounded {
            return;
        }
        self.tests *= 2.0;
        let edge = (1.0 + thresholds.min_effect).ln();
        let beyond = |of: &Self| of.p_above(edge, hidden).min(of.p_below(-edge, hidden));
        let pairs = Self { least: None, most: None, ..self.clone() };
        let bound = Self { mean: None, whole: None, slow_arm: None, slow_baseline: None, ..self.clone() };
        let claims = 2.0 * beyond(&bound) < 1.0 - thresholds.confidence;
        *self = if claims && beyond(&bound) < beyond(&pairs) { bound } else { pairs };
    }

    /// From the lowest end that any reading gives to the highest.
    fn interval(&self, confidence: f64, hidden: Hidden) -> Option<(f64, f64)> {
        let confidence = 1.0 - (1.0 - confidence) / self.tests;
        let ends = |readings: [Option<Summary>; 3]| {
            readings.into_iter().flatten().filter_map(move |summary| summary.estimate(confidence).interval)
        };
        let low = ends([self.mean, self.whole, self.slow_arm]).map(|(low, _)| low).reduce(f64::min)?;
        let high =
            ends([self.mean, self.whole, self.slow_baseline]).map(|(_, high)| high).reduce(f64::max)?;
        Some((low - hidden.below, high + hidden.above))
    }

    /// One-sided p of the claim that the difference is above `edge`, which may be negative.
    fn p_above(&self, edge: f64, hidden: Hidden) -> f64 {
        let readings = [self.mean, self.whole, self.slow_arm];
        self.p_of(readings, self.least, |summary| above(summary, edge + hidden.below))
    }

    /// One-sided p of the claim that the difference is below `edge`.
    fn p_below(&self, edge: f64, hidden: Hidden) -> f64 {
        let readings = [self.mean, self.whole, self.slow_baseline];
        self.p_of(readings, self.most, |summary| below(summary, edge - hidden.above))
    }

    /// The largest p of the readings, or that of the bound where there are none, times the number of tests.
    fn p_of(
        &self,
        readings: [Option<Summary>; 3],
        bound: Option<Summary>,
        p: impl Fn(&Summary) -> f64,
    ) -> f64 {
        let own = readings.into_iter().flatten().filter(|_| self.enough).map(|summary| p(&summary));
        // Without a reading and without a bound nothing is claimed.
        let one = own.reduce(f64::max).or_else(|| bound.map(|bound| p(&bound))).unwrap_or(1.0);
        (self.tests * one).min(1.0)
    }

    fn claims(&self, edge: f64, hidden: Hidden) -> Option<Claims> {
        if self.mean.is_none() && self.least.is_none() && self.most.is_none() {
            return None;
        }
        let double = |p: f64| (2.0 * p).min(1.0);
        let within = self.mean.map_or(1.0, |_| self.p_above(-edge, hidden).max(self.p_below(edge, hidden)));
        Some(Claims {
            differs: double(self.p_above(0.0, hidden).min(self.p_below(0.0, hidden))),
            beyond: double(self.p_above(edge, hidden).min(self.p_below(-edge, hidden))),
            within: double(within),
        })
    }

    /// One less the p of the claim that the arm is beyond `edge` on its side.
    fn one_sided(&self, edge: f64, hidden: Hidden) -> Option<f64> {
        let any =
            self.mean.is_some_and(|mean| mean.freedom > 0.0) || self.least.is_some() || self.most.is_some();
        let p = if self.is_faster() { self.p_above(edge, hidden) } else { self.p_below(-edge, hidden) };
        any.then_some(1.0 - p).filter(|_| self.enough || self.least.is_some() || self.most.is_some())
    }

    /// The lower bound, where it says something: a baseline that was not watched for longer than the arm took bounds nothing.
    pub fn bound(&self) -> Option<f64> {
        self.at_least.filter(|least| *least > 1.0)
    }

    /// Whether the arm is faster, by its ratio or its lower bound.
    pub fn is_faster(&self) -> bool {
        self.bound().is_some() || self.ratio.is_some_and(|ratio| ratio.value >= 1.0)
    }

    fn graded(&self, claims: Claims, level: f64) -> Grade {
        let faster = self.is_faster();
        let side = |when_faster: Grade, when_slower: Grade| if faster { when_faster } else { when_slower };
        let passes = |p: f64| p < level - 1e-12;
        match (passes(claims.beyond), passes(claims.differs), passes(claims.within)) {
            (true, _, _) => side(Grade::Faster, Grade::Slower),
            (false, true, true) => side(Grade::FasterSmall, Grade::SlowerSmall),
            (false, true, false) => side(Grade::FasterOpen, Grade::SlowerOpen),
            (false, false, true) => Grade::NoDifference,
            (false, false, false) => Grade::Open,
        }
    }

    /// How many repeats would settle it, if it is open.
    pub fn advice(&self, thresholds: Thresholds) -> Option<Advice> {
        if !self.grade.is_open() {
            return None;
        }
        let mean = self.mean.filter(|mean| mean.variance > 0.0 && mean.freedom > 0.0)?;
        let Hidden { below, above } = self.pairs.hidden();
        let edge = (1.0 + thresholds.min_effect).ln();
        let distance = mean.mean.abs();
        let hidden = below.max(above);
        let gap = (distance - edge).abs() - hidden;
        if gap <= 0.0 && hidden > 0.0 {
            return Some(Advice::EvaluateMoreOften);
        }
        let question = Question {
            gap,
            // Between the edges, the mean has a gap to the other one, too.
            other_gap: (distance < edge).then_some(distance + edge - hidden),
            deviation: mean.variance.sqrt(),
            borrowed: (mean.freedom - (mean.size - 1.0)).clamp(0.0, 1e6),
            level: thresholds.level() / self.family.max(1) as f64,
        };
        let from = self.pairs.exact().len().max(mean.size.round() as usize);
        // Where some runs miss, this part of the repeats makes pairs.
        let part = (mean.size / self.runs.max(1) as f64).clamp(1e-3, 1.0);
        let repeats = |chance| {
            let pairs = question.repeats(from, chance)?;
            let repeats = ((pairs as f64 / part).ceil() as usize).max(self.runs + 1);
            (repeats <= MOST_REPEATS).then_some(repeats)
        };
        Some(Advice::Repeats { likely: repeats(CHANCE), even: repeats(0.5) })
    }
}

/// Grades the contrasts of one condition and measure, which are one family with `unclaimed` others that nothing is claimed of
/// because they missed the target: those that reached it are those that were fast, and to test them as if there were no
/// others would favour them.
pub(super) fn grade_family(contrasts: &mut [&mut Contrast], unclaimed: usize, thresholds: Thresholds) {
    let claims: Vec<Option<Claims>> = contrasts
        .iter_mut()
        .map(|contrast| if contrast.is_fixed() { None } else { contrast.settle(thresholds) })
        .collect();
    let fixed: Vec<bool> = contrasts.iter().map(|contrast| contrast.is_fixed()).collect();
    let corrected = |p: fn(&Claims) -> f64| {
        let own = claims.iter().zip(&fixed).map(|(claims, fixed)| match claims {
            Some(claims) => Some(p(claims)),
            None => (!fixed).then_some(1.0),
        });
        statistics::holm(&own.chain(vec![Some(1.0); unclaimed]).collect::<Vec<_>>())
    };
    let differs = corrected(|claims| claims.differs);
    let beyond = corrected(|claims| claims.beyond);
    let within = corrected(|claims| claims.within);
    let family = fixed.iter().filter(|fixed| !**fixed).count() + unclaimed;
    hold_together(contrasts, unclaimed, |contrast| &mut contrast.sure);
    hold_together(contrasts, unclaimed, |contrast| &mut contrast.sure_at_all);
    for (place, contrast) in contrasts.iter_mut().enumerate().filter(|(place, _)| !fixed[*place]) {
        contrast.family = family;
        contrast.grade = Grade::Open;
        if claims[place].is_none() {
            continue;
        }
        contrast.p_holm = beyond[place];
        if let (Some(differs), Some(beyond), Some(within)) = (differs[place], beyond[place], within[place]) {
            let level = 1.0 - thresholds.confidence;
            contrast.grade = contrast.graded(Claims { differs, beyond, within }, level);
        }
    }
}

/// Lowers certainties by Holm's method, so that all of them hold together.
fn hold_together(
    contrasts: &mut [&mut Contrast],
    unclaimed: usize,
    certainty: fn(&mut Contrast) -> &mut Option<f64>,
) {
    let mut doubts = Vec::new();
    for contrast in contrasts.iter_mut() {
        let doubt = certainty(contrast).map_or(1.0, |sure| 1.0 - sure);
        doubts.push((!contrast.is_fixed()).then_some(doubt));
    }
    doubts.extend(vec![Some(1.0); unclaimed]);
    for (contrast, doubt) in contrasts.iter_mut().zip(statistics::holm(&doubts)) {
        if let Some((doubt, sure)) = doubt.zip(certainty(contrast).as_mut()) {
            *sure = 1.0 - doubt;
        }
    }
}

impl Contrast {
    /// Whether its ratio is known without a test.
    fn is_fixed(&self) -> bool {
        self.grade == Grade::NoDifference && self.mean.is_none()
    }
}

/// The differences with each bound in the place of a value. All bounds of one side lie at the end of what was watched, so that only
/// the other side spreads them: the side that missed is taken to spread as much.
fn of_bounds(pairs: &Pairs) -> Option<Summary> {
    let all = Summary::of(&pairs.bounds())?;
    let seen = Summary::of(&censored::with_bounds(&pairs.differences)).map_or(0.0, |seen| seen.variance);
    Some(Summary { variance: all.variance + seen, ..all })
}

fn common_runs(cell: &ArmCell, base: &ArmCell, pairs: &Pairs) -> usize {
    match pairs.differences.len() + pairs.both_missed {
        0 => cell.runs.len().max(base.runs.len()),
        common => common,
    }
}

/// Whether two pairs are whole of three seeds or more, which are as much as there is: of many seeds they are the lucky few, unless
/// both sides missed some.
fn has_two_pairs(pairs: &Pairs) -> bool {
    let seeds = pairs.differences.len() + pairs.both_missed;
    let crossed = pairs.baseline_missed() > 0 && pairs.arm_missed() > 0;
    pairs.exact().len() == 2 && seeds >= FEWEST_PAIRS && (seeds <= 4 || crossed)
}

/// One-sided p of a mean above `edge`.
fn above(summary: &Summary, edge: f64) -> f64 {
    below(&Summary { mean: -summary.mean, ..*summary }, -edge)
}

/// One-sided p of a mean below `edge`.
fn below(summary: &Summary, edge: f64) -> f64 {
    let distance = summary.mean - edge;
    let error = summary.error();
    let standard = if error > 0.0 { distance / error } else { f64::INFINITY.copysign(distance) };
    student_below(if distance == 0.0 { 0.0 } else { standard }, summary.freedom).unwrap_or(1.0)
}

/// p of the exact unpaired test on logarithms; on ranks if some runs did not reach the target, with these last.
pub fn exact_p(cell: &ArmCell, base: &ArmCell, measure: SpeedMeasure) -> Option<f64> {
    let [arm, base] = [cell, base].map(|cell| cell.values(measure));
    let pooled: Vec<f64> = base.iter().chain(&arm).copied().collect();
    if pooled.iter().all(|value| value.is_finite() && *value > 0.0) {
        return statistics::unpaired(&logarithms(&base), &logarithms(&arm));
    }
    let ranks = statistics::mid_ranks(&pooled);
    let (base_ranks, arm_ranks) = ranks.split_at(base.len());
    statistics::unpaired(base_ranks, arm_ranks)
}

/// Logarithms of the values that have one.
fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|value| value.is_finite() && **value > 0.0).map(|value| value.ln()).collect()
}

impl Advice {
    /// The largest number that is considered.
    pub const MOST: usize = MOST_REPEATS;
}
