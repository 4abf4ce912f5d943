//! Where a page has many conditions: each with its verdicts, table and charts behind one line that names its winner.

use super::accuracy::{self, Accuracy};
use super::condition_title;
use super::folding;
use super::scoreboard::{self, Board};
use super::verdicts::VerdictGroup;
use crate::chart::Key;
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::{sure_words, target_words};
use crate::winner::{Lead, Winner};
use comparison::Comparison;
use comparison::study::{Condition, SpeedMeasure};
use serde::Serialize;
use std::collections::BTreeSet;

/// A condition behind its line.
#[derive(Debug, Serialize)]
pub(crate) struct Folded {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) condition: String,
    /// The winner, or the arm with the least time; `None` if no arm has a time.
    pub(crate) winner: Option<Key>,
    /// CSS class and words of how sure that is.
    pub(crate) style: &'static str,
    pub(crate) standing: String,
    /// The sentence on the winner, without its name; a whole sentence if there is none.
    pub(crate) sentence: String,
    /// `None` for a condition that a page of many has no room for.
    pub(crate) details: Option<Details>,
}

/// Everything about a condition but its line.
#[derive(Debug, Serialize)]
pub(crate) struct Details {
    pub(crate) verdicts: VerdictGroup,
    pub(crate) board: Board,
    pub(crate) accuracy: Option<Accuracy>,
}

/// `verdicts` and `winners` are those of all conditions, in the order of the plan.
pub(crate) fn folded(
    findings: &Findings,
    verdicts: Vec<VerdictGroup>,
    winners: &[Option<Winner>],
) -> Vec<Folded> {
    let mut folded = Vec::new();
    let detailed = folding::detailed(&findings.study);
    let conditions = findings.conditions().zip(winners).zip(verdicts).enumerate();
    for (number, (((condition, comparisons), winner), verdicts)) in conditions {
        let winner = winner.as_ref();
        let (style, standing) = winner.map_or(("did-not-reach", "no winner".to_owned()), standing);
        folded.push(Folded {
            id: format!("condition-{number}"),
            condition: condition_title(condition),
            winner: winner.map(|first| Key::of_arm(first.arm, findings.study.arm_name(first.arm))),
            style,
            standing,
            sentence: sentence(findings, condition, comparisons, winner),
            details: (number < detailed).then(|| Details {
                verdicts,
                board: scoreboard::board(findings, condition, comparisons),
                accuracy: accuracy::of(findings, number, condition),
            }),
        });
    }
    say_once(&mut folded);
    folded
}

/// How a chart is read is said where it stands first.
fn say_once(folded: &mut [Folded]) {
    let mut said: BTreeSet<String> = BTreeSet::new();
    let details = folded.iter_mut().filter_map(|one| one.details.as_mut());
    for accuracy in details.filter_map(|details| details.accuracy.as_mut()) {
        let charts = accuracy.charts.iter_mut().map(|chart| &mut chart.figure);
        for figure in charts.chain(accuracy.reach.as_mut().map(|reach| &mut reach.figure)) {
            if !said.insert(figure.reading.clone()) {
                figure.reading.clear();
            }
        }
    }
}

/// CSS class and words: `ahead, 98 % sure`.
fn standing(winner: &Winner) -> (&'static str, String) {
    let name = winner.standing.name();
    match winner.standing {
        Lead::Ahead => {
            let sure = winner.sure.map_or(String::new(), |sure| format!(", {} sure", sure_words(sure)));
            ("faster", format!("{name}{sure}"))
        }
        Lead::AheadOpen | Lead::AheadLittle => ("faster-open", name.to_owned()),
        Lead::Even | Lead::Alone => ("no-difference", name.to_owned()),
        Lead::Open => ("open", name.to_owned()),
    }
}

/// Time of the first arm, and its ratio to the baseline, or to the next arm where the baseline is first.
fn sentence(
    findings: &Findings,
    condition: &Condition,
    comparisons: &[Comparison],
    winner: Option<&Winner>,
) -> String {
    let aim = condition.target.map(target_words);
    let Some(winner) = winner else {
        return aim.map_or_else(
            || "No arm has a step to time.".to_owned(),
            |aim| format!("No arm reached {aim} in most of its runs."),
        );
    };
    let name = |arm| findings.study.arm_name(arm);
    let what = match (condition.measure(), aim) {
        (SpeedMeasure::TimeToTarget | SpeedMeasure::StepsToTarget, Some(aim)) => {
            format!("needed {} to {aim}", winner.words)
        }
        _ => format!("took {} per step", winner.words),
    };
    let base = findings.study.baseline;
    let compared = if winner.arm == base { winner.second } else { Some(winner.arm) };
    let found = comparisons.iter().find(|found| Some(found.arm) == compared);
    let ratio = found.and_then(|found| found.speed().ratio).map(|ratio| {
        let (value, other) = if winner.arm == base {
            (ratio.value.recip(), compared.map(name))
        } else {
            (ratio.value, Some(name(base)))
        };
        format!(", {} as fast as {}", number_format::times(value), other.unwrap_or_default())
    });
    format!("{what}{}.", ratio.unwrap_or_default())
}
