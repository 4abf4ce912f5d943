//! The rows of several sweeps as those of one.

use super::{ArmKey, SWEEP, arms_of};
use crate::joined::{JoinError, Side, TimedBy, compared_cells, measured_once, prices, provenance, same_work};
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
    all.plan.arms = arms(sides, baseline);
    let shared = shared_axes(sides);
    let mut of_side = Vec::new();
    let mut firsts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, side) in sides.iter().enumerate() {
        for index in compared_cells(side.rows) {
            let cell = cell(side, index, &all.plan.arms, &shared, is_axis);
            let joined = all.plan.cells.len();
            let (side_of_first, first) = *firsts.entry(cell.condition.clone()).or_insert((number, joined));
            if side_of_first != number {
                same_work(&all.plan.cells[first], &cell, TimedBy::Recipe)?;
            }
            all.plan.cells.push(cell);
            let price = side.rows.plan.report.prices.of(index).filter(|_| is_priced);
            all.plan.report.prices.cells.push(price);
            for run in side.rows.runs.iter().filter(|run| run.cell == index) {
                let place = all.runs.len();
                all.plan.runs.push(Run { cell: joined, repeat: run.repeat, seed: run.seed });
                all.runs.push(RunRow { index: place, cell: joined, ..run.clone() });
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

/// The arms of all sides in the order in which they appear; one whose name is taken by another strategy gets that of its own in parentheses.
fn arms(sides: &[Side<'_>], baseline: Option<&ArmKey>) -> Vec<Arm> {
    let mut arms: Vec<Arm> = Vec::new();
    let mut strategies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let used = || sides.iter().flat_map(|side| arms_of(side.rows));
    for arm in used() {
        strategies.entry(&arm.name).or_default().insert(&arm.kind);
    }
    for arm in used() {
        if arms.iter().any(|other| (key(other), &other.kind) == (&arm.name, &arm.kind)) {
            continue;
        }
        let is_baseline = baseline.is_some_and(|(name, kind)| (name, kind) == (&arm.name, &arm.kind));
        let several = strategies.get(arm.name.as_str()).is_some_and(|kinds| kinds.len() > 1);
        let name = if several { format!("{} ({})", arm.name, arm.kind) } else { arm.name.clone() };
        arms.push(Arm { name, kind: arm.kind.clone(), baseline: is_baseline });
    }
    if let (false, Some(first)) = (arms.iter().any(|arm| arm.baseline), arms.first_mut()) {
        first.baseline = true;
    }
    arms
}

/// The name that an arm has in its own sweep.
fn key(arm: &Arm) -> &str {
    arm.name.strip_suffix(&format!(" ({})", arm.kind)).unwrap_or(&arm.name)
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

fn cell(side: &Side<'_>, index: usize, arms: &[Arm], shared: &BTreeSet<String>, is_axis: bool) -> Cell {
    let plan = &side.rows.plan;
    let own = &plan.cells[index];
    let own_arm = plan.arms.get(own.arm);
    let is_own = |arm: &Arm| own_arm.is_some_and(|own| (key(arm), &arm.kind) == (&own.name, &own.kind));
    let arm = arms.iter().position(is_own).unwrap_or_default();
    // As the page of a single sweep names it: of a search without the setting that it chose.
    let condition = plan.compared_under(index);
    let mut axes: Vec<AxisValue> =
        own.axes.iter().filter(|axis| shared.contains(&axis.path)).cloned().collect();
    let condition = if is_axis {
        axes.insert(0, AxisValue { path: SWEEP.to_owned(), text: side.name.to_owned(), number: None });
        format!("{SWEEP}={} {condition}", side.name).trim().to_owned()
    } else {
        condition.to_owned()
    };
    let name = arms.get(arm).map_or("", |arm| arm.name.as_str());
    let label = format!("{name} {condition}").trim().to_owned();
    Cell { arm, condition, label, axes, ..own.clone() }
}
