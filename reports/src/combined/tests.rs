//! Made-up sweeps of several dates, and of different arms, as one.

use super::*;
use crate::sample::Sample;
use crate::{Options, Timelines, page, verdict_rows};
use recipe::Prices;
use record::Nanos;

const DAY: i64 = 86_400;

/// The same sweep some days later, of which each run took `times` as long.
fn later(rows: &SweepRows, days: i64, times: f64) -> SweepRows {
    let mut rows = rows.clone();
    rows.id = format!("{}-{days}", rows.id);
    rows.started += days * DAY;
    let longer = |time: &mut Nanos| *time = Nanos((time.0 as f64 * times) as u64);
    for run in &mut rows.runs {
        run.id = format!("{}-{days}", run.id);
        let attempt = run.attempt.as_mut().unwrap();
        attempt.started += days * DAY;
        for time in
            [&mut attempt.wall, &mut attempt.training, &mut attempt.step_time, &mut attempt.mean_step_time]
        {
            time.iter_mut().for_each(longer);
        }
        attempt.metrics.iter_mut().for_each(|row| longer(&mut row.at));
    }
    rows
}

fn of_arm(rows: &SweepRows, arm: usize) -> SweepRows {
    let mut rows = rows.clone();
    let cells = &rows.plan.cells;
    rows.runs.retain(|run| cells[run.cell].arm == arm);
    rows
}

fn duel() -> SweepRows {
    Sample { workers: vec![2, 4], ..Sample::duel() }.rows()
}

#[test]
fn sweeps_of_the_same_arms_are_conditions_with_their_own_ratios() {
    let first = duel();
    let sweeps = [later(&first, 7, 1.3), first.clone()];
    let all = combined(&sweeps).unwrap();
    // Oldest first, whatever the order in which they are named.
    assert_eq!(all.names.len(), 2);
    assert!(all.names[0] < all.names[1], "{:?}", all.names);
    assert_eq!(all.rows.plan.arms.len(), 2);
    assert_eq!(all.rows.plan.cells.len(), 8);
    assert_eq!(all.rows.runs.len(), 2 * first.runs.len());
    for (place, run) in all.rows.runs.iter().enumerate() {
        let planned = all.rows.plan.runs[place];
        let cell = &all.rows.plan.cells[run.cell];
        assert_eq!((run.index, planned.cell, planned.seed), (place, run.cell, run.seed));
        let later = usize::from(run.id.ends_with("-7"));
        assert_eq!((&cell.axes[0].path[..], &cell.axes[0].text), ("sweep", &all.names[later]));
    }
    let own = verdict_rows(&first, &Options::default()).unwrap();
    let found = verdict_rows(&all.rows, &Options::default()).unwrap();
    assert_eq!(found.len(), 2 * own.len());
    for row in &own {
        let condition = format!("sweep={} {}", all.names[0], row.condition);
        let same = |other: &&crate::VerdictRow| other.condition == condition && other.measure == row.measure;
        let combined = found.iter().find(same).unwrap();
        assert_eq!(*combined, crate::VerdictRow { condition, ..row.clone() });
    }
}

#[test]
fn what_changed_from_sweep_to_sweep_is_said_of_each_arm() {
    let first = duel();
    let second = later(&first, 7, 1.0 + 1e-6);
    let third = later(&first, 14, 1.3);
    let all = combined(&[first, second, third]).unwrap();
    let changes = all.changes.clone().unwrap();
    assert_eq!(changes.rows.len(), 8);
    for change in &changes.rows {
        let slower = change.now == all.names[2];
        let ratio = change.value.unwrap();
        assert_eq!(change.class == "slower", slower, "{change:?}");
        assert!((ratio * if slower { 1.3 } else { 1.0 } - 1.0).abs() < 1e-4, "{change:?}");
    }
    let options = Options { changes: all.changes, remarks: all.remarks, ..Options::default() };
    let page = page(&all.rows, &Timelines::new(), &options).unwrap();
    assert!(page.html.contains("Became slower: "), "the change is named");
    assert!(page.html.contains("id=\"overview\""), "the sweeps are an axis");
}

