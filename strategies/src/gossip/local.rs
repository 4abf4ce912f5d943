//! The model of a rank, shared by its lanes, and the buffer of finished steps that are not in it yet. Adding to the buffer,
//! flushing it and averaging are atomic with respect to each other, and recorded in their order.

use crate::runtime::{Bell, Shared};
use crate::service_context::ServiceContext;
use crate::vector::Vector;
use crate::{Lane, StepError};
use recipe::Averaging;
use record::{Event, GossipAct, GossipRecord, Nanos, Phase, Rank, Work};
use std::sync::Arc;

/// A handle to the shared model; every lane of the rank has one.
#[derive(Clone)]
pub struct Local {
    state: Shared<State>,
}

struct State {
    x: Vector,
    /// The sum of steps, rates included, that are not in x.
    g: Vector,
    /// Number of steps in `g`.
    unsent: u64,
    /// Samples that each rank has used, as far as this one knows.
    samples: Vec<u64>,
    sequence: u64,
    /// Number of lanes that still average.
    lanes: usize,
    /// The compute lane has taken its last step.
    over: bool,
    /// The rank that counts the samples of all was lost.
    count_lost: bool,
}

/// A finished step of the compute lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// From 1, as the rank counts them.
    pub step: u64,
    /// Samples of all ranks before it, as far as was known.
    pub consumed: u64,
    /// Samples of the step itself.
    pub own: u64,
}

impl Local {
    /// The model of one of `ranks` ranks, with `lanes` lanes that average.
    pub fn new(ranks: usize, lanes: usize, bell: Arc<dyn Bell>) -> Self {
        let state = State {
            x: Vector::default(),
            g: Vector::default(),
            unsent: 0,
            samples: vec![0; ranks],
            sequence: 0,
            lanes,
            over: false,
            count_lost: false,
        };
        Self { state: Shared::new(state, bell) }
    }

    /// Begins with these weights.
    pub fn load(&self, weights: &Vector) {
        self.state.change(|state| state.load(weights));
    }

    // For the compute lane.

    /// The model with the buffer applied, to compute a gradient with.
    pub fn read(&self, ctx: &mut ServiceContext, step: u64, into: &mut Vector) {
        let ServiceContext { info, lane, observer } = ctx;
        self.in_phase(lane, Phase::Update, Work::Reduce(into.len()), |state, at| {
            state.copy_into(into);
            observer.event(state.act(info.rank, at, GossipAct::Read { step }));
        });
    }

    /// Puts a finished step into the buffer; where no lane averages, also into the model. Returns the samples that
    /// all ranks have used, as far as known.
    pub fn add(&self, ctx: &mut ServiceContext, update: &Vector, finished: Finished) -> u64 {
        let ServiceContext { info, lane, observer } = ctx;
        let Finished { step, consumed: samples, own } = finished;
        self.in_phase(lane, Phase::Update, Work::Reduce(update.len()), |state, at| {
            state.g.add(update);
            state.unsent += 1;
            state.samples[info.rank.index()] += own;
            observer.event(state.act(info.rank, at, GossipAct::Added { step, samples }));
            if state.lanes == 0 {
                state.flush(|state| observer.event(state.act(info.rank, at, GossipAct::Flushed)));
            }
            state.known()
        })
    }

    /// No step follows: waits until no lane averages any more, and applies the rest of the buffer.
    pub fn close(&self, ctx: &mut ServiceContext) -> Result<(), StepError> {
        self.state.change(|state| state.over = true);
        let ServiceContext { info, lane, observer } = ctx;
        self.state.wait(lane, |state| (state.lanes == 0).then_some(()))?;
        let at = lane.clock.now();
        self.state.change(|state| {
            state.flush(|state| observer.event(state.act(info.rank, at, GossipAct::Flushed)));
        });
        Ok(())
    }

    /// The model with the buffer applied.
    pub fn model(&self) -> Vector {
        self.state.read(|state| {
            let mut model = Vector::zeros(state.x.len());
            state.copy_into(&mut model);
            model
        })
    }

    // For the lanes of the measurement.

    /// The model with the buffer applied, when all ranks together had consumed this number of samples.
    pub fn snapshot(&self, ctx: &mut ServiceContext, samples: u64) -> Vector {
        let ServiceContext { info, lane, observer } = ctx;
        self.state.change(|state| {
            let mut model = Vector::zeros(state.x.len());
            state.copy_into(&mut model);
            observer.event(state.act(info.rank, lane.clock.now(), GossipAct::Kept { samples }));
            model
        })
    }

    /// The rank that counts the samples of all is lost.
    pub fn lose_count(&self) {
        self.state.change(|state| state.count_lost = true);
    }

    /// Whether evaluation points may still be announced to this rank while it trains.
    pub fn is_counted(&self) -> bool {
        self.state.read(|state| !state.count_lost && !state.over)
    }

    // For the lanes that average.

