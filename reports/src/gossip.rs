//! Averagings per gradient, for strategies in which pairs of workers average.

use crate::findings::Findings;
use comparison::study::{ArmCell, PlacedCell};
use store::AttemptRow;

/// Averagings per gradient below which workers mostly train alone. AD-PSGD's Algorithm 1 has one averaging per gradient of
/// any worker; if each active worker, one of two, averages once per own gradient, half of that is left.
const RARE: f64 = 0.25;

/// Averagings per gradient of any worker, 0 without averagings; `None` for a run without gradients.
pub(crate) fn per_gradient(attempt: &AttemptRow, workers: u32) -> Option<f64> {
    let averagings: u64 = attempt.averagings.iter().map(|row| row.count).sum();
    // The attempt's steps are those of all workers together.
    let gradients = attempt.steps * u64::from(workers);
    (gradients > 0).then(|| averagings as f64 / gradients as f64)
}

/// The mean over the judged runs; `None` unless the arm's workers average in pairs.
pub(crate) fn mean_per_gradient(cell: &ArmCell, workers: u32) -> Option<f64> {
    if !cell.averages_in_pairs {
        return None;
    }
    let rates: Vec<f64> =
        cell.sound_runs().filter_map(|judged| per_gradient(judged.attempt, workers)).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The arm with the fewest averagings per gradient, if they are below [`RARE`].
pub(crate) fn rarest<'f>(findings: &'f Findings) -> Option<(&'f str, f64)> {
    let rate = |PlacedCell { condition, cell, .. }: PlacedCell<'_, 'f>| {
        let rate = mean_per_gradient(cell, condition.workers)?;
        Some((findings.study.arm_name(cell.arm), rate))
    };
    let rates = findings.study.arm_cells().filter_map(rate).filter(|(_, rate)| *rate < RARE);
    rates.min_by(|one, other| one.1.total_cmp(&other.1))
}
