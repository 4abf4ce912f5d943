//! Choices that a strategy's settings offer.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// How many workers a server serves at a time.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Serve {
        One = "one": "One worker at a time, from its request to the end of the answer; the others wait in \
            the order of their requests. A worker asks and is granted before its vector travels, and says \
            when it has the answer.",
        All = "all": "All at once: vectors of several workers share the server's card, and only the \
            arithmetic waits for a lock.",
    }
}

impl Serve {
    /// Way of serving before there was a choice: a stored specification that names none means this.
    pub(super) fn stored() -> Self {
        Self::All
    }
}

/// How far worker and centre of an elastic method go towards each other: a of x - a (x - c) and c + a (x - c).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MovingRate {
    /// a = learning rate * rho: it follows the schedule of the learning rate.
    Rho(f32),
    /// a, whatever the learning rate is.
    Fixed(f32),
    /// a = this / number of workers.
    Divided(f32),
}

impl MovingRate {
    /// a, at a learning rate and among `workers` workers.
    pub fn at(self, rate: f32, workers: usize) -> f32 {
        match self {
            Self::Rho(rho) => rate * rho,
            Self::Fixed(a) => a,
            Self::Divided(all) => all / workers as f32,
        }
    }
}

/// Where the centre of synchronous elastic averaging is, and what overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncVariant {
    /// On a master of its own, behind a tree of the workers.
    Master,
    /// On the first worker.
    FirstWorker,
    /// The same, and weights travel during forward and backward pass.
    Overlapped,
}

impl SyncVariant {
    /// Every variant, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Master, Self::FirstWorker, Self::Overlapped];

    /// The number that `strategy.variant` takes for it.
    pub const fn number(self) -> u64 {
        match self {
            Self::Master => 1,
            Self::FirstWorker => 2,
            Self::Overlapped => 3,
        }
    }

    /// The variant of this number.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.number() == number)
    }

    /// Whether a worker holds the centre, and there is no master beside the workers.
    pub fn has_centre_on_a_worker(self) -> bool {
        match self {
            Self::Master => false,
            Self::FirstWorker | Self::Overlapped => true,
        }
    }
}

family! {
    /// Which comes first in a step of gossip.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum MixOrder {
        MixThenStep = "mix-then-step": "x <- W x - rate g(x): models travel while gradients are computed.",
        StepThenMix = "step-then-mix": "x <- W (x - rate g(x)): models travel after the step.",
    }
}

family! {
    /// How often an active worker averages with a neighbour.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Averaging {
        EachStep = "each-step": "At most once per gradient of the worker that asks, as soon as it is there; \
            steps that end during an exchange share the next one.",
        Continuous = "continuous": "Again and again, whether there is a new gradient or not.",
    }
}

family! {
    /// Which samples a group of ranks that split a model works on at a time: the schemes of Krizhevsky, "One weird trick for
    /// parallelizing convolutional neural networks", 2014, section 3.1, in their order a, b, c.
    #[derive(Serialize, Deserialize, JsonSchema)]
    pub enum ModuloScheme {
        #[serde(rename = "bk")]
        All = "bk": "All samples of the group in one round: the most memory for activations.",
        #[serde(rename = "b")]
        Turns = "b": "Those of one worker after the other: one sends while the others receive.",
        #[serde(rename = "b/k")]
        Shares = "b/k": "A share of each worker's in each round: all send at the same time.",
    }
}

impl ModuloScheme {
    /// Rounds of a step in a group of `parts` ranks.
    pub fn rounds(self, parts: usize) -> usize {
        match self {
            Self::All => 1,
            Self::Turns | Self::Shares => parts,
        }
    }
}

family! {
    /// When the layers that a group of ranks computes together are updated.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum FcUpdate {
        PerRound = "per-round": "After each round, with the share of the rate that the round has of the samples: the paper.",
        PerBatch = "per-batch": "Once per step, with the gradient of all rounds: the same weights as with one process.",
    }
}

family! {
    /// Which ranks add what the workers of groups average.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum AveragedBy {
        #[default]
        Workers = "workers": "The workers themselves, by an all-reduce.",
        Servers = "servers": "Ranks of their own, in rank order: each has a piece of every vector.",
    }
}

impl AveragedBy {
    /// Whether no other rank takes part.
    pub fn is_workers(&self) -> bool {
        *self == Self::Workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_numbered_from_1_on_without_a_gap() {
        for (number, variant) in (1..).zip(SyncVariant::ALL) {
            assert_eq!((variant.number(), SyncVariant::of(number)), (number, Some(variant)));
        }
    }
}
