//! Each arm at its best settings, where the sweep searches over rates or schedules.

use super::scoreboard::{Board, boards};
use super::verdicts::{VerdictGroup, verdict_groups};
use crate::chart::Key;
use crate::findings::Findings;
use crate::number_format;
use crate::tuned::{Choice, Tuned, Untuned, setting_words};
use crate::verdict::{self, metric_words, value_words};
use crate::{Options, ReportError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Section {
    /// Metric that settings are chosen by; empty if nothing could be chosen.
    pub(crate) metric: String,
    pub(crate) has_conditions: bool,
    pub(crate) choices: Vec<Row>,
    /// Doubts about the comparison, a sentence each.
    pub(crate) cautions: Vec<String>,
    /// Settings at the edge of what was tried, a sentence each.
    pub(crate) edges: Vec<String>,
    pub(crate) groups: Vec<Group>,
}

/// One arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) condition: String,
    /// Chosen setting in words: `lr=0.2`.
    pub(crate) chosen: String,
    pub(crate) score: String,
    pub(crate) tried: String,
}

/// The arms at their best under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) verdicts: VerdictGroup,
    pub(crate) board: Board,
}

impl Section {
    /// `None` where nothing is searched over.
    pub(crate) fn of(findings: &Findings, options: &Options) -> Result<Option<Self>, ReportError> {
        let tuned = match Tuned::of(findings) {
            Ok(tuned) => tuned,
            Err(Untuned::NothingSearched | Untuned::NothingMeasured | Untuned::StopsAtTarget) => {
                return Ok(None);
            }
            Err(Untuned::NoValidation) => return Ok(Some(Self::default())),
        };
        let choices = tuned.choices.iter().map(|choice| Row {
            key: Key::of_arm(choice.arm, findings.study.arm_name(choice.arm)),
            condition: choice.condition.clone(),
            chosen: setting_words(&choice.values),
            score: value_words(tuned.metric, choice.score),
            tried: choice.tried.to_string(),
        });
        Ok(Some(Self {
            metric: metric_words(tuned.metric),
            has_conditions: tuned.choices.iter().any(|choice| !choice.condition.is_empty()),
            choices: choices.collect(),
            cautions: cautions(&tuned),
            edges: tuned.choices.iter().flat_map(|choice| edges(findings, choice)).collect(),
            groups: groups(&tuned, options)?,
        }))
    }
}

/// The verdicts of the repeats that judge. Runs that chose a setting do not judge it.
fn groups(tuned: &Tuned, options: &Options) -> Result<Vec<Group>, ReportError> {
    if tuned.choosers == 0 {
        return Ok(Vec::new());
    }
    let left = Findings::of(&tuned.rows, options)?;
    let verdicts = verdict_groups(&left, &verdict::all(&left));
    Ok(verdicts.into_iter().zip(boards(&left)).map(|(verdicts, board)| Group { verdicts, board }).collect())
}

/// A sentence for each value beyond which nothing was tried.
fn edges(findings: &Findings, choice: &Choice) -> Vec<String> {
    let name = findings.study.arm_name(choice.arm);
    let place = if choice.condition.is_empty() { String::new() } else { format!(" at {}", choice.condition) };
    let sentence = |(axis, side): &(String, &str)| {
        format!(
            "The best {axis} of {name}{place} is the {side} that was tried with it: beyond it may lie a better one."
        )
    };
    choice.at_edge.iter().map(sentence).collect()
}

/// Reasons not to take the arms for equally well tuned.
fn cautions(tuned: &Tuned) -> Vec<String> {
    let mut cautions = Vec::new();
    if tuned.choosers == 0 {
        cautions.push(
            "With fewer than five repeats the runs that chose a setting would also judge it, so that the arms are not compared here.".to_owned(),
        );
    } else {
        cautions.push(format!(
            "The first {} of each setting choose, the others judge.",
            number_format::plural(tuned.choosers as usize, "repeat")
        ));
    }
    let mut tried: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for choice in &tuned.choices {
        tried.entry(&choice.condition).or_default().insert(choice.tried);
    }
    if tried.values().any(|counts| counts.len() > 1) {
        cautions.push(
            "Not all arms were tried at the same number of settings: more of them find a better one."
                .to_owned(),
        );
    }
    let missing = tuned.choices.iter().map(|choice| choice.missing).max().unwrap_or_default();
    if missing > 0 {
        cautions.push(format!(
            "Of some settings {} missing: the choice may change.",
            if missing == 1 { "a run is".to_owned() } else { format!("up to {missing} runs are") }
        ));
    }
    cautions
}
