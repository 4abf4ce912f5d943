//! The training loss of a step: the mean over the workers, each weighted by its samples.

use crate::LossRow;
use record::Nanos;

/// A worker's record of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkerLoss {
    /// Number of the step, from 1.
    pub(crate) step: u64,
    /// Samples consumed by all ranks together.
    pub(crate) samples: u64,
    /// End of the step.
    pub(crate) at: Nanos,
    /// Mean over its own samples; a loss that is not finite has no mean with others.
    pub(crate) loss: f64,
    /// Its own samples, at least one.
    pub(crate) own_samples: u64,
}

/// The curve of an attempt from its workers' losses, which come step by step.
pub(crate) fn curve(losses: &[WorkerLoss]) -> Vec<LossRow> {
    losses.chunk_by(|one, other| one.step == other.step).filter_map(of_step).collect()
}

fn of_step(workers: &[WorkerLoss]) -> Option<LossRow> {
    let first = workers.first()?;
    let samples: f64 = workers.iter().map(|worker| worker.own_samples as f64).sum();
    let weighted: f64 = workers.iter().map(|worker| worker.loss * worker.own_samples as f64).sum();
    let is_finite = workers.iter().all(|worker| worker.loss.is_finite());
    Some(LossRow {
        step: first.step,
        samples: workers.iter().map(|worker| worker.samples).max()?,
        at: workers.iter().map(|worker| worker.at).max()?,
        loss: if is_finite { weighted / samples } else { f64::NAN },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(step: u64, loss: f64, own_samples: u64) -> WorkerLoss {
        WorkerLoss {
            step,
            samples: 10 * step + own_samples,
            at: Nanos(100 * step + own_samples),
            loss,
            own_samples,
        }
    }

    #[test]
    fn a_worker_counts_by_its_samples() {
        let curve = curve(&[worker(1, 2.0, 3), worker(1, 6.0, 1), worker(4, 0.5, 2)]);
        let expected = [
            LossRow { step: 1, samples: 13, at: Nanos(103), loss: 3.0 },
            LossRow { step: 4, samples: 42, at: Nanos(402), loss: 0.5 },
        ];
        assert_eq!(curve, expected);
    }

    #[test]
    fn a_step_with_a_loss_that_is_not_finite_has_none() {
        for loss in [f64::NAN, f64::INFINITY] {
            let curve = curve(&[worker(2, 1.0, 1), worker(2, loss, 1)]);
            assert!(curve[0].loss.is_nan() && curve.len() == 1);
        }
    }
}
