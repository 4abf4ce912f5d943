//! Resources that the runs of a cell use beside time, second by second: machines, ranks, money.

use recipe::RunSpec;

/// Resource that a result is paid with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Time of the run in seconds, whatever it runs on.
    Time,
    /// Time of each machine that has ranks of the run.
    Machines,
    /// Time of each rank, servers included.
    Ranks,
    /// Price of the machines for the time of the run.
    Money,
}

/// Resources that each run of a cell uses second by second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Machines with ranks of the run, at least one.
    pub machines: usize,
    /// Ranks of the run, servers included, at least one.
    pub ranks: u32,
    /// Price of an hour of all its machines; `None` where one of them has no price.
    pub hour: Option<f64>,
}

impl Usage {
    /// `hour` is the price of an hour of all its machines.
    pub fn of(spec: &RunSpec, hour: Option<f64>) -> Self {
        Self { machines: spec.cluster.machines().max(1), ranks: spec.cluster.ranks().max(1), hour }
    }

    /// Amount of a resource that a second of a run uses; `None` where that is not known.
    pub fn rate(&self, resource: Resource) -> Option<f64> {
        match resource {
            Resource::Time => Some(1.0),
            Resource::Machines => Some(self.machines as f64),
            Resource::Ranks => Some(f64::from(self.ranks)),
            Resource::Money => self.hour.map(|price| price / 3600.0),
        }
    }
}
