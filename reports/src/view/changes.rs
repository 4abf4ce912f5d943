//! How each arm changed from one sweep of the page to the next.

use crate::combined::{Became, Changes, SweepChange};
use crate::findings::Findings;
use crate::headline::listed;
use crate::number_format;
use crate::verdict::whole_percent;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) reading: String,
    pub(crate) answer: String,
    pub(crate) rows: Vec<SweepChange>,
    pub(crate) notes: Vec<String>,
}

/// Changes that the answer names; the table has all of them.
const MOST_NAMED: usize = 6;

impl Section {
    pub(crate) fn of(findings: &Findings, changes: &Changes) -> Self {
        let thresholds = findings.thresholds;
        Self {
            reading: format!(
                "Each row is an arm under one condition in two sweeps that follow each other: a ratio above 1× says that the later sweep is faster. \
                 Claims and intervals hold at {} over all rows together, as far as a machine is the same from sweep to sweep; a difference below {} \
                 does not matter. The times are means of all runs of a sweep; the ratio is that of the repeats that both have.",
                whole_percent(thresholds.confidence),
                whole_percent(thresholds.min_effect),
            ),
            answer: answer(&changes.rows),
            rows: changes.rows.clone(),
            notes: changes.notes.clone(),
        }
    }
}

fn answer(rows: &[SweepChange]) -> String {
    if rows.is_empty() {
        return "No arm of a sweep can be compared with itself in the sweep before.".to_owned();
    }
    let said: Vec<String> = Became::ALL.into_iter().filter_map(|became| sentence(rows, became)).collect();
    if said.is_empty() {
        return format!(
            "No arm is known to have changed by as much as matters, in {}.",
            number_format::plural(rows.len(), "comparison")
        );
    }
    said.join(" ")
}

/// `Became slower: d-sync workers=4 (in 2026-11-20, 0.83× (0.80–0.87)).`
fn sentence(rows: &[SweepChange], became: Became) -> Option<String> {
    let rows: Vec<&SweepChange> = rows.iter().filter(|row| row.became == Some(became)).collect();
    let one = |row: &&SweepChange| {
        let ratio = row.value.map_or_else(String::new, |_| format!(", {}", row.ratio));
        let otherwise = if row.is_set_otherwise { ", with other settings" } else { "" };
        format!("{} (in {}{ratio}{otherwise})", row.label, row.now)
    };
    let mut named: Vec<String> = rows.iter().take(MOST_NAMED).map(one).collect();
    if rows.len() > MOST_NAMED {
        named.push(format!("{} more", rows.len() - MOST_NAMED));
    }
    (!rows.is_empty()).then(|| format!("{}: {}.", became.words(), listed(&named)))
}
