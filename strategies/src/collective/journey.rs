//! A vector on its way around a ring, segment by segment: what [`Ring`](super::Ring) and
//! [`PipelinedRing`](super::PipelinedRing) share.
//!
//! Each of the p chunks is cut into s segments; each segment travels through all 2 (p - 1) rounds by itself, and up to
//! `lead` segments of a chunk are on their way at once: those rounds are over before the next `lead` segments begin
//! theirs. So every place sends, and receives, 2 (p - 1) s messages in the same order. Before it waits for message m:
//!
//! ```text
//!   message m of its own leaves                           (and waits for room, if it must)
//!   then every message that is complete leaves, in order, as long as the receiver has room
//! ```
//!
//! Where nothing is coded, a partial sum is written straight into the packet that passes it on: `x` keeps the place's own share until
//! the complete sum arrives.
//!
//! The second line hides latencies and sums behind transfers; the first one keeps places from waiting for each other,
//! however little room there is. A place that waits for room for message m has received m messages, and waits until
//! its right neighbour takes an earlier one: that neighbour has received fewer than m, and the next one for it is on its
//! way already, so that it waits, if it waits, for room for a message before m. Round the ring, the numbers of these
//! messages fall: they cannot come back to m.

use super::Rates;
use crate::vector::piece;
use crate::{GroupRank, Packet, StepError, Tag, Wire};
use std::collections::VecDeque;
use std::ops::Range;

/// One vector on its way around the ring. Rounds count through: the all-gather begins with round p - 1.
pub(super) struct Journey<'a, 'b> {
    x: &'a mut [f32],
    tag: Tag,
    wire: &'a mut Wire<'b>,
    segments: usize,
    lead: usize,
    /// The messages that are to leave, in order.
    leaving: VecDeque<Leaving>,
    /// Messages that have left.
    sent: usize,
}

/// A segment that is complete for a round.
struct Leaving {
    segment: usize,
    round: usize,
    content: Content,
}

/// Source of a message's packet.
enum Content {
    /// The segment of `x`, to be encoded.
    Vector,
    /// A partial sum that only passes through here, encoded as it was made.
    Sum(Packet),
    /// The packet received in the round before, to be relayed, or one that was encoded already.
    Packet(Packet),
}

impl<'a, 'b> Journey<'a, 'b> {
    /// `x` with each chunk in `segments` segments, up to `lead` of which are on their way at once; one or more of both.
    pub(super) fn new(
        x: &'a mut [f32],
        tag: Tag,
        wire: &'a mut Wire<'b>,
        segments: usize,
        lead: usize,
    ) -> Self {
        let ready = |segment| Leaving { segment, round: 0, content: Content::Vector };
        let leaving = (0..segments.min(lead)).map(ready).collect();
        Self { x, tag, wire, segments, lead, leaving, sent: 0 }
    }

    /// Replaces `x` by the sum over all places.
    pub(super) fn travel(mut self) -> Result<(), StepError> {
        let mut received = 0;
        for first in (0..self.segments).step_by(self.lead) {
            for round in 0..self.rounds() {
                for segment in first..self.segments.min(first + self.lead) {
                    if self.sent == received {
                        self.depart()?;
                    }
                    self.depart_where_there_is_room()?;
                    self.arrive(segment, round)?;
                    received += 1;
                }
            }
        }
        Ok(())
    }

    fn places(&self) -> usize {
        self.wire.group().size()
    }

    fn rounds(&self) -> usize {
        2 * (self.places() - 1)
    }

    /// The neighbour to whom everything goes.
    fn right(&self) -> GroupRank {
        self.wire.group().after(1)
    }

    /// A segment of chunk k - `back` (mod p).
    fn span(&self, segment: usize, back: usize) -> Range<usize> {
        let p = self.places();
        let chunk = piece(self.x.len(), p, (self.wire.group().me().0 + 2 * p - back) % p);
        let within = piece(chunk.len(), self.segments, segment);
        chunk.start + within.start..chunk.start + within.end
    }

