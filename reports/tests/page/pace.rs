//! Workers that go at their own pace: staleness, averagings, weights that differ; and communication that is hidden.

use crate::checks::{changed, checked};
use record::Rank;
use reports::sample::Sample;
use store::{AveragingRow, MetricRow, RunState, StalenessRow, SweepRows};

/// The duel with a server that takes gradients as they come, and workers that ask each other for averages.
fn at_their_own_pace(rows: &mut SweepRows) {
    for cell in rows.plan.cells.iter_mut().filter(|cell| cell.arm == 0) {
        cell.spec.strategy = recipe::Strategy::AsyncSgd { serve: recipe::Serve::All, staleness_bound: None };
    }
    for run in &mut rows.runs {
        let attempt = run.attempt.as_mut().unwrap();
        if run.cell == 0 {
            let server = Rank(4);
            let counts = [5, 10, 60, 20, 4, 0, 0, 0, 0, 0, 0, 1];
            attempt.staleness = (0..4)
                .flat_map(|worker| {
                    (0..).zip(counts).map(move |(staleness, count)| (worker, staleness, count))
                })
                .filter(|(.., count)| *count > 0)
                .map(|(worker, staleness, count)| StalenessRow {
                    server,
                    worker: Rank(worker),
                    staleness,
                    count,
                })
                .collect();
            attempt.weights = Some(Err(vec!["0: a".to_owned(), "4: b".to_owned()]));
        } else {
            let asked = |rank| AveragingRow { rank: Rank(rank), peer: Rank((rank + 1) % 4), count: 7 };
            attempt.averagings = (0..4).map(asked).collect();
            let distance = |row: &MetricRow| MetricRow {
                metric: recipe::Metric::ConsensusDistance,
                model: "mean of 4 ranks".to_owned(),
                value: 0.25,
                ..row.clone()
            };
            attempt.beside = attempt.metrics.iter().map(distance).collect();
        }
    }
}

#[test]
fn staleness_and_pairs_are_shown_where_there_are_any() {
    let plain = checked(&Sample::duel().rows());
    for words in ["id=\"staleness\"", "#staleness", "Staleness", "staleness.csv"] {
        assert!(!plain.contains(words), "{words}");
    }
    let page = changed(at_their_own_pace);
    for words in [
        "2000 updates in 5 runs: mean 2.17, 95 % at most 3, largest 11.",
        "ps-sync, staleness 2: 1200 updates, 60.0\u{a0}%",
        "ps-sync, staleness 5 or more: 20 updates, 1.00\u{a0}%",
        "<th scope=\"row\">rank 3</th><td>rank 4</td><td>500</td><td>25.0\u{a0}%</td><td>2.17</td><td>2</td><td>3</td><td>11</td>",
        "rank 3 asked rank 0: 7 averagings",
        "models from their mean: 0 if all are equal",
        "all ranks end with the same bits; not applicable to ps-sync",
        "<td>not applicable</td>",
        "-staleness.csv",
        "-averagings.csv",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert!(!page.contains("different weights"));
}

/// Each of four workers asks once in ten of its steps, or once in four.
#[test]
fn gradients_that_rarely_meet_a_partner_are_a_reason_for_doubt() {
    let steps = Sample::duel().rows().runs.last().unwrap().attempt.as_ref().unwrap().steps;
    let page = |count: u64| {
        changed(|rows| {
            at_their_own_pace(rows);
            for cell in rows.plan.cells.iter_mut().filter(|cell| cell.arm != 0) {
                let averaging = recipe::Averaging::EachStep;
                cell.spec.strategy = recipe::Strategy::AdPsgd { topology: recipe::Topology::Ring, averaging };
            }
            let attempts = rows.runs.iter_mut().filter_map(|run| run.attempt.as_mut());
            attempts.flat_map(|attempt| &mut attempt.averagings).for_each(|row| row.count = count);
        })
    };
    let rare = page(steps / 10);
    let often = page(steps / 4);
    assert!(rare.contains("0.10 averagings per gradient, workers train mostly alone"));
    assert!(rare.contains("<p class=\"note\">0.10 averagings per gradient.</p>"));
    assert!(often.contains("<p class=\"note\">0.25 averagings per gradient.</p>"));
    assert!(!often.contains("mostly alone"));
    // Least of all where no pair ever averaged.
    assert!(page(0).contains("0.00 averagings per gradient, workers train mostly alone"));
}

/// The marks are at the target's value, which is no distance.
#[test]
fn only_the_curves_of_what_is_aimed_at_show_who_reached_the_target() {
    let marks = |page: &str| page.matches("reached the target at").count();
    let plain = marks(&checked(&Sample::duel().rows()));
    assert!(plain > 0);
    assert_eq!(marks(&changed(at_their_own_pace)), plain);
}

#[test]
fn ranks_that_must_agree_and_do_not_are_a_reason_for_doubt() {
    let apart = |rows: &mut SweepRows| {
        rows.runs[1].attempt.as_mut().unwrap().weights =
            Some(Err(vec!["0: a".to_owned(), "1: b".to_owned()]));
    };
    assert!(changed(apart).contains("ranks end with different weights in 1 run"));
    let diverged = |rows: &mut SweepRows| {
        apart(rows);
        rows.runs[1].state = RunState::Diverged;
    };
    assert!(changed(diverged).contains("all ranks end with the same bits"));
}

#[test]
fn hidden_communication_stands_beside_what_is_exposed() {
    let page = changed(|rows| {
        for rank in rows.runs.iter_mut().filter_map(|run| run.attempt.as_mut()).flat_map(|run| &mut run.ranks)
        {
            let store::Steady { time, steps } = rank.steady;
            (rank.exposed, rank.hidden) =
                (record::Nanos(steps * 1_000_000), record::Nanos(steps * 3_000_000));
            assert!(rank.role == recipe::Role::Server || time.0 > steps * 4_000_000);
        }
    });
    for words in [
        "ps-sync, exposed communication: 1.00\u{a0}ms",
        "ps-sync, hidden communication: 3.00\u{a0}ms",
        "<td class=\"number\">1.00\u{a0}ms</td><td class=\"number\">3.00\u{a0}ms</td><td class=\"number\">75.0\u{a0}%</td>",
        "url(#hatch-hidden)",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
}

/// Arms on an emulated network of which some, or none, have equations.
#[test]
fn what_is_not_predicted_has_a_reason_and_no_empty_chart() {
    let on_network = |rows: &mut store::SweepRows, predicted: usize| {
        for (number, cell) in rows.plan.cells.iter_mut().enumerate() {
            let latency = std::time::Duration::from_millis(1);
            cell.spec.emulation.network = Some(recipe::Network { bandwidth: 1_000_000, latency });
            cell.spec.strategy =
                if number < predicted { recipe::Strategy::DSync } else { recipe::Strategy::Sgp };
        }
    };
    let some = changed(|rows| on_network(rows, 1));
    assert!(some.contains("id=\"forecast-title\"") && some.contains("<td>Pipe-SGD Eq. 2</td>"));
    assert!(some.contains("no model of <code>sgp</code>"));
    let none = changed(|rows| on_network(rows, 0));
    assert!(
        none.contains("<h2>Predicted and measured</h2>") && none.contains("no model of <code>sgp</code>")
    );
    assert!(!none.contains("id=\"forecast-title\"") && !none.contains("Pipe-SGD Eq."));
}
