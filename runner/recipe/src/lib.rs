//! From a recipe's text to a plan: parse, check, expand, assign. Pure; it touches neither network nor clock,
//! and no file but through the [`Files`] it is given.

mod all_reduce;
mod architecture;
mod arm_keys;
mod assign;
mod axes;
mod cells;
mod check;
mod cluster;
mod codes;
mod coding;
mod communication;
mod dataset;
mod elastic;
mod emulation;
mod expand;
mod expanded;
mod explain;
mod expression;
mod files;
mod gossip;
mod key;
mod layers;
mod load;
mod method;
mod model;
mod names;
mod parse;
mod plan;
mod planner;
mod problem;
mod quantity;
mod recipe;
mod render;
mod resolve;
mod runs;
mod schema;
mod setting;
mod slow;
mod source;
mod strategy;
mod surroundings;
mod table;
mod template;
mod topology;
mod train;
mod tree;
mod value;

pub use cluster::{Cluster, Node, Role, Seat};
pub use communication::{Codec, Collective, Communication, Compression, ReduceOrder, Route, Schedule};
pub use dataset::{Dataset, Partition, Source};
pub use emulation::{Compute, Emulation, Network, Slow, Split, Whom};
pub use explain::{Unexplained, explain, topics};
pub use files::{FileProblem, Files, Machine};
pub use model::{Layer, Model, Parameter, PlacedLayer, Shape};
pub use plan::{
    Arm, AxisValue, Cell, Limits, Measure, Plan, ReportSettings, Run, RunSpec, Surroundings, hex,
};
pub use planner::{Request, plan};
pub use problem::{Affected, Place, Problem, Problems, Severity};
pub use render::render;
pub use schema::schema;
pub use strategy::{Averaging, MixOrder, MovingRate, Serve, Strategy, SyncVariant};
pub use template::Template;
pub use topology::{Graph, Mixing, Topology};
pub use train::{Extent, LrScale, LrSchedule, LrShape, Metric, Sgd, Target, Training};
