//! Verdicts: one sentence for each arm under each condition.

use crate::comparison::{Comparison, Grade, RepeatsNeeded, Thresholds};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::statistics::{self, Estimate};
use crate::study::{ArmCell, Condition, Measure};
use recipe::{Metric, Target};
use serde::Serialize;

/// A difference of accuracy below this does not matter, as a share of one.
pub(crate) const SAME_ACCURACY: f64 = 0.01;

/// The verdict on one arm under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The plan's name of the condition; empty if there is only one.
    pub condition: String,
    /// The arm.
    pub arm: String,
    /// Whether it is the arm that the others are compared with.
    pub baseline: bool,
    /// `None` for the baseline.
    pub grade: Option<Grade>,
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
                sentence: writer.sentence(comparison),
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
    fn sentence(&self, comparison: Option<&Comparison>) -> String {
        if self.cell.runs.is_empty() {
            return format!("{}: no finished run {}.", self.arm(), self.place());
        }
        let parts = [
            self.speed(comparison),
            comparison.and_then(|_| self.final_metric()).unwrap_or_default(),
            comparison.and_then(|_| self.bytes()).unwrap_or_default(),
            comparison.and_then(settling).unwrap_or_default(),
        ];
        parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    }

    fn arm(&self) -> &str {
        self.findings.study.arm_name(self.cell.arm)
    }

    fn base(&self) -> &str {
        self.findings.study.arm_name(self.findings.study.baseline)
    }

    fn place(&self) -> String {
        let workers = number_format::plural(self.condition.workers as usize, "worker");
        match self.condition.name {
            "" => format!("on {workers}"),
            name if name.contains("workers=") => format!("at {name}"),
            name => format!("on {workers} at {name}"),
        }
    }

    fn speed(&self, comparison: Option<&Comparison>) -> String {
        let measure = self.condition.measure();
        let ratio = comparison.map(|comparison| self.ratio(comparison)).unwrap_or_default();
        match (measure, self.condition.target) {
            (Measure::TimeToTarget, Some(target)) => {
                let to = format!("To {} {}", target_words(target), self.place());
                match self.amount(measure).filter(|_| !self.cell.mostly_missed()) {
                    Some(amount) => format!("{to}, {} needed {amount}{ratio}.", self.arm()),
                    None => self.missed(target),
                }
            }
            _ => match self.amount(measure) {
                Some(amount) => format!("{} took {amount} per step {}{ratio}.", self.arm(), self.place()),
                None => format!("{} has no steady step to time {}.", self.arm(), self.place()),
            },
        }
    }

    fn missed(&self, target: Target) -> String {
        let watched = self.cell.runs.iter().map(|judged| judged.watched).fold(0.0, f64::max);
        let diverged =
            self.cell.runs.iter().filter(|judged| judged.run.state == store::RunState::Diverged).count();
        let aside = if diverged > 0 { format!("; {diverged} diverged") } else { String::new() };
        format!(
            "{} reached {} in {} of {} {} within {}{aside}.",
            self.arm(),
            target_words(target),
            self.cell.reached(),
            number_format::plural(self.cell.runs.len(), "run"),
            self.place(),
            number_format::seconds(watched),
        )
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

    fn ratio(&self, comparison: &Comparison) -> String {
        let base = self.base();
        let Some(ratio) = comparison.ratio else {
            return match comparison.at_least {
                Some(least) if least > 1.0 => {
                    format!(
                        ", at least {} sooner than {base}, which never reached it",
                        number_format::times(least)
                    )
                }
                _ => String::new(),
            };
        };
        let (faster, slower) = match self.condition.measure() {
            Measure::TimeToTarget => ("sooner", "later"),
            Measure::StepTime => ("faster", "slower"),
        };
        let (shown, word) =
            if ratio.value >= 1.0 { (ratio, faster) } else { (ratio.map(|r| 1.0 / r), slower) };
        let decimals = number_format::decimals_for(shown.uncertainty().unwrap_or(0.02)).clamp(2, 3);
        let aside = shown.interval.map(|(low, high)| format!(" ({})", range(low, high, 1.0, decimals)));
        format!(
            ", {}× {word} than {base}{}",
            number_format::fixed(shown.value, decimals),
            aside.unwrap_or_default()
        )
    }

    /// The difference of the final metric.
    fn final_metric(&self) -> Option<String> {
        if self.condition.target.is_some_and(|target| target.stop) {
            return None;
        }
        let metric = self.condition.metric?;
        let base = self.condition.cell(self.findings.study.baseline)?;
        let values = |cell: &ArmCell| {
            cell.final_values(metric).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        let own = values(base);
        let gap = statistics::difference(&values(self.cell), &own, self.thresholds.confidence)?;
        let small = if metric.higher_is_better() {
            SAME_ACCURACY
        } else {
            self.thresholds.min_effect * statistics::average(&own)?.abs()
        };
        Some(difference_words(metric, gap, small))
    }

    fn bytes(&self) -> Option<String> {
        let base = self.condition.cell(self.findings.study.baseline)?;
        let own = self.cell.mean_of(|attempt| self.cell.all_bytes_per_step(attempt))?;
        let other = base.mean_of(|attempt| base.all_bytes_per_step(attempt))?;
        (other > 0.0 && own > 0.0)
            .then(|| format!("Sent {} the bytes per step.", number_format::times(own / other)))
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

fn settling(comparison: &Comparison) -> Option<String> {
    match comparison.repeats_needed? {
        RepeatsNeeded::About(repeats) => Some(format!("About {repeats} repeats would settle it.")),
        RepeatsNeeded::MoreThan(repeats) => {
            Some(format!("More than {repeats} repeats would be needed to settle it."))
        }
    }
}

/// `Final test accuracy 0.1 pp lower (−0.3 … +0.1): within noise.` An interval that contains zero and is wider than `small`
/// leaves the question open.
fn difference_words(metric: Metric, gap: Estimate, small: f64) -> String {
    let (factor, unit) = if metric.higher_is_better() { (100.0, "pp") } else { (1.0, "nats") };
    let wide = gap.uncertainty().map(|wide| wide * factor);
    let decimals = wide.filter(|wide| *wide > 0.0).map_or(2, |wide| number_format::decimals_for(wide).min(4));
    let size = number_format::fixed((gap.value * factor).abs(), decimals);
    let nothing = !size.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let side = if nothing {
        "equal".to_owned()
    } else {
        format!("{size}\u{a0}{unit} {}", if gap.value < 0.0 { "lower" } else { "higher" })
    };
    let sure = match gap.interval {
        None => String::new(),
        Some((low, high)) if low <= 0.0 && high >= 0.0 => {
            let settled = if low >= -small && high <= small { "within noise" } else { "not settled" };
            format!(" ({}): {settled}", signed_range(low, high, factor, decimals))
        }
        Some((low, high)) => format!(" ({})", signed_range(low, high, factor, decimals)),
    };
    format!("Final {} {side}{sure}.", metric_words(metric))
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
        let sample = Sample { workers: vec![2, 4, 8], ..Sample::duel() };
        assert_eq!(said(&sample.rows()).0, "d-sync is clearly faster than ps-sync in 3 of 3 conditions.");
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
            "d-sync and again are clearly faster than ps-sync in 2 of 2 conditions. late is clearly slower than ps-sync in \
             2 of 2 conditions."
        );
    }

    #[test]
    fn without_a_target_steps_are_compared() {
        let sample = Sample { target: None, ..Sample::duel() };
        let (_, sentences) = said(&sample.rows());
        insta::assert_snapshot!(sentences.join("\n"));
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
        let (_, sentences) = said(&rows);
        assert!(
            sentences[1]
                .starts_with("d-sync reached 97.0 % test accuracy in 0 of 5 runs on 4 workers within"),
            "{}",
            sentences[1]
        );
        assert!(sentences[1].ends_with("; 5 diverged. Sent 0.75× the bytes per step."), "{}", sentences[1]);
    }

    #[test]
    fn noise_is_only_what_cannot_matter() {
        let said = |metric, value, interval, small| {
            difference_words(metric, Estimate { value, interval }, small).replace(['\u{a0}', '\u{202f}'], " ")
        };
        let accuracy = |value, interval| said(Metric::TestAccuracy, value, Some(interval), SAME_ACCURACY);
        for (value, interval, words) in [
            (-0.001, (-0.003, 0.001), "Final test accuracy 0.10 pp lower (−0.30 … +0.10): within noise."),
            (-0.061, (-0.131, 0.009), "Final test accuracy 6.1 pp lower (−13.1 … +0.9): not settled."),
            (0.002, (-0.01, 0.01), "Final test accuracy 0.2 pp higher (−1.0 … +1.0): within noise."),
            (0.002, (-0.0101, 0.01), "Final test accuracy 0.2 pp higher (−1.0 … +1.0): not settled."),
            (0.002, (-0.01, 0.0101), "Final test accuracy 0.2 pp higher (−1.0 … +1.0): not settled."),
            (0.03, (0.01, 0.05), "Final test accuracy 3.0 pp higher (+1.0 … +5.0)."),
        ] {
            assert_eq!(accuracy(value, interval), words);
        }
        let loss = |interval| said(Metric::TestLoss, 0.0, Some(interval), 0.05 * 0.4);
        assert!(loss((-0.02, 0.019)).ends_with(": within noise."));
        assert!(loss((-0.021, 0.019)).ends_with(": not settled."));
        assert!(said(Metric::TestLoss, 0.1, None, 0.0).ends_with("higher."));
    }

    #[test]
    fn a_loss_is_named_with_its_unit() {
        let target = Target { metric: Metric::TestLoss, threshold: 0.25, after: None, stop: false };
        assert_eq!(target_words(target), "0.25\u{a0}nats test loss");
        let target = Target { metric: Metric::TestAccuracy, threshold: 0.9725, after: None, stop: false };
        assert_eq!(target_words(target), "97.25\u{a0}% test accuracy");
    }
}
