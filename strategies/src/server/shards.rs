//! How the weights are divided among the servers of a run, as a worker sees it.

use crate::node::Node;
use crate::server::client::{ASK, GOODBYE, Note, RECEIVED, part};
use crate::strategy::Progress;
use crate::vector::{Vector, piece};
use crate::{Kind, Place, StepError, Tag};
use std::ops::Range;

/// Nearly equal parts of the weights, one for each server. Servers sit behind the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    workers: usize,
    servers: usize,
    parameters: usize,
}

impl Shards {
    /// So many weights, divided among so many servers.
    pub fn new(workers: usize, servers: usize, parameters: usize) -> Self {
        Self { workers, servers, parameters }
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Number of all weights.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Where a server sits among all ranks.
    pub fn place(&self, server: usize) -> Place {
        Place(self.workers + server)
    }

    /// The weights that a server holds.
    pub fn span(&self, server: usize) -> Range<usize> {
        piece(self.parameters, self.servers, server)
    }

    /// Sends each server its part of a gradient.
    pub fn push(&self, node: &mut Node, g: &Vector) -> Result<(), StepError> {
        let push = Tag::new(Kind::Push, node.t());
        for server in 0..self.servers {
            let span = self.span(server);
            node.wire().send(self.place(server), push, span.start, &g[span])?;
        }
        Ok(())
    }

    /// After how many silences such a server gives a worker up that has asked for nothing: one, and where there are others, as
    /// many as one of those may keep it waiting. The first server enforces the bound on staleness, until it has given the
    /// slowest worker up: the others wait for longer than that.
    pub fn silences_before_asking(&self, server: usize) -> u64 {
        let elsewhere = 1 + self.silences();
        match (self.servers, server) {
            (1, _) => 1,
            (_, 0) => elsewhere,
            _ => 2 * elsewhere,
        }
    }

    /// The most silences of a server before it gives a worker up, with those of a worker that waits for it.
    pub fn most_silences(&self) -> u64 {
        self.silences() + self.silences_before_asking(self.servers - 1)
    }

    /// How often a server that serves one worker at a time may fall silent towards one that waits for its turn: it waits up to
    /// twice for each of the others, for a vector and for a receipt, before it gives that one up.
    pub fn silences(&self) -> u64 {
        2 * self.workers as u64
    }

    /// Exchanges a gradient for weights with servers that serve one worker at a time: with one after the other, so that
    /// no server is kept waiting for another. What is encoded before a turn and decoded after it does not make it longer.
    pub fn exchange_in_turn(&self, node: &mut Node, g: &Vector) -> Result<Progress, StepError> {
        let (push, pull) = (Tag::new(Kind::Push, node.t()), Tag::new(Kind::Pull, node.t()));
        let (mut progress, silences) = (Progress { samples: 0, over: false }, self.silences());
        for server in 0..self.servers {
            let (place, span) = (self.place(server), self.span(server));
            let slot = node.wire().slot(place, push, span.start);
            let gradient = node.wire().encode(slot, &g[span.clone()]);
            let desk = node.parts().0;
            desk.wire().exact().send_packet(place, push, ASK)?;
            desk.recv_patiently(silences, |desk| desk.wire().recv_packet(place, pull.part(part::TURN)))?;
            desk.wire().send_packet(place, push.part(part::VECTOR), gradient)?;
            // A worker that is too far ahead waits here for the slowest.
            let held_back = self.most_silences();
            let note = desk.recv_patiently(held_back, |desk| desk.wire().recv_packet(place, pull))?;
            let note = Note::decode(&note, desk.seat.rank)?;
            let weights = if note.weights {
                Some(desk.wire().recv_packet(place, pull.part(part::VECTOR))?)
            } else {
                None
            };
            desk.wire().exact().send_packet(place, push.part(part::TURN), RECEIVED)?;
            if server == 0 {
                progress = Progress { samples: note.samples, over: !note.weights };
            }
            if let Some(weights) = weights {
                node.take_params_of(&weights, span)?;
            }
        }
        Ok(progress)
    }

    /// Receives the weights of the step from all servers.
    pub fn pull(&self, node: &mut Node) -> Result<(), StepError> {
        let pull = Tag::new(Kind::Pull, node.t());
        (0..self.servers)
            .try_for_each(|server| node.recv_params_of(self.place(server), pull, self.span(server)))
    }

    /// The answer of servers that tell how far the run is. The first one says when it is over; then its weights
    /// are no longer of use, and it sends none.
    pub fn pull_with_notes(&self, node: &mut Node) -> Result<Progress, StepError> {
        let pull = Tag::new(Kind::Pull, node.t());
        let mut progress = Progress { samples: 0, over: false };
        for server in 0..self.servers {
            let place = self.place(server);
            let note = Note::decode(&node.wire().recv_packet(place, pull)?, node.rank())?;
            if server == 0 {
                progress = Progress { samples: note.samples, over: !note.weights };
            }
            if note.weights {
                node.recv_params_of(place, pull.part(part::VECTOR), self.span(server))?;
            }
        }
        Ok(progress)
    }

    /// Tells all servers that no gradient follows.
    pub fn say_goodbye(&self, node: &mut Node) -> Result<(), StepError> {
        let push = Tag::new(Kind::Push, node.t() + 1);
        (0..self.servers).try_for_each(|server| node.wire().send_packet(self.place(server), push, GOODBYE))
    }
}