#[test]
fn sweeps_of_different_arms_stand_side_by_side() {
    let rows = duel();
    let all = combined(&[of_arm(&rows, 0), of_arm(&later(&rows, 1, 1.0 + 1e-9), 1)]).unwrap();
    assert!(all.changes.is_none());
    assert_eq!(all.rows.plan.cells.len(), 4);
    let conditions: BTreeSet<&str> = all.rows.plan.cells.iter().map(|cell| cell.condition.as_str()).collect();
    assert_eq!(conditions.len(), 2);
    assert_eq!(
        verdict_rows(&all.rows, &Options::default()).unwrap().len(),
        verdict_rows(&rows, &Options::default()).unwrap().len()
    );
    assert!(all.remarks.iter().any(|remark| remark.contains("no arm in common")), "{:?}", all.remarks);
    // A run that both have was measured once.
    let mut reused = of_arm(&later(&rows, 1, 1.0), 1);
    let attempt = rows.runs[0].attempt.clone();
    reused.runs[0].attempt.clone_from(&attempt);
    let refused = combined(&[of_arm(&rows, 0), reused]).unwrap_err();
    assert!(matches!(refused, CombineError::Join(JoinError::MeasuredOnce { .. })), "{refused}");
    // Times to other targets are no times of the same race.
    let mut easier = of_arm(&later(&rows, 1, 1.0), 1);
    for cell in &mut easier.plan.cells {
        cell.spec.train.target = None;
    }
    let refused = combined(&[of_arm(&rows, 0), easier]).unwrap_err();
    assert!(matches!(refused, CombineError::Join(JoinError::OtherTarget { .. })), "{refused}");
}

#[test]
fn searches_are_shown_at_what_they_chose_and_this_is_said() {
    let rows = crate::sample::searched(&[0.1, 0.2, 0.4], 3, |_, rate, _| 1.0 - rate);
    let all = combined(&[rows.clone(), later(&rows, 1, 1.1)]).unwrap();
    assert!(all.rows.plan.search.is_none());
    assert!(all.remarks.iter().any(|remark| remark.contains("searched their settings")), "{:?}", all.remarks);
}

#[test]
fn two_selections_of_one_sweep_are_refused() {
    let rows = duel();
    let refused = combined(&[of_arm(&rows, 0), of_arm(&rows, 1)]).unwrap_err();
    assert_eq!(refused, CombineError::SameSweep { sweep: rows.id });
}

#[test]
fn an_arm_that_is_another_strategy_now_is_another_arm() {
    let rows = duel();
    let mut other = later(&rows, 1, 1.0);
    other.plan.arms[1].kind = "ps-sync".to_owned();
    let all = combined(&[rows, other]).unwrap();
    let names: Vec<&str> = all.rows.plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["ps-sync", "d-sync (d-sync)", "d-sync (ps-sync)"]);
    assert_eq!(all.rows.plan.arms.iter().filter(|arm| arm.baseline).count(), 1);
}

#[test]
fn sweeps_are_called_by_their_own_tag_or_by_their_start() {
    let rows = duel();
    let tagged = |mut rows: SweepRows, tags: &[&str]| {
        rows.annotations.tags = tags.iter().map(ToString::to_string).collect();
        rows
    };
    let named = |sweeps: &[SweepRows]| names::names(sweeps);
    let day = named(&[rows.clone(), later(&rows, 1, 1.0)]);
    assert_eq!(day, ["2026-11-20", "2026-11-21"]);
    let tags = [tagged(rows.clone(), &["weekly", "v1"]), tagged(later(&rows, 1, 1.0), &["weekly"])];
    assert_eq!(named(&tags), ["v1", "2026-11-21"]);
    let mut same_day = later(&rows, 0, 1.0);
    same_day.started += 60;
    assert_eq!(named(&[rows.clone(), same_day.clone()]), ["13:15", "13:16"]);
    let three = [rows.clone(), same_day, later(&rows, 1, 1.0)];
    assert_eq!(named(&three), ["2026-11-20T13:15", "2026-11-20T13:16", "2026-11-21T13:15"]);
    let twins = [rows.clone(), later(&rows, 0, 1.0)];
    assert_eq!(named(&twins), [rows.id.clone(), format!("{}-0", rows.id)]);
}

