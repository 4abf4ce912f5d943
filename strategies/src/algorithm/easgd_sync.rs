//! Sync EASGD: elastic averaging of all workers at once, in three variants.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, Algorithms 2
//! and 3 (variants 1, 2 and 3), section 6.1.
//!
//! | paper | here |
//! |---|---|
//! | W^j | `node.params()` |
//! | the center weight | `Master::centre` in variant 1, else `Worker::centre` on worker 0, in its `Load` during a step |
//! | sum of all W^j | `sum` |
//! | dW^j | `g` |
//! | eta rho | `moving_rate`: a |
//!
//! Sent per step: the centre down a binomial tree of the workers, and the sum of their weights up the same tree. In
//! variant 1 both travel between worker 0 and the master, too, when worker 0 asks; in variant 3 on a lane of their own,
//! during forward and backward pass, and in both directions at once: neither needs the other.
//!
//! Departures: none in the update, which is the same in all variants, bit for bit: the weights are added in the
//! order of the tree over the workers, ((0 + 1) + (2 + 3)) + ..., wherever the master is, and the centre moves by
//! a (sum - p c). A code of `compression` is applied at the same places in all of them. The paper's variant 3 hides
//! lines 11 and 12 behind the passes; ours line 14, too, which needs nothing of them either.

use crate::collective::tree::Branch;
use crate::course::Course;
use crate::desk::Desk;
use crate::host::Shared;
use crate::node::Node;
use crate::server::pulled;
use crate::strategy::{Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Packet, Place, StepError, Tag, Wire};
use bytes::Bytes;
use recipe::{MovingRate, SyncVariant};
use record::{LaneId, Phase, PhaseClock, Work};
use std::borrow::Cow;

/// With what worker 0 asks the master of variant 1 for the centre.
const READY: Packet = Packet(Bytes::from_static(&[1]));

/// What goes through the tree in a step.
#[derive(Debug, Default)]
struct Load {
    /// A worker's weights; then, on worker 0, the sum of all.
    sum: Vector,
    /// The centre as it is sent.
    sent: Vector,
    /// On worker 0 of variants 2 and 3 the centre itself, before and then after the step; elsewhere nothing.
    centre: Vector,
}

impl Load {
    /// Line 14.
    fn draw_centre(&mut self, a: f32, workers: usize, clock: &mut PhaseClock) {
        let Self { sum, centre, .. } = self;
        clock.timed(Phase::Update, Work::Update(sum.len()), || draw(centre, sum, a, workers));
    }
}

/// Every worker.
pub struct Worker {
    moving_rate: MovingRate,
    variant: SyncVariant,
    workers: usize,
    /// The centre at the end of a step, on worker 0 of variants 2 and 3.
    centre: Vector,
    post: Option<Shared<Post>>,
    load: Load,
}

impl Worker {
    /// One of so many workers of a model with so many weights.
    pub fn new(parameters: usize, moving_rate: MovingRate, variant: SyncVariant, workers: usize) -> Self {
        let empty = Vector::zeros(parameters);
        let load = Load { sum: empty.clone(), sent: empty, centre: Vector::default() };
        Self { moving_rate, variant, workers, centre: Vector::default(), post: None, load }
    }

    /// The same with a lane beside it that communicates.
    #[must_use]
    pub fn with_messenger(self, post: Shared<Post>) -> Self {
        Self { post: Some(post), ..self }
    }

    /// Whether the centre is here.
    fn is_master(&self, node: &Node) -> bool {
        self.variant != SyncVariant::Master && node.trainers().place() == Place(0)
    }

    /// What is to go through the tree: copies, because the step goes on to change the weights.
    fn pack(&mut self, node: &mut Node) -> Load {
        let mut load = std::mem::take(&mut self.load);
        let master = self.is_master(node);
        load.centre = std::mem::take(&mut self.centre);
        node.aside(|x| {
            load.sum.copy_from_slice(x);
            if master {
                load.sent.copy_from_slice(&load.centre);
            }
        });
        load
    }

    /// Lines 11 and 12, on this lane.
    fn travel(&self, node: &mut Node, load: &mut Load) -> Result<(), StepError> {
        let (trainers, t) = (node.trainers().clone(), node.t());
        let tag = Tag::new(Kind::Reduce, t);
        if self.variant != SyncVariant::Master {
            return through_tree(load, None, tag, &mut node.wire_over(&trainers).weights());
        }
        let (master, first) = (Place(self.workers), trainers.place() == Place(0));
        let mut sent = None;
        if first {
            node.wire().exact().send_packet(master, Tag::new(Kind::Push, t), READY)?;
            sent = Some(node.wire().recv_packet(master, Tag::new(Kind::Pull, t))?);
        }
        through_tree(load, sent, tag, &mut node.wire_over(&trainers).weights())?;
        if first {
            node.wire().weights().send(master, Tag::new(Kind::Push, t).part(1), 0, &load.sum)?;
        }
        Ok(())
    }
}

impl Strategy for Worker {
    fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
        node.broadcast_params_from(Place(0))?;
        if self.is_master(node) {
            self.centre = node.params().clone();
        }
        Ok(())
    }

    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        if let Some(post) = self.post.clone() {
            let out = (node.t(), self.pack(node));
            post.change(|post| post.out = Some(out));
        }
        let (loss, g) = node.gradient()?; // line 10
        let a = self.moving_rate.at(node.rate(), self.workers);
        let mut load = if let Some(post) = &self.post {
            post.wait(node.lane(), |post| post.back.take())?
        } else {
            let mut load = self.pack(node);
            self.travel(node, &mut load)?;
            if self.is_master(node) {
                load.draw_centre(a, self.workers, &mut node.lane().clock);
            }
            load
        };
        let d = node.direction(g);
        node.update(0..d.len(), |x| pulled(x, &d, &load.sent, a)); // line 13
        node.recycle(d);
        self.centre = std::mem::take(&mut load.centre);
        self.load = load;
        Ok(loss)
    }

    fn finish(&mut self, _: &mut Node) -> Result<(), StepError> {
        if let Some(post) = &self.post {
            post.change(|post| post.closed = true);
        }
        Ok(())
    }

    fn centre(&self) -> Option<&Vector> {
        Some(&self.centre).filter(|centre| !centre.is_empty())
    }
}

