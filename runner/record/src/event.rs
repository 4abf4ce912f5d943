//! What workers tell the driver: a closed, versioned set of events.
//!
//! Events are the only thing that flows from a run into the database. They travel as MessagePack with named
//! fields, because JSON cannot carry a NaN loss, and are appended to the run's directory as well, so that
//! the database can be made again from them.

use crate::{AveragedRecord, GossipRecord, LaneId, Nanos, Phase, PhaseTimes, Rank, SnapshotRecord};
use recipe::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the set of events; raised whenever a variant or a field changes its meaning.
pub const EVENT_VERSION: u32 = 1;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A rank holds its data and its initial weights and waits for the start.
    Prepared(Prepared),
    /// A lane ended a step.
    Step(StepRecord),
    /// What a lane did for a stretch of time, for the steps that keep their spans.
    Span(SpanRecord),
    /// A value was measured.
    Metric(MetricRecord),
    /// A rank's weights, as a digest.
    WeightHash(WeightHash),
    /// A rank put a copy of the model aside for the evaluator.
    Snapshot(SnapshotRecord),
    /// What a rank sent to another over the whole run.
    Link(LinkRecord),
    /// What coding saved on a lane over the whole run, and what it lost; only where something is coded.
    Coding(CodingRecord),
    /// The share of its time that a rank spent on measuring itself.
    Overhead(Overhead),
    /// How well a rank kept what it pretends.
    Emulation(EmulationRecord),
    /// The samples that a rank used in a step; only with `measure.samples`.
    Samples(SamplesRecord),
    /// A server applied a gradient that came when it came.
    Update(UpdateRecord),
    /// A rank goes on without a peer that is gone.
    Lost(LostRecord),
    /// A rank ended, for better or worse.
    Ended(RankEnded),
    /// Something happened to a gossiping rank's model, in the rank's order.
    Gossip(GossipRecord),
    /// Two ranks averaged their models; recorded by the one that asked.
    Averaged(AveragedRecord),
}

impl Event {
    /// Encodes the event for the wire and the run's directory.
    pub fn encode(&self) -> Result<Vec<u8>, EventError> {
        rmp_serde::to_vec_named(self).map_err(EventError::Encode)
    }

    /// Decodes one event.
    pub fn decode(bytes: &[u8]) -> Result<Self, EventError> {
        rmp_serde::from_slice(bytes).map_err(EventError::Decode)
    }
}

/// An event that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The event has no encoding.
    #[error("event cannot be encoded: {0}")]
    Encode(rmp_serde::encode::Error),
    /// The bytes are no event of this version.
    #[error("bytes are no event of version {EVENT_VERSION}: {0}")]
    Decode(rmp_serde::decode::Error),
}

/// A rank holds its data and its initial weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prepared {
    /// Whose event this is.
    pub rank: Rank,
    /// The process it runs in.
    pub pid: u32,
    /// Threads that its tensor library computes with.
    pub threads: u32,
    /// Training samples after the validation split was taken out.
    pub training_samples: u64,
    /// SHA-256 of the data that was read, in hexadecimal; equal on all ranks.
    pub data_digest: String,
    /// SHA-256 of the initial weights, in hexadecimal; equal on all ranks.
    pub weights: String,
    /// Number of weights.
    pub parameters: u64,
    /// Resident memory at that moment, in bytes.
    pub resident_bytes: u64,
}

/// One step of one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// On which lane.
    pub lane: LaneId,
    /// The lane's step number, from 1.
    pub step: u64,
    /// Samples consumed by all ranks together, this step included.
    pub samples: u64,
    /// When the step began.
    pub begin: Nanos,
    /// How long it took.
    pub length: Nanos,
    /// Where the time went; sums to `length`.
    pub phases: PhaseTimes,
    /// Bytes handed to the transport.
    pub bytes_out: u64,
    /// Bytes taken from the transport.
    pub bytes_in: u64,
    /// Mean loss over the rank's samples of the step, where it computes one.
    pub loss: Option<f32>,
    /// Samples of this rank in the step.
    pub own_samples: u32,
    /// The learning rate of the step.
    pub rate: Option<f32>,
    /// Whether the step only empties a pipeline after the last gradient.
    pub drain: bool,
    /// Communication of the rank's other lanes that was open while this lane neither communicated nor waited; of a
    /// compute lane only.
    #[serde(default)]
    pub hidden: Nanos,
}

/// A stretch of a lane's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpanRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// On which lane.
    pub lane: LaneId,
    /// In which step of the lane.
    pub step: u64,
    /// What the lane was doing.
    pub phase: Phase,
    /// When it began to.
    pub begin: Nanos,
    /// For how long.
    pub length: Nanos,
    /// With whom.
    pub peer: Option<Rank>,
    /// How many bytes moved.
    pub bytes: u64,
}

/// A value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricRecord {
    /// What was measured.
    pub metric: Metric,
    /// Which model it was measured on, in words: `rank 0`, `server`.
    pub model: String,
    /// Step of the model, from 0 for the initial weights.
    pub step: u64,
    /// Samples consumed by all ranks together when the model was set aside.
    pub samples: u64,
    /// The same as passes over the training set.
    pub epoch: f64,
    /// When the model was set aside, on the clock of the run.
    pub at: Nanos,
    /// The value; not finite for a model that diverged.
    pub value: f64,
    /// Whether the run is judged by this model; otherwise it stands beside the one that it is judged by.
    #[serde(default = "yes")]
    pub judged: bool,
}

/// What a field means in a log that was written before there was one.
pub(crate) fn yes() -> bool {
    true
}

/// A digest of a rank's weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeightHash {
    /// Whose event this is.
    pub rank: Rank,
    /// After which step.
    pub step: u64,
    /// SHA-256 of the weights as little-endian 32-bit floats, in hexadecimal.
    pub sha256: String,
}

