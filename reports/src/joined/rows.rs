//! The rows of two selections as those of one sweep of two arms.

use super::{JoinError, Side, TimedBy, prices, provenance};
use recipe::{Arm, Cell, Run, Source};
use record::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use store::{RunRow, SweepRows};

/// The sweep of two arms; `conditions` are the names of the pairs.
pub(crate) fn rows_of_pairs(
    sides: [Side<'_>; 2],
    pairs: &[[usize; 2]],
    conditions: &[String],
    timed_by: TimedBy,
) -> Result<SweepRows, JoinError> {
    let [first, second] = sides.map(|side| side.rows);
    let mut all = first.clone();
    all.plan.name = format!("{} and {}", sides[0].name, sides[1].name);
    all.plan.question = format!("Is {} faster than {}?", sides[1].name, sides[0].name);
    (all.plan.cells, all.plan.runs, all.runs) = (Vec::new(), Vec::new(), Vec::new());
    all.plan.report.prices = prices::none_yet(&sides);
    let is_priced = prices::in_one_currency(&sides);
    // Its cells are not these.
    all.plan.search = None;
    all.plan.arms = [0, 1].map(|side| arm(sides[side], pairs, side)).to_vec();
    let runs = sides.map(|side| runs_by_cell(side.rows));
    for (pair, condition) in pairs.iter().zip(conditions) {
        let one = &first.plan.cells[pair[0]];
        same_work(one, &second.plan.cells[pair[1]], timed_by)?;
        for side in [0, 1] {
            let found = sides[side].rows;
            let cell = &found.plan.cells[pair[side]];
            let number = all.plan.cells.len();
            let mut joined =
                Cell { arm: side, condition: condition.clone(), axes: Vec::new(), ..cell.clone() };
            if timed_by == TimedBy::Step {
                joined.spec.train.target = None;
            }
            all.plan.cells.push(joined);
            let price = found.plan.report.prices.of(pair[side]).filter(|_| is_priced);
            all.plan.report.prices.cells.push(price);
            for run in runs[side].get(&pair[side]).into_iter().flatten() {
                let index = all.runs.len();
                all.plan.runs.push(Run { cell: number, repeat: run.repeat, seed: run.seed });
                all.runs.push(RunRow { index, cell: number, ..(*run).clone() });
            }
        }
    }
    let of_side: Vec<usize> = all.runs.iter().map(|run| all.plan.cells[run.cell].arm).collect();
    measured_once(&all, &of_side)?;
    provenance::merge(&mut all, &sides);
    Ok(all)
}

/// Refuses cells that are after different targets, times to a target on different data, and times per step of steps that are not the same
/// work.
pub(crate) fn same_work(first: &Cell, other: &Cell, timed_by: TimedBy) -> Result<(), JoinError> {
    let by_step = timed_by == TimedBy::Step;
    if !by_step && first.spec.train.target != other.spec.train.target {
        return Err(JoinError::OtherTarget { label: first.label.clone() });
    }
    let is_timed_by_step = by_step || first.spec.train.target.is_none();
    let differs = [
        ("global batch", is_timed_by_step && first.spec.train.global_batch != other.spec.train.global_batch),
        (
            "model",
            is_timed_by_step && first.spec.model.parameter_count() != other.spec.model.parameter_count(),
        ),
        ("data set", !is_timed_by_step && !same_data(&first.spec.dataset.source, &other.spec.dataset.source)),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(JoinError::OtherWork { label: first.label.clone(), what }),
        None => Ok(()),
    }
}

/// Wherever the files lie.
fn same_data(first: &Source, other: &Source) -> bool {
    std::mem::discriminant(first) == std::mem::discriminant(other)
        && first.training_samples() == other.training_samples()
}

/// The runs of each cell, in their order.
pub(crate) fn runs_by_cell(rows: &SweepRows) -> BTreeMap<usize, Vec<&RunRow>> {
    let mut runs: BTreeMap<usize, Vec<&RunRow>> = BTreeMap::new();
    for run in &rows.runs {
        runs.entry(run.cell).or_default().push(run);
    }
    runs
}

/// One side as an arm: of the kind of its strategies, if they are of one.
fn arm(side: Side<'_>, pairs: &[[usize; 2]], number: usize) -> Arm {
    let kinds: BTreeSet<&str> =
        pairs.iter().map(|pair| side.rows.plan.cells[pair[number]].spec.strategy.kind().name()).collect();
    Arm {
        name: side.name.to_owned(),
        kind: kinds.into_iter().collect::<Vec<_>>().join(", "),
        baseline: number == 0,
    }
}

/// Mark of a measurement: no two attempts last the same number of nanoseconds, from the same second on. `None` before
/// the attempt has ended.
pub(crate) fn mark(run: &RunRow) -> Option<(i64, u32, Option<Nanos>, Option<Nanos>)> {
    let attempt = run.attempt.as_ref().filter(|attempt| attempt.wall.is_some())?;
    Some((attempt.started, attempt.number, attempt.wall, attempt.training))
}

/// Refuses attempts that are on several sides: a reused run has the numbers of the run that it was reused from. `of_side` has the side of each
/// run.
pub(crate) fn measured_once(all: &SweepRows, of_side: &[usize]) -> Result<(), JoinError> {
    let mut firsts: BTreeMap<_, (&RunRow, usize)> = BTreeMap::new();
    for (run, side) in all.runs.iter().zip(of_side) {
        let Some(mark) = mark(run) else { continue };
        let (other, other_side) = *firsts.entry(mark).or_insert((run, *side));
        if other_side == *side {
            continue;
        }
        if run.id == other.id {
            return Err(JoinError::SameRun { run: run.id.clone() });
        }
        return Err(JoinError::MeasuredOnce {
            run: run.id.clone(),
            other: other.id.clone(),
            label: all.plan.cells[run.cell].label.clone(),
        });
    }
    Ok(())
}
