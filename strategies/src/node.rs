//! All that a strategy can see and do. Everything here times itself.

mod weights;

use crate::collective::Collective;
use crate::desk::{Desk, Seat};
use crate::host::Shared;
use crate::learner::{Batch, Learner};
use crate::messenger::{Jobs, Pending};
use crate::optimizer::Optimizer;
use crate::vector::{Block, Layout, Vector, piece};
use crate::{Group, Kind, Lane, Loss, Place, StepError, Tag, Wire};
use record::{Phase, Rank, Work};
use std::ops::Range;
use std::sync::Arc;

/// The gradient of one layer, on its way out while the backward pass goes on.
#[derive(Debug)]
pub struct LayerGradient {
    /// Which layer.
    pub layer: usize,
    /// Its gradient.
    pub gradient: Vector,
}

/// The compute lane of a rank: a desk, a model, its weights, and the one optimizer.
pub struct Node {
    desk: Desk,
    learner: Box<dyn Learner>,
    params: Vector,
    optimizer: Optimizer,
    collective: Arc<dyn Collective>,
    jobs: Shared<Jobs>,
    trainers: Group,
    batch: Batch,
    next_backward: usize,
    accumulated: Option<Accumulated>,
    t: u64,
    consumed: u64,
    calls: u32,
    // Vectors of the model's length that are free: a step allocates nothing of that size.
    spare: Vec<Vector>,
}

/// What the pieces of a batch before the last one gave.
struct Accumulated {
    /// Their mean gradients, each times its share of the samples.
    sum: Vector,
    /// The share of the last piece.
    last: f32,
}

/// What a node is made of.
pub struct Parts {
    /// Who it is, and its lane.
    pub desk: Desk,
    /// The workers.
    pub trainers: Group,
    /// The model and the data.
    pub learner: Box<dyn Learner>,
    /// The all-reduce.
    pub collective: Arc<dyn Collective>,
    /// The queue of the communication lane.
    pub jobs: Shared<Jobs>,
}

impl Node {
    /// A node with the learner's initial weights.
    pub fn new(parts: Parts) -> Self {
        let Parts { desk, trainers, learner, collective, jobs } = parts;
        let optimizer = Optimizer::new(desk.seat.course.optimizer());
        let params = learner.initial();
        Self {
            desk,
            learner,
            params,
            optimizer,
            collective,
            jobs,
            trainers,
            batch: Batch::default(),
            next_backward: 0,
            accumulated: None,
            t: 0,
            consumed: 0,
            calls: 0,
            spare: Vec::new(),
        }
    }

    // Where am I.

    /// My rank.
    pub fn rank(&self) -> Rank {
        self.desk.seat.rank
    }

    /// Who I am.
    pub fn seat(&self) -> &Seat {
        &self.desk.seat
    }

    /// The workers, and my place among them.
    pub fn trainers(&self) -> &Group {
        &self.trainers
    }

    /// The step I am in, from 1; 0 before the first.
    pub fn t(&self) -> u64 {
        self.t
    }

    /// Samples consumed by all ranks together before the step, as far as I know.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The learning rate of the step: a function of the samples consumed before it.
    pub fn rate(&self) -> f32 {
        self.desk.seat.course.rate(self.consumed)
    }

    /// Which weights belong to which layer.
    pub fn layout(&self) -> &Layout {
        self.learner.layout()
    }

    /// My weights.
    pub fn params(&self) -> &Vector {
        &self.params
    }

    /// My weights, to change them in place.
    pub fn params_mut(&mut self) -> &mut Vector {
        &mut self.params
    }

    /// A server says how many samples all ranks together have consumed: the rate of the step follows.
    pub fn is_told(&mut self, consumed: u64) {
        self.consumed = consumed;
    }

    /// A fresh tag: counts the calls of the step, which every rank makes in the same order.
    pub fn tag(&mut self, kind: Kind) -> Tag {
        self.calls += 1;
        Tag { call: self.calls, ..Tag::new(kind, self.t) }
    }

    // Compute.

    /// The mean loss over my samples of the step, and its gradient.
    pub fn gradient(&mut self) -> Result<(Loss, Vector), StepError> {
        let loss = self.forward()?;
        let mut g = self.spare();
        while self.backward_into(&mut g)?.is_some() {}
        Ok((loss, g))
    }

