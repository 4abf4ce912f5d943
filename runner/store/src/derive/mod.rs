//! Statistics of an attempt, derived from its steps. Pure: no SQL, no I/O.

pub(crate) mod blocks;
pub(crate) mod cells;
pub(crate) mod kept_spans;
pub(crate) mod lengths;
pub(crate) mod loss_curve;
pub(crate) mod loss_extremes;
pub(crate) mod order_statistics;
pub(crate) mod roll_up;
pub(crate) mod rounds;
pub(crate) mod step_time;
pub(crate) mod summary;
pub(crate) mod transfers;
