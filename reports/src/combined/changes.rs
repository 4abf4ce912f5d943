//! How each arm changed from one sweep to the next.

use crate::comparison::Comparison;
use crate::findings::Findings;
use crate::joined::{Doubt, JoinError, Side, TimedBy, joined};
use crate::number_format;
use crate::statistics::Estimate;
use crate::study::{Condition, Measure, own_time};
use crate::verdict::{self, ratio_words};
use crate::{Options, Verdict};
use serde::Serialize;

/// Of sweeps it goes without saying how far they are apart.
const NOT_IN_TURN: &str = "The sweeps were not measured in turn: what changed on the machine from one to the next counts as a change, and more \
                           repeats do not help.";

/// The changes of all arms, in the order of the sweeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// One for each arm and condition that a sweep shares with the one before.
    pub rows: Vec<SweepChange>,
    /// What limits the comparison, or makes it impossible, a sentence each.
    pub notes: Vec<String>,
}

/// One arm under one condition, in a sweep and in the one before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepChange {
    /// Arm and condition.
    pub label: String,
    /// The earlier sweep.
    pub before: String,
    /// The later one.
    pub now: String,
    /// What the times are of: `time to the target`.
    pub measure: &'static str,
    /// Mean of all runs of the earlier sweep, and of the later one: `18.2 s`. A dash where it is not known.
    pub times: [String; 2],
    /// The earlier time divided by the later one, with its interval: above 1 the later sweep is faster.
    pub ratio: String,
    /// The same as a number, for sorting.
    pub value: Option<f64>,
    /// The grade's style: `slower`.
    pub class: &'static str,
    /// The grade in words.
    pub grade: String,
}

impl Changes {
    /// Between sides that follow each other.
    pub(super) fn between(sides: &[Side<'_>]) -> Self {
        let mut changes = Self::default();
        for pair in sides.windows(2) {
            let [before, now] = [pair[0], pair[1]];
            if let Err(why) = changes.add(before, now) {
                changes.note(format!("{} and {} are not compared: {why}.", before.name, now.name));
            }
        }
        changes
    }

    fn add(&mut self, before: Side<'_>, now: Side<'_>) -> Result<(), JoinError> {
        let both = joined([before, now], TimedBy::Recipe)?;
        let options = Options::default();
        // It names its first arm as the baseline, so that nothing is amiss with it.
        let Ok(findings) = Findings::of(&both.rows, &options) else { return Ok(()) };
        let verdicts = verdict::all(&findings);
        for (condition, comparisons) in findings.conditions() {
            let of_condition = |verdict: &&Verdict| verdict.condition == condition.name && !verdict.baseline;
            let comparison = comparisons.first();
            if let (Some(verdict), Some(comparison)) = (verdicts.iter().find(of_condition), comparison) {
                self.rows.push(change(&findings, condition, comparison, verdict, [before, now]));
            }
        }
        for doubt in both.doubts {
            self.note(match doubt {
                Doubt::NotInTurn { .. } => NOT_IN_TURN.to_owned(),
                doubt => doubt.to_string(),
            });
        }
        Ok(())
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

fn change(
    findings: &Findings<'_>,
    condition: &Condition<'_>,
    comparison: &Comparison,
    verdict: &Verdict,
    [before, now]: [Side<'_>; 2],
) -> SweepChange {
    let speed = comparison.speed();
    let time = |arm: usize| -> Option<Estimate> {
        own_time(condition.cell(arm)?, speed.measure, findings.thresholds.confidence)
    };
    let words = |time: Option<Estimate>| {
        time.map_or_else(|| "–".to_owned(), |time| number_format::seconds(time.value))
    };
    let ratio = speed.ratio.filter(|_| comparison.grade.compares());
    SweepChange {
        label: label(condition.name, before),
        before: before.name.to_owned(),
        now: now.name.to_owned(),
        measure: measure_words(speed.measure),
        times: [findings.study.baseline, comparison.arm].map(|arm| words(time(arm))),
        ratio: ratio.map_or_else(|| "–".to_owned(), ratio_words),
        value: ratio.map(|ratio| ratio.value),
        class: verdict.class(),
        grade: verdict.label(),
    }
}

fn measure_words(measure: Measure) -> &'static str {
    match measure {
        Measure::TimeToTarget => "time to the target",
        Measure::StepsToTarget => "steps to the target",
        Measure::StepTime => "time of a step",
    }
}

/// Of two cells that are matched whatever they are called, the name of the earlier one.
fn label(condition: &str, before: Side<'_>) -> String {
    if !condition.is_empty() {
        return condition.to_owned();
    }
    let run = before.rows.runs.first();
    let cell = run.and_then(|run| before.rows.plan.cells.get(run.cell));
    cell.map_or_else(String::new, |cell| cell.label.clone())
}
