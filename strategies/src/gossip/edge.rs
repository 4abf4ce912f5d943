//! One edge of a graph, as a lane at one of its ends sees it, and the choice of the next edge.

use crate::gossip::note::Note;
use crate::rng;
use crate::service_context::ServiceContext;
use crate::vector::Vector;
use crate::{GroupRank, Kind, Packet, StepError, Tag};
use record::{Phase, Rank};

/// Deadlines in a row after which an active rank counts as lost to a passive one: it may itself be waiting for a rank that
/// is lost.
const PATIENCE: u64 = 3;

/// The neighbour, below `of`, that an active rank asks next: uniform, and a pure function of the seed, the rank and the
/// number of the averaging.
pub fn neighbour(seed: u64, rank: Rank, number: u64, of: usize) -> usize {
    let mut random = rng::keyed(seed, "neighbour", &[u64::from(rank.0), number]);
    rng::below(&mut random, of as u64) as usize
}

/// An edge to a neighbour.
#[derive(Clone, Debug)]
pub struct Edge {
    peer: GroupRank,
    /// Messages over the edge so far.
    messages: u64,
}

impl Edge {
    /// The edge to a neighbour.
    pub fn to(peer: GroupRank) -> Self {
        Self { peer, messages: 0 }
    }

    /// The group rank of the neighbour among all ranks.
    pub fn neighbour(&self) -> GroupRank {
        self.peer
    }

    /// The rank at the other end.
    pub fn rank(&self, ctx: &ServiceContext) -> Rank {
        ctx.info.everyone.rank(self.peer)
    }

    /// Sends a request: a note, and a model where one follows.
    pub fn ask(
        &mut self,
        ctx: &mut ServiceContext,
        note: &Note,
        x: Option<&Vector>,
    ) -> Result<(), StepError> {
        self.messages += 1;
        self.send(ctx, Kind::Ask, note, x)
    }

    /// Sends the answer to the last request.
    pub fn answer(&self, ctx: &mut ServiceContext, note: &Note, x: &Vector) -> Result<(), StepError> {
        self.send(ctx, Kind::Answer, note, Some(x))
    }

    fn send(
        &self,
        ctx: &mut ServiceContext,
        kind: Kind,
        note: &Note,
        x: Option<&Vector>,
    ) -> Result<(), StepError> {
        let tag = Tag::new(kind, self.messages);
        ctx.send_message(self.peer, tag, note)?;
        x.map_or(Ok(()), |x| ctx.wire().weights().send(self.peer, tag.part(1), 0, x))
    }

    /// Receives the answer to the last request.
    pub fn answered(&self, ctx: &mut ServiceContext, into: &mut Vector) -> Result<Note, StepError> {
        let tag = Tag::new(Kind::Answer, self.messages);
        let packet = ctx.wire().exact().recv_packet(self.peer, tag)?;
        let note = Self::note(ctx, &packet)?;
        self.model(ctx, Kind::Answer, into)?;
        Ok(note)
    }

    /// Receives the note of the next request; the neighbour may compute for long in between.
    pub fn asked(&mut self, ctx: &mut ServiceContext) -> Result<Note, StepError> {
        self.messages += 1;
        let tag = Tag::new(Kind::Ask, self.messages);
        let peer = self.peer;
        let packet = ctx.recv_patiently(PATIENCE, |ctx| ctx.wire().exact().recv_unasked(peer, tag))?;
        Self::note(ctx, &packet)
    }

    /// Receives the model that follows a note.
    pub fn model(&self, ctx: &mut ServiceContext, kind: Kind, into: &mut Vector) -> Result<(), StepError> {
        ctx.wire().weights().recv_into(self.peer, Tag::new(kind, self.messages).part(1), into)
    }

    fn note(ctx: &ServiceContext, packet: &Packet) -> Result<Note, StepError> {
        Note::received(packet, ctx.info.rank, ctx.info.plan.workers())
    }

    /// The edge failed. If the neighbour is lost, the loss is recorded and the rank continues without it.
    pub fn lose(&self, ctx: &mut ServiceContext, error: StepError) -> Result<(), StepError> {
        // Averagings are counted here, not the neighbour's steps.
        ctx.lose_peer(self.rank(ctx), 0, error)?;
        ctx.resume(Phase::Other);
        Ok(())
    }
}
