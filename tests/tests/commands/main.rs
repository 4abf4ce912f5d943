//! The commands of `bakeoff` on real runs, as a user has them, and the pages that they write.

mod at_once;
mod bundle;
mod cli;
mod compare;
mod export;
mod operation;
mod page;
mod phases;
mod recipes;
mod recording;
mod search;
mod selections;
mod until_decided;
