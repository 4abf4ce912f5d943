//! One edge of a graph as a lane at one of its ends sees it, and which edge is next.

use crate::desk::Desk;
use crate::draw;
use crate::gossip::note::Note;
use crate::vector::Vector;
use crate::{Kind, Packet, Place, StepError, Tag};
use record::{Event, LostRecord, Phase, Rank};

/// Deadlines that a passive rank lets pass in a row before an active one counts as lost: that one may itself be waiting
/// for a rank that is.
const PATIENCE: u64 = 3;

/// Which of so many neighbours an active rank asks next: uniform, and a pure function of the seed, the rank and the
/// number of the averaging.
pub fn neighbour(seed: u64, rank: Rank, number: u64, of: usize) -> usize {
    let mut random = draw::stream(seed, "neighbour", &[u64::from(rank.0), number]);
    draw::below(&mut random, of as u64) as usize
}

/// An edge.
#[derive(Clone, Debug)]
pub struct Edge {
    peer: Place,
    /// Messages that went this way, or came.
    messages: u64,
}

impl Edge {
    /// The edge to that place.
    pub fn to(peer: Place) -> Self {
        Self { peer, messages: 0 }
    }

    /// The place of the rank at the other end.
    pub fn place(&self) -> Place {
        self.peer
    }

    /// The rank at the other end.
    pub fn rank(&self, desk: &Desk) -> Rank {
        desk.seat.everyone.rank(self.peer)
    }

    /// Sends a request: a note, and a model where one follows.
    pub fn ask(&mut self, desk: &mut Desk, note: &Note, x: Option<&Vector>) -> Result<(), StepError> {
        self.messages += 1;
        self.send(desk, Kind::Ask, note, x)
    }

    /// Sends the answer to the last request.
    pub fn answer(&self, desk: &mut Desk, note: &Note, x: &Vector) -> Result<(), StepError> {
        self.send(desk, Kind::Answer, note, Some(x))
    }

    fn send(&self, desk: &mut Desk, kind: Kind, note: &Note, x: Option<&Vector>) -> Result<(), StepError> {
        let tag = Tag::new(kind, self.messages);
        desk.wire().exact().send_packet(self.peer, tag, note.encode())?;
        x.map_or(Ok(()), |x| desk.wire().weights().send(self.peer, tag.part(1), 0, x))
    }

    /// Receives the answer to the last request.
    pub fn answered(&self, desk: &mut Desk, into: &mut Vector) -> Result<Note, StepError> {
        let tag = Tag::new(Kind::Answer, self.messages);
        let packet = desk.wire().exact().recv_packet(self.peer, tag)?;
        let note = Self::note(desk, &packet)?;
        self.model(desk, Kind::Answer, into)?;
        Ok(note)
    }

    /// Receives the note of the next request, however long the other computes in between.
    pub fn asked(&mut self, desk: &mut Desk) -> Result<Note, StepError> {
        self.messages += 1;
        let tag = Tag::new(Kind::Ask, self.messages);
        let peer = self.peer;
        let packet = desk.recv_patiently(PATIENCE, |desk| desk.wire().exact().recv_unasked(peer, tag))?;
        Self::note(desk, &packet)
    }

    /// Receives the model of the request whose note came.
    pub fn model(&self, desk: &mut Desk, kind: Kind, into: &mut Vector) -> Result<(), StepError> {
        desk.wire().weights().recv_into(self.peer, Tag::new(kind, self.messages).part(1), into)
    }

    fn note(desk: &Desk, packet: &Packet) -> Result<Note, StepError> {
        Note::decode(packet, desk.seat.rank, desk.seat.course.workers())
    }

    /// What becomes of a failure: a peer that is not there any more is written down, and the rank goes on without it.
    /// A run that is told to stop loses its ranks one by one, and nothing is wrong with it.
    pub fn without(&self, desk: &mut Desk, error: StepError) -> Result<(), StepError> {
        let (rank, peer) = (desk.seat.rank, self.rank(desk));
        if !error.is_absence_of(peer) || desk.observer.stopping() {
            return Err(error);
        }
        let at = desk.lane.clock.now();
        // Averagings are counted here, not the peer's steps.
        desk.record(Event::Lost(LostRecord { rank, peer, step: 0, at, reason: error.to_string() }));
        desk.go_on(Phase::Other);
        Ok(())
    }
}
