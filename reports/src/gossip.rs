//! How often gradients meet a partner: averagings per gradient, where pairs of workers average.

use crate::findings::Findings;
use crate::study::{Entry, Placed};
use store::AttemptRow;

/// Below this, workers mostly train alone. AD-PSGD's Algorithm 1 has one averaging per gradient of any worker; half of that
/// is left where each active worker, one of two, averages once per gradient of its own.
const RARE: f64 = 0.25;

/// Averagings per gradient of any worker: 0 where no pair averaged. None for a run without gradients.
pub(crate) fn per_gradient(attempt: &AttemptRow, workers: u32) -> Option<f64> {
    let averagings: u64 = attempt.averagings.iter().map(|row| row.count).sum();
    // The attempt's steps are those of all workers together.
    let gradients = attempt.steps * u64::from(workers);
    (gradients > 0).then(|| averagings as f64 / gradients as f64)
}

/// The mean over the judged runs of an arm in which pairs average; None for every other arm.
pub(crate) fn mean_per_gradient(entry: &Entry, workers: u32) -> Option<f64> {
    if !entry.averages_in_pairs {
        return None;
    }
    let rates: Vec<f64> =
        entry.trials.iter().filter_map(|trial| per_gradient(trial.attempt, workers)).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The arm whose gradients meet a partner least often, with its averagings per gradient, where that is rare.
pub(crate) fn rarest<'f>(findings: &'f Findings) -> Option<(&'f str, f64)> {
    let rate = |Placed { condition, entry, .. }: Placed<'_, 'f>| {
        let rate = mean_per_gradient(entry, condition.workers)?;
        Some((findings.study.arm_name(entry.arm), rate))
    };
    let rates = findings.study.entries().filter_map(rate).filter(|(_, rate)| *rate < RARE);
    rates.min_by(|one, other| one.1.total_cmp(&other.1))
}
