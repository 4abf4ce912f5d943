//! Who of the members is there, and the driver's conversation with each.

use super::conversation::{Conversation, Side, Taken};
use crate::handshake::Code;
use crate::{Member, MeshError};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A frame and the identity that it is for.
pub(super) type Outgoing = (Bytes, Bytes);

/// The members and their connections. Each member connects once.
pub(super) struct Seats(Mutex<Table>);

struct Table {
    seats: BTreeMap<Member, Seat>,
    /// Who sits behind a connection.
    connections: BTreeMap<Bytes, Member>,
}

enum Seat {
    /// Not connected yet; what it will be told.
    Expected(Vec<Vec<u8>>),
    /// Connected.
    Taken { identity: Bytes, conversation: Conversation },
    /// No longer connected.
    Left,
}

impl Seats {
    pub(super) fn new(members: &[Member]) -> Self {
        let seats = members.iter().map(|member| (*member, Seat::Expected(Vec::new()))).collect();
        Self(Mutex::new(Table { seats, connections: BTreeMap::new() }))
    }

    /// Whether something can be said to a member.
    pub(super) fn check(&self, member: Member) -> Result<(), MeshError> {
        match self.lock().seats.get(&member) {
            None => Err(MeshError::Stranger(member)),
            Some(Seat::Left) => Err(MeshError::NotConnected(member)),
            Some(_) => Ok(()),
        }
    }

    /// Whether this connection belongs to a member.
    pub(super) fn knows(&self, identity: &Bytes) -> bool {
        self.lock().connections.contains_key(identity)
    }

    /// The frames that tell a member something now.
    pub(super) fn say(&self, to: Member, body: Vec<u8>) -> Vec<Outgoing> {
        match self.lock().seats.get_mut(&to) {
            Some(Seat::Expected(waiting)) => waiting.push(body),
            Some(Seat::Taken { identity, conversation }) => {
                return vec![(identity.clone(), conversation.say(&body))];
            }
            Some(Seat::Left) | None => {}
        }
        Vec::new()
    }

    /// A member has proved who it is: what it is told first. `None` if nobody expects it.
    pub(super) fn enter(
        &self,
        member: Member,
        identity: &Bytes,
        key: Code,
        side: Side,
    ) -> Option<Vec<Outgoing>> {
        let mut table = self.lock();
        let Some(seat @ Seat::Expected(_)) = table.seats.get_mut(&member) else {
            tracing::warn!(%member, "a second connection of a member was ignored");
            return None;
        };
        let mut conversation = Conversation::new(key, side);
        let Seat::Expected(waiting) = std::mem::replace(seat, Seat::Left) else { return None };
        let frames = waiting.iter().map(|body| (identity.clone(), conversation.say(body))).collect();
        *seat = Seat::Taken { identity: identity.clone(), conversation };
        table.connections.insert(identity.clone(), member);
        Some(frames)
    }

    /// The body of the next message of a member, if the frame is one.
    pub(super) fn take(&self, identity: &Bytes, frame: &Bytes) -> Option<(Member, Bytes)> {
        let mut table = self.lock();
        let member = *table.connections.get(identity)?;
        let seat = table.seats.get_mut(&member)?;
        let Seat::Taken { conversation, .. } = seat else { return None };
        match conversation.take(frame) {
            Taken::Message(body) => return Some((member, body)),
            Taken::Acknowledgement => {}
            Taken::Ignored => tracing::warn!(%member, "a frame that is not the member's was ignored"),
            Taken::Gap { expected, got } => {
                tracing::error!(%member, expected, got, "control messages are missing");
                *seat = Seat::Left;
            }
        }
        None
    }

    /// The acknowledgements that are owed.
    pub(super) fn acknowledge(&self) -> Vec<Outgoing> {
        let mut table = self.lock();
        let owed = table.seats.values_mut().filter_map(|seat| match seat {
            Seat::Taken { identity, conversation } => Some((identity.clone(), conversation.acknowledge()?)),
            Seat::Expected(_) | Seat::Left => None,
        });
        owed.collect()
    }

    /// A connection ended.
    pub(super) fn leave(&self, identity: &Bytes) {
        let mut table = self.lock();
        if let Some(member) = table.connections.remove(identity) {
            table.seats.insert(member, Seat::Left);
        }
    }

    /// Whether everything that was said to connected members is acknowledged.
    pub(super) fn settled(&self) -> bool {
        self.lock().seats.values().all(|seat| match seat {
            Seat::Taken { conversation, .. } => conversation.open() == 0,
            Seat::Expected(_) | Seat::Left => true,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
