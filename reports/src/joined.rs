//! Two selections of runs as one sweep of two arms, of which the first is the baseline: what `compare` judges, and a page shows.
//!
//! Cells are matched by arm and condition; where each side has one arm, by their condition; and where each has one cell, they match
//! whatever they are called.

use crate::number_format;
use recipe::{Arm, Cell, Run};
use std::collections::{BTreeMap, BTreeSet};
use store::{AttemptRow, RunRow, SweepRows};

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
    /// What else differs between the sides, a sentence each.
    pub doubts: Vec<String>,
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
        /// Its id.
        run: String,
    },
    /// A step is not the same work on both sides.
    #[error("a step of {label} is other work on the other side: another {what}")]
    OtherWork {
        /// The cell of the first side.
        label: String,
        /// What differs: `global batch`, `model`.
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
    match labels.len() {
        0 => "no run".to_owned(),
        count if count > MOST => format!("{shown} and {} more", count - MOST),
        _ => shown,
    }
}

/// Joins two selections; with `by_step`, targets do not count, and arms are compared by their time per step.
///
/// # Errors
/// Nothing in common, a run on both sides, or different targets.
pub fn joined(sides: [Side<'_>; 2], by_step: bool) -> Result<Joined, JoinError> {
    let cells = sides.map(|side| cells(side.rows));
    let keys =
        [0, 1].map(|side| keys(sides[side].rows, &cells[side], &cells[1 - side], sides[1 - side].rows));
    let find = |side: usize, key: &String| keys[side].iter().position(|other| other == key);
    let mut pairs = Vec::new();
    for (place, key) in keys[0].iter().enumerate() {
        pairs.extend(find(1, key).map(|other| [cells[0][place], cells[1][other]]));
    }
    let labels = |side: usize, wanted: &dyn Fn(usize) -> bool| -> Vec<String> {
        let cells = cells[side].iter().filter(|cell| wanted(**cell));
        cells.map(|cell| sides[side].rows.plan.cells[*cell].label.clone()).collect()
    };
    if pairs.is_empty() {
        return Err(JoinError::NothingInCommon { first: labels(0, &|_| true), second: labels(1, &|_| true) });
    }
    let alone = [0, 1].map(|side| labels(side, &|cell| pairs.iter().all(|pair| pair[side] != cell)));
    let rows = rows(sides, &pairs, &keys[0], &cells[0], by_step)?;
    Ok(Joined { doubts: doubts(sides, &rows), rows, pairs, alone })
}

/// The cells that have a run, in the order of the plan.
fn cells(rows: &SweepRows) -> Vec<usize> {
    let found: BTreeSet<usize> = rows.runs.iter().map(|run| run.cell).collect();
    found.into_iter().filter(|cell| rows.plan.cells.get(*cell).is_some()).collect()
}

/// What the cells of one side are matched by.
fn keys(rows: &SweepRows, cells: &[usize], others: &[usize], other: &SweepRows) -> Vec<String> {
    if cells.len() == 1 && others.len() == 1 {
        return vec![String::new()];
    }
    let arms = |rows: &SweepRows, cells: &[usize]| -> BTreeSet<usize> {
        cells.iter().map(|cell| rows.plan.cells[*cell].arm).collect()
    };
    let by_condition = arms(rows, cells).len() == 1 && arms(other, others).len() == 1;
    // Whatever the order in which the recipe names its axes.
    let condition = |cell: &Cell| {
        let mut words: Vec<&str> = cell.condition.split(' ').filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words.join(" ")
    };
    let key = |cell: &Cell| {
        let arm = rows.plan.arms.get(cell.arm).map_or("", |arm| arm.name.as_str());
        let words = [if by_condition { "" } else { arm }, &condition(cell)].join(" ");
        words.trim().to_owned()
    };
    cells.iter().map(|cell| key(&rows.plan.cells[*cell])).collect()
}

/// The sweep of two arms.
fn rows(
    sides: [Side<'_>; 2],
    pairs: &[[usize; 2]],
    keys: &[String],
    cells: &[usize],
    by_step: bool,
) -> Result<SweepRows, JoinError> {
    let [first, second] = sides.map(|side| side.rows);
    let mut all = first.clone();
    all.plan.name = format!("{} and {}", sides[0].name, sides[1].name);
    all.plan.question = format!("Is {} faster than {}?", sides[1].name, sides[0].name);
    (all.plan.cells, all.plan.runs, all.runs) = (Vec::new(), Vec::new(), Vec::new());
    all.plan.arms = [0, 1].map(|side| arm(sides[side], pairs, side)).to_vec();
    for pair in pairs {
        let place = cells.iter().position(|cell| *cell == pair[0]).unwrap_or_default();
        let condition = keys.get(place).cloned().unwrap_or_default();
        for side in [0, 1] {
            let found = sides[side].rows;
            let cell = &found.plan.cells[pair[side]];
            if !by_step && cell.spec.train.target != first.plan.cells[pair[0]].spec.train.target {
                return Err(JoinError::OtherTarget { label: first.plan.cells[pair[0]].label.clone() });
            }
            same_work(&first.plan.cells[pair[0]], cell, by_step)?;
            let number = all.plan.cells.len();
            let mut joined =
                Cell { arm: side, condition: condition.clone(), axes: Vec::new(), ..cell.clone() };
            if by_step {
                joined.spec.train.target = None;
            }
            all.plan.cells.push(joined);
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
    for redaction in &second.plan.report.redact {
        if !all.plan.report.redact.contains(redaction) {
            all.plan.report.redact.push(*redaction);
        }
    }
    origin(&mut all, first, second);
    Ok(all)
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
    let command = |rows: &SweepRows| rows.argv.clone();
    all.argv = if command(first) == command(second) { command(first) } else { Vec::new() };
    all.started = first.started.min(second.started);
}

/// Refuses to compare times per step of steps that are not the same work.
fn same_work(first: &Cell, other: &Cell, by_step: bool) -> Result<(), JoinError> {
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

/// What differs between the sides beside what is compared.
fn doubts(sides: [Side<'_>; 2], joined: &SweepRows) -> Vec<String> {
    let mut doubts = Vec::new();
    let machines = sides.map(|side| {
        let machine = |node: &store::NodeRow| (node.processor.clone(), node.cores, node.memory);
        side.rows.nodes.iter().map(machine).collect::<BTreeSet<_>>()
    });
    if machines[0] != machines[1] {
        doubts.push("The machines differ, and with them everything that takes time.".to_owned());
    }
    let arm = |run: &RunRow| joined.plan.cells[run.cell].arm;
    let mut begins: Vec<(i64, usize)> =
        joined.runs.iter().filter_map(|run| Some((run.attempt.as_ref()?.started, arm(run)))).collect();
    begins.sort_unstable();
    let turns = begins.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let fewest = (0..2).map(|side| begins.iter().filter(|(_, of)| *of == side).count()).min().unwrap_or(0);
    // Sides in turn change with nearly every run; two blocks change once.
    if fewest > 0 && turns < fewest.max(2) {
        let mean = |side: usize| {
            let times: Vec<f64> =
                begins.iter().filter(|(_, of)| *of == side).map(|(at, _)| *at as f64).collect();
            times.iter().sum::<f64>() / times.len().max(1) as f64
        };
        doubts.push(format!(
            "The sides were not measured in turn, but {} apart on average: what changed on the machine meanwhile counts as a difference, and \
             more repeats do not help.",
            number_format::seconds((mean(1) - mean(0)).abs())
        ));
    }
    let [first, second] = sides.map(|side| &side.rows.plan.report);
    if (first.min_quality, first.confidence) != (second.min_quality, second.confidence) {
        doubts.push(
            "The recipes differ in what they call sure or worse: the first one's settings count.".to_owned(),
        );
    }
    let seeds = |side: usize| -> BTreeSet<u64> {
        joined.runs.iter().filter(|run| arm(run) == side).map(|run| run.seed).collect()
    };
    if seeds(0).is_disjoint(&seeds(1)) {
        doubts.push(
            "The sides have no seed in common, so that their runs are not compared in pairs.".to_owned(),
        );
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::{Grade, Options, verdicts};
    use record::Nanos;

    /// A sweep like another, of which each run took `times` as long.
    fn slower(rows: &SweepRows, times: f64) -> SweepRows {
        let mut rows = rows.clone();
        let longer = |time: &mut Nanos| *time = Nanos((time.0 as f64 * times) as u64);
        for run in &mut rows.runs {
            run.id = format!("later-{}", run.id);
            let attempt = run.attempt.as_mut().unwrap();
            attempt.started += 86_400;
            for time in [
                &mut attempt.wall,
                &mut attempt.training,
                &mut attempt.step_time,
                &mut attempt.mean_step_time,
            ] {
                time.iter_mut().for_each(longer);
            }
            attempt.metrics.iter_mut().for_each(|row| longer(&mut row.at));
        }
        rows
    }

    fn sides<'a>(first: &'a SweepRows, second: &'a SweepRows) -> [Side<'a>; 2] {
        [Side { name: "before", rows: first }, Side { name: "after", rows: second }]
    }

    /// The runs of one arm.
    fn of_arm(rows: &SweepRows, arm: usize) -> SweepRows {
        let mut rows = rows.clone();
        let cells = &rows.plan.cells;
        rows.runs.retain(|run| cells[run.cell].arm == arm);
        rows
    }

    #[test]
    fn every_arm_is_compared_with_itself() {
        let before = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
        let after = slower(&before, 1.3);
        let joined = joined(sides(&before, &after), false).unwrap();
        let found = verdicts(&joined.rows, &Options::default()).unwrap();
        let grades: Vec<_> =
            found.iter().filter_map(|verdict| Some((&*verdict.condition, verdict.grade?))).collect();
        let labels: Vec<&str> = before.plan.cells.iter().map(|cell| &*cell.label).collect();
        assert_eq!(grades, labels.iter().map(|label| (*label, Grade::Slower)).collect::<Vec<_>>());
        assert!(joined.alone.iter().all(Vec::is_empty));
        assert!(
            joined.doubts.iter().any(|doubt| doubt.contains("not measured in turn")),
            "{:?}",
            joined.doubts
        );
        let same = super::joined(sides(&before, &slower(&before, 1.0 + 1e-6)), false).unwrap();
        let found = verdicts(&same.rows, &Options::default()).unwrap();
        // A difference of a millionth is certain where nothing else differs.
        let small = |grade: Grade| matches!(grade, Grade::NoDifference | Grade::SlowerSmall);
        assert!(found.iter().filter_map(|verdict| verdict.grade).all(small), "{found:?}");
    }

    #[test]
    fn single_arms_are_compared_under_each_condition() {
        let rows = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
        let [ps, d] = [0, 1].map(|arm| of_arm(&rows, arm));
        let joined = joined(sides(&ps, &d), false).unwrap();
        // A sweep takes its arms in turn.
        assert!(joined.doubts.is_empty(), "{:?}", joined.doubts);
        let conditions: BTreeSet<&str> = rows.plan.cells.iter().map(|cell| &*cell.condition).collect();
        let found: BTreeSet<&str> = joined.rows.plan.cells.iter().map(|cell| &*cell.condition).collect();
        assert_eq!(found, conditions);
        // As in the sweep itself.
        let own = verdicts(&rows, &Options::default()).unwrap();
        let other = verdicts(&joined.rows, &Options::default()).unwrap();
        let grades =
            |all: &[crate::Verdict]| all.iter().filter_map(|verdict| verdict.grade).collect::<Vec<_>>();
        assert_eq!(grades(&own), grades(&other));
        assert!(joined.doubts.is_empty(), "{:?}", joined.doubts);
    }

    #[test]
    fn what_one_side_alone_has_is_named() {
        let all = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
        let few = slower(&Sample { workers: vec![4], ..Sample::duel() }.rows(), 2.0);
        let mut later = slower(&all, 2.0);
        later.runs.retain(|run| run.cell != 0);
        let found = joined(sides(&all, &later), false).unwrap();
        assert_eq!(found.alone, [vec![all.plan.cells[0].label.clone()], Vec::new()]);
        // One cell each is one pair, whatever they are called.
        let [one, other] = [of_arm(&few, 0), of_arm(&few, 1)];
        assert_eq!(joined(sides(&one, &other), false).unwrap().pairs.len(), 1);
    }

    #[test]
    fn each_side_has_its_own_number_of_workers_commit_and_order_of_axes() {
        let before = Sample { workers: vec![4], ..Sample::duel() }.rows();
        let mut after = slower(&before, 1.3);
        before.commit.as_ref().unwrap();
        after.commit = Some(("feedfacefeedface".to_owned(), false));
        for cell in &mut after.plan.cells {
            cell.condition = "b=2 a=1".to_owned();
            cell.spec.cluster.seats.retain(|seat| seat.role != recipe::Role::Worker || seat.node != 0);
            let one = recipe::Placement { role: recipe::Role::Worker, node: 0 };
            cell.spec.cluster.seats.insert(0, one);
        }
        let mut first = before.clone();
        first.plan.cells.iter_mut().for_each(|cell| cell.condition = "a=1 b=2".to_owned());
        let found = joined(sides(&first, &after), false).unwrap();
        assert_eq!(found.pairs.len(), 2);
        let commit = found.rows.commit.clone().unwrap().0;
        assert!(commit.contains(" and feedface"), "{commit}");
        let sentences: Vec<String> = verdicts(&found.rows, &Options::default())
            .unwrap()
            .into_iter()
            .map(|verdict| verdict.sentence)
            .collect();
        assert!(
            sentences[0].contains("on 4 workers") && sentences[1].contains("on 1 worker at"),
            "{sentences:?}"
        );
    }

    #[test]
    fn what_was_measured_once_is_not_compared_with_itself() {
        let rows = Sample::duel().rows();
        let mut again = rows.clone();
        again.runs.iter_mut().for_each(|run| run.id = format!("reused-{}", run.id));
        let error = joined(sides(&rows, &again), false).unwrap_err();
        assert!(matches!(error, JoinError::MeasuredOnce { .. }), "{error}");
        let error = joined(sides(&rows, &rows), false).unwrap_err();
        assert!(matches!(error, JoinError::SameRun { .. }), "{error}");
        let mut none = rows.clone();
        none.runs.clear();
        assert!(matches!(joined(sides(&rows, &none), false), Err(JoinError::NothingInCommon { .. })));
        let plain = Sample { target: None, ..Sample::duel() }.rows();
        let mut batch = slower(&plain, 1.1);
        batch.plan.cells.iter_mut().for_each(|cell| cell.spec.train.global_batch *= 2);
        assert!(matches!(
            joined(sides(&plain, &batch), false),
            Err(JoinError::OtherWork { what: "global batch", .. })
        ));
        let other = slower(&plain, 1.1);
        assert!(matches!(joined(sides(&rows, &other), false), Err(JoinError::OtherTarget { .. })));
        assert!(joined(sides(&rows, &other), true).is_ok());
    }
}