    /// The forward pass alone; [`Node::backward_next`] follows. Of a batch that is computed in pieces, this is
    /// all of it but the last backward pass.
    pub fn forward(&mut self) -> Result<Loss, StepError> {
        if let Some(stale) = self.accumulated.take() {
            self.recycle(stale.sum);
        }
        let course = &self.desk.seat.course;
        let samples = course.own_samples(self.t, self.trainers.place().0);
        let pieces = course.accumulate().min(samples);
        if pieces <= 1 {
            self.load()?;
            let batch = std::mem::take(&mut self.batch);
            let loss = self.forward_over(&batch);
            self.batch = batch;
            return loss;
        }
        let mut loss = 0.0;
        for k in 0..pieces {
            let part = self.load_piece(k, pieces)?;
            let share = part.examples.len() as f32 / samples as f32;
            if let Some(Accumulated { last, .. }) = &mut self.accumulated {
                *last = share;
            }
            loss += share * self.forward_over(&part)?.0;
            if k + 1 < pieces {
                self.accumulate(share)?;
            }
        }
        Ok(Loss(loss))
    }

    /// The next finished layer, from the last to the first; `None` when the pass is over.
    pub fn backward_next(&mut self) -> Result<Option<LayerGradient>, StepError> {
        let Some(layer) = self.next_backward.checked_sub(1) else { return Ok(None) };
        self.next_backward = layer;
        let span = self.layout().layers()[layer].span.clone();
        let mut gradient = Vector::zeros(span.len());
        self.backward_layer(layer, &mut gradient)?;
        if let Some(Accumulated { sum, last }) = self.accumulated.take() {
            self.join(&sum[span], last, &mut gradient);
            self.accumulated = Some(Accumulated { sum, last });
        }
        Ok(Some(LayerGradient { layer, gradient }))
    }

    /// Takes the backward pass through the next layer, from the last to the first, and writes its gradient to its
    /// place in `g`, which it answers; `None` when the pass is over.
    pub fn backward_into(&mut self, g: &mut Vector) -> Result<Option<Range<usize>>, StepError> {
        let span = self.backward_through(g)?;
        if let Some(Accumulated { sum, last }) = self.accumulated.take() {
            let Some(span) = &span else {
                self.recycle(sum);
                return Ok(None);
            };
            self.join(&sum[span.clone()], last, &mut g[span.clone()]);
            self.accumulated = Some(Accumulated { sum, last });
        }
        Ok(span)
    }

    fn load_piece(&mut self, k: usize, pieces: usize) -> Result<Batch, StepError> {
        let Self { desk, learner, batch, t, trainers, .. } = self;
        let (course, place) = (&desk.seat.course, trainers.place().0);
        desk.lane.clock.timed(Phase::Data, Work::Data, || {
            if k == 0 {
                *batch = course.batch(*t, place);
            }
            let examples = batch.examples[piece(batch.examples.len(), pieces, k)].to_vec();
            let part = Batch { epoch: batch.epoch, examples };
            learner.load(&part).map(|()| part)
        })
    }

    fn forward_over(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let layers = self.layout().layers().len();
        for layer in 0..layers {
            self.forward_layer(layer)?;
        }
        self.next_backward = layers;
        self.loss(batch)
    }

    /// The backward pass of the piece that is loaded, through its next layer.
    fn backward_through(&mut self, g: &mut Vector) -> Result<Option<Range<usize>>, StepError> {
        let Some(layer) = self.next_backward.checked_sub(1) else { return Ok(None) };
        self.next_backward = layer;
        let span = self.layout().layers()[layer].span.clone();
        self.backward_layer(layer, &mut g[span.clone()])?;
        Ok(Some(span))
    }

    /// Adds the gradient of the piece whose forward pass is over to those of the pieces before it.
    fn accumulate(&mut self, share: f32) -> Result<(), StepError> {
        let mut g = self.spare();
        while self.backward_through(&mut g)?.is_some() {}
        let sum = match self.accumulated.take() {
            None => {
                g.scale(share);
                g
            }
            Some(Accumulated { sum, .. }) => {
                self.join(&sum, share, &mut g);
                self.recycle(sum);
                g
            }
        };
        self.accumulated = Some(Accumulated { sum, last: 0.0 });
        Ok(())
    }

    /// g <- share g + sum.
    fn join(&mut self, sum: &[f32], share: f32, g: &mut [f32]) {
        self.desk.lane.clock.timed(Phase::Backward, Work::Reduce(g.len()), || {
            for (g, sum) in g.iter_mut().zip(sum) {
                *g = *g * share + *sum;
            }
        });
    }

