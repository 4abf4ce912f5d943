//! Whether this machine can do what a plan asks, before anything is started. Pure.

use recipe::RunSpec;

/// What a machine has to offer at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory that is free or can be freed, in bytes.
    pub memory: u64,
    /// Space on the disk of the store, in bytes.
    pub disk: u64,
}

/// Something to say before a sweep begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Whether the sweep can begin nevertheless.
    pub severity: Severity,
    /// What is the matter.
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

/// How bad a concern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The numbers may mean less than they seem to.
    Warning,
    /// The sweep cannot work.
    Refusal,
}

/// What is to be said about running these on this machine, `jobs` at a time.
pub fn preflight(specs: &[&RunSpec], machine: Machine, jobs: u32) -> Vec<Concern> {
    let _ = (specs, machine, jobs);
    Vec::new()
}
