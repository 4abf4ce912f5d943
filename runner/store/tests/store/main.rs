//! The store from outside: whole sweeps in and out, killed writers, foreign files, selections.

mod files;
mod killed;
mod load;
mod round_trip;
mod selections;
mod world;
