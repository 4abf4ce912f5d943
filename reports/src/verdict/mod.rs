//! Verdicts: a few sentences for each arm under each condition.

mod claim;
mod table;
mod words;

pub use table::VerdictRow;
pub(crate) use table::table;
pub(crate) use words::{
    advice_words, capitalised, margin_words, metric_words, ratio_number, ratio_words, raw_interval,
    sure_words, target_words, threshold_words, value_words, whole_percent,
};

use crate::findings::Findings;
use crate::number_format::{self, Unit};
use comparison::looks;
use comparison::statistics;
use comparison::study::{ArmCell, Condition, SpeedMeasure};
use comparison::{Advice, Comparison, Contrast, Grade, Quality, Thresholds};
use recipe::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use store::{RunRow, RunState};
use words::{interval_words, quality_words, range, sided};

/// The verdict on one arm under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The plan's name of the condition; empty if there is only one.
    pub condition: String,
    /// As the plan names it.
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

impl Verdict {
    /// The grade as one word, its style: faster arms that lost quality have one of their own.
    pub fn class(&self) -> &'static str {
        self.grade.map_or("baseline", |grade| grade.class(self.quality))
    }

    /// The words of the grade, with what speaks against it: `faster, worse quality`.
    pub fn label(&self) -> String {
        self.grade.map_or_else(|| "baseline".to_owned(), |grade| grade.label(self.quality))
    }
}

