//! Vectors between the places of a group: encoding, sending, waiting and decoding, each timed.

use crate::compress::{self, Compressor, Guarantee, Identity, Slot};
use crate::projection::Projector;
use crate::{Envelope, Kind, Packet, StepError, Tag, Transport};
use record::{Phase, PhaseClock, Rank, Work};
use std::sync::Arc;

/// Position inside a [`Group`]. Not a rank: the two differ as soon as a group is not everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

/// Ranks that take part in something, in their fixed order, and my place among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    // Shared: a thousand ranks do not each keep a list of a thousand ranks.
    ranks: Arc<[Rank]>,
    place: Place,
}

impl Group {
    /// The group of these ranks as `me` sees it; `None` if it is not a member.
    pub fn new(ranks: &Arc<[Rank]>, me: Rank) -> Option<Self> {
        let place = ranks.iter().position(|rank| *rank == me)?;
        Some(Self { ranks: ranks.clone(), place: Place(place) })
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// My place.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Who sits there.
    pub fn rank(&self, place: Place) -> Rank {
        self.ranks[place.0]
    }

    /// Where that rank sits.
    pub fn place_of(&self, rank: Rank) -> Option<Place> {
        self.ranks.iter().position(|member| *member == rank).map(Place)
    }

    /// The place `steps` further round the ring.
    pub fn after(&self, steps: usize) -> Place {
        Place((self.place.0 + steps) % self.size())
    }

    /// All places in order.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.size()).map(Place)
    }

    /// All places in order but mine.
    pub fn others(&self) -> impl Iterator<Item = Place> + use<> {
        let me = self.place;
        self.places().filter(move |place| *place != me)
    }
}

/// What travelled over a lane since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent, encoded.
    pub bytes_out: u64,
    /// Bytes received, encoded.
    pub bytes_in: u64,
}

/// What coding saved on a lane since the run's clock started, and what it lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coding {
    /// Bytes sent, encoded.
    pub bytes: u64,
    /// The same as 32-bit floats.
    pub raw_bytes: u64,
    /// Squared length of the vectors that were encoded in steps which keep their spans, with what error feedback had
    /// added to them.
    pub squared: f64,
    /// Squared length of what decoding them does not give back.
    pub squared_error: f64,
}

/// What a vector holds, which decides how it is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Gradients, and what is made of them.
    Gradients,
    /// Weights while they are trained.
    Weights,
    /// What has to arrive as it is: initial weights, activations.
    Exact,
    /// What a projection has left of gradients.
    Projected,
    /// How far gradients reach, which is said only because they are coded.
    Reach,
}

/// A lane's codecs, one for each content.
struct Codecs {
    gradients: Box<dyn Compressor>,
    weights: Box<dyn Compressor>,
    exact: Identity,
}

impl Codecs {
    fn of(&mut self, content: Content) -> &mut dyn Compressor {
        match content {
            Content::Gradients => self.gradients.as_mut(),
            Content::Weights => self.weights.as_mut(),
            Content::Exact | Content::Projected | Content::Reach => &mut self.exact,
        }
    }
}

/// What one lane owns; nothing in it is shared with another.
pub struct Lane {
    /// Its way to the other ranks.
    pub transport: Box<dyn Transport>,
    /// What happens to vectors on the way.
    codecs: Codecs,
    /// What is left of gradients before they are all-reduced.
    projector: Option<Projector>,
    /// Where its time goes.
    pub clock: PhaseClock,
    /// What travelled since the last step ended.
    pub traffic: Traffic,
    coding: Coding,
    // For looking at what was encoded, step after step: what was due, and what will be decoded.
    due: Vec<f32>,
    decoded: Vec<f32>,
}

