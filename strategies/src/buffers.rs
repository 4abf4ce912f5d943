//! Memory for packets. It is used again, because the page faults of fresh memory cost more than copying into it.

use crate::Packet;
use bytes::Bytes;
use std::collections::TryReserveError;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The most memory that is kept for later.
const KEPT: usize = 256 << 20;

/// The most memory that is made ready before anything has come: a header that promises more is believed as it
/// comes true.
const READY: usize = 64 << 20;

/// Memory that is not in use right now, smallest first.
#[derive(Clone, Default)]
pub struct Buffers {
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    preferred: Arc<Mutex<Option<Arc<dyn PacketMemory>>>>,
}

/// Memory that packets are written to before any other, such as memory that their receivers read.
pub trait PacketMemory: Send + Sync {
    /// A packet of `size` bytes that `fill` writes, called once; what it finds there has no meaning. `None`, and no call,
    /// where there is no room.
    fn packet(&self, size: usize, fill: &mut dyn FnMut(&mut [u8])) -> Option<Packet>;
}

/// Memory in use; goes back when it is dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// The memory of this process's packets: the lane or the thread that sends a packet lets go of it.
    pub fn of_process() -> &'static Self {
        static BUFFERS: LazyLock<Buffers> = LazyLock::new(Buffers::default);
        &BUFFERS
    }

    /// From now on packets are written to `memory` while it has room.
    pub fn prefer(&self, memory: Arc<dyn PacketMemory>) {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    /// A copy of some bytes.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        if let Ok(packet) = self.written_elsewhere(bytes.len(), |into| into.copy_from_slice(bytes)) {
            return packet.0;
        }
        match self.take(bytes.len()) {
            Ok(mut buffer) => {
                buffer.bytes.extend_from_slice(bytes);
                buffer.freeze()
            }
            // The same lack of memory, told in the usual way.
            Err(_) => Bytes::copy_from_slice(bytes),
        }
    }

    /// A packet of `size` bytes that `fill` writes. What it finds there has no meaning.
    pub fn packet(&self, size: usize, fill: impl FnOnce(&mut [u8])) -> Packet {
        let fill = match self.written_elsewhere(size, fill) {
            Ok(packet) => return packet,
            Err(fill) => fill,
        };
        let mut buffer = self.find(size);
        // Bytes left there of another packet need not be written over by zeros.
        buffer.bytes.resize(size, 0);
        fill(&mut buffer.bytes);
        Packet(buffer.freeze())
    }

    /// A packet in the preferred memory; `fill` comes back where there is none or it has no room.
    fn written_elsewhere<F: FnOnce(&mut [u8])>(&self, size: usize, fill: F) -> Result<Packet, F> {
        let preferred = self.preferred.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut fill = Some(fill);
        let mut once = |bytes: &mut [u8]| fill.take().into_iter().for_each(|fill| fill(bytes));
        let packet = preferred.and_then(|memory| memory.packet(size, &mut once));
        match (packet, fill) {
            (Some(packet), _) => Ok(packet),
            (None, Some(fill)) => Err(fill),
            // Memory that breaks its contract: an empty packet fits no vector, which its receiver reports.
            (None, None) => Ok(Packet::default()),
        }
    }

    /// Empty memory with room for `size` bytes, refused where there is none.
    pub fn take(&self, size: usize) -> Result<Buffer, TryReserveError> {
        self.empty(size, size)
    }

    /// Empty memory for `size` announced bytes, with room for the first of them.
    pub fn begin(&self, size: usize) -> Result<Buffer, TryReserveError> {
        self.empty(size, size.min(READY))
    }

    fn empty(&self, size: usize, ready: usize) -> Result<Buffer, TryReserveError> {
        let mut buffer = self.find(size);
        buffer.bytes.clear();
        buffer.bytes.try_reserve_exact(ready)?;
        Ok(buffer)
    }

    /// Kept memory for `size` bytes with whatever is in it, or none at all.
    fn find(&self, size: usize) -> Buffer {
        let mut kept = self.lock();
        // Not one that is much larger: it would be missing where it is needed.
        let fitting =
            kept.iter().position(|buffer| (size..=size.saturating_mul(2)).contains(&buffer.capacity()));
        let bytes = fitting.map(|at| kept.remove(at)).unwrap_or_default();
        Buffer { bytes, home: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// Number of bytes in it, whatever its capacity.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a piece at the end; the allocation is at most twice the bytes that have come, or the room that was ready.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// The memory comes back when the last clone of the packet is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut kept = self.home.lock();
        let total: usize = kept.iter().map(Vec::capacity).sum();
        if total + bytes.capacity() <= KEPT {
            let at = kept.partition_point(|other| other.capacity() < bytes.capacity());
            kept.insert(at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_its_last_packet_is_dropped() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1000).unwrap();
        buffer.append(&[7; 1000]).unwrap();
        let place = buffer.as_ref().as_ptr();
        let packet = buffer.freeze();
        let clone = packet.clone();
        drop(packet);
        assert_eq!(buffers.lock().len(), 0);
        assert_eq!(&clone[..], [7; 1000]);
        drop(clone);
        let again = buffers.take(900).unwrap();
        assert_eq!((again.as_ref().as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn a_packet_is_written_into_memory_without_readers() {
        let buffers = Buffers::default();
        let first = buffers.packet(1000, |bytes| bytes.fill(1));
        let place = first.0.as_ptr();
        let tail = first.0.slice(990..);
        drop(first);
        let second = buffers.packet(1000, |bytes| bytes.fill(2));
        assert_ne!(second.0.as_ptr(), place);
        assert_eq!(tail[..], [1; 10], "a packet was overwritten on its way");
        drop(tail);
        let third = buffers.packet(996, |bytes| bytes.fill(3));
        assert_eq!((third.0.as_ptr(), &third.0[..]), (place, &[3; 996][..]));
        assert_eq!(second.0[..], [2; 1000]);
        assert_eq!(buffers.packet(0, |_| {}).0.len(), 0);
    }

    #[test]
    fn packets_are_written_to_preferred_memory_while_it_has_room() {
        struct Marked;
        impl PacketMemory for Marked {
            fn packet(&self, size: usize, fill: &mut dyn FnMut(&mut [u8])) -> Option<Packet> {
                let mut bytes = vec![0; size + 1];
                (size < 10).then(|| fill(&mut bytes[1..]))?;
                Some(Packet(bytes.into()))
            }
        }
        let buffers = Buffers::default();
        buffers.prefer(Arc::new(Marked));
        assert_eq!(buffers.packet(9, |bytes| bytes.fill(3)).0[..], [0, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(buffers.packet(10, |bytes| bytes.fill(3)).0[..], [3; 10]);
        assert_eq!(buffers.copy(&[5; 2])[..], [0, 5, 5]);
        assert_eq!(buffers.copy(&[5; 10])[..], [5; 10]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        let taken: Vec<_> = (0..5).map(|_| buffers.take(KEPT / 4).unwrap()).collect();
        drop(taken);
        assert_eq!(buffers.lock().len(), 4);
    }

    #[test]
    fn what_is_only_promised_is_not_allocated() {
        let buffers = Buffers::default();
        assert_eq!(buffers.begin(1000).unwrap().bytes.capacity(), 1000);
        assert_eq!(buffers.begin(usize::MAX).unwrap().bytes.capacity(), READY);
    }
}
