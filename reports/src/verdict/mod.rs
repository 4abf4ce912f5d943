//! Verdicts: a few sentences for each arm under each condition.

mod words;

pub(crate) use words::{
    capitalised, margin_words, metric_words, sure_words, target_words, threshold_words, whole_percent,
};

use crate::comparison::{Advice, Comparison, Contrast, Grade, Quality, Thresholds};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::statistics::{self, typical};
use crate::study::{ArmCell, Condition, Measure};
use recipe::Target;
use serde::Serialize;
use words::{advice_words, interval_words, quality_words, range, ratio_number, raw_interval, sided};

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

#[cfg(test)]
mod tests;
