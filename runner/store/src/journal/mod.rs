//! Plain files beside the database, from which it can be rebuilt: the journal of each sweep and the event log of each
//! attempt.

pub(crate) mod entries;
pub(crate) mod event_log;
pub(crate) mod event_reader;
pub(crate) mod lines;
pub(crate) mod packed_log;
