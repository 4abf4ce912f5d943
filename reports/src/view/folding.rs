//! How much a page shows of many conditions.

use crate::chart::{Mark, Sheet, uncrowded};
use crate::findings::Findings;
use crate::number_format;
use comparison::study::Study;

/// Up to this number of conditions nothing is folded away.
const MOST_OPEN: usize = 4;

/// Up to this number of conditions each has its verdicts, tables and charts. Of more, only a line: with all of them, ten
/// thousand runs made a page of 168 MB.
const MOST_DETAILED: usize = 200;

/// Number of conditions that have their verdicts, tables and charts on the page: the first ones of the plan.
pub(crate) fn detailed(study: &Study) -> usize {
    study.conditions.len().min(MOST_DETAILED)
}

/// Number of conditions whose parts are in a chart or a table of all conditions: on the page those with details, in a figure all.
pub(crate) fn listed(findings: &Findings) -> usize {
    match findings.sheet {
        Sheet::Page => detailed(&findings.study),
        Sheet::Figure { .. } => findings.study.conditions.len(),
    }
}

/// Whether charts and tables of all conditions leave some out.
pub(crate) fn are_cut(findings: &Findings) -> bool {
    listed(findings) < findings.study.conditions.len()
}

/// How a section says that it has only some conditions; `None` where it has all.
pub(crate) fn listed_note(findings: &Findings, what: &str) -> Option<String> {
    are_cut(findings).then(|| {
        format!(
            "The first {} of {} conditions have {what}. The CSV files have the numbers of all.",
            number_format::count(listed(findings) as u64),
            number_format::count(findings.study.conditions.len() as u64),
        )
    })
}

/// For each mark of a chart of all conditions whether it is drawn: all, but on the page of many conditions fewer where they crowd.
pub(crate) fn drawn(findings: &Findings, marks: &[Mark]) -> Vec<bool> {
    if are_cut(findings) { uncrowded(marks) } else { vec![true; marks.len()] }
}

/// A note on the conditions that have none; `None` where all have them.
pub(crate) fn note(study: &Study) -> Option<String> {
    let first = study.conditions.get(detailed(study))?;
    let page = command(study, first.name).map_or(String::new(), |command| {
        format!("; `{command}` makes the page of another one, here the first without")
    });
    Some(format!(
        "The first {} of {} conditions have verdicts, tables and charts{page}. The CSV files have the runs of all.",
        number_format::count(detailed(study) as u64),
        number_format::count(study.conditions.len() as u64),
    ))
}

/// The command for the page of one condition; `None` where no cell has a condition of this name: those of searches are made
/// of several, and so are pages of several sweeps.
fn command(study: &Study, condition: &str) -> Option<String> {
    let plan = &study.rows.plan;
    let id = study.rows.id.as_str();
    let is_one = id.len() == 26 && id.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_plain = !condition.contains(['\'', '"', '$', '`', '\\', '…']);
    (is_one && is_plain && plan.search.is_none())
        .then(|| format!("bakeoff report \"{id} and condition='{condition}'\" -o page.html"))
}

/// Whether conditions are folded away.
pub(crate) fn are_folded(study: &Study) -> bool {
    study.conditions.len() > MOST_OPEN
}