    /// Waits until there is a step in the buffer, or not at all with continuous averaging; false when no step follows.
    pub fn wait(&self, ctx: &mut ServiceContext, averaging: Averaging) -> Result<bool, StepError> {
        let continuous = averaging == Averaging::Continuous;
        self.state.wait(&mut ctx.lane, |state| {
            if state.unsent > 0 || (continuous && !state.over) {
                Some(true)
            } else {
                state.over.then_some(false)
            }
        })
    }

    /// Applies the buffer to the model and copies it: what an active rank asks with. Returns whether the
    /// buffer held a step.
    pub fn flush(&self, ctx: &mut ServiceContext, into: &mut Vector) -> bool {
        let ServiceContext { info, lane, observer } = ctx;
        self.in_phase(lane, Phase::Update, Work::Reduce(into.len()), |state, at| {
            let fresh = state.unsent > 0;
            state.flush(|state| observer.event(state.act(info.rank, at, GossipAct::Flushed)));
            into.copy_from_slice(&state.x);
            fresh
        })
    }

    /// The model of an active rank becomes the mean of itself and the answer. No other lane changed it meanwhile.
    pub fn average(&self, ctx: &mut ServiceContext, other: &Vector, peer: Rank, number: u64) {
        let ServiceContext { info, lane, observer } = ctx;
        self.in_phase(lane, Phase::Reduce, Work::Reduce(other.len()), |state, at| {
            state.x.iter_mut().zip(other.iter()).for_each(|(x, other)| *x = mean(*x, *other));
            observer.event(state.act(info.rank, at, GossipAct::Averaged { peer, number }));
        });
    }

    /// A passive rank is asked: its buffer is applied, its model becomes the mean of itself and the other, and
    /// the other becomes what it was before: the answer.
    pub fn answer(&self, ctx: &mut ServiceContext, other: &mut Vector, peer: Rank, number: u64) {
        let ServiceContext { info, lane, observer } = ctx;
        self.in_phase(lane, Phase::Reduce, Work::Reduce(other.len()), |state, at| {
            state.flush(|state| observer.event(state.act(info.rank, at, GossipAct::Flushed)));
            for (x, other) in state.x.iter_mut().zip(other.iter_mut()) {
                (*x, *other) = (mean(*x, *other), *x);
            }
            observer.event(state.act(info.rank, at, GossipAct::Averaged { peer, number }));
        });
    }

    /// A lane averages no more.
    pub fn leave(&self) {
        self.state.change(|state| state.lanes = state.lanes.saturating_sub(1));
    }

    /// Changes the shared state in a phase. The work is spent before the lock is taken: a simulated or emulated clock lets other
    /// lanes run meanwhile, and the holder of the lock must not wait for them.
    fn in_phase<R>(
        &self,
        lane: &mut Lane,
        phase: Phase,
        work: Work,
        change: impl FnOnce(&mut State, Nanos) -> R,
    ) -> R {
        let before = lane.clock.switch(phase);
        lane.clock.timed(phase, work, || ());
        let result = self.state.change(|state| change(state, lane.clock.now()));
        lane.clock.switch(before);
        result
    }

    // Facts about all ranks.

    /// Samples that each rank has used, as far as is known.
    pub fn samples(&self) -> Vec<u64> {
        self.state.read(|state| state.samples.clone())
    }

    /// Samples that all ranks together have used, as far as is known.
    pub fn known(&self) -> u64 {
        self.state.read(State::known)
    }

    /// Learns what another rank knows: counts only grow, so the larger is the newer.
    pub fn learn(&self, samples: &[u64]) {
        self.state.change(|state| {
            state.samples.iter_mut().zip(samples).for_each(|(own, other)| *own = (*own).max(*other));
        });
    }
}

/// x / 2 + x' / 2: both ends compute the same bits.
fn mean(x: f32, other: f32) -> f32 {
    x * 0.5 + other * 0.5
}

impl State {
    fn load(&mut self, weights: &Vector) {
        self.x = weights.clone();
        self.g = Vector::zeros(weights.len());
    }

    fn act(&mut self, rank: Rank, at: Nanos, act: GossipAct) -> Event {
        self.sequence += 1;
        Event::Gossip(GossipRecord { rank, sequence: self.sequence, at, act })
    }

    /// x <- x + g, g <- 0, if there is anything in it.
    fn flush(&mut self, told: impl FnOnce(&mut Self)) {
        if self.unsent > 0 {
            self.x.add(&self.g);
            self.g.fill(0.0);
            self.unsent = 0;
            told(self);
        }
    }

    fn copy_into(&self, into: &mut Vector) {
        into.copy_from_slice(&self.x);
        if self.unsent > 0 {
            into.add(&self.g);
        }
    }

    fn known(&self) -> u64 {
        self.samples.iter().fold(0, |sum, samples| sum.saturating_add(*samples))
    }
}
