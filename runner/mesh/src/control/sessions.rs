//! The sessions of the members: which are connected, and the driver's conversation with each.

use super::conversation::{Conversation, Side, Taken};
use crate::handshake::Code;
use crate::{Member, MeshError};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A receiver's identity on the socket, and a frame for it.
pub(super) type AddressedFrame = (Bytes, Bytes);

/// The members' sessions. Each member connects once.
pub(super) struct Sessions(Mutex<Table>);

struct Table {
    sessions: BTreeMap<Member, Session>,
    /// The member at the other end of a connection.
    connections: BTreeMap<Bytes, Member>,
}

enum Session {
    /// Not connected yet, with the messages that wait for it.
    Expected(Vec<Vec<u8>>),
    Open {
        identity: Bytes,
        conversation: Conversation,
    },
    Closed,
}

impl Sessions {
    pub(super) fn new(members: &[Member]) -> Self {
        let sessions = members.iter().map(|member| (*member, Session::Expected(Vec::new()))).collect();
        Self(Mutex::new(Table { sessions, connections: BTreeMap::new() }))
    }

    /// Whether a message can be sent to a member.
    pub(super) fn check(&self, member: Member) -> Result<(), MeshError> {
        match self.lock().sessions.get(&member) {
            None => Err(MeshError::Stranger(member)),
            Some(Session::Closed) => Err(MeshError::NotConnected(member)),
            Some(_) => Ok(()),
        }
    }

    /// Whether this connection belongs to a member.
    pub(super) fn knows(&self, identity: &Bytes) -> bool {
        self.lock().connections.contains_key(identity)
    }

    /// The frames to send now for a message to a member.
    pub(super) fn say(&self, to: Member, body: Vec<u8>) -> Vec<AddressedFrame> {
        match self.lock().sessions.get_mut(&to) {
            Some(Session::Expected(waiting)) => waiting.push(body),
            Some(Session::Open { identity, conversation }) => {
                return vec![(identity.clone(), conversation.say(&body))];
            }
            Some(Session::Closed) | None => {}
        }
        Vec::new()
    }

    /// Opens the session of a member that has proved who it is. Returns the messages that waited for it, or `None` if it
    /// is not expected.
    pub(super) fn enter(
        &self,
        member: Member,
        identity: &Bytes,
        key: Code,
        side: Side,
    ) -> Option<Vec<AddressedFrame>> {
        let mut table = self.lock();
        let Some(session @ Session::Expected(_)) = table.sessions.get_mut(&member) else {
            tracing::warn!(%member, "a second connection of a member was ignored");
            return None;
        };
        let mut conversation = Conversation::new(key, side);
        let Session::Expected(waiting) = std::mem::replace(session, Session::Closed) else { return None };
        let frames = waiting.iter().map(|body| (identity.clone(), conversation.say(body))).collect();
        *session = Session::Open { identity: identity.clone(), conversation };
        table.connections.insert(identity.clone(), member);
        Some(frames)
    }

    /// The member and the body of its next message, if the frame is one.
    pub(super) fn take(&self, identity: &Bytes, frame: &Bytes) -> Option<(Member, Bytes)> {
        let mut table = self.lock();
        let member = *table.connections.get(identity)?;
        let session = table.sessions.get_mut(&member)?;
        let Session::Open { conversation, .. } = session else { return None };
        match conversation.take(frame) {
            Taken::Message(body) => return Some((member, body)),
            Taken::Acknowledgement => {}
            Taken::Ignored => tracing::warn!(%member, "a frame without the member's code was ignored"),
            Taken::Gap { expected, got } => {
                tracing::error!(%member, expected, got, "control messages are missing");
                *session = Session::Closed;
            }
        }
        None
    }

    /// The acknowledgements that are due.
    pub(super) fn acknowledge(&self) -> Vec<AddressedFrame> {
        let mut table = self.lock();
        let owed = table.sessions.values_mut().filter_map(|session| match session {
            Session::Open { identity, conversation } => Some((identity.clone(), conversation.acknowledge()?)),
            Session::Expected(_) | Session::Closed => None,
        });
        owed.collect()
    }

    /// Closes the session of a connection that has ended.
    pub(super) fn leave(&self, identity: &Bytes) {
        let mut table = self.lock();
        if let Some(member) = table.connections.remove(identity) {
            table.sessions.insert(member, Session::Closed);
        }
    }

    /// Whether connected members have acknowledged all messages.
    pub(super) fn settled(&self) -> bool {
        self.lock().sessions.values().all(|session| match session {
            Session::Open { conversation, .. } => conversation.open() == 0,
            Session::Expected(_) | Session::Closed => true,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
