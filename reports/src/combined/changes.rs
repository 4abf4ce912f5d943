//! How each arm changed from one sweep to the next.
//!
//! An arm is compared with itself alone: of the same name and strategy, under the same condition. All comparisons of a page are one family, whose
//! level each shares equally (Bonferroni), because the page says in one sentence which of them changed.

use super::{ArmKey, key_of};
use crate::findings::Findings;
use crate::joined::{Doubt, Side, TimedBy, compared_cells, doubts, mark, rows_of_pairs, same_work, sorted};
use crate::number_format::{self, plural};
use crate::verdict::{self, ratio_words};
use crate::{Options, Verdict};
use comparison::statistics::Estimate;
use comparison::study::{Condition, Lost, SpeedMeasure, own_time};
use comparison::{Comparison, Grade, Quality};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use store::SweepRows;

/// Of sweeps it goes without saying how far they are apart.
const NOT_IN_TURN: &str = "The sweeps were not measured in turn: what changed on the machine from one to the next counts as a change, and more \
                           repeats do not help.";

/// The changes of all arms, in the order of the sweeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// One for each arm and condition that a sweep shares with the one before.
    pub rows: Vec<SweepChange>,
    /// Limits of the comparison, or reasons why there is none, a sentence each.
    pub notes: Vec<String>,
}

/// One arm under one condition, in a sweep and in the one before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepChange {
    /// Name of the arm, and its condition.
    pub label: String,
    /// Name of the earlier sweep.
    pub before: String,
    /// Name of the later sweep.
    pub now: String,
    /// Quantity that the times are of: `time to the target`.
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
    /// Kind of the change, for the sentence above the table; `None` where no change by as much as matters is known.
    pub became: Option<Became>,
    /// Whether the recipes differ in a setting of the arm that is not in its condition.
    pub is_set_otherwise: bool,
}

/// A change that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Became {
    /// By more than matters.
    Slower,
    /// By how much is open.
    SlowerOpen,
    /// It reached the target before.
    Unable,
    /// Its loss became infinite.
    Diverging,
    /// By more than matters.
    Faster,
    /// By how much is open.
    FasterOpen,
    /// Faster, but its final metric is worse.
    FasterWorse,
    /// It did not reach the target before, or diverged.
    Able,
}

impl Became {
    /// All of them, in the order of the sentence.
    pub(crate) const ALL: [Self; 8] = [
        Self::Slower,
        Self::SlowerOpen,
        Self::Unable,
        Self::Diverging,
        Self::Faster,
        Self::FasterOpen,
        Self::FasterWorse,
        Self::Able,
    ];

    /// Words that stand before the arms in the sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Slower => "Became slower",
            Self::SlowerOpen => "Became slower, by how much is open",
            Self::Unable => "No longer at the target",
            Self::Diverging => "Diverging now",
            Self::Faster => "Became faster",
            Self::FasterOpen => "Became faster, by how much is open",
            Self::FasterWorse => "Became faster, but worse",
            Self::Able => "At the target now",
        }
    }

    fn of(lost: [Option<Lost>; 2], grade: Grade, quality: Option<Quality>) -> Option<Self> {
        match lost {
            [None, Some(Lost::Missed)] => return Some(Self::Unable),
            [None | Some(Lost::Missed), Some(Lost::Diverged)] => return Some(Self::Diverging),
            [Some(_), None] => return Some(Self::Able),
            [Some(_), Some(_)] => return None,
            [None, None] => {}
        }
        let is_worse = quality.is_some_and(Quality::is_lost);
        match grade {
            Grade::Slower => Some(Self::Slower),
            Grade::SlowerOpen => Some(Self::SlowerOpen),
            Grade::Faster | Grade::FasterOpen if is_worse => Some(Self::FasterWorse),
            Grade::Faster => Some(Self::Faster),
            Grade::FasterOpen => Some(Self::FasterOpen),
            Grade::FasterSmall
            | Grade::NoDifference
            | Grade::SlowerSmall
            | Grade::Open
            | Grade::DidNotReach
            | Grade::Diverged => None,
        }
    }
}

/// The cells that two sweeps which follow each other have in common.
struct Pairs<'a> {
    before: Side<'a>,
    now: Side<'a>,
    /// The later sweep without the runs that it took over from the earlier one.
    measured: SweepRows,
    cells: Vec<[usize; 2]>,
    /// Arm and condition of each.
    labels: Vec<String>,
}

