//! Verdicts: a few sentences for each arm under each condition.

use crate::comparison::{Advice, Comparison, Contrast, Grade, Quality, QualityGap, Thresholds};
use crate::findings::Findings;
use crate::headline::capitalised;
use crate::number_format::{self, Unit};
use crate::statistics::{self, CHANCE, Estimate};
use crate::study::{ArmCell, Condition, Measure};
use recipe::{Metric, Target};
use serde::Serialize;

/// The verdict on one arm under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The plan's name of the condition; empty if there is only one.
    pub condition: String,
    /// The arm.
    pub arm: String,
    /// Whether it is the arm that the others are compared with.
    pub baseline: bool,
    /// On its speed; `None` for the baseline.
    pub grade: Option<Grade>,
    /// On its final metric; `None` for the baseline, and where runs stop at the target.
    pub quality: Option<Quality>,
    /// The probability that it is faster, or slower, by more than the smallest effect that matters.
    pub sure: Option<f64>,
    /// The verdict in plain text, one or a few sentences.
    pub sentence: String,
}

/// The verdicts of all conditions, in the order of the plan.
pub(crate) fn all(findings: &Findings) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (condition, comparisons) in findings.conditions() {
        for cell in &condition.cells {
            let comparison = comparisons.iter().find(|comparison| comparison.arm == cell.arm);
            let writer = Writer { findings, condition, cell, thresholds: findings.thresholds };
            verdicts.push(Verdict {
                condition: condition.name.to_owned(),
                arm: findings.study.arm_name(cell.arm).to_owned(),
                baseline: cell.arm == findings.study.baseline,
                grade: comparison.map(|comparison| comparison.grade),
                quality: comparison.and_then(|comparison| comparison.quality.as_ref()).map(|gap| gap.grade),
                sure: comparison.filter(|found| found.grade.compares()).and_then(|found| found.speed().sure),
                sentence: writer.sentences(comparison),
            });
        }
    }
    verdicts
}

struct Writer<'a> {
    findings: &'a Findings<'a>,
    condition: &'a Condition<'a>,
    cell: &'a ArmCell<'a>,
    thresholds: Thresholds,
}

