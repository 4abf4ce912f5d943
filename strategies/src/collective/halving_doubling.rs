//! Halving and doubling: halves, quarters, ... between partners until each place has the sum of one chunk, and the
//! same way back.
//!
//! The vector is cut into q chunks, q the largest power of two up to p. With p = q = 4, and what each place sends:
//!
//! ```text
//!   place               0           1           2           3
//!   halve   distance 2  c2 c3 -> 2  c2 c3 -> 3  c0 c1 -> 0  c0 c1 -> 1
//!           distance 1  c1 -> 1     c0 -> 0     c3 -> 3     c2 -> 2
//!   complete            c0          c1          c2          c3
//!   double  distance 1  c0 -> 1     c1 -> 0     c2 -> 3     c3 -> 2
//!           distance 2  c0 c1 -> 2  c0 c1 -> 3  c2 c3 -> 0  c2 c3 -> 1
//! ```
//!
//! Index formula: number k meets number k xor d for d = q / 2, ..., 2, 1 and back. While halving, it keeps the half
//! of its chunks that holds chunk k: the lower one where bit d of k is 0. While doubling, it has the d chunks from
//! k - k mod d on, and gets the partner's. Where p is no power of two, some places are guests of others
//! ([`fold`](super::fold)), which takes a whole vector to the host before and one back afterwards.
//!
//! Cost per place: 2 log2 q messages; all chunks but its own while halving and (q - 1) chunks while doubling, which
//! is 2 n (q - 1) / q elements where q divides n; n and a message more to a guest; a guest sends n in one message.
//! Under a codec that is not exact, chunks that travel together are a bundle of the packets of those who completed
//! them, with eight bytes more for each chunk.
//!
//! Time: 2 log2 q alpha + 2 (q - 1) c beta + (q - 1) c gamma for chunks of c elements, and 2 (alpha + n beta) + n gamma
//! for the fold; exact where p is a power of two and divides n. Else a place may get two messages at the same time: at
//! most n beta more.
//!
//! Order of sums: partners at distance q / 2 first, then at q / 4: for chunk 0 of four (0 + 2) + (1 + 3); a guest
//! after its host.
//!
//! Source: Rabenseifner's algorithm, in Thakur, Rabenseifner and Gropp, "Optimization of collective communication
//! operations in MPICH", 2005, whose guests and hosts each add a half; Shi et al., MG-WFBP, table II.

use super::bundle::{bundle, unbundle};
use super::fold::{Fold, FoldRole};
use super::{CollectiveAlgorithm, Cost, Rates, complete};
use crate::compress::Guarantee;
use crate::vector::piece;
use crate::{GroupRank, Packet, StepError, Tag, Wire};
use std::ops::Range;

/// Halves, quarters, ... between partners, and back.
#[derive(Clone, Copy, Debug)]
pub struct HalvingDoubling;

/// The other end of a message, and its tag.
#[derive(Clone, Copy)]
struct Address {
    place: GroupRank,
    tag: Tag,
}

