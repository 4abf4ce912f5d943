//! Successive halving: which settings of each arm are promoted to the next rung, by the runs that a sweep has so far.
//!
//! Settings are ranked by the metric of the samples that are held out, at the end of the rung's run; of equal ones the first is
//! promoted. A run that did not end as planned has no value, and its setting is given up.

mod group;
#[cfg(test)]
mod tests;

pub(crate) use group::{Group, Outcome};

use std::collections::BTreeSet;
use store::{RunRow, SweepRows};

/// Result of a rung, of all searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The cells of the next rung, or those that train to the end.
    pub needed: BTreeSet<usize>,
    /// Settings that each arm continues with under each condition, a line each.
    pub words: Vec<String>,
}

/// The settings promoted after the rung with this number, from 0. `None` if the sweep searches for nothing.
pub fn promoted(rows: &SweepRows, rung: u32) -> Option<Promotion> {
    let search = rows.plan.search.as_ref()?;
    let mut promotion = Promotion { needed: BTreeSet::new(), words: Vec::new() };
    for group in Group::all(rows, search) {
        let kept = group.survivors(rung + 1);
        promotion.needed.extend(kept.iter().map(|trial| trial.cell_in(rung + 1)));
        if !group.survivors(rung).is_empty() {
            promotion.words.push(group.words(rung, &kept));
        }
    }
    Some(promotion)
}

/// Whether a search has left no setting of any arm.
pub(crate) fn is_in_vain(rows: &SweepRows) -> bool {
    let Some(search) = &rows.plan.search else { return false };
    Group::all(rows, search).iter().all(|group| group.outcome() == Outcome::NoneLeft)
}

/// The runs that are known to be needed: of a search those of its rung under way, and of those before it.
pub(crate) fn due(rows: &SweepRows) -> impl Iterator<Item = &RunRow> {
    let cells = rows.plan.search.as_ref().map(|search| {
        let groups = Group::all(rows, search);
        groups.iter().flat_map(Group::due).collect::<BTreeSet<usize>>()
    });
    rows.runs.iter().filter(move |run| cells.as_ref().is_none_or(|cells| cells.contains(&run.cell)))
}