impl Writer<'_> {
    fn sentences(&self, comparison: Option<&Comparison>) -> String {
        if self.cell.runs.is_empty() {
            return format!("{}: no finished run {}.", self.arm(), self.place());
        }
        if self.cell.mostly_diverged() {
            return self.diverged();
        }
        let mut parts = vec![self.speed(comparison)];
        if let Some(comparison) = comparison {
            if comparison.grade.compares() {
                parts.extend(Self::same_weights(comparison));
                parts.extend(self.claim(comparison));
            }
            parts.extend(self.lost_runs());
            parts.extend(comparison.quality.as_ref().and_then(quality_words));
            parts.extend(self.bytes());
            parts.extend(self.advice(comparison).map(advice_words));
        } else {
            parts.extend(self.lost_runs());
        }
        parts.join(" ")
    }

    fn arm(&self) -> &str {
        self.findings.study.arm_name(self.cell.arm)
    }

    fn base(&self) -> &str {
        self.findings.study.arm_name(self.findings.study.baseline)
    }

    fn base_cell(&self) -> Option<&ArmCell<'_>> {
        self.condition.cell(self.findings.study.baseline)
    }

    fn place(&self) -> String {
        let workers = number_format::plural(self.condition.workers as usize, "worker");
        match self.condition.name {
            "" => format!("on {workers}"),
            name if name.contains("workers=") => format!("at {name}"),
            name => format!("on {workers} at {name}"),
        }
    }

    fn diverged(&self) -> String {
        let reached = self.cell.reached();
        let aside = match self.condition.target {
            Some(target) if reached > 0 => format!("; {reached} reached {}", target_words(target)),
            _ => String::new(),
        };
        format!(
            "{} diverged in {} of {} {}{aside}: its speed says nothing.",
            self.arm(),
            self.cell.diverged(),
            number_format::plural(self.cell.runs.len(), "run"),
            self.place(),
        )
    }

    fn speed(&self, comparison: Option<&Comparison>) -> String {
        match self.condition.target {
            Some(target) => {
                let to = format!("To {} {}", target_words(target), self.place());
                match self.amount(Measure::TimeToTarget).filter(|_| !self.cell.mostly_missed()) {
                    Some(amount) => {
                        let ratio = comparison.map(|found| self.time_ratio(found)).unwrap_or_default();
                        format!("{to}, {} needed {amount}{ratio}.", self.arm())
                    }
                    None => self.missed(target),
                }
            }
            None => match self.amount(Measure::StepTime) {
                Some(amount) => {
                    let ratio = comparison.map(|found| self.step_ratio(&found.step_time)).unwrap_or_default();
                    format!("{} took {amount} per step {}{ratio}.", self.arm(), self.place())
                }
                None => format!("{} has no steady step to time {}.", self.arm(), self.place()),
            },
        }
    }

    fn missed(&self, target: Target) -> String {
        let watched = self.cell.runs.iter().map(|judged| judged.watched).fold(0.0, f64::max);
        format!(
            "{} reached {} in {} {} within {}.",
            self.arm(),
            target_words(target),
            self.share(self.cell.reached()),
            self.place(),
            number_format::seconds(watched),
        )
    }

    /// `2 of 5 runs (5–85 %)`.
    fn share(&self, hits: usize) -> String {
        let count = self.cell.runs.len();
        let (low, high) = statistics::share_interval(hits, count, self.thresholds.confidence);
        format!("{hits} of {} ({}\u{a0}%)", number_format::plural(count, "run"), range(low, high, 100.0, 0))
    }

    /// `412 s (95 % CI 398–431, n = 5)`, or the median if some runs did not reach; `None` if half of them did not.
    fn amount(&self, measure: Measure) -> Option<String> {
        let values = self.cell.values(measure);
        let count = values.len();
        let reached = values.iter().filter(|value| value.is_finite()).count();
        let estimate = typical(&values, self.thresholds.confidence)?;
        let unit = Unit::of_seconds(estimate.value);
        let time = unit.supported(estimate.value, estimate.uncertainty());
        let aside = match estimate.interval {
            _ if reached < count => format!("median; {reached} of {count} runs reached it"),
            Some((low, high)) => format!(
                "{} CI {}, n\u{a0}=\u{a0}{count}",
                whole_percent(self.thresholds.confidence),
                range(low, high, unit.factor, unit.decimals(estimate.value, estimate.uncertainty())),
            ),
            None => format!("n\u{a0}=\u{a0}{count}"),
        };
        Some(format!("{time} ({aside})"))
    }

    /// `, 1.50× sooner than ps-sync (1.31–1.72): its steps are 1.60× faster (1.55–1.65), and it needs 1.07× as many
    /// (0.98–1.17)`.
    fn time_ratio(&self, comparison: &Comparison) -> String {
        let Some(time) = &comparison.time_to_target else { return String::new() };
        if comparison.same_weights.is_some() && comparison.step_time.ratio.is_some() {
            return self.step_ratio(&comparison.step_time);
        }
        let base = self.base();
        let Some(ratio) = time.ratio else {
            let reached = self.base_cell().map_or(0, ArmCell::reached);
            return match time.at_least {
                Some(least) if least > 1.0 => format!(
                    ", at least {} sooner than {base}, which reached it in {reached} of {}",
                    number_format::times(least),
                    number_format::plural(self.base_cell().map_or(0, |cell| cell.runs.len()), "run"),
                ),
                _ => String::new(),
            };
        };
        let (amount, word) = sided(ratio, "sooner", "later");
        format!(", {amount} {word} than {base}{}{}", interval_words(ratio), factors(comparison))
    }

    fn step_ratio(&self, contrast: &Contrast) -> String {
        let Some(ratio) = contrast.ratio else { return String::new() };
        let (amount, word) = sided(ratio, "faster", "slower");
        let what = if self.condition.target.is_some() { " per step" } else { "" };
        format!(", {amount} {word}{what} than {}{}", self.base(), interval_words(ratio))
    }

    fn same_weights(comparison: &Comparison) -> Option<String> {
        let seeds = comparison.same_weights?;
        let seeds = if seeds == 1 { "one common seed".to_owned() } else { format!("all {seeds} seeds") };
        Some(format!("Same weights bit for bit for {seeds}: only speed differs."))
    }

    /// Whether there is a difference, and whether it matters.
    fn claim(&self, comparison: &Comparison) -> Option<String> {
        let effect = whole_percent(self.thresholds.min_effect);
        let contrast = comparison.speed();
        let side = if contrast.is_faster() { "faster" } else { "slower" };
        let sure = contrast.sure.map(sure_words);
        Some(match comparison.grade {
            Grade::Faster | Grade::Slower if contrast.sure.is_some_and(|sure| sure > 0.999) => {
                format!("More than 99.9\u{a0}% sure that it is {side} by more than {effect}.")
            }
            Grade::Faster | Grade::Slower => {
                capitalised(&format!("{} sure that it is {side} by more than {effect}.", sure?))
            }
            Grade::FasterSmall | Grade::SlowerSmall => {
                format!("It is {side}, but by less than {effect}, which does not matter here.")
            }
            Grade::FasterOpen | Grade::SlowerOpen => {
                format!("It is {side}; whether by more than {effect} is open ({} sure).", sure?)
            }
            Grade::NoDifference => format!("No difference that matters: less than {effect} either way."),
            Grade::Open if contrast.at_least.is_some_and(|least| least <= 1.0) => {
                format!("Open: {} was not watched for longer than that.", self.base())
            }
            Grade::Open => match contrast.sure_at_all() {
                Some(any) => format!(
                    "Open: {} sure that it is {side}, {} that by more than {effect}.",
                    sure_words(any),
                    sure?
                ),
                None => self.no_comparison(),
            },
            Grade::DidNotReach | Grade::Diverged => return None,
        })
    }

    fn no_comparison(&self) -> String {
        match self.base_cell().filter(|base| base.mostly_diverged()) {
            Some(base) => format!(
                "Open: {} diverged in {} of {}, so there is nothing to compare with.",
                self.base(),
                base.diverged(),
                number_format::plural(base.runs.len(), "run")
            ),
            None => "Open: too few runs to compare.".to_owned(),
        }
    }

    /// Runs that missed the target or diverged, where the first sentence does not say it.
    fn lost_runs(&self) -> Option<String> {
        let diverged = self.cell.diverged();
        let reached = self.cell.reached();
        let targeted = self.condition.target.is_some() && !self.cell.mostly_missed();
        let mut said = Vec::new();
        if targeted && reached < self.cell.runs.len() {
            said.push(format!("it reached the target in {}", self.share(reached)));
        }
        let base =
            self.base_cell().filter(|base| base.arm != self.cell.arm && base.reached() < base.runs.len());
        if let Some(base) = base.filter(|_| targeted) {
            let runs = number_format::plural(base.runs.len(), "run");
            said.push(format!("{} reached it in {} of {runs}", self.base(), base.reached()));
        }
        if diverged > 0 {
            said.push(format!(
                "{diverged} of {} diverged",
                number_format::plural(self.cell.runs.len(), "run")
            ));
        }
        (!said.is_empty()).then(|| format!("{}.", capitalised(&said.join("; "))))
    }

    fn advice(&self, comparison: &Comparison) -> Option<Advice> {
        comparison.speed().advice(self.thresholds).filter(|_| comparison.grade.compares())
    }

    fn bytes(&self) -> Option<String> {
        let base = self.base_cell()?;
        let own = self.cell.mean_of(|attempt| self.cell.all_bytes_per_step(attempt))?;
        let other = base.mean_of(|attempt| base.all_bytes_per_step(attempt))?;
        (other > 0.0 && own > 0.0)
            .then(|| format!("Sent {} the bytes per step.", number_format::times(own / other)))
    }
}