#[test]
fn what_one_recipe_keeps_off_pages_is_on_none() {
    let rows = duel();
    let mut shy = later(&rows, 1, 1.3);
    shy.plan.report.redact = vec![Redaction::Paths];
    shy.recipe_path = "/home/ada/secret/duel.toml".to_owned();
    for cell in &mut shy.plan.cells {
        cell.condition = format!("path=/home/ada/secret/{}", cell.arm);
    }
    let all = combined(&[rows, shy]).unwrap();
    let options = Options { changes: all.changes, remarks: all.remarks, ..Options::default() };
    let html = page(&all.rows, &Timelines::new(), &options).unwrap().html;
    assert!(!html.contains("/home/ada"), "a path is on the page");
}

#[test]
fn prices_stay_with_their_cells_unless_currencies_differ() {
    let priced = |mut rows: SweepRows, currency: &str, factor: f64| {
        let cells = (0..rows.plan.cells.len()).map(|cell| Some(factor * (1.0 + cell as f64))).collect();
        rows.plan.report.prices = Prices { currency: currency.to_owned(), cells };
        rows
    };
    let rows = duel();
    let all =
        combined(&[priced(rows.clone(), "EUR", 1.0), priced(later(&rows, 1, 1.0), "EUR", 10.0)]).unwrap();
    let prices: Vec<Option<f64>> = (0..8).map(|cell| all.rows.plan.report.prices.of(cell)).collect();
    assert_eq!(prices, [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0].map(Some));
    assert_eq!(all.rows.plan.report.prices.currency, "EUR");
    let mixed =
        combined(&[priced(rows.clone(), "EUR", 1.0), priced(later(&rows, 1, 1.0), "USD", 1.0)]).unwrap();
    assert!(mixed.rows.plan.report.prices.is_none());
    assert!(mixed.remarks.iter().any(|remark| remark.contains("currencies")), "{:?}", mixed.remarks);
}

fn html(all: Combined) -> String {
    let options = Options { changes: all.changes, remarks: all.remarks, ..Options::default() };
    page(&all.rows, &Timelines::new(), &options).unwrap().html
}

#[test]
fn an_arm_called_like_another_one_with_its_strategy_keeps_its_own_runs() {
    let mut rows = duel();
    rows.plan.arms[1].name = "tuned (d-sync)".to_owned();
    let all = combined(&[rows.clone(), later(&rows, 1, 1.0)]).unwrap();
    let names: Vec<&str> = all.rows.plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["ps-sync", "tuned (d-sync)"]);
    let runs_of =
        |arm: usize| all.rows.runs.iter().filter(|run| all.rows.plan.cells[run.cell].arm == arm).count();
    assert_eq!((runs_of(0), runs_of(1)), (rows.runs.len(), rows.runs.len()));
    // Another arm of the same strategy is not the same arm, even where each sweep has one.
    let mut other = of_arm(&later(&rows, 2, 1.5), 1);
    other.plan.arms[1].name = "d-sync".to_owned();
    let all = combined(&[rows.clone(), of_arm(&later(&rows, 1, 1.0), 0), other]).unwrap();
    assert!(all.changes.unwrap().rows.iter().all(|row| row.label.starts_with("ps-sync")));
}

