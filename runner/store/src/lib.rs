//! Placeholder head.
mod rows;
pub use rows::{
    AttemptRow, LinkRow, LossRow, MetricRow, NodeRow, PhaseRow, RankRow, RunLine, RunRow, RunState, SpanRow,
    SweepRows,
};