/// `: its steps are 1.60× faster (1.55–1.65), and it needs 1.07× as many (0.98–1.17)`.
fn factors(comparison: &Comparison) -> String {
    let steps = comparison.steps_to_target.as_ref().and_then(|contrast| contrast.ratio);
    let (Some(step), Some(steps)) = (comparison.step_time.ratio, steps) else { return String::new() };
    let (amount, word) = sided(step, "faster", "slower");
    let many = steps.map(f64::recip);
    format!(
        ": its steps are {amount} {word}{}, and it needs {} as many{}",
        interval_words(step),
        ratio_number(many),
        raw_interval(many),
    )
}

/// A ratio above one, and its word.
fn sided<'w>(ratio: Estimate, faster: &'w str, slower: &'w str) -> (String, &'w str) {
    if ratio.value >= 1.0 {
        (ratio_number(ratio), faster)
    } else {
        (ratio_number(ratio.map(f64::recip)), slower)
    }
}

fn ratio_decimals(ratio: Estimate) -> usize {
    number_format::decimals_for(ratio.uncertainty().unwrap_or(0.02)).clamp(2, 3)
}

fn ratio_number(ratio: Estimate) -> String {
    format!("{}×", number_format::fixed(ratio.value, ratio_decimals(ratio)))
}

/// ` (1.31–1.72)`, on the side of one on which the ratio is shown.
fn interval_words(ratio: Estimate) -> String {
    raw_interval(if ratio.value >= 1.0 { ratio } else { ratio.map(f64::recip) })
}

