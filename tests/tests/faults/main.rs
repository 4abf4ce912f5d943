//! Faults while runs train, planned or not: the report, the database, the processes left, and how such a run is resumed.

mod fault_matrix;
mod lost_ranks;
mod planned_faults;
mod resume;
mod unplanned;
