//! The store through its public interface: whole sweeps, killed writers, foreign files, selections.

#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod archive;
mod files;
mod full_disk;
mod heterogeneity;
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