impl CollectiveAlgorithm for HalvingDoubling {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        if group.size() == 1 {
            return Ok(());
        }
        let fold = Fold::of(group.size());
        let q = fold.hosts;
        let last = tag.part(1 + 2 * fold.rounds());
        let mut chunks = Chunks::new(x.len(), q, wire.guarantee());
        let (number, guest) = match fold.role(group.me()) {
            FoldRole::Host { number, guest } => (number, guest),
            FoldRole::Guest(host) => {
                wire.send(host, tag, 0, x)?;
                return chunks.receive(Address { place: host, tag: last }, 0..q, x, wire);
            }
        };
        if let Some(guest) = guest {
            wire.recv_add(guest, tag, x)?;
        }
        let mut mine = 0..q;
        let mut tag = tag;
        while mine.len() > 1 {
            let d = mine.len() / 2;
            let lower = mine.start..mine.start + d;
            let upper = mine.start + d..mine.end;
            let (kept, given) = if number & d == 0 { (lower, upper) } else { (upper, lower) };
            mine = kept;
            tag = tag.part(tag.part as usize + 1);
            let partner = fold.place(number ^ d);
            let given = chunks.span(&given);
            // A place rounds an element once, in whichever half or chunk it lies: it has one memory for all of them.
            let packet = wire.encode(wire.slot(group.me(), tag, given.start), &x[given]);
            wire.send_packet(partner, tag, packet)?;
            wire.recv_add(partner, tag, &mut x[chunks.span(&mine)])?;
        }
        chunks.complete(number, x, tag, wire)?;
        for d in (0..fold.rounds()).map(|round| 1 << round) {
            let partner = fold.place(number ^ d);
            let first = number & !(d - 1);
            tag = tag.part(tag.part as usize + 1);
            chunks.send(Address { place: partner, tag }, first..first + d, x, wire)?;
            chunks.receive(Address { place: partner, tag }, first ^ d..(first ^ d) + d, x, wire)?;
        }
        match guest {
            Some(guest) => chunks.send(Address { place: guest, tag: last }, 0..q, x, wire),
            None => Ok(()),
        }
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let fold = Fold::of(places);
        let (number, guest) = match fold.role(GroupRank(place)) {
            FoldRole::Host { number, guest } => (number, guest),
            FoldRole::Guest(_) => return Cost { messages: 1, elements },
        };
        let own = piece(elements, fold.hosts, number).len();
        let mut messages = fold.rounds();
        let mut sent = elements - own;
        let chunks = Chunks::new(elements, fold.hosts, Guarantee::Exact);
        for d in (0..fold.rounds()).map(|round| 1 << round) {
            let first = number & !(d - 1);
            messages += 1;
            sent += chunks.span(&(first..first + d)).len();
        }
        let guests = usize::from(guest.is_some());
        Cost { messages: messages + guests, elements: sent + guests * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        let fold = Fold::of(places);
        let chunk = elements.div_ceil(fold.hosts);
        let others = (fold.hosts - 1) * chunk;
        2.0 * (fold.rounds() as f64 * rates.latency + rates.transfer(others))
            + rates.sum(others)
            + fold.time(elements, rates)
    }
}

/// The chunks of a vector, and how those that are complete travel on.
struct Chunks {
    elements: usize,
    count: usize,
    /// The packet of each complete chunk; no place encodes a chunk again, or places would
    /// end with different bits. Empty where the codec is exact: then the vector itself is as good.
    packets: Vec<Packet>,
}

impl Chunks {
    fn new(elements: usize, count: usize, guarantee: Guarantee) -> Self {
        let packets = if guarantee == Guarantee::Exact { vec![] } else { vec![Packet::default(); count] };
        Self { elements, count, packets }
    }

    /// The elements of some neighbouring chunks.
    fn span(&self, chunks: &Range<usize>) -> Range<usize> {
        let piece = |k| piece(self.elements, self.count, k);
        piece(chunks.start).start..piece(chunks.end - 1).end
    }

    /// This place has the sum of one chunk.
    fn complete(&mut self, k: usize, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let span = self.span(&(k..k + 1));
        if let Some(packet) = self.packets.get_mut(k) {
            *packet = complete(&mut x[span.clone()], span.start, tag, wire)?;
        }
        Ok(())
    }

    /// Sends complete chunks in one message: a bundle of their packets, or, where nothing is coded, their elements.
    fn send(
        &self,
        to: Address,
        chunks: Range<usize>,
        x: &[f32],
        wire: &mut Wire<'_>,
    ) -> Result<(), StepError> {
        let span = self.span(&chunks);
        match self.packets.get(chunks) {
            Some(packets) => wire.send_counted(to.place, to.tag, bundle(packets), span.len()),
            None => wire.send(to.place, to.tag, span.start, &x[span]),
        }
    }

    /// Receives chunks that are complete at another place, and keeps their packets, if coded, to pass them on.
    fn receive(
        &mut self,
        from: Address,
        chunks: Range<usize>,
        x: &mut [f32],
        wire: &mut Wire<'_>,
    ) -> Result<(), StepError> {
        let span = self.span(&chunks);
        if self.packets.is_empty() {
            return wire.recv_into(from.place, from.tag, &mut x[span]);
        }
        let packets = unbundle(&wire.recv_packet(from.place, from.tag)?, chunks.len(), span.len())?;
        for (k, packet) in chunks.zip(packets) {
            wire.decode(&packet, &mut x[self.span(&(k..k + 1))])?;
            self.packets[k] = packet;
        }
        Ok(())
    }
}
