//! The phases of a lane: a closed list, so that the times of a step add up to its length.

use crate::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// A lane's activity; a lane is in exactly one phase at each moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Fetching and preparing the examples of a batch.
    Data,
    /// Forward pass, loss included.
    Forward,
    /// Backward pass: the gradients of the weights.
    Backward,
    /// Moving tensors between host and device, and vectors of weights or activations within the host's memory.
    Copy,
    /// Turning a vector into a packet.
    Encode,
    /// Handing a packet to the transport, or a vector to the lane that communicates.
    Send,
    /// The peer has not begun to send: from the call until its announcement arrived.
    WaitPeer,
    /// Waiting for another lane of the same rank.
    WaitLane,
    /// Bytes are moving: from the announcement until the last chunk arrived.
    Transfer,
    /// Turning a packet into a vector.
    Decode,
    /// Adding a received vector to a local one.
    Reduce,
    /// Changing the weights, by the optimizer or by a rule of the strategy's own.
    Update,
    /// Copying the weights for a snapshot.
    Snapshot,
    /// Time that no other phase covers; always shown.
    Other,
}

/// The kind of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// The rank works on its own model.
    Compute,
    /// The rank transfers or transforms messages.
    Communication,
    /// The rank waits, for a peer or for another of its lanes.
    Waiting,
    /// Neither: the measurement itself, and the rest.
    Rest,
}

impl Phase {
    /// Every phase, in the order in which tables and charts show them.
    pub const ALL: [Self; 14] = [
        Self::Data,
        Self::Forward,
        Self::Backward,
        Self::Copy,
        Self::Encode,
        Self::Send,
        Self::WaitPeer,
        Self::WaitLane,
        Self::Transfer,
        Self::Decode,
        Self::Reduce,
        Self::Update,
        Self::Snapshot,
        Self::Other,
    ];

    /// The phase's name in the database, in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Copy => "copy",
            Self::Encode => "encode",
            Self::Send => "send",
            Self::WaitPeer => "wait-peer",
            Self::WaitLane => "wait-lane",
            Self::Transfer => "transfer",
            Self::Decode => "decode",
            Self::Reduce => "reduce",
            Self::Update => "update",
            Self::Snapshot => "snapshot",
            Self::Other => "other",
        }
    }

    /// The phase of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Whether the phase counts as computing, as communication, as waiting, or as none of these.
    pub fn category(self) -> Category {
        match self {
            Self::Data | Self::Forward | Self::Backward | Self::Copy | Self::Update => Category::Compute,
            Self::Encode | Self::Send | Self::Transfer | Self::Decode | Self::Reduce => {
                Category::Communication
            }
            Self::WaitPeer | Self::WaitLane => Category::Waiting,
            Self::Snapshot | Self::Other => Category::Rest,
        }
    }

    /// One sentence for the report's method section and for `bakeoff explain`.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Data => "fetching and preparing the examples of the batch",
            Self::Forward => "forward pass and loss",
            Self::Backward => "backward pass",
            Self::Copy => {
                "moving tensors between host and device, and copying weights or activations in the host's memory"
            }
            Self::Encode => "turning vectors into packets",
            Self::Send => "handing packets to the transport, or vectors to the lane that communicates",
            Self::WaitPeer => "waiting for a peer that has not begun to send",
            Self::WaitLane => "waiting for the rank's other lane",
            Self::Transfer => "bytes moving, from the announcement to the last chunk",
            Self::Decode => "turning packets into vectors",
            Self::Reduce => "adding what arrived",
            Self::Update => "changing the weights",
            Self::Snapshot => "copying the weights aside for the evaluator",
            Self::Other => "what no other phase covers",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Exclusive time per phase: the entries of a step sum to its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PhaseTimes([Nanos; Phase::ALL.len()]);

impl PhaseTimes {
    /// The sum over all phases.
    pub fn total(&self) -> Nanos {
        self.0.iter().fold(Nanos(0), |sum, time| sum + *time)
    }

    /// Each phase with its time, in the order of [`Phase::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Phase, Nanos)> + '_ {
        Phase::ALL.into_iter().map(|phase| (phase, self[phase]))
    }

    /// Communication that the compute lane did not hide: the time in which it communicated or waited itself. Of a compute
    /// lane only.
    pub fn exposed(&self) -> Nanos {
        self.iter()
            .filter(|(phase, _)| matches!(phase.category(), Category::Communication | Category::Waiting))
            .fold(Nanos(0), |sum, (_, time)| sum + time)
    }
}

impl Index<Phase> for PhaseTimes {
    type Output = Nanos;
    fn index(&self, phase: Phase) -> &Nanos {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for PhaseTimes {
    fn index_mut(&mut self, phase: Phase) -> &mut Nanos {
        &mut self.0[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_enum_and_names_lead_back() {
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, place);
            assert_eq!(Phase::named(phase.name()), Some(phase));
            assert_eq!(serde_json_name(phase), phase.name());
        }
        assert_eq!(Phase::named("sleep"), None);
    }

    fn serde_json_name(phase: Phase) -> String {
        let bytes = rmp_serde::to_vec_named(&phase).unwrap();
        rmp_serde::from_slice(&bytes).unwrap()
    }

    #[test]
    fn exposed_time_is_communication_and_waiting() {
        let mut times = PhaseTimes::default();
        for (place, phase) in Phase::ALL.into_iter().enumerate() {
            times[phase] = Nanos(1 << place);
        }
        let counted = ["encode", "send", "wait-peer", "wait-lane", "transfer", "decode", "reduce"];
        let expected: u64 = counted.iter().map(|name| times[Phase::named(name).unwrap()].0).sum();
        assert_eq!(times.exposed(), Nanos(expected));
        assert_eq!(times.total(), Nanos((1 << 14) - 1));
    }
}
