//! Emulated surroundings of a run: a slower network, a stated step time, ranks that are slow.
//! Descriptions only; the `strategies` crate makes them happen, and every page says that they did.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Emulated conditions of a run; the default emulates nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// The network between the ranks; `None` for the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The time of a step; `None` for what the machine takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Compute>,
    /// Ranks that are slow, in the order of the recipe; factors on one rank multiply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Slow>,
}

/// A network: each rank has a full-duplex card of its own, which serialises what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Of each card, in each direction, in bytes per second.
    pub bandwidth: u64,
    /// One way, per message.
    pub latency: Duration,
}

family! {
    /// Which ranks share an emulated network card.
    pub enum CardShare {
        Rank = "rank": "Each rank has a card of its own.",
    }
    later {
        "node": "The ranks of a machine share its card, and do not need it among themselves.",
    }
}

/// A stated time for the computing of a step, whatever the machine takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compute {
    /// Of forward pass, backward pass and update together.
    pub step_time: Duration,
    /// Which part of it each takes.
    pub split: ComputeSplit,
}

family! {
    /// How an emulated step time is split over its phases.
    pub enum SplitKind {
        Measured = "measured": "As one pass over a batch takes processor time before the run starts.",
        Given = "given": "By the shares that the recipe gives; over the layers by their arithmetic.",
    }
}

/// How a step's time is split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ComputeSplit {
    /// As a pass over one batch takes processor time before the run starts.
    Measured,
    /// By these shares, which add up to 1; over the layers by their arithmetic.
    Given {
        /// Share of the forward pass and the loss.
        forward: f64,
        /// Share of the backward pass.
        backward: f64,
        /// Share of the update, which is of the whole model.
        update: f64,
    },
}

/// Ranks that are slow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// Whose speed it is.
    pub whom: Whom,
    /// Factor by which the time of every compute phase is multiplied.
    pub compute: f64,
    /// Divisor of the bandwidth of the rank's card.
    pub link: f64,
    /// Probability that a step is slowed down at all.
    pub probability: f64,
}

/// Which ranks are slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whom {
    /// One rank, counted from 0.
    Rank(u32),
    /// This number of workers, drawn by the run's seed.
    Random(u32),
}

/// Causes of a rank's silence: messages both ways over the slowest card, and steps of the slowest rank.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// Messages in each direction, one for each rank.
    pub ranks: u32,
    /// Steps without a message.
    pub steps: u64,
    /// Bytes of a message.
    pub bytes: u64,
}

impl Emulation {
    /// Whether everything is as the machine makes it.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// In words, one entry for each thing that is pretended; empty where nothing is.
    pub fn words(&self) -> Vec<String> {
        let network = self.network.map(|network| network.to_string());
        let compute = self.compute.map(|compute| compute.to_string());
        network.into_iter().chain(compute).chain(self.slow.iter().map(ToString::to_string)).collect()
    }

    /// How much longer than `patience` a rank may be silent because of the emulation.
    pub fn longest_silence(&self, silence: Silence, patience: Duration) -> Duration {
        let Silence { ranks, steps, bytes } = silence;
        let most =
            |factor: fn(&Slow) -> f64| self.slow.iter().map(factor).fold(1.0, |a: f64, b| a * b.max(1.0));
        let compute = most(|slow| slow.compute);
        let link = most(|slow| slow.link);
        let travelling = self.network.map_or(0.0, |network| {
            let one = network.latency.as_secs_f64() + bytes as f64 * link / network.bandwidth.max(1) as f64;
            2.0 * f64::from(ranks) * one
        });
        let computing = self.compute.map_or(patience.as_secs_f64() * (compute - 1.0), |stated| {
            stated.step_time.as_secs_f64() * compute
        });
        // A year is as good as for ever, and fits.
        Duration::from_secs_f64((travelling + computing * steps as f64).clamp(0.0, 3.2e7))
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bandwidth = crate::spec::quantity::show_bandwidth(self.bandwidth);
        write!(out, "network of {bandwidth} per rank and direction, {:?} latency", self.latency)
    }
}

impl std::fmt::Display for Compute {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "computing takes {:?} per step", self.step_time)?;
        match self.split {
            ComputeSplit::Measured => write!(out, ", split as measured"),
            ComputeSplit::Given { forward, backward, update } => {
                write!(out, ", split {forward} forward, {backward} backward, {update} update")
            }
        }
    }
}

impl std::fmt::Display for Slow {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.whom {
            Whom::Rank(rank) => write!(out, "rank {rank}")?,
            Whom::Random(1) => write!(out, "one random worker")?,
            Whom::Random(count) => write!(out, "{count} random workers")?,
        }
        if self.compute > 1.0 {
            write!(out, ": computing takes {} times as long", self.compute)?;
        }
        if self.probability < 1.0 {
            write!(out, " in {}% of the steps", (self.probability * 1e8).round() / 1e6)?;
        }
        if self.link > 1.0 {
            let lead = if self.compute > 1.0 { "," } else { ":" };
            write!(out, "{lead} its bandwidth is divided by {}", self.link)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pretended_is_said_in_words() {
        let seldom = Slow { whom: Whom::Rank(3), compute: 4.0, link: 1.0, probability: 0.07 };
        assert_eq!(seldom.to_string(), "rank 3: computing takes 4 times as long in 7% of the steps");
        let slow = Slow { whom: Whom::Rank(3), compute: 4.0, link: 2.5, probability: 1.0 };
        let emulation = Emulation {
            network: Some(Network { bandwidth: 125_000_000, latency: Duration::from_micros(50) }),
            compute: Some(Compute { step_time: Duration::from_millis(20), split: ComputeSplit::Measured }),
            slow: vec![slow, Slow { whom: Whom::Random(2), link: 1.0, probability: 0.25, ..slow }],
        };
        assert_eq!(
            emulation.words(),
            [
                "network of 1Gbit/s per rank and direction, 50µs latency",
                "computing takes 20ms per step, split as measured",
                "rank 3: computing takes 4 times as long, its bandwidth is divided by 2.5",
                "2 random workers: computing takes 4 times as long in 25% of the steps",
            ]
        );
        assert!(!emulation.is_none());
    }

    #[test]
    fn a_slow_network_is_given_the_time_that_it_takes() {
        let network = Some(Network { bandwidth: 1000, latency: Duration::ZERO });
        let slow = vec![Slow { whom: Whom::Rank(0), compute: 3.0, link: 2.0, probability: 1.0 }];
        let emulation = Emulation { network, compute: None, slow };
        // Four ranks, 5 seconds for each message at half the speed, there and back; and thrice the patience.
        let silence =
            emulation.longest_silence(Silence { ranks: 4, steps: 1, bytes: 2500 }, Duration::from_secs(10));
        assert_eq!(silence, Duration::from_mins(1));
        assert_eq!(
            Emulation::default()
                .longest_silence(Silence { ranks: 4, steps: 9, bytes: 2500 }, Duration::from_secs(10)),
            Duration::ZERO
        );
        // In five steps without a word, four times as much patience more.
        let silence =
            emulation.longest_silence(Silence { ranks: 4, steps: 5, bytes: 2500 }, Duration::from_secs(10));
        assert_eq!(silence, Duration::from_secs(140));
    }
}
