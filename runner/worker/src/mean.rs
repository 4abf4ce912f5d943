//! The uniform mean of the snapshots of several ranks, and their distance from it.

use crate::snapshot::{self, SnapshotError};
use std::path::PathBuf;
use strategies::Vector;

/// The mean of several models, and their distance from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// Their uniform mean, rounded to 32 bits at the end.
    pub model: Vector,
    /// Their consensus distance: [`recipe::Metric::ConsensusDistance`].
    pub distance: f64,
}

/// Takes the models in `files` together, each of `weights` weights. All sums are of 64 bits: element for element over
/// the models in the order of `files`, and for the distance over all elements of one model after the other. The
/// distance is to the mean before it is rounded, so that it is exactly 0 for equal models. The files are read twice and
/// one after another: whatever their number, two vectors are held.
///
/// # Errors
/// A file that cannot be read, or has another length; nothing is allocated before all lengths were looked at.
pub fn of(files: &[PathBuf], weights: usize) -> Result<Mean, SnapshotError> {
    for file in files {
        snapshot::check(file, weights)?;
    }
    let mut mean = vec![0.0_f64; weights];
    for file in files {
        let mut sums = mean.iter_mut();
        snapshot::for_each(file, weights, |weight| {
            if let Some(sum) = sums.next() {
                *sum += f64::from(weight);
            }
        })?;
    }
    let count = files.len() as f64;
    for sum in &mut mean {
        *sum /= count;
    }
    let mut squares = 0.0;
    for file in files {
        let mut middle = mean.iter();
        snapshot::for_each(file, weights, |weight| {
            let apart = f64::from(weight) - middle.next().copied().unwrap_or_default();
            squares += apart * apart;
        })?;
    }
    let model = mean.iter().map(|weight| *weight as f32).collect::<Vec<_>>();
    Ok(Mean { model: Vector::from(model), distance: (squares / count).sqrt() })
}
