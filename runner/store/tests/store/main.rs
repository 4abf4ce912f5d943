//! The store through its public interface: whole sweeps, killed writers, foreign files, selections.

#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod annotations;
mod archive;
mod bundles;
mod files;
mod full_disk;
mod heterogeneity;
mod hostile;
mod killed;
mod load;
mod prune;
mod reading;
mod rebuild;
mod rolled_up;
mod round_trip;
mod selections;
mod thinned;
mod world;
