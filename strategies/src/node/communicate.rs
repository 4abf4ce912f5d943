//! What travels between the workers: at once, or on the communication lane meanwhile.

use super::Node;
use crate::messenger::{Jobs, Pending};
use crate::vector::Vector;
use crate::{Group, Kind, Packet, Place, StepError, Tag, Wire};
use record::{Phase, Work};
use std::ops::Range;

impl Node {
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

    /// Decodes weights that came over a part of mine.
    pub fn take_params_of(&mut self, packet: &Packet, span: Range<usize>) -> Result<(), StepError> {
        let Self { desk, params, .. } = self;
        desk.wire().weights().decode(packet, &mut params[span])
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
}