impl Changes {
    /// Between sides that follow each other.
    pub(super) fn between(sides: &[Side<'_>]) -> Self {
        let mut changes = Self::default();
        let pairs: Vec<Pairs<'_>> =
            sides.windows(2).map(|pair| Pairs::of(pair[0], pair[1], &mut changes)).collect();
        let family = pairs.iter().map(|pair| pair.cells.len()).sum::<usize>().max(1);
        for pair in &pairs {
            changes.add(pair, family);
        }
        changes
    }

    fn add(&mut self, pairs: &Pairs<'_>, family: usize) {
        let sides = [pairs.before, Side { name: pairs.now.name, rows: &pairs.measured }];
        if pairs.cells.is_empty() {
            return;
        }
        let mut both = match rows_of_pairs(sides, &pairs.cells, &pairs.labels, TimedBy::Recipe) {
            Ok(both) => both,
            Err(why) => {
                return self
                    .note(format!("{} and {} are not compared: {why}.", pairs.before.name, pairs.now.name));
            }
        };
        let confidence = &mut both.plan.report.confidence;
        *confidence = 1.0 - (1.0 - *confidence) / family as f64;
        for doubt in doubts(sides, &both) {
            self.note(match doubt {
                Doubt::NotInTurn { .. } => NOT_IN_TURN.to_owned(),
                doubt => doubt.to_string(),
            });
        }
        // It names its first arm as the baseline, so that nothing is amiss with it.
        let Ok(findings) = Findings::of(&both, &Options::default()) else { return };
        let verdicts = verdict::all(&findings);
        let verdicts: BTreeMap<&str, &Verdict> = verdicts
            .iter()
            .filter(|verdict| !verdict.baseline)
            .map(|verdict| (verdict.condition.as_str(), verdict))
            .collect();
        let set_otherwise = pairs.set_otherwise();
        for (condition, comparisons) in findings.conditions() {
            let verdict = verdicts.get(condition.name);
            if let (Some(verdict), Some(comparison)) = (verdict, comparisons.first()) {
                let change = change(&findings, condition, comparison, verdict);
                self.rows.push(SweepChange {
                    before: pairs.before.name.to_owned(),
                    now: pairs.now.name.to_owned(),
                    is_set_otherwise: set_otherwise.contains(condition.name),
                    ..change
                });
            }
        }
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

impl<'a> Pairs<'a> {
    /// Cells that are other work, and runs that were measured once, are left out, and noted.
    fn of(before: Side<'a>, now: Side<'a>, changes: &mut Changes) -> Self {
        let old: BTreeSet<_> = before.rows.runs.iter().filter_map(mark).collect();
        let mut measured = now.rows.clone();
        measured.runs.retain(|run| mark(run).is_none_or(|mark| !old.contains(&mark)));
        let reused = now.rows.runs.len() - measured.runs.len();
        if reused > 0 {
            changes.note(format!(
                "{} of {} were measured once, for {}: they show no change.",
                plural(reused, "run"),
                now.name,
                before.name
            ));
        }
        let known: BTreeMap<(ArmKey, String), usize> = compared_cells(before.rows)
            .into_iter()
            .filter_map(|cell| Some((key(before.rows, cell)?, cell)))
            .collect();
        let mut pairs = Self { before, now, measured, cells: Vec::new(), labels: Vec::new() };
        for cell in compared_cells(&pairs.measured) {
            let Some(key) = key(&pairs.measured, cell) else { continue };
            let Some(other) = known.get(&key) else { continue };
            let one = &before.rows.plan.cells[*other];
            let two = &pairs.measured.plan.cells[cell];
            if one.spec.model.parameter_count() != two.spec.model.parameter_count() {
                changes.note(format!("{} has other models in {} and {}.", key.0.0, before.name, now.name));
                continue;
            }
            if let Err(why) = same_work(one, two, TimedBy::Recipe) {
                changes.note(format!("{} and {}: {why}.", before.name, now.name));
                continue;
            }
            pairs.cells.push([*other, cell]);
            pairs.labels.push(format!("{} {}", key.0.0, key.1).trim().to_owned());
        }
        pairs
    }

    /// The labels of cells whose settings differ.
    fn set_otherwise(&self) -> BTreeSet<&str> {
        let hash = |rows: &'a SweepRows, cell: usize| rows.plan.cells.get(cell).map(|cell| &cell.config_hash);
        let pairs = self.cells.iter().zip(&self.labels);
        let differ =
            pairs.filter(|([one, other], _)| hash(self.before.rows, *one) != hash(self.now.rows, *other));
        differ.map(|(_, label)| label.as_str()).collect()
    }
}

/// The arm of a cell, and the condition that it is compared under.
fn key(rows: &SweepRows, cell: usize) -> Option<(ArmKey, String)> {
    let arm = rows.plan.arms.get(rows.plan.cells.get(cell)?.arm)?;
    Some((key_of(arm), sorted(rows.plan.compared_under(cell))))
}

fn change(
    findings: &Findings<'_>,
    condition: &Condition<'_>,
    comparison: &Comparison,
    verdict: &Verdict,
) -> SweepChange {
    let speed = comparison.speed();
    let arms = [findings.study.baseline, comparison.arm];
    let time = |arm: usize| -> Option<Estimate> {
        own_time(condition.cell(arm)?, speed.measure, findings.thresholds.confidence)
    };
    let words = |time: Option<Estimate>| {
        time.map_or_else(|| "–".to_owned(), |time| number_format::seconds(time.value))
    };
    let ratio = speed.ratio.filter(|_| comparison.grade.compares());
    let lost = arms.map(|arm| condition.cell(arm).and_then(|cell| condition.lost(cell)));
    SweepChange {
        label: condition.name.to_owned(),
        before: String::new(),
        now: String::new(),
        measure: measure_words(speed.measure),
        times: arms.map(|arm| words(time(arm))),
        ratio: ratio.map_or_else(|| "–".to_owned(), ratio_words),
        value: ratio.map(|ratio| ratio.value),
        class: verdict.class(),
        grade: verdict.label(),
        became: Became::of(lost, comparison.grade, verdict.quality),
        is_set_otherwise: false,
    }
}

fn measure_words(measure: SpeedMeasure) -> &'static str {
    match measure {
        SpeedMeasure::TimeToTarget => "time to the target",
        SpeedMeasure::StepsToTarget => "steps to the target",
        SpeedMeasure::StepTime => "time of a step",
    }
}
