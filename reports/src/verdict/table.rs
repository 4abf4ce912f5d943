//! The verdicts as numbers, for other programs: a row for each arm, condition and measure, from the comparisons that the page shows.

use super::Verdict;
use crate::findings::Findings;
use crate::number_format;
use comparison::statistics::Estimate;
use comparison::study::{ArmCell, Condition, SpeedMeasure};
use comparison::{Comparison, Contrast, QualityGap};
use recipe::AxisValue;
use serde::Serialize;
use std::collections::BTreeMap;

/// Verdict on one arm by one measure, as on the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictRow {
    /// As the plan names it.
    pub arm: String,
    /// The arm that it is compared with.
    pub baseline: String,
    /// The plan's name of the condition; empty if there is only one.
    pub condition: String,
    /// `time-to-target`, `steps-to-target` or `step-time`, or the name of a metric: its value at the end of the runs.
    pub measure: String,
    /// Whether the verdict on the arm's speed rests on this measure.
    pub decides: bool,
    /// Baseline divided by arm: above 1 the arm is faster, or needs fewer steps. `None` for a metric, and where it is not known.
    pub ratio: Option<f64>,
    /// Of a metric: arm less baseline, in the metric's own unit (accuracies as a share of one).
    pub difference: Option<f64>,
    /// Lower end of the confidence interval of the ratio or the difference.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// The share of such intervals that hold the true value.
    pub confidence: f64,
    /// Of this measure, in words joined by hyphens: `faster`, `faster-open`, `no-difference`; `not-worse` for a metric.
    pub grade: String,
    /// Of the arm, equal in all of its rows.
    pub verdict: String,
    /// Number of pairs of runs with a value on both sides.
    pub n: usize,
    /// p of a difference beyond the smallest effect that matters, corrected by Holm's method over the arms of the condition.
    pub p: Option<f64>,
    /// Probability that the arm is faster, or slower, by more than the smallest effect that matters.
    pub sure: Option<f64>,
    /// Setting that the arm chose by its search, in the order of the plan's axes; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<AxisValue>,
    /// Setting that the baseline chose by its search; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub baseline_chosen: Vec<AxisValue>,
    /// Remarks beside the numbers: equal weights, runs that missed the target or diverged. May be empty.
    pub note: String,
}

/// The rows of all conditions, in the order of the plan. The baseline, which is compared with nothing, has none.
pub(crate) fn table(findings: &Findings, verdicts: &[Verdict]) -> Vec<VerdictRow> {
    let verdicts: BTreeMap<(&str, &str), &Verdict> = verdicts
        .iter()
        .map(|verdict| ((verdict.condition.as_str(), verdict.arm.as_str()), verdict))
        .collect();
    let mut rows = Vec::new();
    for (condition, comparisons) in findings.conditions() {
        for comparison in comparisons {
            let Some(cell) = condition.cell(comparison.arm) else { continue };
            let arm = findings.study.arm_name(comparison.arm);
            let verdict = verdicts.get(&(condition.name, arm));
            let compared = Compared { findings, condition, cell, comparison };
            let verdict = verdict.map_or("", |verdict| verdict.class());
            rows.extend(comparison.contrasts().map(|contrast| compared.speed(contrast, verdict)));
            rows.extend(comparison.quality.as_ref().map(|gap| compared.quality(gap, verdict)));
        }
    }
    rows
}

struct Compared<'a> {
    findings: &'a Findings<'a>,
    condition: &'a Condition<'a>,
    cell: &'a ArmCell<'a>,
    comparison: &'a Comparison,
}

impl Compared<'_> {
    fn speed(&self, contrast: &Contrast, verdict: &str) -> VerdictRow {
        VerdictRow {
            decides: contrast.measure == self.comparison.speed().measure && self.comparison.grade.compares(),
            ratio: contrast.ratio.map(|ratio| ratio.value),
            grade: contrast.grade.class(None).to_owned(),
            n: contrast.pairs.exact().len(),
            p: contrast.p_holm,
            sure: contrast.sure,
            note: self.note(contrast),
            ..self.row(measure_name(contrast.measure), contrast.ratio, verdict)
        }
    }

    fn quality(&self, gap: &QualityGap, verdict: &str) -> VerdictRow {
        VerdictRow {
            difference: Some(gap.gap.value),
            grade: gap.grade.class().to_owned(),
            n: gap.pairs.part,
            ..self.row(gap.metric.name(), Some(gap.gap), verdict)
        }
    }

    fn row(&self, measure: &str, estimate: Option<Estimate>, verdict: &str) -> VerdictRow {
        let interval = estimate.and_then(|estimate| estimate.interval);
        VerdictRow {
            arm: self.findings.study.arm_name(self.comparison.arm).to_owned(),
            baseline: self.findings.study.arm_name(self.findings.study.baseline).to_owned(),
            condition: self.condition.name.to_owned(),
            measure: measure.to_owned(),
            decides: false,
            ratio: None,
            difference: None,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            confidence: self.findings.thresholds.confidence,
            grade: String::new(),
            verdict: verdict.to_owned(),
            n: 0,
            p: None,
            sure: None,
            chosen: self.chosen(Some(self.cell)),
            baseline_chosen: self.chosen(self.condition.cell(self.findings.study.baseline)),
            note: String::new(),
        }
    }

    /// The setting by which a cell is compared.
    fn chosen(&self, cell: Option<&ArmCell>) -> Vec<AxisValue> {
        let search = self.findings.rows().plan.search.as_ref();
        let cell = cell.filter(|cell| !cell.runs.is_empty());
        let trial = search.zip(cell).and_then(|(search, cell)| search.trial_of(cell.index));
        trial.map(|trial| trial.setting.clone()).unwrap_or_default()
    }

    fn note(&self, contrast: &Contrast) -> String {
        let mut notes = Vec::new();
        if self.comparison.same_weights.is_some() {
            notes.push("equal weights, bit for bit".to_owned());
        }
        let pairs = |count: usize| number_format::plural(count, "pair");
        for (missed, side) in
            [(contrast.pairs.arm_missed(), "the arm"), (contrast.pairs.baseline_missed(), "the baseline")]
        {
            if missed > 0 {
                notes.push(format!("{side} alone missed the target in {}", pairs(missed)));
            }
        }
        if contrast.pairs.both_missed > 0 {
            notes.push(format!("both missed the target in {}", pairs(contrast.pairs.both_missed)));
        }
        let diverged = self.cell.diverged();
        if diverged > 0 {
            notes.push(format!(
                "{diverged} of {} diverged",
                number_format::plural(self.cell.runs.len(), "run")
            ));
        }
        if let (None, Some(least)) = (contrast.ratio, contrast.bound()) {
            notes.push(format!("the ratio is at least {least}"));
        }
        notes.join("; ")
    }
}

fn measure_name(measure: SpeedMeasure) -> &'static str {
    match measure {
        SpeedMeasure::TimeToTarget => "time-to-target",
        SpeedMeasure::StepsToTarget => "steps-to-target",
        SpeedMeasure::StepTime => "step-time",
    }
}
