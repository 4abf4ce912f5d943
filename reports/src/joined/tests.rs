//! Two made-up sweeps, or two arms of one, side by side.

use super::*;
use crate::sample::Sample;
use crate::{Grade, Options, verdicts};
use record::Nanos;
use store::Commit;

/// A sweep like another, of which each run took `times` as long.
fn slower(rows: &SweepRows, times: f64) -> SweepRows {
    let mut rows = rows.clone();
    let longer = |time: &mut Nanos| *time = Nanos((time.0 as f64 * times) as u64);
    for run in &mut rows.runs {
        run.id = format!("later-{}", run.id);
        let attempt = run.attempt.as_mut().unwrap();
        attempt.started += 86_400;
        for time in
            [&mut attempt.wall, &mut attempt.training, &mut attempt.step_time, &mut attempt.mean_step_time]
        {
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
    let joined = joined(sides(&before, &after), TimedBy::Recipe).unwrap();
    let found = verdicts(&joined.rows, &Options::default()).unwrap();
    let grades: Vec<_> =
        found.iter().filter_map(|verdict| Some((&*verdict.condition, verdict.grade?))).collect();
    let labels: Vec<&str> = before.plan.cells.iter().map(|cell| &*cell.label).collect();
    assert_eq!(grades, labels.iter().map(|label| (*label, Grade::Slower)).collect::<Vec<_>>());
    assert!(joined.alone.iter().all(Vec::is_empty));
    assert!(joined.doubts.contains(&Doubt::NotInTurn { apart: 86_400.0 }), "{:?}", joined.doubts);
    let same = super::joined(sides(&before, &slower(&before, 1.0 + 1e-6)), TimedBy::Recipe).unwrap();
    let found = verdicts(&same.rows, &Options::default()).unwrap();
    // A difference of a millionth is certain where nothing else differs.
    let small = |grade: Grade| matches!(grade, Grade::NoDifference | Grade::SlowerSmall);
    assert!(found.iter().filter_map(|verdict| verdict.grade).all(small), "{found:?}");
}

#[test]
fn single_arms_are_compared_under_each_condition() {
    let rows = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
    let [ps, d] = [0, 1].map(|arm| of_arm(&rows, arm));
    let joined = joined(sides(&ps, &d), TimedBy::Recipe).unwrap();
    // A sweep takes its arms in turn.
    assert!(joined.doubts.is_empty(), "{:?}", joined.doubts);
    let conditions: BTreeSet<&str> = rows.plan.cells.iter().map(|cell| &*cell.condition).collect();
    let found: BTreeSet<&str> = joined.rows.plan.cells.iter().map(|cell| &*cell.condition).collect();
    assert_eq!(found, conditions);
    // As in the sweep itself.
    let own = verdicts(&rows, &Options::default()).unwrap();
    let other = verdicts(&joined.rows, &Options::default()).unwrap();
    let grades = |all: &[crate::Verdict]| all.iter().filter_map(|verdict| verdict.grade).collect::<Vec<_>>();
    assert_eq!(grades(&own), grades(&other));
    assert!(joined.doubts.is_empty(), "{:?}", joined.doubts);
}

#[test]
fn what_one_side_alone_has_is_named() {
    let all = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
    let few = slower(&Sample { workers: vec![4], ..Sample::duel() }.rows(), 2.0);
    let mut later = slower(&all, 2.0);
    later.runs.retain(|run| run.cell != 0);
    let found = joined(sides(&all, &later), TimedBy::Recipe).unwrap();
    assert_eq!(found.alone, [vec![all.plan.cells[0].label.clone()], Vec::new()]);
    // One cell each is one pair, whatever they are called.
    let one = of_arm(&few, 0);
    let other = of_arm(&few, 1);
    assert_eq!(joined(sides(&one, &other), TimedBy::Recipe).unwrap().pairs.len(), 1);
}

#[test]
fn each_side_has_its_own_number_of_workers_commit_and_order_of_axes() {
    let before = Sample { workers: vec![4], ..Sample::duel() }.rows();
    let mut after = slower(&before, 1.3);
    before.commit.as_ref().unwrap();
    after.commit = Some(Commit { hash: "feedfacefeedface".to_owned(), is_changed: false });
    for cell in &mut after.plan.cells {
        cell.condition = "b=2 a=1".to_owned();
        cell.spec
            .cluster
            .placements
            .retain(|placement| placement.role != recipe::Role::Worker || placement.node != 0);
        let one = recipe::Placement { role: recipe::Role::Worker, node: 0 };
        cell.spec.cluster.placements.insert(0, one);
    }
    let mut first = before.clone();
    first.plan.cells.iter_mut().for_each(|cell| cell.condition = "a=1 b=2".to_owned());
    let found = joined(sides(&first, &after), TimedBy::Recipe).unwrap();
    assert_eq!(found.pairs.len(), 2);
    let commit = found.rows.commit.clone().unwrap().hash;
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
    let error = joined(sides(&rows, &again), TimedBy::Recipe).unwrap_err();
    assert!(matches!(error, JoinError::MeasuredOnce { .. }), "{error}");
    let error = joined(sides(&rows, &rows), TimedBy::Recipe).unwrap_err();
    assert!(matches!(error, JoinError::SameRun { .. }), "{error}");
    let mut none = rows.clone();
    none.runs.clear();
    assert!(matches!(joined(sides(&rows, &none), TimedBy::Recipe), Err(JoinError::NothingInCommon { .. })));
    let plain = Sample { target: None, ..Sample::duel() }.rows();
    let mut batch = slower(&plain, 1.1);
    batch.plan.cells.iter_mut().for_each(|cell| cell.spec.train.global_batch *= 2);
    assert!(matches!(
        joined(sides(&plain, &batch), TimedBy::Recipe),
        Err(JoinError::OtherWork { what: "global batch", .. })
    ));
    let other = slower(&plain, 1.1);
    assert!(matches!(joined(sides(&rows, &other), TimedBy::Recipe), Err(JoinError::OtherTarget { .. })));
    assert!(joined(sides(&rows, &other), TimedBy::Step).is_ok());
}