/// ` (0.89–1.41)`.
fn raw_interval(ratio: Estimate) -> String {
    let decimals = ratio_decimals(ratio);
    ratio.interval.map_or(String::new(), |(low, high)| format!(" ({})", range(low, high, 1.0, decimals)))
}

/// `99.7 %`; never all or nothing.
pub(crate) fn sure_words(sure: f64) -> String {
    let percent = sure * 100.0;
    match percent {
        percent if percent > 99.9 => ">\u{a0}99.9\u{a0}%".to_owned(),
        percent if percent < 1.0 => "<\u{a0}1\u{a0}%".to_owned(),
        percent if percent >= 99.0 => format!("{}\u{a0}%", number_format::fixed(percent.min(99.9), 1)),
        percent => format!("{}\u{a0}%", number_format::fixed(percent, 0)),
    }
}

/// The geometric mean with its interval; the median if a value is infinite.
pub(crate) fn typical(values: &[f64], confidence: f64) -> Option<Estimate> {
    if values.iter().all(|value| value.is_finite() && *value > 0.0) {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        return Some(statistics::mean(&logs, confidence)?.map(f64::exp));
    }
    statistics::median(values)
        .filter(|value| value.is_finite())
        .map(|value| Estimate { value, interval: None })
}

/// `About 9 repeats settle it with a chance of 80 % (6: even).`
fn advice_words(advice: Advice) -> String {
    let chance = whole_percent(CHANCE);
    let Advice::Repeats { likely, even } = advice else {
        return "More repeats will not settle it, more evaluations will (train.evaluate).".to_owned();
    };
    match (likely, even) {
        (Some(likely), Some(even)) if even < likely => format!(
            "With {likely} repeats in all, the chance to settle it is {chance}; with {even}, it is even."
        ),
        (Some(likely), _) => format!("With {likely} repeats in all, the chance to settle it is {chance}."),
        (None, Some(even)) => format!(
            "With {even} repeats in all, the chance to settle it is even; for {chance}, more than {} are needed.",
            Advice::MOST
        ),
        (None, None) => format!("More than {} repeats would be needed to settle it.", Advice::MOST),
    }
}

