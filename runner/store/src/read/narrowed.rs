//! A sweep with some of its runs alone: what was not selected must not look as if it were missing.

use crate::SweepRows;
use recipe::{Arm, KeyValue, SharedBy};
use std::collections::BTreeMap;

/// The same rows with a plan of nothing but their runs: cells and arms without any are gone. A search stays whole, because each of its
/// rungs says something of the others.
pub(crate) fn narrowed(mut rows: SweepRows) -> SweepRows {
    let plan = &mut rows.plan;
    if plan.search.is_some() || rows.runs.len() == plan.runs.len() {
        return rows;
    }
    let cells = places(rows.runs.iter().map(|run| run.cell));
    let arms = places(cells.keys().filter_map(|cell| plan.cells.get(*cell)).map(|cell| cell.arm));
    plan.runs = rows.runs.iter().filter_map(|run| plan.runs.get(run.index).copied()).collect();
    for run in &mut plan.runs {
        run.cell = cells.get(&run.cell).copied().unwrap_or_default();
    }
    for (index, run) in rows.runs.iter_mut().enumerate() {
        run.index = index;
        run.cell = cells.get(&run.cell).copied().unwrap_or_default();
    }
    plan.values = std::mem::take(&mut plan.values)
        .into_iter()
        .filter_map(|value| moved(value, &arms, &cells))
        .collect();
    plan.report.prices.cells = kept(std::mem::take(&mut plan.report.prices.cells), &cells);
    plan.cells = kept(std::mem::take(&mut plan.cells), &cells);
    for cell in &mut plan.cells {
        cell.arm = arms.get(&cell.arm).copied().unwrap_or_default();
    }
    plan.arms = with_baseline(kept(std::mem::take(&mut plan.arms), &arms));
    rows
}

/// New places of these old ones, in their order.
fn places(old: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let distinct: std::collections::BTreeSet<usize> = old.collect();
    distinct.into_iter().enumerate().map(|(new, old)| (old, new)).collect()
}

fn kept<T>(all: Vec<T>, places: &BTreeMap<usize, usize>) -> Vec<T> {
    all.into_iter().enumerate().filter(|(old, _)| places.contains_key(old)).map(|(_, one)| one).collect()
}

fn moved(value: KeyValue, arms: &BTreeMap<usize, usize>, cells: &BTreeMap<usize, usize>) -> Option<KeyValue> {
    let of = match value.of {
        SharedBy::Plan => SharedBy::Plan,
        SharedBy::Arm(arm) => SharedBy::Arm(*arms.get(&arm)?),
        SharedBy::Cell(cell) => SharedBy::Cell(*cells.get(&cell)?),
    };
    Some(KeyValue { of, ..value })
}

/// The arms with one that the others are compared with: the first, where that of the recipe is gone.
fn with_baseline(mut arms: Vec<Arm>) -> Vec<Arm> {
    let has_one = arms.iter().any(|arm| arm.baseline);
    if let Some(first) = arms.first_mut().filter(|_| !has_one) {
        first.baseline = true;
    }
    arms
}
