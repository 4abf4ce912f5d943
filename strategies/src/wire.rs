//! Vectors between the members of a group: encoding, sending, waiting and decoding, each timed.

use crate::compress::{self, Distance, Guarantee, Slot};
use crate::group::{Group, GroupRank};
use crate::lane::{Content, Lane};
use crate::{Envelope, Kind, Packet, Senders, StepError, Tag};
use record::{Phase, Work};

impl Lane {
    /// The lane's wire over a group, for gradients.
    pub fn wire<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        Wire { lane: self, group, base: 0, content: Content::Gradients }
    }
}

/// A lane over a group: packets travel on it. Timing, encoding and counting of messages is all here, so that a strategy
/// names no socket, and a phase only for arithmetic of its own.
pub struct Wire<'a> {
    lane: &'a mut Lane,
    group: &'a Group,
    base: usize,
    content: Content,
}

impl<'a> Wire<'a> {
    /// The same wire for weights, which are coded only where the recipe says `compression.parameters`. Both
    /// ends must agree on it.
    #[must_use]
    pub fn weights(self) -> Self {
        Self { content: Content::Weights, ..self }
    }

    /// The same wire for vectors that must arrive bit for bit: nothing is coded. Both ends must agree on it.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { content: Content::Exact, ..self }
    }

    /// The same wire for a vector that is a part of a longer one, from position `base` on: the memory of a codec is kept
    /// by the position in the whole.
    #[must_use]
    pub fn of_part(self, base: usize) -> Self {
        Self { base: self.base + base, ..self }
    }

    /// The same wire for another content.
    pub(crate) fn of_content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Content of its vectors, which decides how they are coded.
    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// The same wire over another group.
    pub fn over<'b>(&'b mut self, group: &'b Group) -> Wire<'b> {
        Wire { lane: self.lane, group, base: self.base, content: self.content }
    }

    /// Position of its vectors in the vector that they are part of.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The same wire for the projection of a gradient.
    pub(crate) fn projected(&mut self) -> Wire<'_> {
        Wire { lane: self.lane, group: self.group, base: self.base, content: Content::Projected }
    }

    /// The same wire for the reach of a gradient.
    pub(crate) fn reaching(&mut self) -> Wire<'_> {
        Wire { lane: self.lane, group: self.group, base: self.base, content: Content::Reach }
    }

    /// The largest magnitude of a gradient and its memory, where the group must agree on a range before an all-reduce;
    /// `None` where it need not.
    pub(crate) fn reach(&mut self, tag: Tag, x: &[f32]) -> Option<f32> {
        let agrees = matches!(self.guarantee(), Guarantee::ShareOfRange(_));
        if self.content != Content::Gradients || self.group.size() == 1 || !agrees {
            return None;
        }
        let slot = self.slot(self.group.me(), tag, 0);
        let Lane { codecs, clock, .. } = &mut *self.lane;
        // Part of the cost of the codec.
        Some(clock.timed(Phase::Encode, Work::Encode(0), || codecs.gradients.reach(slot, x)))
    }

    /// Gives the codec of gradients the sum of the reaches of the group.
    pub(crate) fn agree(&mut self, reach: f32) {
        self.lane.codecs.gradients.agree(reach, self.group.size());
    }

    /// Whether its vectors are gradients, which a projection may replace.
    pub(crate) fn carries_gradients(&self) -> bool {
        self.content == Content::Gradients
    }

    /// Counts a projection: the elements that would have been sent without it and, in a step that keeps its spans, the
    /// squared lengths of the vector and of its error.
    pub(crate) fn count_projected(&mut self, raw: usize, lost: Option<Distance>) {
        let coding = &mut self.lane.coding;
        coding.raw_bytes += 4 * raw as u64;
        let Distance { squared, squared_error } = lost.unwrap_or_default();
        coding.squared += squared;
        coding.squared_error += squared_error;
    }

    /// The lane of the wire.
    pub(crate) fn lane(&mut self) -> &mut Lane {
        self.lane
    }

    /// The group of the wire.
    pub fn group(&self) -> &'a Group {
        self.group
    }

    /// Encodes and sends a vector; `at` is the position of its first element in the vector it is part of.
    pub fn send(&mut self, to: GroupRank, tag: Tag, at: usize, x: &[f32]) -> Result<(), StepError> {
        let packet = self.encode(self.slot(to, tag, at), x);
        self.send_packet(to, tag, packet)
    }

    /// The slot of a vector for `to`. Roundings of one step may share a slot if all go into the same sum.
    pub fn slot(&self, to: GroupRank, tag: Tag, at: usize) -> Slot {
        Slot { kind: tag.kind, at: self.base + at, step: tag.step, peer: self.group.rank(to) }
    }

    /// Number of elements of the vector in a packet, as its sender says.
    pub fn elements(&mut self, packet: &Packet) -> usize {
        self.lane.codecs.of(self.content).elements(packet)
    }

    /// The guarantee of the codec.
    pub fn guarantee(&mut self) -> Guarantee {
        self.lane.codecs.of(self.content).guarantee()
    }

    /// Replaces an encoded vector by the vector that the others will decode; nothing to do if the codec is exact.
    pub fn adopt(&mut self, packet: &Packet, x: &mut [f32]) -> Result<(), StepError> {
        if self.guarantee() == Guarantee::Exact { Ok(()) } else { self.decode(packet, x) }
    }

    /// Receives and decodes a vector.
    pub fn recv_into(&mut self, from: GroupRank, tag: Tag, into: &mut [f32]) -> Result<(), StepError> {
        let packet = self.recv_packet(from, tag)?;
        self.decode(&packet, into)
    }

    /// Receives a vector and adds it.
    pub fn recv_add(&mut self, from: GroupRank, tag: Tag, into: &mut [f32]) -> Result<(), StepError> {
        let packet = self.recv_packet(from, tag)?;
        self.decode_add(&packet, into)
    }

    /// Receives the first message of a kind, which only members of the group send; no group rank if the sender is none.
    pub fn recv_any(&mut self, kind: Kind) -> Result<(Option<GroupRank>, Tag, Packet), StepError> {
        let before = self.lane.clock.wait_for_anyone();
        let envelope = self.lane.transport.recv_any(kind, Senders::Of(self.group.ranks()))?;
        let from = self.group.group_rank_of(envelope.from);
        let tag = envelope.tag;
        Ok((from, tag, self.opened(before, envelope)))
    }

    /// Encodes a vector; where the clock keeps spans, also measures the coding error.
    pub fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let Lane { codecs, clock, due, .. } = &mut *self.lane;
        let codec = codecs.of(self.content);
        let measures = clock.keeps_spans() && codec.guarantee() != Guarantee::Exact;
        if measures {
            // Measuring the error takes time, which only `other` may count.
            let before = clock.switch(Phase::Other);
            codec.due(slot, x, due);
            clock.switch(before);
        }
        let packet = clock.timed(Phase::Encode, Work::Encode(x.len()), || codec.encode(slot, x));
        if measures {
            self.measure_loss(&packet);
        }
        packet
    }

    /// Accumulates the encoding error of a packet. Measuring it is booked as `other`.
    fn measure_loss(&mut self, packet: &Packet) {
        let Lane { codecs, clock, coding, due, decoded, .. } = &mut *self.lane;
        let before = clock.switch(Phase::Other);
        decoded.resize(due.len(), 0.0);
        if codecs.of(self.content).decode(packet, decoded).is_ok() {
            let Distance { squared, squared_error } = compress::distance(due, decoded);
            coding.squared += squared;
            coding.squared_error += squared_error;
        }
        clock.switch(before);
    }

    /// Decodes a packet over `into`, which must have the length that was encoded.
    pub fn decode(&mut self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let Lane { codecs, clock, .. } = &mut *self.lane;
        let codec = codecs.of(self.content);
        clock.timed(Phase::Decode, Work::Decode(into.len()), || codec.decode(packet, into))
    }

    /// Decodes a packet and adds it; counted as [`Phase::Reduce`].
    pub fn decode_add(&mut self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let Lane { codecs, clock, .. } = &mut *self.lane;
        let codec = codecs.of(self.content);
        clock.timed(Phase::Reduce, Work::Reduce(into.len()), || codec.decode_add(packet, into))
    }

    /// Makes the sum of a packet and `x`, which travels on; counted as [`Phase::Reduce`]. Returns it encoded where the codec does both in one
    /// pass, and `x` is as it was; else `x` is the sum.
    pub(crate) fn pass_sum(&mut self, packet: &Packet, x: &mut [f32]) -> Result<Option<Packet>, StepError> {
        let Lane { codecs, clock, .. } = &mut *self.lane;
        let codec = codecs.of(self.content);
        clock.timed(Phase::Reduce, Work::Reduce(x.len()), || match codec.encode_sum(packet, x) {
            Some(sum) => sum.map(Some),
            None => codec.decode_add(packet, x).map(|()| None),
        })
    }

    /// Counts the encoding of a sum that was encoded when it was made.
    pub(crate) fn count_encoded_sum(&mut self, elements: usize) {
        self.lane.clock.timed(Phase::Encode, Work::Encode(elements), || ());
    }

    /// Adds a vector that needs no decoding.
    pub fn reduce(&mut self, into: &mut [f32], x: &[f32]) {
        self.lane.clock.timed(Phase::Reduce, Work::Reduce(x.len()), || crate::vector::add(into, x));
    }

    /// Sends a packet as it is: a relayed packet keeps the bits of its owner.
    pub fn send_packet(&mut self, to: GroupRank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        let elements = self.lane.codecs.of(self.content).elements(&packet);
        self.send_counted(to, tag, packet, elements)
    }

    /// Sends a packet that is not of the codec and holds `elements` elements.
    pub(crate) fn send_counted(
        &mut self,
        to: GroupRank,
        tag: Tag,
        packet: Packet,
        elements: usize,
    ) -> Result<(), StepError> {
        let peer = self.group.rank(to);
        let bytes = packet.0.len() as u64;
        let raw_bytes = match self.content {
            // `count_projected` counts the gradient of a projection. The reach of a gradient would not travel without
            // its codec.
            Content::Projected | Content::Reach => 0,
            Content::Gradients | Content::Weights | Content::Exact => 4 * elements as u64,
        };
        let before = self.lane.clock.switch(Phase::Send);
        self.lane.transport.send(peer, tag, packet)?;
        self.lane.clock.note(peer, bytes);
        self.lane.clock.switch(before);
        self.lane.traffic.bytes_out += bytes;
        self.lane.coding.bytes += bytes;
        self.lane.coding.raw_bytes += raw_bytes;
        Ok(())
    }

    /// Whether a packet would leave at once.
    pub(crate) fn has_room(&self, to: GroupRank, packet: &Packet) -> bool {
        self.lane.transport.has_room(self.group.rank(to), packet.0.len())
    }

    /// Receives a packet as it is.
    pub fn recv_packet(&mut self, from: GroupRank, tag: Tag) -> Result<Packet, StepError> {
        let peer = self.group.rank(from);
        let before = self.lane.clock.switch(Phase::WaitPeer);
        let envelope = self.lane.transport.recv(peer, tag)?;
        Ok(self.opened(before, envelope))
    }

    /// Receives a packet that its sender sends unasked: until it begins to arrive, no communication is open.
    pub fn recv_unasked(&mut self, from: GroupRank, tag: Tag) -> Result<Packet, StepError> {
        let peer = self.group.rank(from);
        let before = self.lane.clock.wait_for_anyone();
        let envelope = self.lane.transport.recv(peer, tag)?;
        Ok(self.opened(before, envelope))
    }

    /// Splits the wait that just ended into waiting and transfer.
    fn opened(&mut self, before: Phase, envelope: Envelope) -> Packet {
        let clock = &mut self.lane.clock;
        let bytes = envelope.packet.0.len() as u64;
        clock.note(envelope.from, 0);
        clock.switch_at(Phase::Transfer, envelope.began);
        clock.note(envelope.from, bytes);
        clock.switch(before);
        self.lane.traffic.bytes_in += bytes;
        envelope.packet
    }
}
