//! The ids of sweeps, runs, attempts and machines.

use std::fmt;

/// The id of a sweep: a ULID, so that ids sort by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SweepId(pub(crate) String);

/// The id of a run: a ULID. Its first characters are the time, its last ones distinguish runs of the same moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub(crate) String);

/// The row of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub(crate) i64);

/// The row of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(crate) i64);

impl SweepId {
    pub(crate) fn new() -> Self {
        Self(ulid::Ulid::new().to_string())
    }

    /// ULID as text, as it stands in the database and in the names of files.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RunId {
    pub(crate) fn new() -> Self {
        Self(ulid::Ulid::new().to_string())
    }

    /// ULID as text, as it stands in the database and in the names of files.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SweepId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
