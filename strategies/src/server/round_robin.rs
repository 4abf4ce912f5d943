//! Round robin: workers are served one after the other, both ends of the protocol.

use crate::Progress;
use crate::message::{Message, Signal};
use crate::server::applied::Applied;
use crate::server::client::Note;
use crate::server::shards::Shards;
use crate::service_context::ServiceContext;
use crate::worker_context::WorkerContext;
use crate::{GroupRank, Kind, StepError, Tag};
use record::Phase;

/// The order of the workers, and the updates of their turns.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    workers: Vec<Member>,
    /// The worker of the last turn.
    last: Option<usize>,
    version: u64,
    samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Its turns, the current one included.
    turns: u64,
    /// The version after its last turn.
    read: u64,
    here: bool,
}

impl RoundRobin {
    /// `workers` workers, of which the first begins.
    pub fn of(workers: usize) -> Self {
        let member = Member { turns: 0, read: 0, here: true };
        Self { workers: vec![member; workers], ..Self::default() }
    }

    /// Samples of all turns.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Passes the turn on and returns the worker that has it now.
    pub fn pass_on(&mut self) -> usize {
        let p = self.workers.len();
        let from = self.last.map_or(0, |last| last + 1);
        let next = (from..from + p).map(|j| j % p).find(|j| self.workers[*j].here).unwrap_or(0);
        self.last = Some(next);
        next
    }

    /// Whether a worker that is not lost has had no turn yet.
    pub fn has_unserved_worker(&self) -> bool {
        self.workers.iter().any(|worker| worker.here && worker.turns == 0)
    }

    /// The workers that are not lost.
    pub fn here(&self) -> Vec<usize> {
        (0..self.workers.len()).filter(|j| self.workers[*j].here).collect()
    }

    /// Begins a worker's next turn and returns its number, from 1.
    pub fn begin(&mut self, j: usize) -> u64 {
        self.workers[j].turns += 1;
        self.workers[j].turns
    }

    /// Tells a worker that its turn begins.
    pub fn call(&self, ctx: &mut ServiceContext, j: usize) -> Result<(), StepError> {
        self.tell(ctx, j, &Note { samples: self.samples, weights: true })
    }

    /// Tells a worker that it has no further turn.
    pub fn send_home(&self, ctx: &mut ServiceContext, j: usize) -> Result<(), StepError> {
        self.tell(ctx, j, &Note { samples: self.samples, weights: false })
    }

    fn tell(&self, ctx: &mut ServiceContext, j: usize, note: &Note) -> Result<(), StepError> {
        ctx.send_message(GroupRank(j), Tag::new(Kind::Pull, self.workers[j].turns), note)
    }

    /// Ends a worker's turn of `samples` samples.
    pub fn end(&mut self, j: usize, samples: u64) -> Applied {
        let consumed = self.samples;
        let staleness = self.version - self.workers[j].read;
        self.version += 1;
        self.samples += samples;
        self.workers[j].read = self.version;
        Applied { version: self.version, staleness, consumed, samples: self.samples }
    }

    /// Records the update of worker `j` in its turn.
    pub fn record(&self, ctx: &ServiceContext, j: usize, applied: Applied) {
        applied.record(ctx, GroupRank(j), self.workers[j].turns);
    }

    /// A worker's turn failed. If the worker is lost, the loss is recorded and the others continue; the run fails only
    /// when all workers are lost.
    pub fn lose(&mut self, ctx: &mut ServiceContext, j: usize, error: StepError) -> Result<(), StepError> {
        let peer = ctx.info.everyone.rank(GroupRank(j));
        ctx.lose_one_of(peer, self.workers[j].turns, error, || {
            self.workers[j].here = false;
            !self.here().is_empty()
        })?;
        ctx.resume(Phase::Other);
        Ok(())
    }
}

impl Shards {
    /// Waits until the turn of that number begins, or training is over: longer than for others, because workers that hang
    /// are lost one after the other.
    pub fn wait_for_turn(&self, ctx: &mut WorkerContext, turn: u64) -> Result<Progress, StepError> {
        let tag = Tag::new(Kind::Pull, turn);
        // The master may wait for every other worker until that one counts as lost.
        let silences = self.workers() as u64;
        let master = self.place(0);
        let packet = ctx.service().recv_patiently(silences, |ctx| ctx.wire().recv_packet(master, tag))?;
        let note = Note::decode(&packet, ctx.rank())?;
        Ok(Progress { samples: note.samples, over: !note.weights })
    }

    /// Tells the master that the turn is over.
    pub fn end_turn(&self, ctx: &mut WorkerContext, turn: u64) -> Result<(), StepError> {
        ctx.wire().exact().send_packet(
            self.place(0),
            Tag::new(Kind::Push, turn).part(1),
            Signal::Done.packet(),
        )
    }
}