/// What one rank sent to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRecord {
    /// The sender.
    pub from: Rank,
    /// The receiver.
    pub to: Rank,
    /// Payload bytes as they travelled, encoded.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// What coding saved on a lane over the whole run, and what it lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodingRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// On which lane.
    pub lane: LaneId,
    /// Payload bytes that were sent, as they travelled.
    pub bytes: u64,
    /// The same as 32-bit floats.
    pub raw_bytes: u64,
    /// Squared length of all vectors that were encoded in the steps which keep their spans.
    pub squared: f64,
    /// Squared length of what decoding them does not give back. The relative error of the run is the square root
    /// of the one sum, over all lanes, divided by the other.
    pub squared_error: f64,
}

/// What measuring cost a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Whose event this is.
    pub rank: Rank,
    /// Processor time of recording: phase switches, and the threads that ship what was recorded.
    pub recording: Nanos,
    /// The time from the start of the run to the end of the last step, by a clock of its own.
    pub wall: Nanos,
}

/// How well a rank kept what it pretends: how much later than they should have, things happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmulationRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// What is pretended.
    pub what: Emulated,
    /// Messages that were kept back, or pieces of work.
    pub count: u64,
    /// Of these, half were not later than this.
    pub p50: Nanos,
    /// And 95 of 100 not later than this.
    pub p95: Nanos,
    /// The latest.
    pub max: Nanos,
    /// Steps that computed; 0 for a network.
    pub steps: u64,
    /// Of these, the ones whose real arithmetic did not fit into its time.
    pub overruns: u64,
    /// The most that was missing in a step.
    pub longest: Nanos,
}

/// What is pretended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Emulated {
    /// The network.
    Network,
    /// The time that computing takes.
    Compute,
}

impl Emulated {
    /// The name in the database and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Compute => "compute",
        }
    }
}

/// The samples of a step, by their positions in the original training file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// In which step.
    pub step: u64,
    /// The samples, in the order of the batch.
    pub samples: Vec<u32>,
}

/// A gradient that a server applied. In the order of their versions, these are what a server did: with the batches,
/// which are known, the run can be replayed from them to equal bits, unless the server has no lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateRecord {
    /// The server.
    pub rank: Rank,
    /// Whose gradient it was.
    pub worker: Rank,
    /// The worker's step.
    pub step: u64,
    /// Number of the update on this server, from 1.
    pub version: u64,
    /// Updates between the weights that the gradient was computed with and those that it was applied to: it was
    /// computed with version `version - 1 - staleness`, where 0 is the initial weights.
    pub staleness: u64,
    /// Samples consumed by all ranks together, this update included.
    pub samples: u64,
    /// When it was applied.
    pub at: Nanos,
}

/// A rank goes on without a peer: from here on the run is degraded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostRecord {
    /// Who goes on.
    pub rank: Rank,
    /// Who is gone.
    pub peer: Rank,
    /// The peer's step that did not come; 0 where its steps are not known.
    pub step: u64,
    /// When that was noticed.
    pub at: Nanos,
    /// What was noticed, in a sentence.
    pub reason: String,
}

/// A rank ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankEnded {
    /// Whose event this is.
    pub rank: Rank,
    /// How.
    pub end: RankEnd,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RankEnd {
    /// All its lanes finished.
    Finished,
    /// It was told to stop, and did so after this step.
    Stopped {
        /// The last finished step.
        step: u64,
    },
    /// The loss of its samples stopped being finite.
    Diverged {
        /// In which step.
        step: u64,
        /// The loss, as text: `NaN`, `inf`.
        loss: String,
    },
    /// It could not go on.
    Failed {
        /// On which lane.
        lane: LaneId,
        /// In which step of the lane.
        step: u64,
        /// In which phase.
        phase: Phase,
        /// A peer that is to blame as far as this rank can see: it stayed silent.
        peer: Option<Rank>,
        /// Why, in a sentence.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_no_number_survives() {
        let event = Event::Step(StepRecord {
            rank: Rank(2),
            lane: LaneId::Client(1),
            step: 7,
            samples: 700,
            begin: Nanos(5),
            length: Nanos(9),
            phases: PhaseTimes::default(),
            bytes_out: 1,
            bytes_in: 2,
            loss: Some(f32::NAN),
            own_samples: 25,
            rate: Some(0.5),
            drain: false,
            hidden: Nanos(4),
        });
        let Event::Step(back) = Event::decode(&event.encode().unwrap()).unwrap() else {
            panic!("another kind of event came back")
        };
        assert!(back.loss.unwrap().is_nan());
        assert_eq!((back.rank, back.lane, back.samples), (Rank(2), LaneId::Client(1), 700));
    }

    #[test]
    fn an_averaging_survives_by_its_name() {
        let event = Event::Averaged(AveragedRecord { rank: Rank(1), peer: Rank(3), number: 7, at: Nanos(9) });
        let bytes = event.encode().unwrap();
        assert!(bytes.windows(8).any(|word| word == b"averaged"));
        assert_eq!(Event::decode(&bytes).unwrap(), event);
    }

    /// Logs of earlier versions are read again by `bakeoff db rebuild`.
    #[test]
    fn a_lane_from_before_lanes_named_their_purpose_is_read() {
        let bytes = rmp_serde::to_vec_named(&std::collections::BTreeMap::from([("service", 3)])).unwrap();
        assert_eq!(rmp_serde::from_slice::<LaneId>(&bytes).unwrap(), LaneId::Service(3));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert!(Event::decode(&[0xc1, 0, 1]).is_err());
        assert!(Event::decode(&[]).is_err());
    }
}
