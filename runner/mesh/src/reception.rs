//! Where a ROUTER sends everybody who has not proved anything yet.

use crate::Secret;
use crate::handshake::{Code, End, Fault, Plane, Server, refusal};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Handshakes under way at once; a stranger could open any number.
const MOST_VISITORS: usize = 1024;

/// The handshakes that are under way.
pub(crate) struct Reception {
    secret: Secret,
    plane: Plane,
    me: End,
    visitors: BTreeMap<Bytes, Server>,
}

/// What a frame of a stranger leads to.
pub(crate) enum Visit {
    /// It is ignored.
    Nothing,
    /// This is sent back.
    Answer(Bytes),
    /// It is no stranger.
    Proven {
        /// Who it is.
        peer: End,
        /// To be sent back.
        welcome: Bytes,
        /// The key of the connection.
        key: Code,
    },
}

impl Reception {
    pub(crate) fn new(secret: Secret, plane: Plane, me: End) -> Self {
        Self { secret, plane, me, visitors: BTreeMap::new() }
    }

    /// Takes a frame of somebody who has not proved anything yet.
    pub(crate) fn take(&mut self, identity: &Bytes, frame: &[u8]) -> Visit {
        if let Some(visitor) = self.visitors.remove(identity) {
            return match visitor.check(frame) {
                Ok((peer, welcome, key)) => Visit::Proven { peer, welcome, key },
                Err(fault) => self.refuse(fault),
            };
        }
        match Server::greet(&self.secret, self.plane, self.me, frame) {
            Ok((visitor, challenge)) if self.visitors.len() < MOST_VISITORS => {
                self.visitors.insert(identity.clone(), visitor);
                Visit::Answer(challenge)
            }
            Ok(_) => Visit::Nothing,
            Err(fault) => self.refuse(fault),
        }
    }

    /// A connection ended.
    pub(crate) fn forget(&mut self, identity: &Bytes) {
        self.visitors.remove(identity);
    }

    fn refuse(&self, fault: Fault) -> Visit {
        tracing::warn!(to = %self.me, ?fault, "a stranger at the socket was ignored");
        match fault {
            // A member with other sources deserves to be told why.
            Fault::Version { .. } => Visit::Answer(refusal()),
            Fault::Garbage | Fault::Secret => Visit::Nothing,
        }
    }
}
