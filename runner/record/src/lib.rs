//! The records of a run: phases, clocks, and the closed, versioned set of events.
//!
//! Everything between a worker and the database speaks in these types. This crate does no I/O and reads no
//! clock of its own: time comes in through [`Clock`].

mod clock;
mod event;
mod gossip;
mod host;
mod overlap;
mod phase;
mod phase_clock;
mod schedule;
mod snapshot;
mod totals;
mod units;

pub use clock::{BatchShare, Clock, Work};
pub use event::{
    CheckpointRecord, EVENT_VERSION, Event, EventError, LostRecord, MetricRecord, Prepared, RankEnd,
    RankEnded, SamplesRecord, SpanRecord, StepRecord, StruckRecord, UpdateRecord, WeightHash,
};
pub use gossip::{AveragedRecord, GossipAct, GossipRecord};
pub use host::{HostRecord, HostUse, clocks_apart};
pub use overlap::Overlap;
pub use phase::{Category, Phase, PhaseTimes};
pub use phase_clock::{PhaseClock, Span, StepTiming, Trace};
pub use schedule::{HeldCost, ScheduleCost, ScheduleRecord, ScheduledBucket};
pub use snapshot::{FROZEN, SnapshotGroup, SnapshotRecord, Standing};
pub use totals::{CodingRecord, Emulated, EmulationRecord, LinkRecord, Overhead, UsageRecord};
pub use units::{LaneId, Nanos, Rank};
