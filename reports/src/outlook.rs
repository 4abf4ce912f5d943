//! Differences that a sweep can show, said before it is run: from its repeats, its comparisons and its evaluations.

use crate::number_format;
use crate::verdict::whole_percent;
use comparison::FEWEST_PAIRS;
use comparison::looks;
use comparison::smallest_in_deviations;
use comparison::statistics::CHANCE;
use recipe::{Cell, Extent, Plan, Run};
use std::collections::{BTreeMap, BTreeSet};

/// Spread between the runs of an arm for which the outlook is given: what step times on a quiet machine have, and what a busy
/// one or a target has.
const SPREADS: [f64; 2] = [0.02, 0.1];

/// Sentences on what the planned runs can settle, and what they cannot.
pub fn outlook(plan: &Plan) -> Vec<String> {
    if plan.arms.len() < 2 {
        return Vec::new();
    }
    let mut said = vec![repeats(plan)];
    said.extend(grid(plan));
    said
}

fn repeats(plan: &Plan) -> String {
    let repeats = plan.runs.iter().map(|run: &Run| run.repeat as usize + 1).max().unwrap_or(0);
    let family = comparisons(plan);
    let count = match plan.looks.as_slice() {
        [first, .., last] => format!("{first} to {last} repeats"),
        _ => number_format::plural(repeats, "repeat"),
    };
    if repeats < FEWEST_PAIRS {
        let equal = if repeats < 2 { "" } else { ", unless the arms train the same weights" };
        let verb = if repeats == 1 { "settles" } else { "settle" };
        return format!(
            "{count} {verb} nothing{equal}: set repeats.count to {FEWEST_PAIRS} for large differences, to 5 for most"
        );
    }
    let level = looks::level_of_each(plan.report.confidence, looks::number(plan)) / family as f64;
    let least = |spread: f64| {
        let pair = spread * std::f64::consts::SQRT_2;
        let found = pair * smallest_in_deviations(repeats as u32, 1.0 - level)?;
        let beyond = (found + (1.0 + plan.report.min_effect).ln()).exp() - 1.0;
        Some(format!("from {} on if runs spread by {}", rounded(beyond), whole_percent(spread)))
    };
    let found: Vec<String> = SPREADS.into_iter().filter_map(least).collect();
    format!(
        "{count}, {} per condition: with a chance of {}, differences are settled {}{}",
        number_format::plural(family, "comparison"),
        whole_percent(CHANCE),
        if plan.looks.is_empty() { "" } else { "by the last look " },
        found.join(", ")
    )
}

fn rounded(share: f64) -> String {
    format!("{}\u{a0}%", number_format::fixed((share * 100.0).ceil(), 0))
}

/// The most comparisons that any condition has.
fn comparisons(plan: &Plan) -> usize {
    let mut arms: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let points = plan.cells.iter().take(plan.number_of_points());
    for cell in points.filter(|cell| cell.excluded.is_none()) {
        arms.entry(&cell.condition).or_default().insert(cell.arm);
    }
    arms.values().map(BTreeSet::len).max().map_or(1, |arms| arms.saturating_sub(1)).max(1)
}

/// How far apart the evaluations lie, if that hides differences that matter.
fn grid(plan: &Plan) -> Option<String> {
    let with_target = |cell: &&Cell| cell.excluded.is_none() && cell.spec.train.target.is_some();
    let points = plan.cells.iter().take(plan.number_of_points());
    let fewest = points.filter(with_target).filter_map(evaluations).min()?;
    // Half-way through n evaluations, two neighbours are n / 2 and n / 2 - 1 intervals from the start.
    let half = fewest as f64 / 2.0;
    let apart = if half > 1.0 { half / (half - 1.0) - 1.0 } else { 1.0 };
    if fewest < 3 {
        return Some(format!(
            "{} per run hardly {} when a target is reached, except that arms of equal weights reach it together: evaluate more often \
             (train.evaluate)",
            number_format::plural(fewest as usize, "evaluation"),
            if fewest == 1 { "tells" } else { "tell" }
        ));
    }
    (apart > 2.0 * plan.report.min_effect).then(|| {
        format!(
            "{} per run, {} apart half-way: smaller differences in the steps to the target may stay open, except between arms that \
             train the same weights",
            number_format::plural(fewest as usize, "evaluation"),
            rounded(apart)
        )
    })
}

/// Number of evaluations of a run after its start; `None` if it depends on the size of files that are not read yet.
fn evaluations(cell: &Cell) -> Option<u64> {
    let train = &cell.spec.train;
    let times = match (train.length, train.evaluate) {
        (Extent::Epochs(length), Extent::Epochs(every)) => (length / every) as u64,
        (Extent::Steps(length), Extent::Steps(every)) => length / every.max(1),
        (length, every) => {
            let samples = cell.spec.dataset.source.training_samples()?;
            let of = |extent: Extent| extent.samples(samples, train.global_batch);
            of(length) / of(every).max(1)
        }
    };
    Some(times.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn said(sample: &Sample) -> String {
        outlook(&sample.rows().plan).join("\n").replace(['\u{a0}', '\u{202f}'], " ")
    }

    #[test]
    fn what_repeats_and_evaluations_can_show() {
        insta::assert_snapshot!(said(&Sample::duel()));
        let two = said(&Sample { repeats: 2, ..Sample::duel() });
        assert!(two.starts_with("2 repeats settle nothing, unless the arms train the same weights"), "{two}");
        let fine = said(&Sample { epochs: (4, 20), ..Sample::duel() });
        assert!(!fine.contains("evaluations"), "{fine}");
        // Seven comparisons share what five repeats can show.
        let mut eight = Sample::duel();
        let arm = eight.arms[1].clone();
        for number in 2..8 {
            eight.arms.push(crate::sample::SampleArm { name: format!("arm-{number}"), ..arm.clone() });
        }
        let found = |text: &str| -> f64 {
            let (_, rest) = text.split_once("settled from ").unwrap();
            rest.split_once(" %").unwrap().0.parse().unwrap()
        };
        let one = said(&Sample::duel());
        let seven = said(&eight);
        assert!(seven.starts_with("5 repeats, 7 comparisons per condition: "), "{seven}");
        assert!(found(&seven) > found(&one), "{one}\n{seven}");
        let alone = Sample { arms: Sample::duel().arms[..1].to_vec(), ..Sample::duel() };
        assert_eq!(said(&alone), "");
    }
}
