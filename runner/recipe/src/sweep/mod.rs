//! From a checked recipe to its plan: arms, axes, cells, runs.

pub(crate) mod anyway;
pub(crate) mod axes;
pub(crate) mod cells;
mod described;
pub(crate) mod expand;
pub(crate) mod expanded;
pub(crate) mod halving;
mod include;
pub(crate) mod key_values;
pub(crate) mod planner;
mod random;
pub(crate) mod recipe;
pub(crate) mod runs;
