//! Which parts of a gradient travel together.

use crate::{Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parts of a gradient in the order in which they leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// When it was recorded, on the clock of the run.
    pub at: Nanos,
    /// The first step whose gradient travels so.
    pub from_step: u64,
    /// Steps that the measured times are means of.
    pub steps: u64,
    /// Measured costs that the plan is made from; `None` where the schedule needs no times.
    pub cost: Option<ScheduleCost>,
    /// Backward time of each layer with weights when the plan was made, from the input on: the slowest worker's median.
    /// Empty without a plan, and in runs recorded before it was kept.
    #[serde(default)]
    pub layers: Vec<Nanos>,
    /// The parts, the last layers first.
    pub buckets: Vec<ScheduledBucket>,
}

/// Measured costs that a plan is made from: a message of M bytes takes a + b M seconds. Where not all layers are
/// averaged by the same workers, messages cost more or less in each section of the model: a and b are of the section
/// that the first layer lies in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleCost {
    /// a of a + b M, in seconds.
    pub start_up: f64,
    /// b, in seconds per byte of the gradient before it is coded.
    pub per_byte: f64,
    /// The largest distance of a measured message from the line, as a share of what it took.
    pub worst: f64,
    /// Which of the two would have been negative and is zero instead; `None` if neither.
    pub held: Option<HeldCost>,
    /// The end of the backward pass, from the start of the forward pass: of each layer the slowest worker's median.
    pub computed: Nanos,
}

/// A part of a cost that measurements cannot give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeldCost {
    /// a, as where no message is small.
    StartUp,
    /// b, as where no message is large.
    PerByte,
}

/// A part of a gradient. Times are from the start of the forward pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledBucket {
    /// The names of its layers, from the input on.
    pub layers: Vec<String>,
    /// Number of its elements.
    pub elements: u64,
    /// Begin and end of its message as the plan has them.
    pub predicted: Option<(Nanos, Nanos)>,
    /// Begin and end of its message on the recording rank: means over steps.
    pub measured: Option<(Nanos, Nanos)>,
}
