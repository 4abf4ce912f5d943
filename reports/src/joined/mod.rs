//! Two selections of runs as one sweep of two arms, of which the first is the baseline: what `compare` judges, and a page shows.
//!
//! Cells are matched by arm and condition; where each side has one arm, by their condition; and where each has one cell, they match
//! whatever they are called.

mod doubts;
pub(crate) mod prices;
pub(crate) mod provenance;
mod rows;
#[cfg(test)]
mod tests;

pub use doubts::Doubt;
pub(crate) use doubts::doubts;
pub(crate) use doubts::machines;
pub(crate) use rows::{mark, measured_once, rows_of_pairs, runs_by_cell, same_work};
use std::collections::{BTreeMap, BTreeSet};
use store::SweepRows;

/// One of the two selections.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name as an arm.
    pub name: &'a str,
    /// Its runs, of one sweep.
    pub rows: &'a SweepRows,
}

/// Both selections as one sweep.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The sweep; its conditions are the cells that both sides have.
    pub rows: SweepRows,
    /// For each condition the index of its cell in the plan of each side.
    pub pairs: Vec<[usize; 2]>,
    /// Labels of the cells that one side alone has.
    pub alone: [Vec<String>; 2],
    /// Other differences between the sides.
    pub doubts: Vec<Doubt>,
}

/// Why two selections cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JoinError {
    /// No cell of one side is one of the other.
    #[error("the two selections have no arm and condition in common: {} and {}", listed(.first), listed(.second))]
    NothingInCommon {
        /// Labels of the cells of the first side.
        first: Vec<String>,
        /// Labels of the cells of the second side.
        second: Vec<String>,
    },
    /// The same attempt on both sides.
    #[error(
        "run {run} was measured once and is on both sides: as {label}, its numbers are those of run {other}"
    )]
    MeasuredOnce {
        /// A run of the second side.
        run: String,
        /// The run of the first side whose attempt it has.
        other: String,
        /// The cell of the second side.
        label: String,
    },
    /// The same run on both sides.
    #[error("run {run} is on both sides")]
    SameRun {
        /// Id of the run.
        run: String,
    },
    /// A step is not the same work on both sides.
    #[error("a step of {label} is other work on the other side: another {what}")]
    OtherWork {
        /// The cell of the first side.
        label: String,
        /// Setting that differs: `global batch`, `model`, `data set`.
        what: &'static str,
    },
    /// One side is after another target than the other.
    #[error("{label} has another target on the other side")]
    OtherTarget {
        /// The cell of the first side.
        label: String,
    },
}

/// The first of some labels.
fn listed(labels: &[String]) -> String {
    const MOST: usize = 3;
    let shown = labels.iter().take(MOST).map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    if labels.is_empty() {
        "no run".to_owned()
    } else if labels.len() > MOST {
        format!("{shown} and {} more", labels.len() - MOST)
    } else {
        shown
    }
}

/// Time that arms are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedBy {
    /// The time to the target of the recipes, or the time of a step where they have none.
    Recipe,
    /// The time of a step, whatever the target.
    Step,
}

/// Joins two selections into one sweep of two arms.
///
/// # Errors
/// Nothing in common, a run on both sides, different targets, or steps that are not the same work.
pub fn joined(sides: [Side<'_>; 2], timed_by: TimedBy) -> Result<Joined, JoinError> {
    let cells = sides.map(|side| compared_cells(side.rows));
    let keys =
        [0, 1].map(|side| keys(sides[side].rows, &cells[side], &cells[1 - side], sides[1 - side].rows));
    let mut pairs = Vec::new();
    let mut conditions = Vec::new();
    let mut places: BTreeMap<&String, usize> = BTreeMap::new();
    for (key, cell) in keys[1].iter().zip(&cells[1]) {
        places.entry(key).or_insert(*cell);
    }
    for (key, cell) in keys[0].iter().zip(&cells[0]) {
        if let Some(other) = places.get(key) {
            pairs.push([*cell, *other]);
            conditions.push(key.clone());
        }
    }
    let labels = |side: usize, wanted: &dyn Fn(usize) -> bool| -> Vec<String> {
        let cells = cells[side].iter().filter(|cell| wanted(**cell));
        cells.map(|cell| sides[side].rows.plan.cells[*cell].label.clone()).collect()
    };
    if pairs.is_empty() {
        return Err(JoinError::NothingInCommon { first: labels(0, &|_| true), second: labels(1, &|_| true) });
    }
    let paired = [0, 1].map(|side| pairs.iter().map(|pair| pair[side]).collect::<BTreeSet<usize>>());
    let alone = [0, 1].map(|side| labels(side, &|cell| !paired[side].contains(&cell)));
    let rows = rows_of_pairs(sides, &pairs, &conditions, timed_by)?;
    Ok(Joined { doubts: doubts(sides, &rows), rows, pairs, alone })
}

/// The cells that have a run, in the order of the plan.
pub(crate) fn compared_cells(rows: &SweepRows) -> Vec<usize> {
    let found: BTreeSet<usize> = rows.runs.iter().map(|run| run.cell).collect();
    let compared = comparison::compared_cells(rows);
    let is_compared = |cell: &usize| compared.as_ref().is_none_or(|cells| cells.contains(cell));
    found.into_iter().filter(|cell| rows.plan.cells.get(*cell).is_some() && is_compared(cell)).collect()
}

/// A condition, in whatever order the recipe names its axes.
pub(crate) fn sorted(condition: &str) -> String {
    let mut words: Vec<&str> = condition.split(' ').filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join(" ")
}

/// Keys of the cells of one side, in their order: a cell matches the one of the other side with the same key.
fn keys(rows: &SweepRows, cells: &[usize], others: &[usize], other: &SweepRows) -> Vec<String> {
    if cells.len() == 1 && others.len() == 1 {
        return vec![String::new()];
    }
    let arms = |rows: &SweepRows, cells: &[usize]| -> BTreeSet<usize> {
        cells.iter().map(|cell| rows.plan.cells[*cell].arm).collect()
    };
    let by_condition = arms(rows, cells).len() == 1 && arms(other, others).len() == 1;
    // A search beside a grid is compared at the setting that it chose.
    let both = rows.plan.search.is_some() && other.plan.search.is_some();
    let condition = |cell: usize| {
        sorted(if both { rows.plan.compared_under(cell) } else { &rows.plan.cells[cell].condition })
    };
    let key = |cell: &usize| {
        let arm = rows.plan.arms.get(rows.plan.cells[*cell].arm).map_or("", |arm| arm.name.as_str());
        let words = [if by_condition { "" } else { arm }, &condition(*cell)].join(" ");
        words.trim().to_owned()
    };
    cells.iter().map(key).collect()
}
