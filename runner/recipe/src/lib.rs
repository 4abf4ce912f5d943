//! From a recipe's text to a plan: parse, check, expand, assign. Pure; it touches neither network nor clock,
//! and no file but through the [`Files`] it is given.

mod cluster;
mod dataset;
mod model;
mod plan;
mod strategy;
mod train;

pub use cluster::{Cluster, Node, Role, Seat};
pub use dataset::{Dataset, Partition, Source};
pub use model::{Layer, Model, Parameter, PlacedLayer, Shape};
pub use plan::{
    Arm, AxisValue, Cell, Limits, Measure, Plan, ReportSettings, Run, RunSpec, Surroundings, hex,
};
pub use strategy::{Collective, Communication, Compression, ReduceOrder, Schedule, Strategy};
pub use train::{Extent, LrSchedule, LrShape, Metric, Sgd, Target, Training};