/// `Final test accuracy 0.1 pp lower (−0.3 … +0.1): not worse by more than 1 pp.`
fn quality_words(found: &QualityGap) -> Option<String> {
    let (factor, unit) = if found.metric.higher_is_better() { (100.0, "pp") } else { (1.0, "nats") };
    let gap = found.gap;
    let wide = gap.uncertainty().map(|wide| wide * factor);
    let decimals = wide.filter(|wide| *wide > 0.0).map_or(2, |wide| number_format::decimals_for(wide).min(4));
    let size = number_format::fixed((gap.value * factor).abs(), decimals);
    let nothing = !size.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let side = if nothing {
        "equal".to_owned()
    } else {
        format!("{size}\u{a0}{unit} {}", if gap.value < 0.0 { "lower" } else { "higher" })
    };
    let interval = gap
        .interval
        .map_or(String::new(), |(low, high)| format!(" ({})", signed_range(low, high, factor, decimals)));
    let margin = margin_words(found.metric, found.margin);
    let claim = match found.grade {
        Quality::SameWeights => return None,
        Quality::Better => format!("better by more than {margin}"),
        Quality::NotWorse => format!("not worse by {margin}"),
        Quality::WorseSmall => format!("worse, but by less than {margin}"),
        Quality::WorseOpen => format!("worse; whether by more than {margin} is open"),
        Quality::Worse => format!("worse by more than {margin}"),
        Quality::Open => format!("open whether it is worse by {margin}"),
    };
    Some(format!("Final {} {side}{interval}: {claim}.", metric_words(found.metric)))
}

/// `1 pp`, `0.02 nats`.
pub(crate) fn margin_words(metric: Metric, margin: f64) -> String {
    let (factor, unit) = if metric.higher_is_better() { (100.0, "pp") } else { (1.0, "nats") };
    let text = number_format::short(margin * factor);
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{trimmed}\u{a0}{unit}")
}

/// `97.0 % test accuracy`.
pub(crate) fn target_words(target: Target) -> String {
    format!("{} {}", threshold_words(target), metric_words(target.metric))
}

pub(crate) fn threshold_words(target: Target) -> String {
    let unit = Unit::of_metric(target.metric);
    let value = target.threshold * unit.factor;
    let mut decimals = 1;
    while decimals < 4 && (value - digits_rounded(value, decimals)).abs() > 1e-9 {
        decimals += 1;
    }
    format!("{}\u{a0}{}", number_format::fixed(value, decimals), unit.name)
}

fn digits_rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals as i32);
    (value * scale).round() / scale
}

/// `test accuracy`.
pub(crate) fn metric_words(metric: Metric) -> String {
    metric.name().replace('-', " ")
}

/// `95 %`, `2.5 %`.
pub(crate) fn whole_percent(confidence: f64) -> String {
    format!(
        "{}\u{a0}%",
        number_format::fixed(confidence * 100.0, usize::from((confidence * 100.0).fract() > 1e-9))
    )
}

fn range(low: f64, high: f64, factor: f64, decimals: usize) -> String {
    format!(
        "{}–{}",
        number_format::fixed(low * factor, decimals),
        number_format::fixed(high * factor, decimals)
    )
}

