//! The rows of two selections as those of one sweep of two arms.

use super::{JoinError, Side};
use recipe::{Arm, Cell, Prices, Run};
use std::collections::{BTreeMap, BTreeSet};
use store::{Annotations, AttemptRow, RunRow, SweepRows};

/// The sweep of two arms; `conditions` are the names of the pairs.
pub(super) fn rows(
    sides: [Side<'_>; 2],
    pairs: &[[usize; 2]],
    conditions: &[String],
    by_step: bool,
) -> Result<SweepRows, JoinError> {
    let [first, second] = sides.map(|side| side.rows);
    let mut all = first.clone();
    all.plan.name = format!("{} and {}", sides[0].name, sides[1].name);
    all.plan.question = format!("Is {} faster than {}?", sides[1].name, sides[0].name);
    (all.plan.cells, all.plan.runs, all.runs) = (Vec::new(), Vec::new(), Vec::new());
    all.plan.report.prices = Prices { currency: currency(first, second), cells: Vec::new() };
    let is_priced = in_one_currency(first, second);
    // Its cells are not these.
    all.plan.search = None;
    all.plan.arms = [0, 1].map(|side| arm(sides[side], pairs, side)).to_vec();
    for (pair, condition) in pairs.iter().zip(conditions) {
        let one = &first.plan.cells[pair[0]];
        same_work(one, &second.plan.cells[pair[1]], by_step)?;
        for side in [0, 1] {
            let found = sides[side].rows;
            let cell = &found.plan.cells[pair[side]];
            let number = all.plan.cells.len();
            let mut joined =
                Cell { arm: side, condition: condition.clone(), axes: Vec::new(), ..cell.clone() };
            if by_step {
                joined.spec.train.target = None;
            }
            all.plan.cells.push(joined);
            let price = found.plan.report.prices.of(pair[side]).filter(|_| is_priced);
            all.plan.report.prices.cells.push(price);
            for run in found.runs.iter().filter(|run| run.cell == pair[side]) {
                let index = all.runs.len();
                all.plan.runs.push(Run { cell: number, repeat: run.repeat, seed: run.seed });
                all.runs.push(RunRow { index, cell: number, ..run.clone() });
            }
        }
    }
    measured_twice(&all)?;
    for node in &second.nodes {
        if !all.nodes.contains(node) {
            all.nodes.push(node.clone());
        }
    }
    if second.plan.looks.len() > all.plan.looks.len() {
        all.plan.looks.clone_from(&second.plan.looks);
    }
    for redaction in &second.plan.report.redact {
        if !all.plan.report.redact.contains(redaction) {
            all.plan.report.redact.push(*redaction);
        }
    }
    origin(&mut all, first, second);
    all.annotations = annotations(sides);
    Ok(all)
}

fn currency(first: &SweepRows, second: &SweepRows) -> String {
    let prices = [first, second].map(|rows| &rows.plan.report.prices);
    let named = prices.into_iter().find(|prices| !prices.currency.is_empty());
    named.map_or_else(String::new, |prices| prices.currency.clone())
}

/// Prices in two currencies cannot be compared. A side without prices has none.
pub(super) fn in_one_currency(first: &SweepRows, second: &SweepRows) -> bool {
    let [first, second] = [first, second].map(|rows| &rows.plan.report.prices);
    first.is_none() || second.is_none() || first.currency == second.currency
}

/// What users say of both sides, each with its name. The tags are those of sweeps, and this is none.
fn annotations(sides: [Side<'_>; 2]) -> Annotations {
    let noted = sides.iter().filter(|side| !side.rows.annotations.note.is_empty());
    let notes: Vec<String> =
        noted.map(|side| format!("{}: {}", side.name, side.rows.annotations.note)).collect();
    Annotations { note: notes.join(" · "), ..Annotations::default() }
}

/// Where both sides are from, in words.
fn origin(all: &mut SweepRows, first: &SweepRows, second: &SweepRows) {
    let both =
        |one: &str, other: &str| if one == other { one.to_owned() } else { format!("{one} and {other}") };
    let commit =
        |rows: &SweepRows| rows.commit.clone().map_or_else(|| "none".to_owned(), |(commit, _)| commit);
    let changed = [first, second].iter().any(|rows| rows.commit.as_ref().is_none_or(|(_, changed)| *changed));
    all.commit = (first.commit.is_some() || second.commit.is_some())
        .then(|| (both(&commit(first), &commit(second)), changed));
    all.id = both(&first.id, &second.id);
    all.version = both(&first.version, &second.version);
    all.recipe_sha256 = both(&first.recipe_sha256, &second.recipe_sha256);
    all.recipe_path = both(&first.recipe_path, &second.recipe_path);
    for (own, other) in
        [(&mut all.plan.source, &second.plan.source), (&mut all.plan.expanded, &second.plan.expanded)]
    {
        if own != other {
            *own = format!("# The first side.\n\n{own}\n# The second side.\n\n{other}");
        }
    }
    all.argv = Vec::new();
    all.started = first.started.min(second.started);
}

/// Refuses cells that are after different targets, and times per step of steps that are not the same work.
fn same_work(first: &Cell, other: &Cell, by_step: bool) -> Result<(), JoinError> {
    if !by_step && first.spec.train.target != other.spec.train.target {
        return Err(JoinError::OtherTarget { label: first.label.clone() });
    }
    let is_timed_by_step = by_step || first.spec.train.target.is_none();
    let what = if first.spec.train.global_batch != other.spec.train.global_batch {
        Some("global batch")
    } else if first.spec.model.parameters() != other.spec.model.parameters() {
        Some("model")
    } else {
        None
    };
    match what.filter(|_| is_timed_by_step) {
        Some(what) => Err(JoinError::OtherWork { label: first.label.clone(), what }),
        None => Ok(()),
    }
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

/// Refuses attempts that are on both sides: a reused run has the numbers of the run that it was reused from.
fn measured_twice(all: &SweepRows) -> Result<(), JoinError> {
    // Two attempts do not last the same number of nanoseconds, from the same second on.
    let mark = |attempt: &AttemptRow| (attempt.started, attempt.number, attempt.wall, attempt.training);
    let mut firsts = BTreeMap::new();
    let with_attempt = || all.runs.iter().filter_map(|run| Some((run, run.attempt.as_ref()?)));
    let arm = |run: &RunRow| all.plan.cells[run.cell].arm;
    for (run, attempt) in with_attempt().filter(|(run, _)| arm(run) == 0) {
        firsts.insert(mark(attempt), run);
    }
    for (run, attempt) in with_attempt().filter(|(run, attempt)| arm(run) == 1 && attempt.wall.is_some()) {
        if let Some(other) = firsts.get(&mark(attempt)) {
            if run.id == other.id {
                return Err(JoinError::SameRun { run: run.id.clone() });
            }
            return Err(JoinError::MeasuredOnce {
                run: run.id.clone(),
                other: other.id.clone(),
                label: all.plan.cells[run.cell].label.clone(),
            });
        }
    }
    Ok(())
}
