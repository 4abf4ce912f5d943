//! The member's side of the control plane.

use crate::{Briefing, MeshError, ToDriver, ToMember};
use std::time::Duration;

/// A member's way to the driver; clones share one connection.
#[derive(Clone)]
pub struct ControlClient;

/// What the driver says to a member.
pub struct ControlInbox;

impl ControlClient {
    /// Connects to the driver and proves to belong to the attempt, within `deadlines.start_up`.
    pub fn connect(_briefing: &Briefing) -> Result<(Self, ControlInbox), MeshError> {
        unimplemented!()
    }

    /// Says something; it is kept until the driver acknowledges it. Never waits.
    pub fn send(&self, _message: ToDriver) {
        unimplemented!()
    }

    /// Returns when everything is acknowledged; nothing can be said any more.
    pub fn close(&self, _deadline: Duration) -> Result<(), MeshError> {
        unimplemented!()
    }
}

impl ControlInbox {
    /// The next message; `None` if none came in time, or none can come because the connection is lost.
    pub fn recv_timeout(&self, _patience: Duration) -> Option<ToMember> {
        unimplemented!()
    }

    /// Whether the driver is gone without a word.
    pub fn lost(&self) -> bool {
        unimplemented!()
    }
}
