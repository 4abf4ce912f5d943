//! No compression: 32-bit floats, little endian. Guarantee: exact. Linear. Bytes: 4 per element.

use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError, arithmetic};

/// Sends vectors as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Compressor for Identity {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        let buffers = Buffers::of_process();
        if cfg!(target_endian = "little") {
            return Packet(buffers.copy(bytemuck::cast_slice(x)));
        }
        let swapped: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
        Packet(buffers.copy(&swapped))
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        check(packet, into.len())?;
        if cfg!(target_endian = "little") {
            bytemuck::cast_slice_mut(into).copy_from_slice(&packet.0);
            return Ok(());
        }
        for (value, four) in into.iter_mut().zip(packet.0.chunks_exact(4)) {
            *value = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        check(packet, into.len())?;
        arithmetic::add_bytes(into, &packet.0);
        Ok(())
    }

    fn encode_sum(&self, packet: &Packet, x: &[f32]) -> Option<Result<Packet, StepError>> {
        let fill = |sum: &mut [u8]| arithmetic::sum_bytes(sum, x, &packet.0);
        let sum = || Buffers::of_process().packet(packet.0.len(), fill);
        Some(check(packet, x.len()).map(|()| sum()))
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Exact
    }

    fn linear(&self) -> bool {
        true
    }
}

fn check(packet: &Packet, elements: usize) -> Result<(), StepError> {
    if packet.0.len() == elements * 4 {
        Ok(())
    } else {
        Err(StepError::Packet { bytes: packet.0.len(), elements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;
    use record::Rank;

    const SLOT: Slot = Slot { kind: Kind::Reduce, at: 0, step: 1, peer: Rank(1) };

    proptest! {
        #[test]
        fn every_bit_pattern_survives(bits in prop::collection::vec(any::<u32>(), 0..70)) {
            let x: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
            let packet = Identity.encode(SLOT, &x);
            let mut back = vec![0.0; x.len()];
            Identity.decode(&packet, &mut back).unwrap();
            prop_assert!(x.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
            let mut one_more = vec![0.0; x.len() + 1];
            prop_assert_eq!(
                Identity.decode(&packet, &mut one_more),
                Err(StepError::Packet { bytes: x.len() * 4, elements: x.len() + 1 })
            );
        }
    }

    #[test]
    fn adding_is_decoding_and_adding() {
        let packet = Identity.encode(SLOT, &[1.0, f32::MIN_POSITIVE, -0.0]);
        let mut sum = [0.5, 1.0, -0.0];
        Identity.decode_add(&packet, &mut sum).unwrap();
        assert_eq!(sum.map(f32::to_bits), [1.5, 1.0, -0.0_f32].map(f32::to_bits));
    }

    #[test]
    fn a_sum_that_passes_through_is_that_of_adding_and_encoding() {
        let packet = Identity.encode(SLOT, &[1.0, f32::MIN_POSITIVE, -0.0]);
        let mut x = [0.5, 1.0, -0.0];
        let passing = Identity.encode_sum(&packet, &x).unwrap().unwrap();
        Identity.decode_add(&packet, &mut x).unwrap();
        assert_eq!(passing, Identity.encode(SLOT, &x));
        let refused = Identity.encode_sum(&packet, &x[1..]);
        assert_eq!(refused, Some(Err(StepError::Packet { bytes: 12, elements: 2 })));
    }
}
