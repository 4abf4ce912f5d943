//! The statements with which a driver records what it does. `record_*` is a transaction of its own that also writes the
//! journal; `insert_*` is the same change inside a transaction of the caller, so that a rebuild can use it.

pub(crate) mod annotate;
pub(crate) mod attempt;
pub(crate) mod discarded;
pub(crate) mod heartbeat;
pub(crate) mod ingest;
pub(crate) mod left_over;
pub(crate) mod place_of_attempt;
pub(crate) mod plan;
pub(crate) mod prune;
pub(crate) mod remove;
pub(crate) mod roll_up;
pub(crate) mod sweep;
pub(crate) mod tally;
pub(crate) mod totals;
