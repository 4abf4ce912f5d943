//! The data plane of one rank.

use crate::{Briefing, MeshError};
use record::{Clock, LinkRecord, Nanos, Rank};
use std::sync::Arc;
use std::time::Duration;
use strategies::Transport;

/// A rank's way to all other ranks.
pub struct DataPlane;

impl DataPlane {
    /// Binds the rank's own socket, connects to every peer, and proves to belong to the attempt, within
    /// `deadlines.start_up`.
    pub fn open(_briefing: &Briefing, _me: Rank, _clock: Arc<dyn Clock>) -> Result<Self, MeshError> {
        unimplemented!()
    }

    /// A handle to the rank's transport, one for each lane.
    pub fn transport(&self) -> Box<dyn Transport> {
        unimplemented!()
    }

    /// Wakes every wait with [`strategies::StepError::Stopped`].
    pub fn stop(&self) {
        unimplemented!()
    }

    /// What was sent to each peer so far. `raw_bytes` equals `bytes`: the plane does not know what was encoded.
    pub fn links(&self) -> Vec<LinkRecord> {
        unimplemented!()
    }

    /// Processor time of the thread that moves the bytes.
    pub fn cpu_time(&self) -> Nanos {
        unimplemented!()
    }

    /// Says good-bye: returns when every peer has everything that was sent to it, or has said good-bye itself.
    pub fn close(self, _deadline: Duration) -> Result<(), MeshError> {
        unimplemented!()
    }
}