    /// Turns a gradient into what is to be added to the weights, velocity included, without adding it.
    #[must_use]
    pub fn direction(&mut self, mut g: Vector) -> Vector {
        let rate = self.rate();
        let Self { desk, optimizer, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.direction(params, &mut g, rate));
        g
    }

    /// Clips a gradient as the recipe asks for: where each is applied by itself, and perhaps in parts, its norm
    /// is known here only.
    #[must_use]
    pub fn clipped(&mut self, mut g: Vector) -> Vector {
        if let Some(longest) = self.desk.seat.course.optimizer().clip {
            let clock = &mut self.desk.lane.clock;
            clock.timed(Phase::Update, Work::Update(0), || crate::optimizer::shorten(&mut g, longest));
        }
        g
    }

    /// Moves my weights against a gradient.
    pub fn descend(&mut self, mut g: Vector) {
        let rate = self.rate();
        let Self { desk, optimizer, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.descend(params, &mut g, rate));
        self.recycle(g);
    }

    /// Adds to my weights what [`Node::direction`] made of a gradient.
    pub fn advance(&mut self, direction: Vector) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Update, Work::Update(0), || params.add(&direction));
        self.recycle(direction);
    }

    /// Gives a vector's memory back for the next step.
    pub fn recycle(&mut self, vector: Vector) {
        if vector.len() == self.params.len() {
            self.spare.push(vector);
        }
    }

    /// A vector of the model's length with no particular content.
    pub fn spare(&mut self) -> Vector {
        self.spare.pop().unwrap_or_else(|| Vector::zeros(self.params.len()))
    }

    // Compute by hand, for methods that put something between two layers.

    /// Puts my samples of the step into the cursor.
    pub fn load(&mut self) -> Result<(), StepError> {
        let Self { desk, learner, batch, t, trainers, .. } = self;
        let (course, place) = (&desk.seat.course, trainers.place().0);
        desk.lane.clock.timed(Phase::Data, Work::Data, || {
            *batch = course.batch(*t, place);
            learner.load(batch)
        })
    }

    /// The samples that were loaded.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Takes the cursor through one layer, upwards.
    pub fn forward_layer(&mut self, layer: usize) -> Result<(), StepError> {
        let Self { desk, learner, params, .. } = self;
        desk.lane.clock.timed(Phase::Forward, Work::Forward(layer), || learner.forward(params, layer))
    }

    /// The mean loss of these samples; leaves its gradient in the cursor.
    pub fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let Self { desk, learner, .. } = self;
        desk.lane.clock.timed(Phase::Forward, Work::Loss, || learner.loss(batch))
    }

    /// Takes the cursor through one layer, downwards, and writes the gradient of the layer's weights.
    pub fn backward_layer(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let Self { desk, learner, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Backward, Work::Backward(layer), || learner.backward(params, layer, gradient))
    }

    /// Fetches the cursor to the host.
    pub fn take(&mut self) -> Result<Block, StepError> {
        self.learner.take()
    }

    /// Sets the cursor from the host.
    pub fn put(&mut self, cursor: Block) -> Result<(), StepError> {
        self.learner.put(cursor)
    }

    /// Something travels here: the cursor goes to the host, through `f`, and back.
    pub fn exchange(
        &mut self,
        group: &Group,
        f: impl FnOnce(Block, Tag, &mut Wire<'_>) -> Result<Block, StepError>,
    ) -> Result<(), StepError> {
        let tag = self.tag(Kind::Exchange);
        let cursor = self.learner.take()?;
        let cursor = f(cursor, tag, &mut self.desk.lane.wire(group).exact())?;
        self.learner.put(cursor)
    }

    /// Keeps only a slice of a layer's outputs; my weights become the slice of the same initial ones.
    pub fn cut(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.learner.cut(layer, part, of)?;
        self.params = self.learner.initial();
        self.spare.clear();
        Ok(())
    }

    // Communicate now.

    /// My mean gradient times p n / B: what the others need of it so that a sum over the workers, scaled by
    /// 1 / p, is the mean over all samples.
    #[must_use]
    pub fn weighted(&mut self, mut g: Vector) -> Vector {
        let weight = self.desk.seat.course.weight(self.t, self.trainers.place().0);
        if weight.to_bits() != 1.0_f32.to_bits() {
            self.desk.lane.clock.timed(Phase::Reduce, Work::Reduce(g.len()), || g.scale(weight));
        }
        g
    }

    /// The mean of a gradient over the samples of all workers.
    pub fn all_reduce_mean(&mut self, g: Vector) -> Result<Vector, StepError> {
        let (g, group) = (self.weighted(g), self.trainers.clone());
        self.all_reduce_mean_over(&group, g)
    }

    /// The mean of any vector over the places of a group, each counting once.
    pub fn all_reduce_mean_over(&mut self, group: &Group, mut x: Vector) -> Result<Vector, StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { desk, collective, .. } = self;
        crate::messenger::mean(collective.as_ref(), &mut x, tag, desk.lane.wire(group))?;
        Ok(x)
    }

    /// My weights become the mean of all workers' weights, each counting once.
    pub fn average_params(&mut self) -> Result<(), StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { desk, collective, params, trainers, .. } = self;
        crate::messenger::mean(collective.as_ref(), params, tag, desk.lane.wire(trainers).weights())
    }

    /// Everyone gets the root's weights as they are, servers included; before the first step.
    pub fn broadcast_params_from(&mut self, root: Place) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Broadcast, 0);
        let Self { desk, params, .. } = self;
        let mut wire = desk.wire().exact();
        if wire.group().place() != root {
            return wire.recv_into(root, tag, params);
        }
        let packet = wire.encode(wire.slot(root, tag, 0), params);
        for to in wire.group().others() {
            wire.send_packet(to, tag, packet.clone())?;
        }
        Ok(())
    }

    /// Receives weights over mine; who sends them uses [`Wire::weights`].
    pub fn recv_params(&mut self, from: Place, tag: Tag) -> Result<(), StepError> {
        let Self { desk, params, .. } = self;
        desk.wire().weights().recv_into(from, tag, params)
    }

    /// Receives a part of my weights.
    pub fn recv_params_of(&mut self, from: Place, tag: Tag, span: Range<usize>) -> Result<(), StepError> {
        let Self { desk, params, .. } = self;
        desk.wire().weights().recv_into(from, tag, &mut params[span])
    }

    /// My wire over everyone, for gradients.
    pub fn wire(&mut self) -> Wire<'_> {
        self.desk.wire()
    }

    /// My wire over another group, for gradients.
    pub fn wire_over<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        self.desk.lane.wire(group)
    }

    // Communicate meanwhile, on the communication lane.

    /// Starts an all-reduce of a gradient; its mean over the samples of all workers is fetched with
    /// [`Node::wait`]. All workers must start them in the same order.
    pub fn start_all_reduce_mean(&mut self, g: Vector) -> Result<Pending, StepError> {
        self.start_all_reduce_mean_of_part(0, g)
    }

    /// The same for a part of a gradient, from position `at` on.
    pub fn start_all_reduce_mean_of_part(&mut self, at: usize, g: Vector) -> Result<Pending, StepError> {
        let (g, tag, group) = (self.weighted(g), self.tag(Kind::Overlap), self.trainers.clone());
        // Where lanes share a processor, the one that is woken takes it at once: that time is not nobody's.
        let before = self.desk.lane.clock.switch(Phase::Send);
        let pending = Jobs::push(&self.jobs, (at, g), group, tag);
        self.desk.lane.clock.switch(before);
        Ok(pending)
    }

    /// Waits for what was started.
    pub fn wait(&mut self, pending: Pending) -> Result<Vector, StepError> {
        pending.take(&self.jobs, &mut self.desk.lane)
    }

    // For the loop that drives the strategy.

    pub(crate) fn begin(&mut self, t: u64, consumed: u64) {
        (self.t, self.consumed, self.calls) = (t, consumed, 0);
    }

    /// All steps are taken; what is still applied is applied after all samples.
    pub(crate) fn end(&mut self, consumed: u64) {
        self.consumed = consumed;
    }

    /// My lane with my seat, and my weights.
    pub(crate) fn parts(&mut self) -> (&mut Desk, &mut Vector) {
        (&mut self.desk, &mut self.params)
    }

    pub(crate) fn lane(&mut self) -> &mut Lane {
        &mut self.desk.lane
    }

    pub(crate) fn close_jobs(&self) {
        Jobs::close(&self.jobs);
    }
}
