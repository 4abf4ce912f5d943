//! Sentences on costs whose true ratios are known.

use super::*;
use crate::Options;
use crate::sample::{Sample, SampleArm};
use recipe::{Placement, Prices, Role, Strategy};
use record::Nanos;
use store::SweepRows;

/// Arms whose steps take these milliseconds, all runs alike to a part in ten thousand; the baseline is a parameter server, whose
/// server is a rank, too.
fn steps(milliseconds: &[f64]) -> SweepRows {
    let arm = |place: usize| SampleArm {
        name: format!("arm {place}"),
        strategy: if place == 0 { Strategy::PsSync } else { Strategy::DSync },
        compute: 6.0,
        communicate: 3.0,
        ceiling: 0.98,
    };
    let arms = (0..milliseconds.len()).map(arm).collect();
    let mut rows = Sample { arms, repeats: 5, target: None, epochs: (1, 1), ..Sample::duel() }.rows();
    for run in &mut rows.runs {
        let jitter = 1.0 + 1e-4 * f64::from((run.repeat * 7 + run.cell as u32 * 3) % 5);
        let step = Nanos((milliseconds[run.cell] * 1e6 * jitter) as u64);
        let attempt = run.attempt.as_mut().unwrap();
        (attempt.step_time, attempt.mean_step_time) = (Some(step), Some(step));
    }
    rows
}

fn section(rows: &SweepRows) -> Section {
    Section::of(&Findings::of(rows, &Options::default()).unwrap()).unwrap()
}

/// The cells of a column, without narrow spaces.
fn column(section: &Section, name: &str) -> Vec<String> {
    let table = section.table();
    let place = table.columns.iter().position(|column| column == name);
    let place = place.unwrap_or_else(|| panic!("no {name} in {:?}", table.columns));
    table.rows.iter().map(|row| row[place].replace('\u{a0}', " ")).collect()
}

fn said(section: &Section) -> String {
    section.said.join(" ").replace('\u{a0}', " ")
}

/// Puts the last worker of an arm on a machine of its own.
fn spread(rows: &mut SweepRows, arm: usize) {
    for cell in rows.plan.cells.iter_mut().filter(|cell| cell.arm == arm) {
        let cluster = &mut cell.spec.cluster;
        let other = recipe::Node { name: "lab2".to_owned(), ..cluster.nodes[0].clone() };
        cluster.nodes.push(other);
        let place = cluster.placements.iter().rposition(|placement| placement.role == Role::Worker).unwrap();
        cluster.placements[place] = Placement { role: Role::Worker, node: 1 };
    }
}

#[test]
fn on_one_machine_a_server_is_paid_for_as_a_rank() {
    // 12,000 samples in batches of 100 are 120 steps.
    let found = section(&steps(&[10.0, 9.8]));
    assert_eq!(column(&found, "ranks"), ["5", "4"]);
    assert_eq!(column(&found, "machine time"), ["1.2002 s", "1.1762 s"]);
    assert_eq!(column(&found, "rank time"), ["6.0012 s", "4.7049 s"]);
    // 9.8 / 10 * 4 / 5.
    let ratio = &column(&found, "rank time ratio")[1];
    assert!(ratio.starts_with("0.784× (0.784–0.784)"), "{ratio}");
    // Two per cent less time are no difference that matters; a fifth of the ranks is.
    assert_eq!(column(&found, "verdict"), ["baseline", "cheaper"]);
    assert_eq!(
        said(&found),
        "arm 1 is the soonest, in front of some by less than 5 %; it is the cheapest (1.1762 s, 4.7049 s of rank time)."
    );
    assert!(found.notes.iter().any(|note| note.contains("rank time decides")), "{:?}", found.notes);
}

#[test]
fn a_slower_arm_that_is_cheaper_is_named() {
    let found = section(&steps(&[10.0, 11.5]));
    let said = said(&found);
    assert_eq!(
        said,
        "arm 0 is the soonest (1.2002 s, 6.0012 s of rank time); arm 1 is the cheapest (1.3803 s, 5.5211 s of rank time), with 1.15× the \
         time at 0.92× the cost."
    );
    assert_eq!(column(&found, "verdict"), ["baseline", "cheaper"]);
}