/// The verdicts of all conditions, in the order of the plan.
pub(crate) fn all(findings: &Findings) -> Vec<Verdict> {
    let mut ordered: BTreeMap<usize, usize> = BTreeMap::new();
    for run in findings.rows().runs.iter().filter(|run| failed_as_ordered(run)) {
        *ordered.entry(run.cell).or_default() += 1;
    }
    let mut verdicts = Vec::new();
    for (condition, comparisons) in findings.conditions() {
        for cell in &condition.cells {
            let comparison = comparisons.iter().find(|comparison| comparison.arm == cell.arm);
            let ordered = ordered.get(&cell.index).copied().unwrap_or(0);
            let writer = Writer { findings, condition, cell, ordered, thresholds: findings.thresholds };
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

/// Whether a fault of the recipe ended the run.
pub(crate) fn failed_as_ordered(run: &RunRow) -> bool {
    run.state == RunState::Failed && run.is_as_ordered()
}

struct Writer<'a> {
    findings: &'a Findings<'a>,
    condition: &'a Condition<'a>,
    cell: &'a ArmCell<'a>,
    /// Number of the cell's runs that failed as the recipe orders.
    ordered: usize,
    thresholds: Thresholds,
}

impl Writer<'_> {
    fn sentences(&self, comparison: Option<&Comparison>) -> String {
        if self.cell.runs.is_empty() {
            let why = match self.ordered {
                0 => String::new(),
                1 => ": 1 failed as the recipe lets it".to_owned(),
                more => format!(": {more} failed as the recipe lets them"),
            };
            return format!("{}: no finished run {}{why}.", self.arm(), self.place());
        }
        if self.cell.mostly_diverged() {
            return self.diverged();
        }
        let mut parts = vec![self.speed(comparison)];
        if let Some(comparison) = comparison {
            if comparison.grade.compares() {
                parts.extend(Self::same_weights(comparison));
                parts.extend(self.claim(comparison));
                parts.extend(self.certain_steps(comparison));
            } else {
                parts.extend(self.chance_of_a_miss(comparison));
                parts.extend(self.steps_of_a_miss(comparison));
            }
            parts.extend(self.lost_runs(Some(comparison)));
            parts.extend(self.final_metric(comparison));
            parts.extend(self.bytes());
            parts.extend(self.advice(comparison).map(advice_words));
        } else {
            parts.extend(self.lost_runs(None));
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
        // Of two selections that are compared, each side has its own number.
        let cells = &self.findings.rows().plan.cells;
        let own =
            cells.get(self.cell.index).map_or(self.condition.workers, |cell| cell.spec.cluster.workers());
        let workers = number_format::plural(own as usize, "worker");
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
                match self.amount(SpeedMeasure::TimeToTarget).filter(|_| !self.cell.mostly_missed()) {
                    Some(amount) => {
                        let ratio = comparison.map(|found| self.time_ratio(found)).unwrap_or_default();
                        format!("{to}, {} needed {amount}{ratio}.", self.arm())
                    }
                    None => self.missed(target),
                }
            }
            None => match self.amount(SpeedMeasure::StepTime) {
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
        let best = self.cell.best(target.metric);
        format!(
            "{} reached {} in {} {} within {}{}.",
            self.arm(),
            target_words(target),
            self.share(self.cell.reached()),
            self.place(),
            number_format::seconds(watched),
            best.map_or(String::new(), |best| format!("; its best was {}", value_words(target.metric, best))),
        )
    }

    /// How likely it is that an arm as good as the baseline reaches the target so rarely, where that cannot be ruled out.
    fn chance_of_a_miss(&self, comparison: &Comparison) -> Option<String> {
        let base = self.base_cell().filter(|_| comparison.grade == Grade::DidNotReach)?;
        let own = self.cell.reached();
        let other = base.reached();
        let p = statistics::fewer_by_chance(own, self.cell.runs.len(), other, base.runs.len());
        let open =
            other > own && p >= looks::level_of_each(self.thresholds.confidence, self.thresholds.looks);
        open.then(|| {
            format!(
                "{} reached it in {other} of {}: by chance alone an arm that reaches it as often is as far behind with {}.",
                self.base(),
                number_format::plural(base.runs.len(), "run"),
                number_format::percent(p)
            )
        })
    }

    /// Compares the steps of an arm that did not reach the target.
    fn steps_of_a_miss(&self, comparison: &Comparison) -> Option<String> {
        let ratio = comparison.step_time.ratio.filter(|_| comparison.grade == Grade::DidNotReach)?;
        let (amount, word) = sided(ratio, "faster", "slower");
        Some(format!(
            "Its steps were {amount} {word} than those of {}{}.",
            self.base(),
            interval_words(ratio)
        ))
    }

    /// The quality, with a "but" where a faster arm loses some.
    fn final_metric(&self, comparison: &Comparison) -> Option<String> {
        let gap = comparison.quality.as_ref()?;
        let words = quality_words(gap, self.base())?;
        let but = comparison.grade.is_faster() && gap.grade.is_lost();
        Some(if but { format!("But its {words}") } else { capitalised(&words) })
    }

    /// `2 of 5 runs (5–85 %)`.
    fn share(&self, hits: usize) -> String {
        let count = self.cell.runs.len();
        let (low, high) = statistics::share_interval(hits, count, self.thresholds.confidence);
        format!("{hits} of {} ({}\u{a0}%)", number_format::plural(count, "run"), range(low, high, 100.0, 0))
    }

    /// `412 s (95 % CI 398–431, n = 5)`, or the median if some runs did not reach; `None` if half of them did not.
    fn amount(&self, measure: SpeedMeasure) -> Option<String> {
        let missed = self.cell.values(measure).iter().filter(|value| value.is_infinite()).count();
        let level = self.condition.level(self.cell, measure, self.thresholds.confidence)?;
        let estimate = level.estimate;
        let count = level.runs;
        let unit = Unit::of_seconds(estimate.value);
        let time = unit.supported(estimate.value, estimate.uncertainty());
        let aside = match estimate.interval {
            _ if missed > 0 => format!("median; {} of {count} runs reached it", count - missed),
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
    /// steps (0.98–1.17)`.
    fn time_ratio(&self, comparison: &Comparison) -> String {
        let Some(time) = &comparison.time_to_target else { return String::new() };
        if comparison.same_weights.is_some() && comparison.step_time.ratio.is_some() {
            return self.step_ratio(&comparison.step_time);
        }
        let base = self.base();
        let Some(ratio) = time.ratio else {
            let reached = self.base_cell().map_or(0, ArmCell::reached);
            return match time.bound() {
                Some(least) => format!(
                    ", at least {} sooner than {base}, which reached it in {reached} of {}",
                    number_format::times(least),
                    number_format::plural(self.base_cell().map_or(0, |cell| cell.runs.len()), "run"),
                ),
                None => String::new(),
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

    /// Runs that missed the target or diverged, where the first sentence does not say it.
    fn lost_runs(&self, comparison: Option<&Comparison>) -> Option<String> {
        let diverged = self.cell.diverged();
        let reached = self.cell.reached();
        let targeted = self.condition.target.is_some() && !self.cell.mostly_missed();
        let mut said = Vec::new();
        if targeted && reached < self.cell.runs.len() {
            said.push(format!("{} reached the target in {}", self.arm(), self.share(reached)));
        }
        let base =
            self.base_cell().filter(|base| base.arm != self.cell.arm && base.reached() < base.runs.len());
        // A lower bound is said with the baseline's runs.
        let bounded = comparison.is_some_and(|found| found.speed().bound().is_some());
        if let Some(base) = base.filter(|_| targeted && !bounded) {
            let runs = number_format::plural(base.runs.len(), "run");
            said.push(format!("{} reached the target in {} of {runs}", self.base(), base.reached()));
        }
        if let Some(both) = comparison.map(|found| found.speed().pairs.both_missed).filter(|_| targeted)
            && both > 0
        {
            said.push(format!("neither did with {}", number_format::plural(both, "seed")));
        }
        if diverged > 0 {
            said.push(format!(
                "{diverged} of {} diverged",
                number_format::plural(self.cell.runs.len(), "run")
            ));
        }
        (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
    }

    fn advice(&self, comparison: &Comparison) -> Option<Advice> {
        comparison.speed().advice(self.thresholds).filter(|_| comparison.grade.compares())
    }

    fn bytes(&self) -> Option<String> {
        let base = self.base_cell()?;
        let own = self.cell.mean_of(|attempt| self.cell.all_bytes_per_step(attempt))?;
        let other = base.mean_of(|attempt| base.all_bytes_per_step(attempt))?;
        (other > 0.0 && own > 0.0).then(|| {
            format!(
                "{} sent {} the bytes of {} per step.",
                self.arm(),
                number_format::times(own / other),
                self.base()
            )
        })
    }
}

/// `: its steps are 1.60× faster (1.55–1.65), and it needs 1.07× as many steps (0.98–1.17)`; nothing where a run missed, because the
/// factors are then of fewer runs than their product.
fn factors(comparison: &Comparison) -> String {
    let (Some(time), Some(steps)) = (&comparison.time_to_target, &comparison.steps_to_target) else {
        return String::new();
    };
    let (Some(whole), Some(step), Some(many)) = (time.ratio, comparison.step_time.ratio, steps.ratio) else {
        return String::new();
    };
    if time.pairs.baseline_missed() + time.pairs.arm_missed() > 0 {
        return String::new();
    }
    let (amount, word) = sided(step, "faster", "slower");
    let more = many.map(f64::recip);
    let rest = whole.value / (step.value * many.value);
    let rest = if rest.ln().abs() > REST {
        format!("; steps outside the steady ones change the ratio by {}", number_format::times(rest))
    } else {
        String::new()
    };
    format!(
        ": its steps are {amount} {word}{}, and it needs {} as many steps{}{rest}",
        interval_words(step),
        ratio_number(more),
        raw_interval(more),
    )
}

/// Factors whose product differs from the whole by less than this, as a logarithm, are said to be all of it.
const REST: f64 = 0.02;

#[cfg(test)]
mod tests;
