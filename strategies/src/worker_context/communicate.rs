//! Communication between the workers: on the compute lane, or on the communication lane beside it.

use super::WorkerContext;
use super::travelling::Ends;
use crate::handoff::Pending;
use crate::schedule::Part;
use crate::vector::Vector;
use crate::{Group, GroupRank, Kind, Packet, StepError, Tag, Wire};
use record::{Phase, Work};
use std::ops::Range;

impl WorkerContext {
    // On the compute lane.

    /// This worker's mean gradient times p n / B, so that a sum over the workers, scaled by 1 / p, is the mean over all
    /// samples.
    #[must_use]
    pub fn weighted(&mut self, g: Vector) -> Vector {
        let weight = self.service.info.plan.sampler.weight(self.t, self.trainers.me().0);
        self.scaled(g, weight)
    }

    /// A gradient times a weight.
    #[must_use]
    pub fn scaled(&mut self, mut g: Vector, weight: f32) -> Vector {
        self.scale(&mut g, weight);
        g
    }

    /// Multiplies a gradient by a weight.
    pub fn scale(&mut self, g: &mut [f32], weight: f32) {
        if weight.to_bits() != 1.0_f32.to_bits() {
            self.service.lane.clock.timed(Phase::Reduce, Work::Reduce(g.len()), || {
                crate::arithmetic::scale(g, weight);
            });
        }
    }

    /// The mean of a gradient over the samples of all workers.
    pub fn all_reduce_mean(&mut self, g: Vector) -> Result<Vector, StepError> {
        let g = self.weighted(g);
        let group = self.trainers.clone();
        self.all_reduce_mean_over(&group, g)
    }

    /// The mean of any vector over the members of a group, each counting once.
    pub fn all_reduce_mean_over(&mut self, group: &Group, mut x: Vector) -> Result<Vector, StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { service, all_reduce, .. } = self;
        all_reduce.mean(&mut x, tag, service.lane.wire(group))?;
        Ok(x)
    }

    /// The mean of a part of a gradient over the members of a group, each counting once.
    pub fn all_reduce_mean_of_part(&mut self, group: &Group, mut part: Part) -> Result<Part, StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { service, all_reduce, .. } = self;
        all_reduce.mean(&mut part.values, tag, service.lane.wire(group).of_part(part.at))?;
        Ok(part)
    }

    /// Replaces a part of the weights by its mean over the members of a group, each counting once.
    pub fn average_weights_of(&mut self, group: &Group, span: Range<usize>) -> Result<(), StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { service, all_reduce, weights, .. } = self;
        let wire = service.lane.wire(group).weights().of_part(span.start);
        all_reduce.mean(&mut weights[span], tag, wire)
    }

    /// Replaces the weights by the mean of all workers' weights, each counting once.
    pub fn average_weights(&mut self) -> Result<(), StepError> {
        let tag = self.tag(Kind::Reduce);
        let Self { service, all_reduce, weights, trainers, .. } = self;
        all_reduce.mean(weights, tag, service.lane.wire(trainers).weights())
    }

    /// Sends the root's weights to all ranks, servers included, bit for bit; before the first step.
    pub fn broadcast_weights_from(&mut self, root: GroupRank) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Broadcast, 0);
        let Self { service, weights, .. } = self;
        let mut wire = service.wire().exact();
        if wire.group().me() != root {
            return wire.recv_into(root, tag, weights);
        }
        let packet = wire.encode(wire.slot(root, tag, 0), weights);
        for to in wire.group().others() {
            wire.send_packet(to, tag, packet.clone())?;
        }
        Ok(())
    }

    /// Receives weights over this worker's; the sender uses [`Wire::weights`].
    pub fn recv_weights(&mut self, from: GroupRank, tag: Tag) -> Result<(), StepError> {
        let Self { service, weights, .. } = self;
        service.wire().weights().recv_into(from, tag, weights)
    }

    /// Receives a part of the weights.
    pub fn recv_weights_of(
        &mut self,
        from: GroupRank,
        tag: Tag,
        span: Range<usize>,
    ) -> Result<(), StepError> {
        let Self { service, weights, .. } = self;
        service.wire().weights().recv_into(from, tag, &mut weights[span])
    }

    /// Decodes received weights over a part of this worker's.
    pub fn decode_weights_of(&mut self, packet: &Packet, span: Range<usize>) -> Result<(), StepError> {
        let Self { service, weights, .. } = self;
        service.wire().weights().decode(packet, &mut weights[span])
    }

    /// The wire over all ranks, for gradients.
    pub fn wire(&mut self) -> Wire<'_> {
        self.service.wire()
    }

    /// The wire over another group, for gradients.
    pub fn wire_over<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        self.service.lane.wire(group)
    }

    // On the communication lane.

    /// Starts an all-reduce of a gradient; its mean over the samples of all workers is fetched with
    /// [`WorkerContext::wait`]. All workers must start them in the same order.
    pub fn start_all_reduce_mean(&mut self, g: Vector) -> Result<Pending, StepError> {
        let g = self.weighted(g);
        let whole = Part { at: 0, values: g };
        Ok(self.start_all_reduce(whole, self.trainers.clone(), Ends::Step))
    }

    /// Waits for the result of an all-reduce.
    pub fn wait(&mut self, pending: Pending) -> Result<Vector, StepError> {
        Ok(self.comm.receive(pending, &mut self.service.lane)?.x)
    }
}
