//! SGP: stochastic gradient push, gossip over a directed graph that changes from step to step.
//!
//! Source: Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019, Algorithm 1; the graph is
//! that of its appendix A, one peer per step, 1, 2, 4, ... ranks further.
//!
//! | paper | here |
//! |---|---|
//! | x_i, biased | `x` |
//! | w_i, push-sum weight | `w` |
//! | z_i = x_i / w_i, de-biased | `node.params()` |
//! | p_ji = 1 / (1 + out-degree of i) | `share` |
//! | gamma | `node.rate()`, inside `node.direction` |
//!
//! Sent per step: the biased model and its weight to one peer.
//!
//! Departures: what comes in is added in rank order, the worker's own part at its place. Momentum, where the recipe
//! asks for it, is local and never averaged; weight decay is that of z. On the paper's graph everybody has as many
//! senders as receivers, so that every w stays 1; it is carried all the same, and any other graph may be given.

use crate::gossip::{Rounds, mix};
use crate::node::Node;
use crate::strategy::Strategy;
use crate::vector::Vector;
use crate::{Kind, Loss, Packet, Place, StepError, Tag};
use record::{Phase, Work};

/// Every worker.
#[derive(Debug)]
pub struct Sgp {
    rounds: Rounds,
    x: Vector,
    w: f32,
    other: Vector,
}

impl Sgp {
    /// A worker that pushes along these edges.
    pub fn new(rounds: Rounds) -> Self {
        Self { rounds, x: Vector::default(), w: 1.0, other: Vector::default() }
    }

    /// The model before its bias is taken away, and its push-sum weight.
    pub fn biased(&self) -> (&Vector, f32) {
        (&self.x, self.w)
    }
}

impl Strategy for Sgp {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        if node.t() == 1 {
            node.aside(|z| (self.x, self.other) = (z.to_vec().into(), Vector::zeros(z.len())));
        }
        let (loss, g) = node.gradient()?; // at z, lines 2 and 3
        let step = node.direction(g);
        let clock = &mut node.lane().clock;
        clock.timed(Phase::Update, Work::Update(0), || self.x.add(&step)); // line 4
        node.recycle(step);
        self.push(node)?; // line 5
        self.pull(node)?; // line 6
        self.exchange_weight(node)?; // line 7
        self.unbias(node); // line 8
        Ok(loss)
    }
}

impl Sgp {
    /// Divides x and w among the worker and its receivers, and sends each its part.
    fn push(&mut self, node: &mut Node) -> Result<(), StepError> {
        let (me, tag) = (node.rank().index(), Tag::new(Kind::Exchange, node.t()));
        let receivers = self.rounds.receivers(node.t(), me);
        let share = 1.0 / (1 + receivers.len()) as f32;
        let clock = &mut node.lane().clock;
        clock.timed(Phase::Reduce, Work::Reduce(0), || self.x.scale(share));
        self.w *= share;
        for receiver in receivers {
            node.wire().weights().send(Place(*receiver), tag, 0, &self.x)?;
        }
        Ok(())
    }

    /// Adds up what came, in rank order.
    fn pull(&mut self, node: &mut Node) -> Result<(), StepError> {
        let (me, tag) = (node.rank().index(), Tag::new(Kind::Exchange, node.t()));
        let mut sum = node.spare();
        for (number, sender) in self.rounds.senders(node.t(), me).into_iter().enumerate() {
            let part = if sender == me {
                &self.x
            } else {
                node.wire().weights().recv_into(Place(sender), tag, &mut self.other)?;
                &self.other
            };
            let clock = &mut node.lane().clock;
            clock.timed(Phase::Reduce, Work::Reduce(part.len()), || mix(&mut sum, 1.0, part, number == 0));
        }
        node.recycle(std::mem::replace(&mut self.x, sum));
        Ok(())
    }

    /// The same of the push-sum weights. They follow when the models are taken: of two messages that are under way at
    /// once, a large one would wait for room while nobody makes any.
    fn exchange_weight(&mut self, node: &mut Node) -> Result<(), StepError> {
        let (me, tag) = (node.rank().index(), Tag::new(Kind::Exchange, node.t()).part(1));
        for receiver in self.rounds.receivers(node.t(), me) {
            let weight = Packet(self.w.to_le_bytes().to_vec().into());
            node.wire().exact().send_packet(Place(*receiver), tag, weight)?;
        }
        let mut sum = 0.0;
        for sender in self.rounds.senders(node.t(), me) {
            sum += if sender == me {
                self.w
            } else {
                push_sum_weight(&node.wire().exact().recv_packet(Place(sender), tag)?)?
            };
        }
        self.w = sum;
        Ok(())
    }

    /// z <- x / w.
    fn unbias(&self, node: &mut Node) {
        let (desk, z) = node.parts();
        desk.lane.clock.timed(Phase::Update, Work::Update(0), || {
            z.iter_mut().zip(self.x.iter()).for_each(|(z, x)| *z = x / self.w);
        });
    }
}

fn push_sum_weight(packet: &Packet) -> Result<f32, StepError> {
    let bytes = packet.0.as_ref().try_into();
    bytes.map(f32::from_le_bytes).map_err(|_| StepError::Packet { bytes: packet.0.len(), elements: 1 })
}
