//! The driver's side of the control plane.

use crate::{Member, MeshError, Secret, ToDriver, ToMember};
use std::path::Path;
use std::time::Duration;

/// The driver's way to all members.
pub struct ControlServer;

impl ControlServer {
    /// Listens in the directory `sockets` for `members`, and for nobody else.
    #[expect(clippy::unused_async, reason = "skeleton")]
    pub async fn bind(_sockets: &Path, _secret: &Secret, _members: &[Member]) -> Result<Self, MeshError> {
        unimplemented!()
    }

    /// What was said next: in order per member, each message exactly once. `None` when nothing can come any
    /// more. Dropping the future loses nothing.
    #[expect(clippy::unused_async, reason = "skeleton")]
    pub async fn recv(&mut self) -> Option<(Member, ToDriver)> {
        unimplemented!()
    }

    /// Says something to a member. A member that is not connected yet gets it when it is.
    pub fn send(&self, _to: Member, _message: ToMember) -> Result<(), MeshError> {
        unimplemented!()
    }

    /// Waits until the members acknowledged what they were told, then closes and removes the socket.
    #[expect(clippy::unused_async, reason = "skeleton")]
    pub async fn close(self, _deadline: Duration) {
        unimplemented!()
    }
}
