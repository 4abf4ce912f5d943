//! One model from the snapshots of the ranks that hold its parts.

use crate::snapshot::{self, SnapshotError};
use recipe::ModelPartition;
use std::path::PathBuf;
use strategies::Vector;

/// Puts the parts of a model of `weights` weights together; `files` are those of part 0, 1, ... in order. The files are read one
/// after another.
///
/// # Errors
/// A file that cannot be read, or has another length; nothing is allocated before all lengths were looked at.
pub fn of(files: &[PathBuf], partition: &ModelPartition, weights: usize) -> Result<Vector, SnapshotError> {
    for (part, file) in files.iter().enumerate() {
        snapshot::check(file, partition.parameter_count(part))?;
    }
    let mut whole = vec![0.0; weights];
    for (part, file) in files.iter().enumerate() {
        let mut places = partition.spans(part).into_iter().flatten();
        snapshot::for_each(file, partition.parameter_count(part), |weight| {
            if let Some(place) = places.next().and_then(|place| whole.get_mut(place)) {
                *place = weight;
            }
        })?;
    }
    Ok(Vector::from(whole))
}
