//! How much a page shows of many conditions.

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

/// A note on the conditions that have none; `None` where all have them.
pub(crate) fn note(study: &Study) -> Option<String> {
    let all = study.conditions.len();
    let first = study.conditions.get(detailed(study))?;
    // Of a name that a shell would read as something else.
    let condition = if first.name.contains(['\'', '"', '$', '`', '\\']) { "NAME" } else { first.name };
    Some(format!(
        "Verdicts, tables and charts are those of the first {} of {} conditions; of another one, \
         `bakeoff report \"condition='{condition}'\"` makes a page, and the CSV files have the numbers of all.",
        number_format::count(detailed(study) as u64),
        number_format::count(all as u64),
    ))
}

/// Whether conditions are folded away.
pub(crate) fn are_folded(study: &Study) -> bool {
    study.conditions.len() > MOST_OPEN
}