impl Lane {
    /// A lane that has sent nothing yet, with a codec for gradients; weights travel as they are.
    pub fn new(transport: Box<dyn Transport>, gradients: Box<dyn Compressor>, clock: PhaseClock) -> Self {
        let codecs = Codecs { gradients, weights: Box::new(Identity), exact: Identity };
        let (traffic, coding) = (Traffic::default(), Coding::default());
        Self {
            transport,
            codecs,
            projector: None,
            clock,
            traffic,
            coding,
            due: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// The same lane with a codec for weights.
    #[must_use]
    pub fn coding_weights(mut self, codec: Box<dyn Compressor>) -> Self {
        self.codecs.weights = codec;
        self
    }

    /// The same lane with a projection of gradients.
    #[must_use]
    pub fn projecting(self, projector: Option<Projector>) -> Self {
        Self { projector, ..self }
    }

    /// The run's clock starts: neither the time nor the traffic of the start-up counts.
    pub(crate) fn restart(&mut self) {
        self.clock.restart(1);
        (self.traffic, self.coding) = (Traffic::default(), Coding::default());
    }

    /// What coding saved and lost; `None` on a lane that loses nothing.
    pub fn coding(&self) -> Option<Coding> {
        let exact = |codec: &dyn Compressor| codec.guarantee() == Guarantee::Exact;
        let nothing = exact(self.codecs.gradients.as_ref()) && exact(self.codecs.weights.as_ref());
        (!nothing || self.projector.is_some()).then_some(self.coding)
    }

    /// The lane's wire over a group, for gradients.
    pub fn wire<'a>(&'a mut self, group: &'a Group) -> Wire<'a> {
        Wire { lane: self, group, base: 0, content: Content::Gradients }
    }
}

/// What packets travel on: a lane over a group. All that times, encodes and counts what travels is here, so that a
/// strategy names no byte, no socket, and a phase only for arithmetic of its own.
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

    /// The same wire for what has to arrive as it is: nothing is coded. Both ends must agree on it.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { content: Content::Exact, ..self }
    }

    /// The same for a vector that is itself a part of a longer one, from position `base` on: what a codec
    /// remembers is kept by the position in the whole.
    #[must_use]
    pub fn of_part(self, base: usize) -> Self {
        Self { base: self.base + base, ..self }
    }

