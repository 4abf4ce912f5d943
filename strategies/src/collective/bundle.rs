//! Several packets as one: what travels on together without being decoded.
//!
//! Eight bytes of length for each packet, little endian, then the packets.

use crate::{Packet, StepError};
use bytes::{BufMut, BytesMut};

const LENGTH: usize = 8;

/// One packet of many.
pub(super) fn bundle(packets: &[Packet]) -> Packet {
    let size: usize = packets.iter().map(|packet| LENGTH + packet.0.len()).sum();
    let mut bytes = BytesMut::with_capacity(size);
    for packet in packets {
        bytes.put_u64_le(packet.0.len() as u64);
    }
    for packet in packets {
        bytes.put_slice(&packet.0);
    }
    Packet(bytes.freeze())
}

/// The `count` packets of a bundle, which must hold exactly `count`; `elements` is the sum of their decoded lengths, for
/// the error.
pub(super) fn unbundle(bundle: &Packet, count: usize, elements: usize) -> Result<Vec<Packet>, StepError> {
    let malformed = || StepError::Packet { bytes: bundle.0.len(), elements };
    let mut at = count * LENGTH;
    let lengths = bundle.0.get(..at).ok_or_else(malformed)?.chunks_exact(LENGTH);
    let mut packets = Vec::with_capacity(count);
    for length in lengths {
        let length = length.try_into().map(u64::from_le_bytes).map_err(|_| malformed())?;
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let end = end.filter(|end| *end <= bundle.0.len()).ok_or_else(malformed)?;
        packets.push(Packet(bundle.0.slice(at..end)));
        at = end;
    }
    if at == bundle.0.len() { Ok(packets) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(lengths: &[usize]) -> Vec<Packet> {
        let one = |(k, length): (usize, &usize)| Packet(vec![k as u8; *length].into());
        lengths.iter().enumerate().map(one).collect()
    }

    #[test]
    fn what_goes_in_comes_out() {
        for lengths in [&[][..], &[0], &[3], &[0, 5, 0, 1], &[7; 8]] {
            let packets = packets(lengths);
            assert_eq!(unbundle(&bundle(&packets), lengths.len(), 0).unwrap(), packets);
        }
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let whole = bundle(&packets(&[3, 4]));
        let refused = |bytes: &[u8], count| {
            let error = unbundle(&Packet(bytes.to_vec().into()), count, 9);
            assert_eq!(error, Err(StepError::Packet { bytes: bytes.len(), elements: 9 }));
        };
        for end in 0..whole.0.len() {
            refused(&whole.0[..end], 2);
        }
        refused(&[&whole.0[..], &[0]].concat(), 2);
        refused(&whole.0, 1);
        refused(&whole.0, 3);
        refused(&[0xff; 16], 2);
    }
}
