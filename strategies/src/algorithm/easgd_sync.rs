//! Sync EASGD: elastic averaging of all workers at once, in three variants.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, Algorithms 2
//! and 3 (variants 1, 2 and 3), section 6.1.
//!
//! | paper | here |
//! |---|---|
//! | W^j | `ctx.weights()` |
//! | the center weight | `Master::centre` in variant 1, else `Worker::centre` on worker 0, in its `Load` during a step |
//! | sum of all W^j | `sum` |
//! | dW^j | `g` |
//! | eta rho | `moving_rate`: a |
//!
//! Sent per step: the centre down a binomial tree of the workers, and the sum of their weights up the same tree. In
//! variant 1 both travel between worker 0 and the master, too, when worker 0 asks; in variant 3 on a lane of their own,
//! during forward and backward pass, and in both directions at once: neither needs the other. With a schedule of layers both travel in
//! as many parts: what section 5.2 and Figure 10 of the paper compare with the one message of `single`, its packed layers. The bits are the
//! same; the master of variant 1 learns the parts from worker 0.
//!
//! Departures: none in the update, which is the same in all variants, bit for bit: the weights are added in the
//! order of the tree over the workers, ((0 + 1) + (2 + 3)) + ..., wherever the master is, and the centre moves by
//! a (sum - p c). A code of `compression` is applied at the same places in all of them. The paper's variant 3 hides
//! lines 11 and 12 behind the passes; ours line 14, too, which needs nothing of them either, and sends the centre down while
//! the sum goes up, because a network card carries both directions at once. Variants 1 and 2 do one after the other, as the
//! paper's blocking calls do. Worker 0 of variants 2 and 3 has two models, its own and the centre, and snapshots both.

use crate::collective::Branch;
use crate::schedule::{Division, Sections};
use crate::server::pulled;
use crate::{
    Fields, GroupRank, Handoff, Kind, Loss, Message, Packet, Request, Service, ServiceContext, ServiceStep,
    StateVisitor, StepError, Tag, Trainer, TrainingPlan, Vector, Wire, WorkerContext, malformed,
};
use recipe::{MovingRate, SyncVariant};
use record::{LaneId, Phase, PhaseClock, Rank, Work};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Where the parts of the flat vector lie that travel one by one, those at its end first.
type PartSpans = Arc<[Range<usize>]>;

/// The vectors that travel through the tree in a step.
#[derive(Debug, Default)]
pub struct Load {
    /// The step of the worker.
    t: u64,
    /// The parts in which both travel.
    parts: PartSpans,
    /// A worker's weights; then, on worker 0, the sum of all.
    sum: Vector,
    /// The centre as it is sent.
    sent: Vector,
    /// On worker 0 of variants 2 and 3 the centre itself, before and then after the step; elsewhere nothing.
    centre: Vector,
}

impl Load {
    /// Line 14: moves the centre towards the workers' weights, whose sum the load holds.
    fn pull_centre(&mut self, a: f32, workers: usize, clock: &mut PhaseClock) {
        let Self { sum, centre, .. } = self;
        clock.timed(Phase::Update, Work::Update(sum.len()), || pull_centre(centre, sum, a, workers));
    }
}

/// A worker; in variants 2 and 3, worker 0 holds the centre beside its own model.
pub struct Worker {
    moving_rate: MovingRate,
    variant: SyncVariant,
    workers: usize,
    division: Division,
    /// The centre at the end of a step, on worker 0 of variants 2 and 3.
    centre: Vector,
    /// In variant 3, the way to the lane that communicates.
    loads: Option<Loads>,
    load: Load,
}

impl Worker {
    /// One of `workers` workers of a model with `parameter_count` weights, which travel in one part.
    pub fn new(
        parameter_count: usize,
        moving_rate: MovingRate,
        variant: SyncVariant,
        workers: usize,
    ) -> Self {
        let empty = Vector::zeros(parameter_count);
        let load = Load { sum: empty.clone(), sent: empty, ..Load::default() };
        let division = Division::Pieces(1);
        Self { moving_rate, variant, workers, division, centre: Vector::default(), loads: None, load }
    }