    /// Where its vectors begin in the vector that they are part of.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The same wire for what a projection has left.
    pub(crate) fn projected(&mut self) -> Wire<'_> {
        Wire { lane: self.lane, group: self.group, base: self.base, content: Content::Projected }
    }

    /// The same wire for how far a gradient reaches.
    pub(crate) fn reaching(&mut self) -> Wire<'_> {
        Wire { lane: self.lane, group: self.group, base: self.base, content: Content::Reach }
    }

    /// How far a gradient and what is remembered of it reach, where the places must agree on a range before an
    /// all-reduce; `None` where they need not.
    pub(crate) fn reach(&mut self, tag: Tag, x: &[f32]) -> Option<f32> {
        let agrees = matches!(self.guarantee(), Guarantee::ShareOfRange(_));
        if self.content != Content::Gradients || self.group.size() == 1 || !agrees {
            return None;
        }
        let slot = self.slot(self.group.place(), tag, 0);
        let Lane { codecs, clock, .. } = &mut *self.lane;
        // Part of what the code costs.
        Some(clock.timed(Phase::Encode, Work::Encode(0), || codecs.gradients.reach(slot, x)))
    }

    /// The codec of gradients takes the sum of what all places reach.
    pub(crate) fn agree(&mut self, reach: f32) {
        self.lane.codecs.gradients.agree(reach, self.group.size());
    }

    /// Takes the lane's projection where this wire is for gradients; whoever takes it gives it back.
    pub(crate) fn take_projector(&mut self) -> Option<Projector> {
        if self.content == Content::Gradients { self.lane.projector.take() } else { None }
    }

    /// Gives the lane's projection back.
    pub(crate) fn give_projector(&mut self, projector: Projector) {
        self.lane.projector = Some(projector);
    }

    /// Counts what a projection saved: elements that would have been sent, and what it lost in a step that keeps its
    /// spans.
    pub(crate) fn count_projected(&mut self, raw: usize, lost: Option<(f64, f64)>) {
        let coding = &mut self.lane.coding;
        coding.raw_bytes += 4 * raw as u64;
        let (squared, error) = lost.unwrap_or_default();
        coding.squared += squared;
        coding.squared_error += error;
    }

    /// The lane that it runs on.
    pub(crate) fn lane(&mut self) -> &mut Lane {
        self.lane
    }

    /// Who takes part.
    pub fn group(&self) -> &'a Group {
        self.group
    }

    /// Encodes and sends a vector; `at` is the position of its first element in the vector it is part of.
    pub fn send(&mut self, to: Place, tag: Tag, at: usize, x: &[f32]) -> Result<(), StepError> {
        let packet = self.encode(self.slot(to, tag, at), x);
        self.send_packet(to, tag, packet)
    }

    /// Where a vector for `to` is encoded. Roundings of one step may share a slot if all go into the same sum.
    pub fn slot(&self, to: Place, tag: Tag, at: usize) -> Slot {
        Slot { kind: tag.kind, at: self.base + at, step: tag.step, peer: self.group.rank(to) }
    }

    /// What the codec promises.
    pub fn guarantee(&mut self) -> Guarantee {
        self.lane.codecs.of(self.content).guarantee()
    }

    /// Replaces what was encoded by what the others will decode; nothing to do where these are the same bits.
    pub fn adopt(&mut self, packet: &Packet, x: &mut [f32]) -> Result<(), StepError> {
        if self.guarantee() == Guarantee::Exact { Ok(()) } else { self.decode(packet, x) }
    }

    /// Receives and decodes a vector.
    pub fn recv_into(&mut self, from: Place, tag: Tag, into: &mut [f32]) -> Result<(), StepError> {
        let packet = self.recv_packet(from, tag)?;
        self.decode(&packet, into)
    }

    /// Receives a vector and adds it.
    pub fn recv_add(&mut self, from: Place, tag: Tag, into: &mut [f32]) -> Result<(), StepError> {
        let packet = self.recv_packet(from, tag)?;
        self.decode_add(&packet, into)
    }

    /// Receives from whoever is first; `None` in place of a place if the sender is not of the group.
    pub fn recv_any(&mut self, kind: Kind) -> Result<(Option<Place>, Tag, Packet), StepError> {
        let before = self.lane.clock.wait_for_anyone();
        let envelope = self.lane.transport.recv_any(kind)?;
        let (from, tag) = (self.group.place_of(envelope.from), envelope.tag);
        Ok((from, tag, self.opened(before, envelope)))
    }

    /// Encodes a vector.
    pub fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let Lane { codecs, clock, due, .. } = &mut *self.lane;
        let codec = codecs.of(self.content);
        let looks = clock.keeps_spans() && codec.guarantee() != Guarantee::Exact;
        if looks {
            // Whoever looks takes time, which no phase but `other` may count.
            let before = clock.switch(Phase::Other);
            codec.due(slot, x, due);
            clock.switch(before);
        }
        let packet = clock.timed(Phase::Encode, Work::Encode(x.len()), || codec.encode(slot, x));
        if looks {
            self.look_at(&packet);
        }
        packet
    }

    /// Adds up what a packet has lost of what was due.
    fn look_at(&mut self, packet: &Packet) {
        let Lane { codecs, clock, coding, due, decoded, .. } = &mut *self.lane;
        let before = clock.switch(Phase::Other);
        decoded.resize(due.len(), 0.0);
        if codecs.of(self.content).decode(packet, decoded).is_ok() {
            let (squared, error) = compress::distance(due, decoded);
            coding.squared += squared;
            coding.squared_error += error;
        }
        clock.switch(before);
    }

    /// Decodes a packet.
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

    /// Adds a vector that is already here.
    pub fn reduce(&mut self, into: &mut [f32], x: &[f32]) {
        self.lane.clock.timed(Phase::Reduce, Work::Reduce(x.len()), || crate::vector::add(into, x));
    }

    /// Sends a packet as it is: what a rank relays is what its owner encoded, bit for bit.
    pub fn send_packet(&mut self, to: Place, tag: Tag, packet: Packet) -> Result<(), StepError> {
        let elements = self.lane.codecs.of(self.content).elements(&packet);
        self.send_counted(to, tag, packet, elements)
    }

    /// The same for what is no packet of the codec, but holds so many elements.
    pub(crate) fn send_counted(
        &mut self,
        to: Place,
        tag: Tag,
        packet: Packet,
        elements: usize,
    ) -> Result<(), StepError> {
        let (peer, bytes) = (self.group.rank(to), packet.0.len() as u64);
        let raw_bytes = match self.content {
            // What a projection has left is no gradient; how long that was is counted by itself. How far a gradient
            // reaches would not travel without its code.
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
    pub(crate) fn has_room(&self, to: Place, packet: &Packet) -> bool {
        self.lane.transport.has_room(self.group.rank(to), packet.0.len())
    }

    /// Receives a packet as it is.
    pub fn recv_packet(&mut self, from: Place, tag: Tag) -> Result<Packet, StepError> {
        let peer = self.group.rank(from);
        let before = self.lane.clock.switch(Phase::WaitPeer);
        let envelope = self.lane.transport.recv(peer, tag)?;
        Ok(self.opened(before, envelope))
    }

    /// Receives a packet that its sender sends of its own accord: until it begins to come, no communication is open.
    pub fn recv_unasked(&mut self, from: Place, tag: Tag) -> Result<Packet, StepError> {
        let peer = self.group.rank(from);
        let before = self.lane.clock.wait_for_anyone();
        let envelope = self.lane.transport.recv(peer, tag)?;
        Ok(self.opened(before, envelope))
    }

    /// Parts the wait that just ended into waiting and transfer.
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
