//! The store from outside: whole sweeps in and out, killed writers, foreign files, selections.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod heterogeneity;
mod killed;
mod load;
mod rebuild;
mod round_trip;
mod selections;
mod world;
