//! Which cells of a sweep are compared.

use recipe::Trial;
use std::collections::BTreeSet;
use store::SweepRows;

/// The cells that are compared: of each arm under each condition the one that trains to the end. Before it is known which that is, the
/// first stands for it. `None` if the sweep searches for nothing.
pub fn compared_cells(rows: &SweepRows) -> Option<BTreeSet<usize>> {
    let search = rows.plan.search.as_ref()?;
    let tried: BTreeSet<usize> =
        rows.runs.iter().filter(|run| run.attempt.is_some()).map(|run| run.cell).collect();
    let of_group = |group: Vec<&Trial>| {
        let last = group.iter().find(|trial| tried.contains(&trial.cell)).or(group.first());
        last.map(|trial| trial.cell)
    };
    Some(search.groups(&rows.plan).into_iter().filter_map(of_group).collect())
}
