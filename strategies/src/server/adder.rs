//! A server that adds: it holds no weights, and sends each group of workers the sum of their vectors.
//!
//! Source: the "parameter server fashion" of averaging in Lai, Kadav and Kruus, "SplitBrain", 2021, section 4. There is no more about it
//! than that; here workers keep their optimizer, so that all of a step but the sum is as without a server.

use crate::collective::through_servers::SumRequest;
use crate::message::Signal;
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::{Group, GroupRank, Kind, Packet, StateVisitor, StepError, Tag, Vector, WorkerContext};
use record::LaneId;
use std::collections::BTreeMap;

/// The part of a tag that marks a goodbye.
const LEAVES: u32 = u32::MAX;
/// The part of a tag that marks the beginning of a step in which nothing may be added.
const BEGINS: u32 = u32::MAX - 1;

/// The vectors of one sum that have arrived, by worker.
#[derive(Default)]
struct Gathered {
    packets: BTreeMap<usize, Packet>,
}

/// A message of a worker.
type Arrived = (Option<GroupRank>, Tag, Packet);

/// Workers, weights and steps for which a server adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdderScope {
    /// Number of workers of the run.
    pub workers: usize,
    /// Workers that hold one model together: the same part is held by each `parts`-th worker.
    pub parts: usize,
    /// Number of weights of the whole model.
    pub weights: usize,
    /// Steps that may pass between two sums.
    pub period: u64,
}

/// Adds for groups of workers, in the order in which their vectors are complete. A step of its lane is one of the workers: it is over
/// when a vector of a later one arrives, or word that a later one begins.
pub struct Adder {
    scope: AdderScope,
    /// The workers, then this rank: other servers send it nothing, and it does not wait for them to leave.
    clients: Group,
    /// By step, call and part of the tag.
    open: BTreeMap<(u64, u32, u32), Gathered>,
    /// First message of a later step, kept until the current one is over.
    later: Option<Arrived>,
    left: usize,
    /// Steps that are over.
    t: u64,
}

impl Adder {
    /// A server at rest; `clients` are the workers, then its own rank.
    pub fn new(scope: AdderScope, clients: Group) -> Self {
        Self { scope, clients, open: BTreeMap::new(), later: None, left: 0, t: 0 }
    }

    fn members(&self, request: SumRequest) -> Vec<usize> {
        match request.members.checked_sub(1) {
            None => (0..self.scope.workers).collect(),
            Some(part) => (part..self.scope.workers).step_by(self.scope.parts).collect(),
        }
    }

    /// The next message. Between two sums, each step may take as long as a peer may be silent.
    fn next(&mut self, ctx: &mut ServiceContext) -> Result<Arrived, StepError> {
        if let Some(later) = self.later.take() {
            ctx.lane.traffic.bytes_in += later.2.0.len() as u64;
            return Ok(later);
        }
        let phase = ctx.lane.clock.phase();
        for _ in 1..self.scope.period {
            match ctx.wire_over(&self.clients).recv_any(Kind::Push) {
                Err(StepError::Silent { peer: None, .. }) => ctx.resume(phase),
                result => return result,
            }
        }
        ctx.wire_over(&self.clients).recv_any(Kind::Push)
    }

    /// Takes a vector, and replies when it was the last one of its sum.
    fn take(&mut self, ctx: &mut ServiceContext, (from, tag, packet): Arrived) -> Result<(), StepError> {
        let rank = ctx.info.rank;
        let bytes = packet.0.len();
        let unknown = || StepError::Message { rank, bytes, expected: "a vector of a worker to add" };
        let request = SumRequest::read(tag).ok_or_else(unknown)?;
        let members = self.members(request);
        let from = from.map(|from| from.0).filter(|from| members.contains(from)).ok_or_else(unknown)?;
        let key = (tag.step, tag.call, tag.part);
        let gathered = self.open.entry(key).or_default();
        gathered.packets.insert(from, packet);
        if gathered.packets.len() < members.len() {
            return Ok(());
        }
        let gathered = self.open.remove(&key).unwrap_or_default();
        reply(ctx, tag, request, &gathered)
    }

    /// One more step is over.
    fn over(&mut self, ctx: &ServiceContext) -> ServiceStep {
        self.t += 1;
        ServiceStep::Served(ctx.info.plan.budget.samples_after(self.t))
    }
}

impl Service for Adder {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    /// A worker that holds the whole model sends its initial weights to all ranks.
    fn start(&mut self, ctx: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        if self.scope.parts > 1 {
            return Ok(None);
        }
        let mut initial = Vector::zeros(self.scope.weights);
        ctx.recv_broadcast(GroupRank(0), &mut initial)?;
        Ok(Some(initial))
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        while self.left < self.scope.workers {
            let arrived = self.next(ctx)?;
            let tag = arrived.1;
            if tag.part == LEAVES {
                self.left += 1;
            } else if tag.step > self.t + 1 {
                // Its bytes belong to the step that it is of.
                ctx.lane.traffic.bytes_in -= arrived.2.0.len() as u64;
                self.later = Some(arrived);
                return Ok(self.over(ctx));
            } else if tag.part != BEGINS {
                self.take(ctx, arrived)?;
            }
        }
        let more = self.t < ctx.info.plan.budget.steps();
        Ok(if more { self.over(ctx) } else { ServiceStep::Finished })
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        Ok(state.number("t", &mut self.t)?)
    }
}

/// Adds the vectors of all members and sends each the sum.
fn reply(
    ctx: &mut ServiceContext,
    tag: Tag,
    request: SumRequest,
    gathered: &Gathered,
) -> Result<(), StepError> {
    let Some(first) = gathered.packets.values().next() else { return Ok(()) };
    let mut wire = ctx.wire().of_content(request.content);
    let mut sum = Vector::zeros(wire.elements(first));
    for packet in gathered.packets.values() {
        wire.decode_add(packet, &mut sum)?;
    }
    let mut wire = wire.exact();
    let reply = request.reply(tag);
    let packet = wire.encode(wire.slot(GroupRank(0), reply, 0), &sum);
    for worker in gathered.packets.keys() {
        wire.send_packet(GroupRank(*worker), reply, packet.clone())?;
    }
    Ok(())
}

impl WorkerContext {
    /// The first worker tells the servers that a step begins, where a step may pass without a sum: the one before is over.
    ///
    /// # Errors
    /// A message to a server cannot be sent.
    pub fn tell_servers_of_step(&mut self) -> Result<(), StepError> {
        if self.trainers().me() != GroupRank(0) {
            return Ok(());
        }
        self.signal_servers(BEGINS)
    }

    fn signal_servers(&mut self, part: u32) -> Result<(), StepError> {
        let workers = self.trainers().size();
        let tag = Tag { part, ..Tag::new(Kind::Push, self.t()) };
        let servers = workers..self.info().everyone.size();
        servers
            .map(GroupRank)
            .try_for_each(|server| self.wire().exact().send_packet(server, tag, Signal::Here.packet()))
    }

    /// Tells the servers behind the workers that this one asks for no more sums.
    ///
    /// # Errors
    /// A message to a server cannot be sent.
    pub fn leave_servers(&mut self) -> Result<(), StepError> {
        self.signal_servers(LEAVES)
    }
}
