//! How the weights are divided among the servers of a run, as a worker sees it.

use crate::node::Node;
use crate::server::client::{GOODBYE, Note};
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
                node.recv_params_of(place, pull.part(1), self.span(server))?;
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
