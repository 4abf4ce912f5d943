//! Whether the runs of two arms were made in turn, from the starts of their attempts.
//!
//! A drift that is steady over the time of two arms' runs enters the difference of their means by the difference of their
//! mean starts, as a share of that time: half of it where one arm ran after the other, nothing where each runs first as
//! often as second.

use comparison::study::{ArmCell, JudgedRun, Study};
use std::collections::BTreeSet;

/// From this share on, arms did not run in turn: two blocks have at least a half, and runs that alternate at most a third
/// from two repeats on.
const IN_TURN: f64 = 0.45;

/// How the runs of an arm lie beside those of the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turns {
    /// Index of the arm in the plan.
    pub(crate) arm: usize,
    pub(crate) kind: TurnKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TurnKind {
    /// Runs of one of them are from an earlier sweep, and none of the other.
    ReusedOnOneSide {
        /// Index of the arm with such runs.
        arm: usize,
        /// Number of such runs.
        reused: usize,
        /// Number of all judged runs of that arm.
        runs: usize,
    },
    /// One run of each.
    Once,
    /// One after the other, with the share of a steady drift that enters the comparison.
    Apart(f64),
    /// In turn, with the same share.
    InTurn(f64),
}

impl TurnKind {
    /// From the most doubtful to the least.
    fn place(self) -> (u8, f64) {
        match self {
            Self::ReusedOnOneSide { reused, runs, .. } => (3, reused as f64 / runs.max(1) as f64),
            Self::Apart(share) => (2, share),
            Self::Once => (1, 0.0),
            Self::InTurn(share) => (0, share),
        }
    }
}

/// The most doubtful comparison of the page; `None` where nothing is compared.
pub(crate) fn worst(study: &Study) -> Option<Turns> {
    let compared = study.conditions.iter().flat_map(|condition| {
        let baseline = condition.cell(study.baseline);
        let others = condition.cells.iter().filter(|cell| cell.arm != study.baseline);
        baseline.into_iter().flat_map(move |baseline| others.clone().filter_map(|cell| turns(baseline, cell)))
    });
    compared.max_by(|left, right| {
        let left = left.kind.place();
        let right = right.kind.place();
        left.0.cmp(&right.0).then(left.1.total_cmp(&right.1))
    })
}

fn turns(baseline: &ArmCell, cell: &ArmCell) -> Option<Turns> {
    let reused = |cell: &ArmCell| cell.runs.iter().filter(|judged| judged.run.reused).count();
    let one_sided = |cell: &ArmCell| TurnKind::ReusedOnOneSide {
        arm: cell.arm,
        reused: reused(cell),
        runs: cell.runs.len(),
    };
    if baseline.runs.is_empty() || cell.runs.is_empty() {
        return None;
    }
    let repeats = common_repeats(baseline, cell);
    let kind = match (reused(baseline), reused(cell)) {
        (0, 1..) => one_sided(cell),
        (1.., 0) => one_sided(baseline),
        _ if baseline.runs.len() + cell.runs.len() == 2 => TurnKind::Once,
        _ => match share_of_drift(&starts(baseline, &repeats), &starts(cell, &repeats)) {
            share if share >= IN_TURN => TurnKind::Apart(share),
            share => TurnKind::InTurn(share),
        },
    };
    Some(Turns { arm: cell.arm, kind })
}

/// The repeats that both have, which the comparison pairs; all where they have none in common.
fn common_repeats(left: &ArmCell, right: &ArmCell) -> BTreeSet<u32> {
    let of = |cell: &ArmCell| cell.runs.iter().map(|judged| judged.run.repeat).collect::<BTreeSet<u32>>();
    let left = of(left);
    let right = of(right);
    let common: BTreeSet<u32> = left.intersection(&right).copied().collect();
    if common.is_empty() { left.union(&right).copied().collect() } else { common }
}

/// Starts in seconds. Runs that began within the same second are in the order of the plan.
fn starts(cell: &ArmCell, repeats: &BTreeSet<u32>) -> Vec<f64> {
    let start = |judged: &JudgedRun| judged.attempt.started as f64 + judged.run.index as f64 * 1e-6;
    cell.runs.iter().filter(|judged| repeats.contains(&judged.run.repeat)).map(start).collect()
}

/// The share of a steady drift over all these starts that enters the difference of the two means.
fn share_of_drift(left: &[f64], right: &[f64]) -> f64 {
    let mean = |starts: &[f64]| starts.iter().sum::<f64>() / starts.len() as f64;
    let all = || left.iter().chain(right).copied();
    let range = all().fold(f64::NEG_INFINITY, f64::max) - all().fold(f64::INFINITY, f64::min);
    if range > 0.0 { (mean(left) - mean(right)).abs() / range } else { 0.0 }
}

/// Whether the plan has the runs of an arm and the baseline in turn, whatever became of it.
pub(crate) fn planned_in_turn(study: &Study, arm: usize) -> bool {
    let plan = &study.rows.plan;
    study.conditions.iter().all(|condition| {
        let places = |arm: usize| -> Vec<f64> {
            let Some(cell) = condition.cell(arm) else { return Vec::new() };
            let own = plan.runs.iter().enumerate().filter(|(_, run)| run.cell == cell.index);
            own.map(|(place, _)| place as f64).collect()
        };
        let baseline = places(study.baseline);
        let own = places(arm);
        baseline.is_empty() || own.is_empty() || share_of_drift(&baseline, &own) < IN_TURN
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        // In turn, each first as often as second; in turn, always the same one first; one after the other; last week.
        for (left, right, share) in [
            (&[0.0, 3.0][..], &[1.0, 2.0][..], 0.0),
            (&[0.0, 2.0], &[1.0, 3.0], 1.0 / 3.0),
            (&[0.0, 2.0, 4.0, 6.0, 8.0], &[1.0, 3.0, 5.0, 7.0, 9.0], 1.0 / 9.0),
            (&[0.0, 1.0, 2.0], &[3.0, 4.0, 5.0], 3.0 / 5.0),
            (&[0.0, 1.0], &[99.0, 100.0], 0.99),
            (&[5.0], &[5.0], 0.0),
        ] {
            assert!((share_of_drift(left, right) - share).abs() < 1e-12, "{left:?} {right:?}");
        }
    }

    #[test]
    fn blocks_are_found_however_long_the_runs_of_each_arm_are() {
        for (of_left, of_right) in [(1.0, 1.0), (10.0, 1.0), (1.0, 10.0)] {
            let left: Vec<f64> = (0..5).map(|run| f64::from(run) * of_left).collect();
            let right: Vec<f64> = (0..5).map(|run| 5.0 * of_left + f64::from(run) * of_right).collect();
            assert!(share_of_drift(&left, &right) >= IN_TURN, "{of_left} {of_right}");
        }
    }
}