fn signed_range(low: f64, high: f64, factor: f64, decimals: usize) -> String {
    format!(
        "{}\u{a0}…\u{a0}{}",
        number_format::signed(low * factor, decimals),
        number_format::signed(high * factor, decimals)
    )
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::headline::headline;
    use crate::sample::{Sample, SampleArm};
    use store::{RunState, SweepRows};

    fn said(rows: &SweepRows) -> (String, Vec<String>) {
        let findings = Findings::of(rows, &Options::default()).unwrap();
        let verdicts = all(&findings);
        let sentences = verdicts.iter().map(|verdict| verdict.sentence.replace(['\u{a0}', '\u{202f}'], " "));
        (headline(&findings, &verdicts).replace(['\u{a0}', '\u{202f}'], " "), sentences.collect())
    }

    #[test]
    fn a_duel() {
        let (paragraph, sentences) = said(&Sample::duel().rows());
        insta::assert_snapshot!(format!("{paragraph}\n\n{}", sentences.join("\n")));
    }

    #[test]
    fn several_conditions_are_counted() {
        let sample = Sample { workers: vec![2, 4, 8], repeats: 9, ..Sample::duel() };
        assert_eq!(
            said(&sample.rows()).0,
            "d-sync is faster than ps-sync by more than 5 % in 3 of 3 conditions."
        );
    }

    #[test]
    fn arms_of_which_the_same_is_said_share_a_sentence() {
        let mut sample = Sample { workers: vec![2, 4], repeats: 8, ..Sample::duel() };
        for (name, communicate) in [("again", 2.5), ("late", 40.0)] {
            let other = sample.arms[1].clone();
            sample.arms.push(SampleArm { name: name.to_owned(), communicate, ..other });
        }
        assert_eq!(
            said(&sample.rows()).0,
            "d-sync and again are faster than ps-sync by more than 5 % in 2 of 2 conditions. late is slower than ps-sync by more \
             than 5 % in 2 of 2 conditions."
        );
    }

    #[test]
    fn without_a_target_steps_are_compared() {
        let sample = Sample { target: None, ..Sample::duel() };
        let (_, sentences) = said(&sample.rows());
        insta::assert_snapshot!(sentences.join("\n"));
    }

    /// Gives the runs of each arm these times to the target, seen at once, and steps in proportion.
    fn with_times(sample: &Sample, times: &[&[f64]]) -> SweepRows {
        let mut rows = sample.rows();
        let nanos = |seconds: f64| record::Nanos((seconds * 1e9) as u64);
        for run in &mut rows.runs {
            let time = times[rows.plan.cells[run.cell].arm][run.repeat as usize];
            let attempt = run.attempt.as_mut().unwrap();
            let watched = if time.is_finite() { time } else { 60.0 };
            attempt.training = Some(nanos(watched));
            attempt.mean_step_time = Some(nanos(watched / 480.0));
            attempt.step_time = attempt.mean_step_time;
            attempt.weights = Some(Ok(run.id.clone()));
            attempt.metrics.retain(|row| row.metric == Metric::TestAccuracy);
            for (place, row) in attempt.metrics.iter_mut().enumerate() {
                row.samples = place as u64 * 2_400;
                row.at = nanos(watched * place as f64 / 20.0);
                row.value = if place == 20 && time.is_finite() { 0.975 } else { 0.5 };
            }
        }
        rows
    }

    /// The pages that a review of the former rule found wrong or mute, in one sentence each.
    #[test]
    fn what_used_to_be_wrong_or_mute() {
        let duel = |repeats: u32, times: &[&[f64]]| with_times(&Sample { repeats, ..Sample::duel() }, times);
        let mut told = String::new();
        let mut tell = |title: &str, rows: &SweepRows| {
            let (paragraph, sentences) = said(rows);
            let last = sentences.last().unwrap();
            told += [title, "\n  ", &paragraph, "\n  ", last, "\n"].concat().as_str();
        };
        tell("three times, three runs", &duel(3, &[&[30.0, 30.4, 29.7], &[10.0, 10.1, 9.9]]));
        tell(
            "a certain 4 %",
            &duel(5, &[&[20.0, 20.3, 19.8, 20.1, 20.2], &[19.25, 19.5, 19.05, 19.35, 19.4]]),
        );
        let base = [30.0, 30.9, 29.4, 30.3, 29.7, 30.6, 29.1, 30.0, 30.5, 29.5];
        let mut arm = base.map(|time| time / 3.0 * if time > 30.0 { 1.01 } else { 0.99 });
        arm[3] = f64::INFINITY;
        tell("a miss in ten", &duel(10, &[&base, &arm]));
        let mut diverged = Sample { target: None, ..Sample::duel() }.rows();
        for run in diverged.runs.iter_mut().filter(|run| run.cell == 1) {
            run.state = RunState::Diverged;
        }
        tell("a diverged arm", &diverged);
        let mut eight = Sample { repeats: 5, ..Sample::duel() };
        for number in 2..8 {
            let arm = SampleArm { name: format!("arm-{number}"), ..eight.arms[1].clone() };
            eight.arms.push(arm);
        }
        let fast = [10.0, 10.2, 9.9, 10.1, 9.8];
        let slow = fast.map(|time| 2.0 * time);
        let mut times: Vec<&[f64]> = vec![&slow];
        times.extend([fast.as_slice(); 7]);
        tell("eight arms", &with_times(&eight, &times));
        insta::assert_snapshot!(told);
    }

    #[test]
    fn nothing_finished() {
        let mut rows = Sample::duel().rows();
        for run in &mut rows.runs {
            (run.state, run.attempt) = (RunState::Pending, None);
        }
        let (paragraph, sentences) = said(&rows);
        assert_eq!(paragraph, "No run has finished yet, so there is nothing to compare.");
        assert_eq!(sentences[1], "d-sync: no finished run on 4 workers.");
    }

    #[test]
    fn all_diverged() {
        let mut rows = Sample::duel().rows();
        for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
            run.state = RunState::Diverged;
            if let Some(attempt) = &mut run.attempt {
                attempt.metrics.iter_mut().for_each(|row| row.value = f64::NAN);
            }
        }
        let (paragraph, sentences) = said(&rows);
        assert_eq!(sentences[1], "d-sync diverged in 5 of 5 runs on 4 workers: its speed says nothing.");
        assert_eq!(paragraph, sentences[1]);
    }

    #[test]
    fn a_winner_that_lost_quality_is_named_with_it() {
        let mut sample = Sample { target: None, ..Sample::duel() };
        let other = SampleArm { name: "third".to_owned(), ceiling: 0.9, ..sample.arms[1].clone() };
        sample.arms.push(other);
        let mut rows = sample.rows();
        for run in rows.runs.iter_mut().filter(|run| run.cell == 2) {
            run.attempt.as_mut().unwrap().weights = Some(Ok(run.id.clone()));
        }
        assert_eq!(
            said(&rows).0,
            "d-sync had the shortest steps, 8.78 ms. Faster than ps-sync by more than 5 %: d-sync and third (worse in quality)."
        );
    }

    #[test]
    fn a_difference_of_quality_is_named_with_what_it_means() {
        let said = |metric, grade, value, interval, margin| {
            let gap = Estimate { value, interval: Some(interval) };
            let found = QualityGap::sample(metric, gap, margin, grade);
            quality_words(&found).unwrap().replace(['\u{a0}', '\u{202f}'], " ")
        };
        let accuracy = |grade, value, interval| said(Metric::TestAccuracy, grade, value, interval, 0.01);
        for (grade, value, interval, words) in [
            (
                Quality::NotWorse,
                -0.001,
                (-0.003, 0.001),
                "Final test accuracy 0.10 pp lower (−0.30 … +0.10): not worse by 1 pp.",
            ),
            (
                Quality::Open,
                -0.061,
                (-0.131, 0.009),
                "Final test accuracy 6.1 pp lower (−13.1 … +0.9): open whether it is worse by 1 pp.",
            ),
            (
                Quality::Better,
                0.03,
                (0.011, 0.05),
                "Final test accuracy 3.0 pp higher (+1.1 … +5.0): better by more than 1 pp.",
            ),
            (
                Quality::Worse,
                -0.03,
                (-0.05, -0.011),
                "Final test accuracy 3.0 pp lower (−5.0 … −1.1): worse by more than 1 pp.",
            ),
        ] {
            assert_eq!(accuracy(grade, value, interval), words);
        }
        let loss = said(Metric::TestLoss, Quality::NotWorse, 0.0, (-0.02, 0.019), 0.05 * 0.4);
        assert!(loss.ends_with(": not worse by 0.02 nats."), "{loss}");
    }

    #[test]
    fn a_loss_is_named_with_its_unit() {
        let target = Target { metric: Metric::TestLoss, threshold: 0.25, after: None, stop: false };
        assert_eq!(target_words(target), "0.25\u{a0}nats test loss");
        let target = Target { metric: Metric::TestAccuracy, threshold: 0.9725, after: None, stop: false };
        assert_eq!(target_words(target), "97.25\u{a0}% test accuracy");
    }
}
