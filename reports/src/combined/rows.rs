//! The rows of several sweeps as those of one.

use super::{ArmKey, arms_of, key_of};
use crate::joined::{
    JoinError, Side, TimedBy, compared_cells, measured_once, prices, provenance, runs_by_cell, same_work,
    sorted,
};
use comparison::SWEEP_AXIS;
use recipe::{Arm, AxisValue, Cell, Run, is_searched};
use std::collections::{BTreeMap, BTreeSet};
use store::{RunRow, SweepRows};

/// The sweep that stands for all; with `is_axis` each side has conditions of its own.
pub(super) fn rows(
    sides: &[Side<'_>],
    is_axis: bool,
    baseline: Option<&ArmKey>,
) -> Result<SweepRows, JoinError> {
    let Some(first) = sides.first() else {
        return Err(JoinError::NothingInCommon { first: Vec::new(), second: Vec::new() });
    };
    let mut all = first.rows.clone();
    all.plan.name = title(sides);
    all.plan.question = question(sides);
    (all.plan.cells, all.plan.runs, all.runs) = (Vec::new(), Vec::new(), Vec::new());
    all.plan.report.prices = prices::none_yet(sides);
    let is_priced = prices::in_one_currency(sides);
    // Its cells are not these.
    all.plan.search = None;
    let mut frame = Frame {
        arms: arms(sides, baseline),
        shared: shared_axes(sides),
        is_axis,
        conditions: BTreeMap::new(),
    };
    all.plan.arms = frame.arms.iter().map(|(_, arm)| arm.clone()).collect();
    let mut of_side = Vec::new();
    let mut firsts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, side) in sides.iter().enumerate() {
        let runs = runs_by_cell(side.rows);
        for index in compared_cells(side.rows) {
            let Some(cell) = frame.cell(side, index) else { continue };
            let joined = all.plan.cells.len();
            let (side_of_first, first) = *firsts.entry(cell.condition.clone()).or_insert((number, joined));
            if side_of_first != number {
                same_work(&all.plan.cells[first], &cell, TimedBy::Recipe)?;
            }
            all.plan.cells.push(cell);
            let price = side.rows.plan.report.prices.of(index).filter(|_| is_priced);
            all.plan.report.prices.cells.push(price);
            for run in runs.get(&index).into_iter().flatten() {
                let place = all.runs.len();
                all.plan.runs.push(Run { cell: joined, repeat: run.repeat, seed: run.seed });
                all.runs.push(RunRow { index: place, cell: joined, ..(*run).clone() });
                of_side.push(number);
            }
        }
    }
    // Under conditions of its own a sweep may have runs of an earlier one, as on its own page.
    if !is_axis {
        measured_once(&all, &of_side)?;
    }
    provenance::merge(&mut all, sides);
    Ok(all)
}

/// The recipe's name if all have the same one.
fn title(sides: &[Side<'_>]) -> String {
    let names: BTreeSet<&str> = sides.iter().map(|side| side.rows.plan.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!("{}, {} sweeps", names.join(" and "), sides.len())
}

fn question(sides: &[Side<'_>]) -> String {
    let mut questions = sides.iter().map(|side| side.rows.plan.question.as_str());
    match questions.next() {
        Some(first) if !first.is_empty() && questions.all(|other| other == first) => first.to_owned(),
        _ => format!("What do {} sweeps show together?", sides.len()),
    }
}

/// The arms of all sides in the order in which they appear, each with its key; one whose name is taken by another strategy gets that of its own in
/// parentheses.
fn arms(sides: &[Side<'_>], baseline: Option<&ArmKey>) -> Vec<(ArmKey, Arm)> {
    let mut arms: Vec<(ArmKey, Arm)> = Vec::new();
    let mut strategies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let used = || sides.iter().flat_map(|side| arms_of(side.rows));
    for arm in used() {
        strategies.entry(&arm.name).or_default().insert(&arm.kind);
    }
    for arm in used() {
        let key = key_of(arm);
        if arms.iter().any(|(other, _)| *other == key) {
            continue;
        }
        let several = strategies.get(arm.name.as_str()).is_some_and(|kinds| kinds.len() > 1);
        let mut name = if several { format!("{} ({})", arm.name, arm.kind) } else { arm.name.clone() };
        // Names are free: an arm may be called like another one with its strategy.
        while arms.iter().any(|(_, other)| other.name == name) {
            name.push('\'');
        }
        let is_baseline = baseline == Some(&key);
        arms.push((key, Arm { name, kind: arm.kind.clone(), baseline: is_baseline }));
    }
    if let (false, Some((_, first))) = (arms.iter().any(|(_, arm)| arm.baseline), arms.first_mut()) {
        first.baseline = true;
    }
    arms
}

/// The axes that every side has. Of a search the arms have values of their own, which are no axis.
fn shared_axes(sides: &[Side<'_>]) -> BTreeSet<String> {
    let paths = |side: &Side<'_>| -> BTreeSet<String> {
        let cells = compared_cells(side.rows).into_iter().filter_map(|cell| side.rows.plan.cells.get(cell));
        let searched = |path: &str| side.rows.plan.search.is_some() && is_searched(path);
        cells
            .flat_map(|cell| &cell.axes)
            .map(|axis| axis.path.clone())
            .filter(|path| !searched(path))
            .collect()
    };
    let mut all = sides.iter().map(paths);
    let first = all.next().unwrap_or_default();
    all.fold(first, |shared, own| shared.intersection(&own).cloned().collect())
}

/// Frame that the cells of all sides fit into: their arms, shared axes and conditions.
struct Frame {
    arms: Vec<(ArmKey, Arm)>,
    /// Paths of the axes that every side has.
    shared: BTreeSet<String>,
    /// Whether each side has conditions of its own.
    is_axis: bool,
    /// The names of conditions, in whatever order the recipes name their axes.
    conditions: BTreeMap<String, String>,
}

impl Frame {
    fn cell(&mut self, side: &Side<'_>, index: usize) -> Option<Cell> {
        let plan = &side.rows.plan;
        let own = plan.cells.get(index)?;
        let key = key_of(plan.arms.get(own.arm)?);
        let arm = self.arms.iter().position(|(other, _)| *other == key)?;
        let shared = |axis: &&AxisValue| self.shared.contains(&axis.path);
        let mut axes: Vec<AxisValue> = own.axes.iter().filter(shared).cloned().collect();
        // As the page of a single sweep names it: of a search without the setting that it chose.
        let condition = plan.compared_under(index);
        let condition = if self.is_axis {
            axes.insert(
                0,
                AxisValue { path: SWEEP_AXIS.to_owned(), text: side.name.to_owned(), number: None },
            );
            format!("{SWEEP_AXIS}={} {condition}", side.name).trim().to_owned()
        } else {
            self.conditions.entry(sorted(condition)).or_insert_with(|| condition.to_owned()).clone()
        };
        let label = format!("{} {condition}", self.arms[arm].1.name).trim().to_owned();
        Some(Cell { arm, condition, label, axes, ..own.clone() })
    }
}
