//! A search's section: what each arm chose, what it cost, and what it says before a rung is over.

use super::*;
use crate::sample::{decided, searched};
use comparison::study::Study;
use recipe::Metric;
use recipe::Trial;
use store::MetricRow;
use store::RunState;

fn rates(rows: &SweepRows, cells: &BTreeSet<usize>) -> Vec<(usize, f64)> {
    let trials = &rows.plan.search.as_ref().unwrap().trials;
    let trial =
        |cell: &usize| trials.iter().find(|trial| trial.cell == *cell || trial.rungs.contains(cell)).unwrap();
    cells.iter().map(|cell| (rows.plan.cells[*cell].arm, trial(cell).setting[0].number.unwrap())).collect()
}

/// The first arm is best at 0.2, the second at 0.8, by both rungs but for the first one's order.
fn peaked(arm: usize, rate: f64, rung: u32) -> f64 {
    let best = if arm == 0 { 0.2_f64 } else { 0.8 };
    0.9 - (rate / best).ln().abs() / 100.0 + f64::from(rung) / 50.0
}

const RATES: [f64; 5] = [0.1, 0.2, 0.4, 0.8, 1.6];

#[test]
fn each_arm_goes_on_with_its_own_best() {
    let rows = searched(&RATES, 2, peaked);
    let first = promoted(&rows, 0).unwrap();
    let found = rates(&rows, &first.needed);
    // Three of five; of two that are equally far from the best the first one in the plan.
    let mut of_first: Vec<f64> = found.iter().filter(|(arm, _)| *arm == 0).map(|(_, rate)| *rate).collect();
    of_first.sort_by(f64::total_cmp);
    assert_eq!(of_first, [0.1, 0.2, 0.4]);
    let search = rows.plan.search.as_ref().unwrap();
    assert!(first.needed.iter().all(|cell| search.rung_of(*cell) == Some(1)));
    let last = promoted(&rows, 1).unwrap();
    assert_eq!(rates(&rows, &last.needed), [(0, 0.2), (1, 0.8)]);
    assert!(last.needed.iter().all(|cell| search.rung_of(*cell).is_none()));
    assert_eq!(last.words[1], "d-sync: lr=0.8 (92.0\u{a0}%) is the best of 3, and trains to the end");
}

/// A setting that was given up in the first rung is not chosen, however good it would have been in the second.
#[test]
fn a_setting_that_was_given_up_stays_so() {
    let rows = searched(&RATES, 3, |_, rate, rung| match (rate, rung) {
        (1.6, 1) => 0.99,
        (rate, _) => 0.9 - rate / 10.0,
    });
    let last = promoted(&rows, 1).unwrap();
    assert_eq!(rates(&rows, &last.needed), [(0, 0.1), (1, 0.1)]);
}

#[test]
fn what_diverged_or_failed_does_not_go_on() {
    let mut rows = searched(&RATES, 2, peaked);
    let trial = |rows: &SweepRows, arm: usize, rate: f64| {
        let trials = &rows.plan.search.as_ref().unwrap().trials;
        let own =
            |trial: &&Trial| rows.plan.cells[trial.cell].arm == arm && trial.setting[0].number == Some(rate);
        trials.iter().find(own).unwrap().clone()
    };
    for (rate, state) in [(0.2, RunState::Diverged), (0.1, RunState::Failed)] {
        let cell = trial(&rows, 0, rate).rungs[0];
        rows.runs.iter_mut().find(|run| run.cell == cell).unwrap().state = state;
    }
    let last = promoted(&rows, 1).unwrap();
    assert_eq!(rates(&rows, &last.needed), [(0, 0.4), (1, 0.8)]);
    // A setting that diverged is a result; one that failed is named.
    let told = &promoted(&rows, 0).unwrap().words;
    assert!(told[0].ends_with("; given up, because its run failed: lr=0.1"), "{}", told[0]);
    assert!(!told[1].contains("failed"), "{}", told[1]);
    for run in rows.runs.iter_mut().filter(|run| rows.plan.cells[run.cell].arm == 1) {
        run.state = RunState::Diverged;
    }
    let none = promoted(&rows, 0).unwrap();
    assert!(rates(&rows, &none.needed).iter().all(|(arm, _)| *arm == 0));
    assert_eq!(none.words[1], "d-sync: none of 5 settings is promoted, for none ended as planned");
}

