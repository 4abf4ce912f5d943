//! Error feedback: the error of a codec is remembered where it arose, and added to the vector encoded there
//! next. Guarantee: the codec's, for one packet; over many, the sum of the sent vectors lags behind the sum of
//! the due ones by the memory, up to the rounding of x + e. Not linear, as the codec. Bytes: the codec's.
//!
//! With e the memory, x the vector: y = x + e is encoded, and e becomes y - decoded: exactly where a codec is not so
//! far off that this subtraction would round (those of 8 and 16 bits, and top-k), else rounded to a float. Inside an
//! all-reduce each place remembers what it rounded itself, its own vector or a sum on its way: a memory of the local
//! gradient could not repair a rounded sum. All of it is missing from the same sum, and goes into it with whatever the
//! place encodes of that element next.
//!
//! The memory lies by the position in the flat vector, so that it survives when layers travel in other groups. Where
//! the difference is no number, because an infinity or NaN came, nothing is remembered.
//!
//! Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
//! training of speech DNNs", Interspeech 2014, section 2.1; Karimireddy et al., "Error feedback fixes SignSGD and
//! other gradient compression schemes", ICML 2019, Algorithm 2.

use super::{Compressor, Guarantee, Slot};
use crate::{Kind, Packet, StateError, StateVisitor, StepError};
use record::Rank;
use std::collections::BTreeMap;

/// More purposes and receivers than this no lane has.
const MOST_MEMORIES: usize = 1 << 20;

/// Adds to each vector what was lost of the one before.
#[derive(Debug, Default)]
pub struct ErrorFeedback<C> {
    codec: C,
    /// For each purpose and receiver, what was rounded away, position by position.
    memories: BTreeMap<(Kind, Rank), Vec<f32>>,
    decoded: Vec<f32>,
}

impl<C: Compressor> ErrorFeedback<C> {
    /// A codec with an empty memory.
    pub fn new(codec: C) -> Self {
        Self { codec, memories: BTreeMap::new(), decoded: Vec::new() }
    }

    /// The error remembered for the next vectors of a purpose to a receiver, by position; positions beyond its end
    /// have lost nothing so far.
    pub fn memory(&self, kind: Kind, peer: Rank) -> &[f32] {
        self.memories.get(&(kind, peer)).map_or(&[], Vec::as_slice)
    }
}

