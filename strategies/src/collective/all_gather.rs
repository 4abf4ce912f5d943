//! All-gather: everyone's vector to everyone, and each place adds all of them in rank order. With p = 3:
//!
//! ```text
//!            place 0        place 1        place 2
//!   gather   x0 -> 1, 2     x1 -> 2, 0     x2 -> 0, 1
//!   add      x0 + x1 + x2   x0 + x1 + x2   x0 + x1 + x2
//! ```
//!
//! A codec encodes each vector once, and no sum: the only error is that of a rank's own vector. Codecs that
//! would lose too much of a sum on its way travel like this.
//!
//! Index formula: place k sends to place k + 1, k + 2, ... (mod p), its right neighbour first.
//!
//! Cost per place: p - 1 messages of n elements.
//!
//! Time: alpha + (p - 1) n beta; exact where sums cost nothing. Sums that cost add between n gamma (the last one) and
//! p n gamma (all, where the first vector comes last).
//!
//! Order of sums: from zero, place 0 first: the same bits as [`RankOrder`](super::RankOrder) where nothing is coded.
//!
//! Source: Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017,
//! Algorithm 1: each processor broadcasts its gradient.

use super::{CollectiveAlgorithm, Cost, Rates};
use crate::compress::Guarantee;
use crate::{StepError, Tag, Wire};

/// Everything from everyone to everyone.
#[derive(Clone, Copy, Debug)]
pub struct AllGather;

impl CollectiveAlgorithm for AllGather {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        if group.size() == 1 {
            return Ok(());
        }
        let packet = wire.encode(wire.slot(group.after(1), tag, 0), x);
        for to in (1..group.size()).map(|steps| group.after(steps)) {
            wire.send_packet(to, tag, packet.clone())?;
        }
        let mut sum = vec![0.0; x.len()];
        for from in group.members() {
            if from != group.me() {
                wire.recv_add(from, tag, &mut sum)?;
            } else if wire.guarantee() == Guarantee::Exact {
                wire.reduce(&mut sum, x);
            } else {
                wire.decode_add(&packet, &mut sum)?;
            }
        }
        x.copy_from_slice(&sum);
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, _: usize) -> Cost {
        Cost { messages: places - 1, elements: (places - 1) * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        if places == 1 {
            return 0.0;
        }
        rates.message((places - 1) * elements) + rates.sum(elements)
    }
}