    /// The same with weights that travel in parts.
    #[must_use]
    pub fn divided(self, division: Division) -> Self {
        Self { division, ..self }
    }

    /// The same with a lane beside it that communicates.
    #[must_use]
    pub fn with_tree_lane(self, loads: Loads) -> Self {
        Self { loads: Some(loads), ..self }
    }

    /// Whether the centre is here.
    fn is_master(&self, ctx: &WorkerContext) -> bool {
        self.variant != SyncVariant::Master && ctx.trainers().me() == GroupRank(0)
    }

    /// The load of a step: copies, because the step will change the weights.
    fn pack(&mut self, ctx: &mut WorkerContext) -> Load {
        let mut load = std::mem::take(&mut self.load);
        load.t = ctx.t();
        if load.parts.is_empty() {
            load.parts = self.division.buckets(ctx.layout(), &Sections::default(), None).spans().into();
        }
        let master = self.is_master(ctx);
        load.centre = std::mem::take(&mut self.centre);
        ctx.read_weights(|x| {
            load.sum.copy_from_slice(x);
            if master {
                load.sent.copy_from_slice(&load.centre);
            }
        });
        load
    }

    /// Lines 11 and 12, on this lane.
    fn travel(&self, ctx: &mut WorkerContext, load: &mut Load) -> Result<(), StepError> {
        let trainers = ctx.trainers().clone();
        let t = ctx.t();
        let tag = Tag::new(Kind::Reduce, t);
        if self.variant != SyncVariant::Master {
            return through_tree(load, None, tag, &mut ctx.wire_over(&trainers).weights());
        }
        let master = GroupRank(self.workers);
        let push = Tag::new(Kind::Push, t);
        if trainers.me() != GroupRank(0) {
            return through_tree(load, Some(Vec::new()), tag, &mut ctx.wire_over(&trainers).weights());
        }
        ctx.service().send_message(master, push, &CentreRequest::of(&load.parts))?;
        let receive = |(call, _)| ctx.wire().recv_packet(master, of_part(Tag::new(Kind::Pull, t), call));
        let sent = load.parts.iter().enumerate().map(receive).collect::<Result<Vec<Packet>, StepError>>()?;
        through_tree(load, Some(sent), tag, &mut ctx.wire_over(&trainers).weights())?;
        for (call, part) in load.parts.iter().enumerate() {
            let sum = &load.sum[part.clone()];
            ctx.wire().weights().send(master, of_part(push, call).part(1), part.start, sum)?;
        }
        Ok(())
    }
}

impl Trainer for Worker {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        ctx.broadcast_weights_from(GroupRank(0))?;
        if self.is_master(ctx) {
            self.centre = ctx.weights().clone();
        }
        Ok(())
    }

    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let sent = self.loads.clone().map(|loads| (loads.send(self.pack(ctx)), loads));
        let (loss, g) = ctx.gradient()?; // line 10
        let a = self.moving_rate.at(ctx.rate(), self.workers);
        let mut load = if let Some((pending, loads)) = sent {
            loads.receive(pending, ctx.lane())?
        } else {
            let mut load = self.pack(ctx);
            self.travel(ctx, &mut load)?;
            if self.is_master(ctx) {
                load.pull_centre(a, self.workers, &mut ctx.lane().clock);
            }
            load
        };
        let d = ctx.compute_update(g);
        ctx.change_weights(0..d.len(), |x| pulled(x, &d, &load.sent, a)); // line 13
        ctx.recycle(d);
        self.centre = std::mem::take(&mut load.centre);
        self.load = load;
        Ok(loss)
    }

    fn state(&mut self, ctx: &mut WorkerContext, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        Ok(state.vector_if_any("centre", &mut self.centre, ctx.weights().len())?)
    }

    fn finish(&mut self, _: &mut WorkerContext) -> Result<(), StepError> {
        if let Some(loads) = &self.loads {
            loads.close();
        }
        Ok(())
    }

    fn centre(&self) -> Option<&Vector> {
        Some(&self.centre).filter(|centre| !centre.is_empty())
    }
}

