//! Settings of `measure`: how much of a run is recorded, and how much of that is kept. All of it is part of a run's
//! specification, as recording takes time.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements that are recorded beyond the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Number of initial steps whose spans are kept.
    pub trace_first_steps: u64,
    /// And for each step whose number is a multiple of this; 0 for none.
    pub trace_every: u64,
    /// Whether the weights are hashed after every step instead of at evaluations only.
    pub hash_every_step: bool,
    /// Whether the samples of every rank and step are recorded.
    #[serde(default)]
    pub samples: bool,
    /// Which models are kept once a run has ended: the initial one, and of those that the ranks end with these.
    #[serde(default)]
    pub models: KeptModels,
    /// Which steps are kept once the run has ended.
    // Absent where it says nothing, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "KeptSteps::is_sampled")]
    pub steps: KeptSteps,
}

impl Measure {
    /// Whether it asks for the spans of more steps than a recipe that does not mention them. Then all of them are kept when the run
    /// has ended.
    pub fn traces_more_than_usual(&self) -> bool {
        self.trace_first_steps > USUAL_FIRST_STEPS || (1..USUAL_TRACE_EVERY).contains(&self.trace_every)
    }
}

/// The default of `measure.trace.first-steps`.
const USUAL_FIRST_STEPS: u64 = 20;
/// The default of `measure.trace.every`.
const USUAL_TRACE_EVERY: u64 = 500;

family! {
    /// When each rank's weights are hashed.
    pub enum HashTime {
        Evaluation = "evaluation": "At every evaluation.",
        Step = "step": "After every step: slower, for debugging.",
    }
}

family! {
    /// Which of the models that the ranks end with are kept.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum KeptModels {
        #[default]
        Judged = "judged": "The one that the run is judged by.",
        All = "all": "That of every rank besides, where workers train models of their own.",
        None = "none": "None: ten thousand runs of a small model fill a disk otherwise.",
    }
}

family! {
    /// Which steps are kept once a run has ended.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum KeptSteps {
        #[default]
        Sampled = "sampled": "Some 500 of each lane, evenly spaced, the 64 slowest of each rank, those with extreme losses, histograms of all, and, of \
         more than 4096 spans, those that a timeline shows.",
        All = "all": "Every step and span, in the database and in the event log.",
    }
}

impl KeptSteps {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of `serde`")]
    fn is_sampled(&self) -> bool {
        *self == Self::Sampled
    }
}
