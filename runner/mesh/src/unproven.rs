//! Handshakes under way at a ROUTER: connections whose peers have not proved that they belong to the attempt.

use crate::Secret;
use crate::handshake::{Code, End, Fault, Plane, Server, refusal};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Handshakes under way at once; a stranger could open any number.
const MOST_HANDSHAKES: usize = 1024;

/// The handshakes under way at one socket.
pub(crate) struct Unproven {
    secret: Secret,
    plane: Plane,
    me: End,
    handshakes: BTreeMap<Bytes, Server>,
}

/// Result of a frame on an unproven connection.
pub(crate) enum Admission {
    Ignored,
    /// A frame to send back.
    Reply(Bytes),
    /// The peer belongs to the attempt.
    Proven {
        peer: End,
        /// To be sent back.
        welcome: Bytes,
        /// The key of the connection.
        key: Code,
    },
}

impl Unproven {
    pub(crate) fn new(secret: Secret, plane: Plane, me: End) -> Self {
        Self { secret, plane, me, handshakes: BTreeMap::new() }
    }

    /// Takes the next frame of an unproven connection.
    pub(crate) fn take(&mut self, identity: &Bytes, frame: &[u8]) -> Admission {
        if let Some(handshake) = self.handshakes.remove(identity) {
            return match handshake.check(frame) {
                Ok((peer, welcome, key)) => Admission::Proven { peer, welcome, key },
                Err(fault) => self.refuse(fault),
            };
        }
        match Server::greet(&self.secret, self.plane, self.me, frame) {
            Ok((handshake, challenge)) if self.handshakes.len() < MOST_HANDSHAKES => {
                self.handshakes.insert(identity.clone(), handshake);
                Admission::Reply(challenge)
            }
            Ok(_) => Admission::Ignored,
            Err(fault) => self.refuse(fault),
        }
    }

    /// Drops the handshake of a connection that ended.
    pub(crate) fn forget(&mut self, identity: &Bytes) {
        self.handshakes.remove(identity);
    }

    fn refuse(&self, fault: Fault) -> Admission {
        tracing::warn!(to = %self.me, ?fault, "an unknown process at the socket was ignored");
        match fault {
            // It may be a member that was built from other sources, and reports why it was refused.
            Fault::Version { .. } => Admission::Reply(refusal()),
            Fault::Garbage | Fault::Secret => Admission::Ignored,
        }
    }
}