/// a in step t.
fn in_step(moving_rate: MovingRate, plan: &TrainingPlan, t: u64) -> f32 {
    moving_rate.at(plan.learning_rate.at(plan.budget.samples_after(t - 1)), plan.workers())
}

/// c <- c + a (sum - p c): Equation 2.
fn pull_centre(centre: &mut [f32], sum: &[f32], a: f32, workers: usize) {
    let p = workers as f32;
    for (c, sum) in centre.iter_mut().zip(sum) {
        *c += a * (*sum - p * *c);
    }
}

/// The tag of a part.
fn of_part(tag: Tag, call: usize) -> Tag {
    Tag { call: call as u32, ..tag }
}

/// Request of worker 0 to the master of variant 1 for the centre.
#[derive(Debug, PartialEq, Eq)]
struct CentreRequest {
    /// The position at which each part begins, from the last part to the first.
    begins: Vec<u32>,
}

impl Message for CentreRequest {
    const NAME: &'static str = "a request for the parts of a centre";

    fn write(&self, out: &mut Vec<u8>) {
        self.begins.iter().for_each(|begin| out.extend(begin.to_le_bytes()));
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let mut begins = Vec::new();
        while !fields.is_empty() {
            begins.push(fields.u32()?);
        }
        Some(Self { begins })
    }
}

impl CentreRequest {
    fn of(parts: &[Range<usize>]) -> Self {
        Self { begins: parts.iter().map(|part| part.start as u32).collect() }
    }

    /// The parts that a packet asks for, which the master `me` received: all of its `n` weights.
    fn received(packet: &Packet, me: Rank, n: usize) -> Result<Vec<Range<usize>>, StepError> {
        let begins = Self::decode(packet, me)?.begins;
        let mut end = n;
        let mut parts = Vec::with_capacity(begins.len());
        for begin in begins.iter().map(|begin| *begin as usize) {
            if begin >= end {
                break;
            }
            parts.push(begin..end);
            end = begin;
        }
        let whole = end == 0 && parts.len() == begins.len();
        if whole { Ok(parts) } else { Err(malformed::<Self>(packet, me)) }
    }
}

/// Where the centre is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CentreAt {
    FirstWorker,
    Master,
}

/// Lines 11 and 12, one after the other: the centre down the tree of the workers, and the sum of their weights up.
/// `sent` are the parts of the centre as worker 0 received them from a master, which the other workers get from the tree.
fn through_tree(
    load: &mut Load,
    sent: Option<Vec<Packet>>,
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    let master = if sent.is_some() { CentreAt::Master } else { CentreAt::FirstWorker };
    broadcast(load, sent.unwrap_or_default(), tag, wire)?;
    reduce(load, master, tag, wire)
}

/// The same at once, each in a direction of its own: what goes up is there before anything comes down.
fn both_ways(load: &mut Load, tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
    if branch(wire).is_root() {
        // The places below need not wait for sums that are still on their way up.
        broadcast(load, Vec::new(), tag, wire)?;
        return reduce(load, CentreAt::FirstWorker, tag, wire);
    }
    reduce(load, CentreAt::FirstWorker, tag, wire)?;
    broadcast(load, Vec::new(), tag, wire)
}

fn branch(wire: &Wire<'_>) -> Branch {
    let group = wire.group();
    Branch { places: group.members().collect(), me: group.me().0 }
}

/// The parts of the centre down the tree; `relayed` are those that worker 0 has from a master.
fn broadcast(load: &mut Load, relayed: Vec<Packet>, tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
    let branch = branch(wire);
    let mut relayed = relayed.into_iter();
    for (call, part) in load.parts.iter().enumerate() {
        let centre = &mut load.sent[part.clone()];
        let tag = of_part(tag, call);
        let mut wire = wire.over(wire.group()).of_part(part.start);
        let from_master = relayed.next();
        let keeps = branch.is_root() && from_master.is_none();
        let packet = match from_master {
            Some(packet) => packet,
            None if branch.is_root() => wire.encode(wire.slot(wire.group().me(), tag, 0), centre),
            None => branch.receive(tag, &mut wire)?,
        };
        branch.spread(&packet, tag, &mut wire)?;
        if keeps { wire.adopt(&packet, centre)? } else { wire.decode(&packet, centre)? }
    }
    Ok(())
}