#[test]
fn a_ratio_of_costs_is_judged_by_the_rule_of_ratios_of_times() {
    // A quarter more time on a fifth less of ranks: the same cost.
    let found = section(&steps(&[10.0, 12.5]));
    assert_eq!(column(&found, "verdict"), ["baseline", "no difference that matters"]);
    assert!(column(&found, "rank time ratio")[1].starts_with("1.000× ("), "{:?}", found.rows);
    let dearer = section(&steps(&[10.0, 14.0]));
    assert_eq!(column(&dearer, "verdict"), ["baseline", "dearer"]);
    // One run each settles nothing.
    let mut one = steps(&[10.0, 11.5]);
    one.runs.retain(|run| run.repeat == 0);
    one.plan.runs.retain(|run| run.repeat == 0);
    let found = section(&one);
    assert_eq!(column(&found, "verdict"), ["baseline", "open"]);
    assert!(said(&found).contains("whether arm 1 is the cheapest is open"), "{}", said(&found));
}

#[test]
fn several_machines_are_paid_for_as_a_whole() {
    let mut rows = steps(&[10.0, 8.0]);
    spread(&mut rows, 1);
    let found = section(&rows);
    assert_eq!(column(&found, "machines"), ["1", "2"]);
    assert_eq!(column(&found, "machine time"), ["1.2002 s", "1.9204 s"]);
    assert!(column(&found, "machine time ratio")[1].starts_with("1.600×"));
    assert_eq!(column(&found, "verdict"), ["baseline", "dearer"]);
    assert!(said(&found).contains("arm 1 is the soonest"), "{}", said(&found));
    assert!(said(&found).contains("arm 0 is the cheapest"), "{}", said(&found));
}

#[test]
fn where_machines_have_prices_money_decides() {
    let mut rows = steps(&[10.0, 8.0]);
    spread(&mut rows, 1);
    rows.plan.report.prices =
        Prices { currency: "<b>EUR".to_owned(), cells: vec![Some(9_000.0), Some(10_000.0)] };
    let found = section(&rows);
    // 1.2 s at 2.5 a second, and 0.96 s at 2.78.
    assert_eq!(column(&found, "price (<b>EUR)"), ["3.0006", "2.6672"]);
    assert!(column(&found, "price ratio")[1].starts_with("0.889×"));
    assert_eq!(column(&found, "verdict"), ["baseline", "cheaper"]);
    assert!(
        said(&found).contains("arm 1 is the soonest and the cheapest (960.19 ms, 2.6672 <b>EUR)"),
        "{}",
        said(&found)
    );
    let page = crate::page(&rows, &crate::Timelines::new(), &Options::default()).unwrap().html;
    assert!(page.contains("price (&lt;b&gt;EUR)") && !page.contains("<b>EUR"));
    // An arm without a price, and a free one, are compared by machines.
    for price in [None, Some(0.0)] {
        rows.plan.report.prices.cells[1] = price;
        let found = section(&rows);
        assert_eq!(column(&found, "verdict"), ["baseline", "dearer"]);
        assert_eq!(column(&found, "price ratio")[1], "–");
    }
}

#[test]
fn an_arm_that_missed_its_target_has_no_cost() {
    let mut rows = Sample::duel().rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
        run.attempt.as_mut().unwrap().metrics.retain(|row| row.value < 0.9);
    }
    let found = section(&rows);
    assert_eq!(column(&found, "time to target")[1], "–");
    assert_eq!(column(&found, "rank time")[1], "–");
    assert_eq!(column(&found, "verdict")[1], "did not reach");
    assert!(said(&found).starts_with("ps-sync alone is compared"), "{}", said(&found));
    rows.runs.clear();
    assert!(Section::of(&Findings::of(&rows, &Options::default()).unwrap()).is_none());
}

#[test]
fn many_conditions_name_those_where_the_soonest_is_not_the_cheapest() {
    let rows = crate::sample::under_conditions(&steps(&[10.0, 11.5]), 6);
    let found = section(&rows);
    assert_eq!(
        found.said[0],
        "In 0 of 6 conditions the arm with the least time is also the one with the least cost."
    );
    assert_eq!(found.said.len(), 7);
    assert_eq!(found.table().columns[1], "condition");
    assert_eq!(found.rows.len(), 12);
}