#[test]
fn arms_are_compared_at_what_they_chose() {
    let rows = decided(&RATES, 2, peaked);
    let chosen = promoted(&rows, 1).unwrap().needed;
    let study = Study::new(&rows, None).unwrap();
    assert_eq!(study.conditions.len(), 1);
    let cells: BTreeSet<usize> = study.conditions[0].cells.iter().map(|cell| cell.index).collect();
    assert_eq!(cells, chosen);
    assert!(study.conditions[0].cells.iter().all(|cell| (cell.runs.len(), cell.planned) == (3, 3)));
}

#[test]
fn runs_of_later_rungs_are_not_missing_before_their_time() {
    let mut rows = searched(&RATES, 2, peaked);
    let pending = |run: &mut RunRow| (run.state, run.attempt) = (RunState::Pending, None);
    let number = |rows: &SweepRows| due(rows).count();
    // Five, three, and three repeats of one, for each of two arms.
    assert_eq!(number(&rows), 2 * (5 + 3 + 3));
    let search = rows.plan.search.clone().unwrap();
    rows.runs.iter_mut().filter(|run| search.rung_of(run.cell) != Some(0)).for_each(pending);
    assert_eq!(number(&rows), 2 * (5 + 3));
    let first = rows.runs.iter_mut().find(|run| search.rung_of(run.cell) == Some(0));
    pending(first.unwrap());
    assert_eq!(number(&rows), 5 + 5 + 3);
}

#[test]
fn nothing_is_chosen_before_its_rung_is_over() {
    let mut rows = searched(&RATES, 2, peaked);
    let outcome = |rows: &SweepRows| {
        let search = rows.plan.search.as_ref().unwrap();
        let group = Group::all(rows, search).remove(0);
        match group.outcome() {
            Outcome::Chosen(trial) => trial.setting[0].text.clone(),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(outcome(&rows), "0.2");
    let search = rows.plan.search.clone().unwrap();
    let cell = |rate: f64, rung: usize| {
        search.trials.iter().find(|trial| trial.setting[0].number == Some(rate)).unwrap().rungs[rung]
    };
    let place = |rows: &SweepRows, cell: usize| rows.runs.iter().position(|run| run.cell == cell).unwrap();
    // A rival of the best in the last rung, then one in the first.
    for cell in [cell(0.4, 1), cell(1.6, 0)] {
        let run = place(&rows, cell);
        let before = rows.runs[run].clone();
        (rows.runs[run].state, rows.runs[run].attempt) = (RunState::Running, None);
        assert_eq!(outcome(&rows), "UnderWay");
        assert!(promoted(&rows, 1).unwrap().needed.iter().all(|cell| rows.plan.cells[*cell].arm == 1));
        rows.runs[run] = before;
    }
    let kept = rows.runs.clone();
    rows.runs.retain(|run| search.rung_of(run.cell).is_none());
    assert_eq!(outcome(&rows), "NotSelected");
    rows.runs = kept;
    for run in rows.runs.iter_mut().filter(|run| search.rung_of(run.cell) == Some(0)) {
        run.state = RunState::TimedOut;
    }
    assert_eq!(outcome(&rows), "NoneLeft");
    assert!(is_in_vain(&rows));
}

#[test]
fn the_metric_is_that_of_the_target_where_it_was_measured() {
    let mut rows = searched(&RATES, 2, peaked);
    let chosen_by = |rows: &SweepRows| Group::all(rows, rows.plan.search.as_ref().unwrap())[0].metric;
    assert_eq!(chosen_by(&rows), Metric::ValidationAccuracy);
    for run in &mut rows.runs {
        let attempt = run.attempt.as_mut().unwrap();
        let last = attempt.metrics.last().unwrap().clone();
        attempt.metrics.push(MetricRow { metric: Metric::ValidationLoss, value: 0.5, ..last });
    }
    assert_eq!(chosen_by(&rows), Metric::ValidationAccuracy);
    for cell in &mut rows.plan.cells {
        cell.spec.train.target.as_mut().unwrap().metric = Metric::TestLoss;
    }
    assert_eq!(chosen_by(&rows), Metric::ValidationLoss);
}
