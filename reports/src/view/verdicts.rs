//! Verdict sentences, grouped by condition.

use super::condition_title;
use crate::chart::Key;
use crate::findings::Findings;
use crate::verdict::Verdict;
use serde::Serialize;

/// The verdicts of one condition.
#[derive(Debug, Serialize)]
pub(crate) struct VerdictGroup {
    pub(crate) condition: String,
    pub(crate) items: Vec<VerdictItem>,
}

#[derive(Debug, Serialize)]
pub(crate) struct VerdictItem {
    pub(crate) key: Key,
    /// Class of the style sheet, by [`Verdict::class`].
    pub(crate) style: String,
    pub(crate) grade: String,
    pub(crate) sentence: String,
}

/// `verdicts` are those of all cells, in the order of the plan.
pub(crate) fn verdict_groups(findings: &Findings, verdicts: &[Verdict]) -> Vec<VerdictGroup> {
    let mut rest = verdicts;
    let mut groups = Vec::new();
    for condition in &findings.study.conditions {
        let (own, others) = rest.split_at(condition.cells.len());
        rest = others;
        let items = condition.cells.iter().zip(own).map(|(cell, verdict)| VerdictItem {
            key: Key::of_arm(cell.arm, &verdict.arm),
            style: verdict.class().to_owned(),
            grade: verdict.label(),
            sentence: verdict.sentence.clone(),
        });
        groups.push(VerdictGroup { condition: condition_title(condition), items: items.collect() });
    }
    groups
}
