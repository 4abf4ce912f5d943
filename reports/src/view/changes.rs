//! How each arm changed from one sweep of the page to the next.

use crate::combined::{Changes, SweepChange};
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
                "Each row is an arm under one condition in two sweeps that follow each other: a ratio above 1× says that the later sweep is faster, its \
                 interval holds the true one in {} of such comparisons, and a difference below {} does not matter. The times are means of all runs of a sweep; the ratio is that of the \
                 repeats that both have.",
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
    let changed = |classes: &[&str]| -> Vec<&SweepChange> {
        rows.iter().filter(|row| classes.contains(&row.class)).collect()
    };
    let sure = [
        (changed(&["slower"]), "slower"),
        (changed(&["faster", "faster-worse"]), "faster"),
        (changed(&["did-not-reach", "diverged"]), "no longer at the target"),
    ];
    let said: Vec<String> =
        sure.iter().filter(|(rows, _)| !rows.is_empty()).map(|(rows, word)| became(rows, word)).collect();
    if said.is_empty() {
        return format!(
            "No arm is known to have changed, in {}.",
            number_format::plural(rows.len(), "comparison")
        );
    }
    said.join(" ")
}

/// `In 2026-11-20 d-sync workers=4 became slower (0.83× (0.80–0.87)).`
fn became(rows: &[&SweepChange], word: &str) -> String {
    let one = |row: &&SweepChange| {
        let ratio = row.value.map_or_else(String::new, |_| format!(", {}", row.ratio));
        format!("{} (in {}{ratio})", row.label, row.now)
    };
    let named: Vec<String> = rows.iter().take(MOST_NAMED).map(one).collect();
    let more = rows.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("Became {word}: {}{more}.", listed(&named))
}
