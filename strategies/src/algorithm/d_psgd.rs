//! D-PSGD: decentralized parallel SGD, in which every worker averages with its neighbours in every step.
//!
//! Source: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for Decentralized
//! Parallel Stochastic Gradient Descent", NIPS 2017, Algorithm 1, as Lian et al., "Asynchronous Decentralized Parallel
//! Stochastic Gradient Descent", ICML 2018, section 2, describe it.
//!
//! | paper | here |
//! |---|---|
//! | x_k,i | `node.params()` |
//! | W_ij | `weights`: Metropolis weights, own weight included |
//! | gamma | `node.rate()`, inside `node.direction` |
//! | x_k+1/2,i | what the mixer answers |
//!
//! Sent per step: the model to each neighbour, from a second lane while the gradient is computed.
//!
//! Departures: with the order `step-then-mix`, x <- W (x - gamma g(x)), nothing overlaps. The terms of a row are added
//! in rank order, the worker's own model at its place. Momentum, where the recipe asks for it, is local and never
//! averaged; weight decay is that of the old x. Where weights are coded, a worker's own model is not, so that the
//! mean of all models moves by what is lost.

use crate::desk::Desk;
use crate::gossip::mix;
use crate::host::{Bell, Shared};
use crate::node::Node;
use crate::strategy::{Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError, Tag};
use recipe::MixOrder;
use record::{LaneId, Phase, Work};
use std::sync::Arc;

/// What the two lanes of a worker hand to each other.
#[derive(Debug, Default)]
struct Exchange {
    /// A model that is to be averaged, with its step.
    given: Option<(u64, Vector)>,
    mixed: Option<Vector>,
    closed: bool,
}

/// The compute lane of every worker.
pub struct Worker {
    order: MixOrder,
    exchange: Shared<Exchange>,
}

/// The communication lane of every worker.
pub struct Mixer {
    weights: Vec<(Place, f32)>,
    exchange: Shared<Exchange>,
    other: Vector,
    /// Kept from the last step: where the next sum goes.
    sum: Vector,
}

/// Both lanes of a worker whose row of the mixing matrix is `weights`, in rank order.
pub fn lanes(order: MixOrder, weights: Vec<(Place, f32)>, bell: Arc<dyn Bell>) -> (Worker, Mixer) {
    let exchange = Shared::new(Exchange::default(), bell);
    let (other, sum) = (Vector::default(), Vector::default());
    (Worker { order, exchange: exchange.clone() }, Mixer { weights, exchange, other, sum })
}

impl Strategy for Worker {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        match self.order {
            MixOrder::MixThenStep => {
                self.give(node);
                let (loss, g) = node.gradient()?;
                let step = node.direction(g);
                self.take(node)?;
                node.advance(step);
                Ok(loss)
            }
            MixOrder::StepThenMix => {
                let (loss, g) = node.gradient()?;
                node.descend(g);
                self.give(node);
                self.take(node)?;
                Ok(loss)
            }
        }
    }

    fn finish(&mut self, _: &mut Node) -> Result<(), StepError> {
        self.exchange.change(|exchange| exchange.closed = true);
        Ok(())
    }
}

impl Worker {
    /// Gives a copy of the model to the mixer.
    fn give(&self, node: &mut Node) {
        let (step, mut copy) = (node.t(), node.spare());
        node.aside(|params| copy.copy_from_slice(params));
        self.exchange.change(|exchange| exchange.given = Some((step, copy)));
    }

    /// Waits for what the mixer makes of it.
    fn take(&self, node: &mut Node) -> Result<(), StepError> {
        let (desk, params) = node.parts();
        let mixed = self.exchange.wait(&mut desk.lane, |exchange| exchange.mixed.take())?;
        let old = std::mem::replace(params, mixed);
        node.recycle(old);
        Ok(())
    }
}

impl Service for Mixer {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let given = self.exchange.wait(&mut desk.lane, |exchange| match exchange.given.take() {
            Some(given) => Some(Some(given)),
            None => exchange.closed.then_some(None),
        })?;
        let Some((step, x)) = given else { return Ok(Turn::Finished) };
        let tag = Tag::new(Kind::Overlap, step);
        self.send(desk, tag, &x)?;
        let mixed = self.mixed(desk, tag, x)?;
        self.exchange.change(|exchange| exchange.mixed = Some(mixed));
        Ok(Turn::Served(desk.seat.course.samples_after(step)))
    }
}

impl Mixer {
    fn send(&self, desk: &mut Desk, tag: Tag, x: &Vector) -> Result<(), StepError> {
        let (own, mut wire) = (desk.seat.everyone.place(), desk.wire().weights());
        // What codes weights gives the same packet for everyone.
        let packet = wire.encode(wire.slot(own, tag, 0), x);
        for (place, _) in self.weights.iter().filter(|(place, _)| *place != own) {
            wire.send_packet(*place, tag, packet.clone())?;
        }
        Ok(())
    }

    /// The sum of w_ij x_j in rank order.
    fn mixed(&mut self, desk: &mut Desk, tag: Tag, x: Vector) -> Result<Vector, StepError> {
        let own = desk.seat.everyone.place();
        if self.other.len() != x.len() {
            (self.other, self.sum) = (Vector::zeros(x.len()), Vector::zeros(x.len()));
        }
        let mut sum = std::mem::take(&mut self.sum);
        for (number, (place, weight)) in self.weights.iter().enumerate() {
            let model = if *place == own {
                &x
            } else {
                desk.wire().weights().recv_into(*place, tag, &mut self.other)?;
                &self.other
            };
            let clock = &mut desk.lane.clock;
            clock.timed(Phase::Reduce, Work::Reduce(x.len()), || mix(&mut sum, *weight, model, number == 0));
        }
        self.sum = x;
        Ok(sum)
    }
}