/// The parts of the sum up the tree.
fn reduce(load: &mut Load, master: CentreAt, tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
    let branch = branch(wire);
    for (call, part) in load.parts.iter().enumerate() {
        let sum = &mut load.sum[part.clone()];
        let tag = of_part(tag, call);
        let mut wire = wire.over(wire.group()).of_part(part.start);
        branch.reduce(sum, tag.part(1), &mut wire)?;
        if branch.is_root() && master == CentreAt::FirstWorker {
            // A master elsewhere gets it encoded.
            let packet = wire.encode(wire.slot(wire.group().me(), tag, 0), sum);
            wire.adopt(&packet, sum)?;
        }
    }
    Ok(())
}

/// Loads between the compute lane of variant 3 and the lane that communicates.
pub type Loads = Handoff<Load, Load>;

/// The lane that communicates, in variant 3.
pub struct TreeLane {
    loads: Loads,
    moving_rate: MovingRate,
}

impl TreeLane {
    /// The lane that serves `loads`.
    pub fn new(loads: Loads, moving_rate: MovingRate) -> Self {
        Self { loads, moving_rate }
    }
}

impl Service for TreeLane {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work: mut load }) = self.loads.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let Some(trainers) = ctx.info.trainers.clone() else { return Ok(ServiceStep::Finished) };
        let t = load.t;
        both_ways(&mut load, Tag::new(Kind::Overlap, t), &mut ctx.wire_over(&trainers).weights())?;
        let plan = ctx.info.plan.clone();
        if trainers.me() == GroupRank(0) {
            let a = in_step(self.moving_rate, &plan, t);
            load.pull_centre(a, plan.workers(), &mut ctx.lane.clock);
        }
        self.loads.reply(ticket, load);
        Ok(ServiceStep::Served(plan.budget.samples_after(t)))
    }
}

/// The master of variant 1.
pub struct Master {
    moving_rate: MovingRate,
    centre: Vector,
    sum: Vector,
    t: u64,
}

impl Master {
    /// The master of a model with `parameter_count` weights.
    pub fn new(parameter_count: usize, moving_rate: MovingRate) -> Self {
        let centre = Vector::zeros(parameter_count);
        Self { moving_rate, sum: centre.clone(), centre, t: 0 }
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, ctx: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        ctx.recv_broadcast(GroupRank(0), &mut self.centre)?;
        Ok(Some(self.centre.clone()))
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let plan = ctx.info.plan.clone();
        if self.t == plan.budget.steps() {
            return Ok(ServiceStep::Finished);
        }
        self.t += 1;
        let push = Tag::new(Kind::Push, self.t);
        let pull = Tag::new(Kind::Pull, self.t);
        let request = ctx.wire().exact().recv_packet(GroupRank(0), push)?;
        let parts = CentreRequest::received(&request, ctx.info.rank, self.centre.len())?;
        for (call, part) in parts.iter().enumerate() {
            let centre = &self.centre[part.clone()];
            ctx.wire().weights().send(GroupRank(0), of_part(pull, call), part.start, centre)?;
        }
        for (call, part) in parts.into_iter().enumerate() {
            let mut wire = ctx.wire().weights().of_part(part.start);
            wire.recv_into(GroupRank(0), of_part(push, call).part(1), &mut self.sum[part])?;
        }
        let a = in_step(self.moving_rate, &plan, self.t);
        let workers = plan.workers();
        let Self { centre, sum, .. } = self;
        let work = Work::Update(sum.len());
        ctx.lane.clock.timed(Phase::Update, work, || pull_centre(centre, sum, a, workers));
        Ok(ServiceStep::Served(plan.budget.samples_after(self.t)))
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        state.number("t", &mut self.t)?;
        Ok(state.vector("centre", &mut self.centre)?)
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Borrowed(&self.centre))
    }
}
