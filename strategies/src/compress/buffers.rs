//! The memory of packets, used again and again: a step allocates nothing of the gradient's size.

use crate::Packet;
use bytes::{Bytes, BytesMut};

/// Sizes are rounded up to a multiple of this, so that chunks that differ by an element fit the same memory.
const GRAIN: usize = 4096;

/// What a codec has lent out. Memory comes back when the last packet that looks at it is gone, so that there is
/// as much of it as was ever on its way at the same time.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    lent: Vec<Bytes>,
}

impl Buffers {
    /// A packet of `len` bytes that `fill` writes. What it finds there has no meaning.
    pub(super) fn packet(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Packet {
        if len == 0 {
            return Packet::default();
        }
        let mut room = self.room(len);
        room.resize(len, 0);
        fill(&mut room);
        let full = room.freeze();
        self.lent.push(full.clone());
        Packet(full)
    }

    /// The longest memory that nobody looks at any more.
    fn room(&mut self, len: usize) -> BytesMut {
        let back = (0..self.lent.len()).filter(|index| self.lent[*index].is_unique());
        let longest = back.max_by_key(|index| self.lent[*index].len());
        longest
            .and_then(|index| self.lent.swap_remove(index).try_into_mut().ok())
            .unwrap_or_else(|| BytesMut::with_capacity(len.next_multiple_of(GRAIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_packet_is_gone_and_not_before() {
        let mut buffers = Buffers::default();
        let first = buffers.packet(1000, |bytes| bytes.fill(1));
        let place = first.0.as_ptr();
        let relayed = first.clone();
        drop(first);
        let second = buffers.packet(1000, |bytes| bytes.fill(2));
        assert_ne!(second.0.as_ptr(), place);
        assert!(relayed.0.iter().all(|byte| *byte == 1), "a packet was overwritten on its way");
        drop(relayed);
        let third = buffers.packet(1004, |bytes| bytes.fill(3));
        assert_eq!((third.0.as_ptr(), third.0.len()), (place, 1004));
        assert!(second.0.iter().all(|byte| *byte == 2));
        assert_eq!(buffers.lent.len(), 2);
    }

    #[test]
    fn a_part_of_a_packet_holds_its_memory() {
        let mut buffers = Buffers::default();
        let tail = buffers.packet(8, |bytes| bytes.fill(7)).0.slice(6..);
        let other = buffers.packet(8, |bytes| bytes.fill(0));
        assert_eq!((&tail[..], &other.0[..]), (&[7, 7][..], &[0; 8][..]));
    }
}
