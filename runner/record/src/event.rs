//! The events that workers report to the driver: a closed, versioned set.
//!
//! Only events flow from a run into the database. They are sent as MessagePack with named fields, because JSON has no NaN,
//! and are appended to the run's directory as well, so that the database can be rebuilt from them.

use crate::{
    AveragedRecord, CodingRecord, EmulationRecord, GossipRecord, HostRecord, LaneId, LinkRecord, Nanos,
    Overhead, Phase, PhaseTimes, Rank, ScheduleRecord, SnapshotRecord, UsageRecord,
};
use recipe::{Metric, PlannedFault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the set of events; raised whenever a variant or a field changes its meaning.
pub const EVENT_VERSION: u32 = 1;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A rank holds its data and its initial weights and waits for the start.
    Prepared(Prepared),
    /// A lane ended a step.
    Step(StepRecord),
    /// A lane was in a phase; for the steps that keep their spans.
    Span(SpanRecord),
    /// A value was measured.
    Metric(MetricRecord),
    /// A rank's weights, as a digest.
    WeightHash(WeightHash),
    /// A rank took a snapshot of its model.
    Snapshot(SnapshotRecord),
    /// A rank's traffic to another over the whole run.
    Link(LinkRecord),
    /// A lane's savings and losses by compression over the whole run; only with compression.
    Coding(CodingRecord),
    /// The time that a rank spent on recording.
    Overhead(Overhead),
    /// The accuracy of a rank's emulation.
    Emulation(EmulationRecord),
    /// The samples that a rank used in a step; only with `measure.samples`.
    Samples(SamplesRecord),
    /// An asynchronous server applied a gradient.
    Update(UpdateRecord),
    /// A rank continues without a lost peer.
    Lost(LostRecord),
    /// The last event of a rank.
    Ended(RankEnded),
    /// A gossiping rank's model changed; in the rank's order.
    Gossip(GossipRecord),
    /// Two ranks averaged their models; recorded by the active one.
    Averaged(AveragedRecord),
    /// A machine's counters at a moment; read by the driver or on its behalf, not by a rank.
    Host(HostRecord),
    /// A rank's part of a checkpoint is on its disk, or could not be written; the models that it took before are recorded
    /// before.
    Checkpoint(CheckpointRecord),
    /// A worker's use of memory and time over the whole run.
    Usage(UsageRecord),
    /// Which parts of a gradient travel together; recorded by rank 0 when it is decided, and at the end with the times that
    /// the parts travelled at.
    Schedule(ScheduleRecord),
    /// A fault of the recipe is about to strike a rank; the last event of a rank that it ends.
    Struck(StruckRecord),
}

impl Event {
    /// Encodes the event for the control plane and the run's directory.
    pub fn encode(&self) -> Result<Vec<u8>, EventError> {
        rmp_serde::to_vec_named(self).map_err(EventError::Encode)
    }

    /// The event in these bytes, all of which it must use.
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
    /// The bytes are not an event of this version.
    #[error("bytes are no event of version {EVENT_VERSION}: {0}")]
    Decode(rmp_serde::decode::Error),
}

/// A rank holds its data and its initial weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prepared {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The process it runs in.
    pub pid: u32,
    /// Threads that its tensor library computes with.
    pub threads: u32,
    /// Training samples after the validation split was taken out.
    pub training_samples: u64,
    /// SHA-256 of the data that was read, in hexadecimal; equal on all ranks.
    pub data_digest: String,
    /// SHA-256 of the initial weights that the rank holds, in hexadecimal; equal on all ranks that hold the same part of the model.
    pub weights: String,
    /// Number of weights that the rank holds.
    pub parameters: u64,
    /// Resident memory when it was recorded, in bytes.
    pub resident_bytes: u64,
    /// Number of the set of ranks that its strategy says must end with equal weights; `None` where it says nothing of this rank, and in
    /// records of earlier versions.
    #[serde(default)]
    pub replica_group: Option<u32>,
}

/// A rank's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The number of the checkpoint, from 1: the same on all ranks.
    pub number: u64,
    /// Samples that all ranks together had consumed.
    pub samples: u64,
    /// When the last lane was saved, on the clock of the run.
    pub at: Nanos,
    /// SHA-256 of its file, in hexadecimal, or why it could not be written.
    pub file: Result<String, String>,
    /// The steps that each lane had taken.
    pub lanes: Vec<(LaneId, u64)>,
}

