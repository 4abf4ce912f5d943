//! Memory for messages that come in pieces. It is used again, because the page faults of fresh memory cost
//! more than copying into it.

use bytes::Bytes;
use std::collections::TryReserveError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most memory that is kept for later.
const KEPT: usize = 256 << 20;

/// The most memory that is made ready before anything has come: a header that promises more is believed as it
/// comes true.
pub(super) const READY: usize = 64 << 20;

/// Memory that is not in use right now, smallest first.
#[derive(Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// Memory in use; goes back when it is dropped.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// Empty memory for `size` bytes, with room for those that come first.
    pub(super) fn take(&self, size: usize) -> Result<Buffer, TryReserveError> {
        let found = {
            let mut kept = self.lock();
            // Not one that is much larger: it would be missing where it is needed.
            let fitting =
                kept.iter().position(|buffer| (size..=size.saturating_mul(2)).contains(&buffer.capacity()));
            fitting.map(|at| kept.remove(at))
        };
        let mut bytes = found.unwrap_or_default();
        bytes.clear();
        bytes.try_reserve_exact(size.min(READY))?;
        Ok(Buffer { bytes, home: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a piece; what is allocated is at most twice what has come, or [`READY`].
    pub(super) fn append(&mut self, piece: &[u8]) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// The memory comes back when the last clone of the packet is dropped.
    pub(super) fn freeze(self) -> Bytes {
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
    fn what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        let taken: Vec<_> = (0..5).map(|_| buffers.take(KEPT / 4).unwrap()).collect();
        drop(taken);
        assert_eq!(buffers.lock().len(), 4);
    }

    #[test]
    fn what_is_only_promised_is_not_allocated() {
        let buffers = Buffers::default();
        assert_eq!(buffers.take(1000).unwrap().bytes.capacity(), 1000);
        assert_eq!(buffers.take(usize::MAX).unwrap().bytes.capacity(), READY);
    }
}