#[test]
fn what_never_reached_its_target_has_not_lost_it() {
    let far = |mut rows: SweepRows| {
        for run in &mut rows.runs {
            run.attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.value = 0.5);
        }
        rows
    };
    let rows = duel();
    let became = |first: SweepRows, second: SweepRows| -> Vec<Option<Became>> {
        combined(&[first, second]).unwrap().changes.unwrap().rows.iter().map(|row| row.became).collect()
    };
    assert_eq!(became(far(rows.clone()), far(later(&rows, 1, 1.0))), [None; 4]);
    assert_eq!(became(rows.clone(), far(later(&rows, 1, 1.0))), [Some(Became::Unable); 4]);
    assert_eq!(became(far(rows.clone()), later(&rows, 1, 1.0)), [Some(Became::Able); 4]);
    let page = html(combined(&[rows.clone(), far(later(&rows, 1, 1.0))]).unwrap());
    assert!(page.contains("No longer at the target: "), "not said");
}

#[test]
fn runs_that_were_taken_over_show_no_change_and_other_settings_are_said() {
    let rows = duel();
    let mut second = later(&rows, 1, 1.3);
    // The first arm's runs are those of the first sweep.
    let measured: Vec<_> = rows.runs.iter().map(|run| run.attempt.clone()).collect();
    let cells = second.plan.cells.clone();
    for (run, attempt) in second.runs.iter_mut().zip(measured) {
        if cells[run.cell].arm == 0 {
            run.attempt = attempt;
        }
    }
    for cell in second.plan.cells.iter_mut().filter(|cell| cell.arm == 1) {
        cell.config_hash = "other".to_owned();
    }
    let all = combined(&[rows, second]).unwrap();
    let changes = all.changes.clone().unwrap();
    assert_eq!(changes.rows.len(), 2, "{changes:?}");
    assert!(changes.rows.iter().all(|row| row.label.starts_with("d-sync") && row.is_set_otherwise));
    assert!(changes.notes.iter().any(|note| note.contains("were measured once")), "{:?}", changes.notes);
    assert!(html(all).contains(", with other settings)"));
}

#[test]
fn conditions_meet_in_whatever_order_their_axes_stand() {
    let rows = duel();
    let named = |mut rows: SweepRows, order: [&str; 2]| {
        for cell in &mut rows.plan.cells {
            let workers = cell.spec.cluster.workers().to_string();
            cell.condition = order
                .map(|key| format!("{key}={}", if key == "workers" { &*workers } else { "1" }))
                .join(" ");
        }
        rows
    };
    let one = of_arm(&named(rows.clone(), ["workers", "lr"]), 0);
    let other = of_arm(&named(later(&rows, 1, 1.0 + 1e-9), ["lr", "workers"]), 1);
    let all = combined(&[one, other]).unwrap();
    let conditions: BTreeSet<&str> = all.rows.plan.cells.iter().map(|cell| cell.condition.as_str()).collect();
    assert_eq!(conditions, BTreeSet::from(["workers=2 lr=1", "workers=4 lr=1"]));
    assert!(all.remarks.iter().all(|remark| !remark.contains("No condition")), "{:?}", all.remarks);
}

#[test]
fn sweeps_without_a_measurement_or_a_baseline_are_named() {
    let rows = duel();
    let mut again = later(&rows, 1, 1.0);
    for (run, measured) in again.runs.iter_mut().zip(&rows.runs) {
        run.attempt.clone_from(&measured.attempt);
    }
    let id = again.id.clone();
    let all = combined(&[rows.clone(), again, later(&rows, 2, 1.0)]).unwrap();
    assert_eq!(all.names.len(), 2);
    assert!(all.remarks.iter().any(|remark| remark.starts_with("Not shown") && remark.contains(&id)));
    let all = combined(&[rows.clone(), later(&rows, 1, 1.0), of_arm(&later(&rows, 2, 1.0), 1)]).unwrap();
    let said = all.remarks.iter().find(|remark| remark.contains("nothing is compared")).unwrap();
    assert!(said.contains(&all.names[2]) && said.contains("ps-sync"), "{said}");
}
