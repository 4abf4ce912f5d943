//! Effects of the machine on the numbers: other processes, the hypervisor, the order of the runs, and a drift.

pub(crate) mod drift;
pub(crate) mod load;
pub(crate) mod spread;
pub(crate) mod turns;