/// One step of one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The lane that recorded it.
    pub lane: LaneId,
    /// The lane's step number, from 1.
    pub step: u64,
    /// Samples consumed by all ranks together, this step included.
    pub samples: u64,
    /// When the step began.
    pub begin: Nanos,
    /// In nanoseconds of the run's clock.
    pub length: Nanos,
    /// Time per phase; sums to `length`.
    pub phases: PhaseTimes,
    /// Bytes handed to the transport.
    pub bytes_out: u64,
    /// Bytes taken from the transport.
    pub bytes_in: u64,
    /// Mean loss over the rank's samples of the step, if it computes one.
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
    /// The rank that recorded it.
    pub rank: Rank,
    /// The lane that recorded it.
    pub lane: LaneId,
    /// The lane's step number, from 1.
    pub step: u64,
    /// Phase that the lane was in.
    pub phase: Phase,
    /// When the span began, on the clock of the run.
    pub begin: Nanos,
    /// Duration of the span.
    pub length: Nanos,
    /// The peer, if one was involved.
    pub peer: Option<Rank>,
    /// Bytes exchanged with the peer; 0 without one.
    pub bytes: u64,
}

/// A value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricRecord {
    /// The quantity that was measured.
    pub metric: Metric,
    /// The measured model's name for people: `rank 0`, `server`.
    pub model: String,
    /// Step of the model, from 0 for the initial weights.
    pub step: u64,
    /// Samples consumed by all ranks together when the snapshot was taken.
    pub samples: u64,
    /// The same as passes over the training set.
    pub epoch: f64,
    /// When the snapshot was taken, on the clock of the run.
    pub at: Nanos,
    /// The value; not finite for a model that diverged.
    pub value: f64,
    /// Whether the run is judged by this model; otherwise it is evaluated in addition.
    #[serde(default = "yes")]
    pub judged: bool,
}

/// The value of a field in logs that were written before it existed.
fn yes() -> bool {
    true
}

/// A digest of a rank's weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeightHash {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The rank's last step before it.
    pub step: u64,
    /// SHA-256 of the weights as little-endian 32-bit floats, in hexadecimal.
    pub sha256: String,
}

/// The samples of a step, by their positions in the original training file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// From 1, as the rank counts them.
    pub step: u64,
    /// The samples, in the order of the batch.
    pub samples: Vec<u32>,
}

/// A gradient that a server applied. In the order of their versions and with the batches, which are known, these records
/// suffice to replay the run bit for bit, unless the server has no lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateRecord {
    /// The server that applied the gradient.
    pub rank: Rank,
    /// The worker that computed the gradient.
    pub worker: Rank,
    /// Step in which the worker computed it.
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

/// A rank continues without a lost peer: from here on the run is degraded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostRecord {
    /// The rank that continues.
    pub rank: Rank,
    /// The peer that it continues without.
    pub peer: Rank,
    /// The peer's first missing step; 0 if its steps are not known.
    pub step: u64,
    /// When the loss was noticed.
    pub at: Nanos,
    /// The reason, in a sentence.
    pub reason: String,
}

/// A rank is about to be struck by what the recipe lets go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StruckRecord {
    /// The fault: the rank that it strikes, the step, and its effect.
    pub fault: PlannedFault,
    /// When that step began.
    pub at: Nanos,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankEnded {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The kind of its end.
    pub end: RankEnd,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RankEnd {
    /// All its lanes finished.
    Finished,
    /// It was asked to stop, and stopped after this step.
    Stopped {
        /// The last finished step.
        step: u64,
    },
    /// The loss of its samples stopped being finite.
    Diverged {
        /// From 1, as the rank counts them.
        step: u64,
        /// The loss, as text: `NaN`, `inf`.
        loss: String,
    },
    /// It could not continue.
    Failed {
        /// The lane in which it failed.
        lane: LaneId,
        /// From 1; 0 before the first.
        step: u64,
        /// The phase that the lane is in, or failed in.
        phase: Phase,
        /// The silent peer that this rank blames, if any.
        peer: Option<Rank>,
        /// The reason, in a sentence.
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