    fn tag(&self, segment: usize, round: usize) -> Tag {
        self.tag.part(segment * self.rounds() + round)
    }

    /// The packet that leaves next; `None` where all complete segments have left.
    fn next(&mut self) -> Result<Option<Packet>, StepError> {
        let Some(Leaving { segment, round, content }) = self.leaving.front() else { return Ok(None) };
        let mine = self.span(*segment, *round);
        let packet = match content {
            Content::Packet(packet) => return Ok(Some(packet.clone())),
            Content::Sum(packet) => {
                let packet = packet.clone();
                self.wire.count_encoded_sum(mine.len());
                packet
            }
            Content::Vector => self.encode(*segment, *round, mine)?,
        };
        if let Some(next) = self.leaving.front_mut() {
            next.content = Content::Packet(packet.clone());
        }
        Ok(Some(packet))
    }

    fn encode(&mut self, segment: usize, round: usize, mine: Range<usize>) -> Result<Packet, StepError> {
        let slot = self.wire.slot(self.right(), self.tag(segment, round), mine.start);
        let packet = self.wire.encode(slot, &self.x[mine.clone()]);
        if round + 1 == self.places() {
            // The owner adopts what the others will decode, or the ranks would drift apart under a lossy codec.
            self.wire.adopt(&packet, &mut self.x[mine])?;
        }
        Ok(packet)
    }

    /// The next message leaves, as soon as there is room for it.
    fn depart(&mut self) -> Result<(), StepError> {
        let packet = self.next()?;
        if let (Some(packet), Some(Leaving { segment, round, .. })) = (packet, self.leaving.pop_front()) {
            self.wire.send_packet(self.right(), self.tag(segment, round), packet)?;
            self.sent += 1;
        }
        Ok(())
    }

    fn depart_where_there_is_room(&mut self) -> Result<(), StepError> {
        while let Some(packet) = self.next()? {
            if !self.wire.has_room(self.right(), &packet) {
                break;
            }
            self.depart()?;
        }
        Ok(())
    }

    /// Receives a segment of a round: adds it to a sum that travels on or is complete here, or relays it and takes it over.
    fn arrive(&mut self, segment: usize, round: usize) -> Result<(), StepError> {
        let left = self.wire.group().after(self.places() - 1);
        let tag = self.tag(segment, round);
        let arriving = self.span(segment, round + 1);
        if round + 2 < self.places() {
            let packet = self.wire.recv_packet(left, tag)?;
            let sum = self.wire.pass_sum(&packet, &mut self.x[arriving])?;
            self.complete(segment, round, sum.map_or(Content::Vector, Content::Sum));
            return Ok(());
        }
        if round + 1 < self.places() {
            self.wire.recv_add(left, tag, &mut self.x[arriving])?;
            self.complete(segment, round, Content::Vector);
            return Ok(());
        }
        let packet = self.wire.recv_packet(left, tag)?;
        self.complete(segment, round, Content::Packet(packet.clone()));
        self.depart_where_there_is_room()?;
        self.wire.decode(&packet, &mut self.x[arriving])
    }

    /// A segment is complete for the round that follows; after the last one, another begins its first.
    fn complete(&mut self, segment: usize, round: usize, content: Content) {
        if round + 1 < self.rounds() {
            self.leaving.push_back(Leaving { segment, round: round + 1, content });
        } else if segment + self.lead < self.segments {
            let content = Content::Vector;
            self.leaving.push_back(Leaving { segment: segment + self.lead, round: 0, content });
        }
    }
}

/// The time of a ring with `segments` segments per chunk.
pub(super) fn time(elements: usize, places: usize, segments: usize, rates: Rates) -> f64 {
    if places == 1 {
        return 0.0;
    }
    let chunk = elements.div_ceil(places);
    let segment = chunk.div_ceil(segments);
    let busy = rates.transfer(chunk);
    let scatter = busy.max(rates.message(segment) + rates.sum(segment));
    let gather = busy.max(rates.message(segment));
    (places - 1) as f64 * scatter + (places - 2) as f64 * gather + rates.message(chunk)
}