impl<C: Compressor> Compressor for ErrorFeedback<C> {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let end = slot.at + x.len();
        let memory = self.memories.entry((slot.kind, slot.peer)).or_default();
        if memory.len() < end {
            memory.resize(end, 0.0);
        }
        let memory = &mut memory[slot.at..end];
        memory.iter_mut().zip(x).for_each(|(lost, value)| *lost += value);
        let packet = self.codec.encode(slot, memory);
        if self.decoded.len() < x.len() {
            self.decoded.resize(x.len(), 0.0);
        }
        let decoded = &mut self.decoded[..x.len()];
        match self.codec.decode(&packet, decoded) {
            Ok(()) => memory.iter_mut().zip(decoded).for_each(|(due, sent)| {
                let lost = *due - *sent;
                *due = if lost.is_finite() { lost } else { 0.0 };
            }),
            // A codec reads what it wrote; if one did not, nothing could be said about what it lost.
            Err(_) => memory.fill(0.0),
        }
        packet
    }

    fn due(&self, slot: Slot, x: &[f32], due: &mut Vec<f32>) {
        due.clear();
        due.extend_from_slice(x);
        let memory = self.memory(slot.kind, slot.peer).get(slot.at..).unwrap_or_default();
        due.iter_mut().zip(memory).for_each(|(value, lost)| *value += lost);
    }

    fn reach(&self, slot: Slot, x: &[f32]) -> f32 {
        let of_purpose = self.memories.iter().filter(|((kind, _), _)| *kind == slot.kind);
        let remembered = of_purpose.map(|(_, memory)| {
            let end = memory.len().min(slot.at + x.len());
            self.codec.reach(slot, memory.get(slot.at..end).unwrap_or_default())
        });
        self.codec.reach(slot, x) + remembered.sum::<f32>()
    }

    fn agree(&mut self, reach: f32, places: usize) {
        self.codec.agree(reach, places);
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.codec.decode(packet, into)
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.codec.decode_add(packet, into)
    }

    fn elements(&self, packet: &Packet) -> usize {
        self.codec.elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        self.codec.guarantee()
    }

    fn linear(&self) -> bool {
        self.codec.linear()
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        let saved = std::mem::take(&mut self.memories);
        let count = state.count("memories", saved.len(), MOST_MEMORIES)?;
        let mut saved = saved.into_iter();
        for number in 0..count {
            let ((kind, peer), mut memory) = saved.next().unwrap_or(((Kind::Reduce, Rank(0)), Vec::new()));
            let visited = state.within(&number.to_string(), |state| {
                let kind = state.count("kind", kind as usize, Kind::ALL.len() - 1)?;
                let peer = state.count("peer", peer.index(), u32::MAX as usize)?;
                state.list("lost", &mut memory)?;
                Ok((Kind::ALL[kind], Rank(peer as u32)))
            });
            self.memories.insert(visited?, memory);
        }
        self.codec.state(state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, SLOT, through};
    use super::*;
    use crate::compress::{Bf16, Fp16, Quantize8, Sign, TopK, Truncate16};
    use proptest::prelude::*;

    /// The sent vectors and the memory add up to the due vectors: without rounding, so in 64 bits.
    fn check<C: Compressor>(codec: C, steps: &[Vec<f32>]) {
        let mut codec = ErrorFeedback::new(codec);
        let mut memory = vec![0.0_f32; steps[0].len()];
        for x in steps {
            let due: Vec<f32> = x.iter().zip(&memory).map(|(value, lost)| value + lost).collect();
            let sent = through(&mut codec, SLOT, x);
            memory.copy_from_slice(codec.memory(SLOT.kind, SLOT.peer));
            for i in 0..x.len() {
                let together = f64::from(sent[i]) + f64::from(memory[i]);
                assert!(
                    together.to_bits() == f64::from(due[i]).to_bits() || due[i] == 0.0 && together == 0.0
                );
            }
        }
    }

    /// The same up to the rounding of the difference.
    fn check_rounded<C: Compressor>(codec: C, steps: &[Vec<f32>]) {
        let mut codec = ErrorFeedback::new(codec);
        let mut memory = vec![0.0_f32; steps[0].len()];
        for x in steps {
            let due: Vec<f32> = x.iter().zip(&memory).map(|(value, lost)| value + lost).collect();
            let sent = through(&mut codec, SLOT, x);
            memory.copy_from_slice(codec.memory(SLOT.kind, SLOT.peer));
            for i in 0..x.len() {
                let lost = f64::from(due[i]) - f64::from(sent[i]);
                assert!((f64::from(memory[i]) - lost).abs() <= lost.abs() * 2.0_f64.powi(-24) + 1e-45);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_and_remembered_is_what_is_due(
            steps in (1..40_usize).prop_flat_map(|n| {
                prop::collection::vec(prop::collection::vec(-1.0e3_f32..1.0e3, n), 1..6)
            }),
            power in -20..0_i32,
        ) {
            let scaled = |x: &Vec<f32>| x.iter().enumerate().map(|(i, value)| {
                // Small ones beside large ones.
                value * 2.0_f32.powi(if i % 2 == 0 { power } else { 0 })
            }).collect();
            let steps: Vec<Vec<f32>> = steps.iter().map(scaled).collect();
            check(Truncate16::default(), &steps);
            check(Quantize8, &steps);
            check(Fp16::default(), &steps);
            check(Bf16::default(), &steps);
            check(TopK::new(0.3), &steps);
            check_rounded(Sign, &steps);
        }
    }

    /// The sum of the sent vectors lags behind by the memory, which is never more than a codec can lose.
    #[test]
    fn a_constant_gradient_is_sent_but_for_one_remainder() {
        for g in [vec![257.0_f32, -1023.0, 3.0, 0.0], vec![1000.0, 1.0, 0.5, -3.0]] {
            let mut truncated = ErrorFeedback::new(Truncate16::default());
            let mut quantized = ErrorFeedback::new(Quantize8);
            let mut by_truncation = [0.0_f64; 4];
            let mut by_quantization = [0.0_f64; 4];
            for t in 1..=200 {
                let add = |sum: &mut [f64; 4], sent: Vec<f32>| {
                    sum.iter_mut().zip(sent).for_each(|(sum, sent)| *sum += f64::from(sent));
                };
                add(&mut by_truncation, through(&mut truncated, SLOT, &g));
                add(&mut by_quantization, through(&mut quantized, SLOT, &g));
                for i in 0..4 {
                    let due = f64::from(t) * f64::from(g[i]);
                    // Integers and halves: no addition rounds.
                    let lost = f64::from(truncated.memory(SLOT.kind, SLOT.peer)[i]);
                    assert!((by_truncation[i] + lost - due).abs() < f64::EPSILON);
                    // |e| <= (G + |e|) / 254, so that |e| <= G / 253.
                    let bound = 1.001 * f64::from(g[0].abs().max(g[1].abs())) / 253.0;
                    assert!((by_quantization[i] - due).abs() <= bound, "{} of {due}", by_quantization[i]);
                }
            }
        }
    }

    #[test]
    fn without_memory_small_elements_are_lost_and_with_it_they_are_not() {
        let x = [254.0, 0.75];
        let mut plain = 0.0;
        let mut remembering = 0.0;
        let mut codec = ErrorFeedback::new(Quantize8);
        for _ in 0..8 {
            plain += through(&mut Quantize8, SLOT, &x)[1];
            remembering += through(&mut codec, SLOT, &x)[1];
        }
        assert_eq!((plain, remembering), (0.0, 6.0));
    }

    #[test]
    fn another_grouping_finds_what_was_lost() {
        let x = [257.0, 259.0, 261.0, 263.0];
        let mut codec = ErrorFeedback::new(Truncate16::default());
        through(&mut codec, SLOT, &x);
        assert_eq!(codec.memory(SLOT.kind, SLOT.peer), [1.0, 1.0, 1.0, 1.0]);
        let later = Slot { at: 1, ..SLOT };
        assert_eq!(through(&mut codec, later, &[1.0, 1.0]), [2.0, 2.0]);
        assert_eq!(codec.memory(SLOT.kind, SLOT.peer), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(through(&mut codec, Slot { at: 3, ..SLOT }, &[1.0, 1.0]), [2.0, 1.0]);
    }

    #[test]
    fn purposes_and_receivers_have_memories_of_their_own() {
        let mut codec = ErrorFeedback::new(Truncate16::default());
        through(&mut codec, SLOT, &[257.0]);
        assert_eq!(through(&mut codec, Slot { peer: Rank(2), ..SLOT }, &[0.0]), [0.0]);
        assert_eq!(through(&mut codec, Slot { kind: Kind::Push, ..SLOT }, &[0.0]), [0.0]);
        assert_eq!(through(&mut codec, SLOT, &[0.0]), [1.0]);
        assert_eq!(codec.memory(Kind::Pull, Rank(9)), [] as [f32; 0]);
    }

    #[test]
    fn what_is_no_number_is_sent_and_not_remembered() {
        let mut codec = ErrorFeedback::new(Quantize8);
        assert!(through(&mut codec, SLOT, &[257.3, f32::INFINITY])[0].is_nan());
        assert_eq!(codec.memory(SLOT.kind, SLOT.peer), [0.0, 0.0]);
        let mut codec = ErrorFeedback::new(Fp16::default());
        assert_eq!(through(&mut codec, SLOT, &[1.0e6]), [f32::INFINITY]);
        assert_eq!(codec.memory(SLOT.kind, SLOT.peer), [0.0]);
        samples::assert_same_bits(&through(&mut codec, SLOT, &[1.0]), &[1.0]);
    }
}
