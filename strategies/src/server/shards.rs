//! The division of the weights among the servers of a run.

use crate::GroupRank;
use crate::vector::piece;
use std::ops::Range;

/// Nearly equal parts of the weights, one for each server. Servers sit behind the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    workers: usize,
    servers: usize,
    parameter_count: usize,
}

impl Shards {
    /// `parameter_count` weights, divided among `servers` servers.
    pub fn new(workers: usize, servers: usize, parameter_count: usize) -> Self {
        Self { workers, servers, parameter_count }
    }

    /// Number of workers, at least 1.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Number of servers; 0 where the strategy has none.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Number of all weights.
    pub fn parameter_count(&self) -> usize {
        self.parameter_count
    }

    /// The position of a server among all ranks.
    pub fn place(&self, server: usize) -> GroupRank {
        GroupRank(self.workers + server)
    }

    /// The positions of the weights that a server holds.
    pub fn span(&self, server: usize) -> Range<usize> {
        piece(self.parameter_count, self.servers, server)
    }

    /// The servers that hold some of these weights, and which of them each holds.
    pub fn of_part(&self, part: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        (0..self.servers).filter_map(move |server| {
            let span = self.span(server);
            let both = span.start.max(part.start)..span.end.min(part.end);
            (!both.is_empty()).then_some((server, both))
        })
    }

    /// Silences after which a server that serves one worker at a time counts a worker as lost that has asked for nothing: one,
    /// or as many as another server may keep the worker waiting. The first server enforces the bound on staleness until
    /// the slowest worker counts as lost: the others wait for longer than that.
    pub fn silences_before_asking(&self, server: usize) -> u64 {
        let elsewhere = 1 + self.silences();
        match (self.servers, server) {
            (1, _) => 1,
            (_, 0) => elsewhere,
            _ => 2 * elsewhere,
        }
    }

    /// The most silences of a server before it counts a worker as lost, with those of a worker that waits for the server.
    pub fn most_silences(&self) -> u64 {
        self.silences() + self.silences_before_asking(self.servers - 1)
    }

    /// Silences of a server that serves one worker at a time towards a worker that waits for its turn: the server waits up
    /// to twice for each of the others, for a vector and for a receipt, before that one counts as lost.
    pub fn silences(&self) -> u64 {
        2 * self.workers as u64
    }
}