/// a in step t.
fn in_step(moving_rate: MovingRate, course: &Course, t: u64) -> f32 {
    moving_rate.at(course.rate(course.samples_after(t - 1)), course.workers())
}

/// c <- c + a (sum - p c): Equation 2.
fn draw(centre: &mut [f32], sum: &[f32], a: f32, workers: usize) {
    let p = workers as f32;
    for (c, sum) in centre.iter_mut().zip(sum) {
        *c += a * (*sum - p * *c);
    }
}

/// Lines 11 and 12, one after the other: the centre down the tree of the workers, and the sum of their weights up.
/// `sent` is the centre where it came to worker 0 from elsewhere.
fn through_tree(
    load: &mut Load,
    sent: Option<Packet>,
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    let branch = branch(wire);
    let relayed = sent.is_some();
    broadcast(&branch, &mut load.sent, sent, tag, wire)?;
    reduce(&branch, &mut load.sum, relayed, tag, wire)
}

/// The same at once, each in a direction of its own: what goes up is there before anything comes down.
fn both_ways(load: &mut Load, tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
    let branch = branch(wire);
    if branch.is_root() {
        // Nobody below has to wait for what is still on its way up.
        broadcast(&branch, &mut load.sent, None, tag, wire)?;
        return reduce(&branch, &mut load.sum, false, tag, wire);
    }
    reduce(&branch, &mut load.sum, false, tag, wire)?;
    broadcast(&branch, &mut load.sent, None, tag, wire)
}

fn branch(wire: &Wire<'_>) -> Branch {
    let group = wire.group();
    Branch { places: group.places().collect(), me: group.place().0 }
}

fn broadcast(
    branch: &Branch,
    centre: &mut [f32],
    sent: Option<Packet>,
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    let relayed = sent.is_some();
    let packet = match sent {
        Some(packet) => packet,
        None if branch.is_root() => wire.encode(wire.slot(wire.group().place(), tag, 0), centre),
        None => branch.receive(tag, wire)?,
    };
    branch.spread(&packet, tag, wire)?;
    if relayed || !branch.is_root() { wire.decode(&packet, centre) } else { wire.adopt(&packet, centre) }
}

fn reduce(
    branch: &Branch,
    sum: &mut [f32],
    relayed: bool,
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    branch.reduce(sum, tag.part(1), wire)?;
    if branch.is_root() && !relayed {
        // A master elsewhere gets it encoded.
        let packet = wire.encode(wire.slot(wire.group().place(), tag, 0), sum);
        wire.adopt(&packet, sum)?;
    }
    Ok(())
}

/// Between the compute lane of variant 3 and the lane that communicates.
#[derive(Default)]
pub struct Post {
    out: Option<(u64, Load)>,
    back: Option<Load>,
    closed: bool,
}

/// The lane that communicates, in variant 3.
pub struct Messenger {
    post: Shared<Post>,
    moving_rate: MovingRate,
}

impl Messenger {
    /// The lane that serves `post`.
    pub fn new(post: Shared<Post>, moving_rate: MovingRate) -> Self {
        Self { post, moving_rate }
    }
}

impl Service for Messenger {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let out = self.post.wait(&mut desk.lane, |post| match post.out.take() {
            Some(out) => Some(Some(out)),
            None => post.closed.then_some(None),
        })?;
        let Some((t, mut load)) = out else { return Ok(Turn::Finished) };
        let Some(trainers) = desk.seat.trainers.clone() else { return Ok(Turn::Finished) };
        let tag = Tag::new(Kind::Overlap, t);
        both_ways(&mut load, tag, &mut desk.wire_over(&trainers).weights())?;
        let course = desk.seat.course.clone();
        if trainers.place() == Place(0) {
            let a = in_step(self.moving_rate, &course, t);
            load.draw_centre(a, course.workers(), &mut desk.lane.clock);
        }
        self.post.change(|post| post.back = Some(load));
        Ok(Turn::Served(course.samples_after(t)))
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
    /// The master of a model with so many weights.
    pub fn new(parameters: usize, moving_rate: MovingRate) -> Self {
        let (centre, sum) = (Vector::zeros(parameters), Vector::zeros(parameters));
        Self { moving_rate, centre, sum, t: 0 }
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        desk.recv_broadcast(Place(0), &mut self.centre)?;
        Ok(Some(self.centre.clone()))
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let course = desk.seat.course.clone();
        if self.t == course.steps() {
            return Ok(Turn::Finished);
        }
        self.t += 1;
        let (push, pull) = (Tag::new(Kind::Push, self.t), Tag::new(Kind::Pull, self.t));
        desk.wire().recv_packet(Place(0), push)?;
        desk.wire().weights().send(Place(0), pull, 0, &self.centre)?;
        desk.wire().weights().recv_into(Place(0), push.part(1), &mut self.sum)?;
        let (a, workers) = (in_step(self.moving_rate, &course, self.t), course.workers());
        let Self { centre, sum, .. } = self;
        let work = Work::Update(sum.len());
        desk.lane.clock.timed(Phase::Update, work, || draw(centre, sum, a, workers));
        Ok(Turn::Served(course.samples_after(self.t)))
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Borrowed(&self.centre))
    }
}
