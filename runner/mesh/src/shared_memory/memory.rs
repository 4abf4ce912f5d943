//! An anonymous file in memory, as its owner and its peers have it mapped. The only unsafe code of the transport is here.
//!
//! Three things make it sound. A mapping lives as long as anything that refers into it. What the owner writes to was taken from
//! [`Ranges`], whose parts never overlap, and is free again only when the last reader of this process has dropped it. What
//! a peer reads the owner does not change before the peer has said that it has dropped it. What both use at the same time (marks,
//! lines, bells) are atomic numbers. A peer that breaks this last
//! rule knows the attempt's secret and runs as the same user: it could write this process's memory through `/proc` as well.

use super::bells::Bells;
use super::ranges::Ranges;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first page of each rank's memory: its bells, the only thing of it that its peers may write.
pub(super) const BELLS: usize = 4096;

/// Bytes made ready at a time when more are needed than ever before.
const STEP: usize = 4 << 20;

/// Where the others find a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// Process id of the owner.
    pub(crate) process: u32,
    /// Descriptor of the file in that process.
    pub(crate) file: u32,
    /// Size of the file, in bytes.
    pub(crate) size: u64,
}

/// Why memory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryFault {
    #[error("{what}: {reason}")]
    System { what: &'static str, reason: io::Error },
    #[error("its file has {actual} bytes where {expected} should be")]
    Size { expected: u64, actual: u64 },
    #[error("its file could be shortened")]
    Unsealed,
}

fn fault(what: &'static str) -> impl Fn(rustix::io::Errno) -> MemoryFault {
    move |reason| MemoryFault::System { what, reason: reason.into() }
}

/// A file mapped into this process; dropping it unmaps the file.
struct Map {
    start: NonNull<u8>,
    len: usize,
}

#[expect(unsafe_code, reason = "a pointer to memory that is mapped until the value is dropped")]
// SAFETY: the memory belongs to no thread; how it is read and written is the business of the types below.
unsafe impl Send for Map {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: BorrowedFd<'_>, len: usize, access: libc::c_int) -> Result<Self, MemoryFault> {
        #[expect(unsafe_code, reason = "memory can be mapped in no other way")]
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        let failed = start == libc::MAP_FAILED;
        let start = NonNull::new(start.cast()).filter(|_| !failed);
        let start = start
            .ok_or_else(|| MemoryFault::System { what: "mapped", reason: io::Error::last_os_error() })?;
        Ok(Self { start, len })
    }

    fn holds(&self, range: &Range<usize>) -> bool {
        range.start <= range.end && range.end <= self.len
    }

    /// Where these bytes lie in it.
    fn position_of(&self, bytes: &[u8]) -> Option<usize> {
        let at = (bytes.as_ptr() as usize).checked_sub(self.start.as_ptr() as usize)?;
        self.holds(&(at..at.checked_add(bytes.len())?)).then_some(at)
    }

    /// The `index`-th number of 64 bits.
    fn number(&self, index: usize) -> Option<&AtomicU64> {
        let at = index.checked_mul(8)?;
        if !self.holds(&(at..at.checked_add(8)?)) {
            return None;
        }
        #[expect(unsafe_code, reason = "numbers that two processes share")]
        // SAFETY: in bounds, aligned because a mapping begins with a page, and only ever used as atomic numbers.
        Some(unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) })
    }
}

impl Map {
    /// The bells at its beginning, if it is large enough for them.
    fn bells(&self) -> Option<&Bells> {
        const { assert!(size_of::<Bells>() <= BELLS && align_of::<Bells>() <= BELLS) };
        if self.len < BELLS {
            return None;
        }
        #[expect(unsafe_code, reason = "numbers that two processes share")]
        // SAFETY: in bounds, aligned because a mapping begins with a page, and made of atomic numbers only, for which all bits are valid.
        Some(unsafe { self.start.cast::<Bells>().as_ref() })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the counterpart of mapping")]
        // SAFETY: exactly what was mapped; whatever refers to it keeps the value alive.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

/// The memory of this rank: marks at its beginning, then packets.
pub(super) struct OwnMemory {
    file: OwnedFd,
    map: Map,
    /// The packets that other types count as the rank's own.
    parts: Mutex<Parts>,
}

struct Parts {
    free: Ranges,
    /// Up to here the system has given pages.
    ready: usize,
}

impl OwnMemory {
    /// Memory of `size` bytes: the bells, `marks` bytes of marks, and packets. Pages are given when they are needed first.
    pub(super) fn make(size: usize, marks: usize) -> Result<Arc<Self>, MemoryFault> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("bakeoff-packets", flags).map_err(fault("made"))?;
        rustix::fs::ftruncate(&file, size as u64).map_err(fault("sized"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(fault("sealed"))?;
        let map = Map::new(std::os::fd::AsFd::as_fd(&file), size, libc::PROT_READ | libc::PROT_WRITE)?;
        let parts = Mutex::new(Parts { free: Ranges::new(BELLS + marks..size), ready: 0 });
        let made = Self { file, map, parts };
        // A mark is a single number: a page that is missing later could only be reported by a signal.
        made.ready(BELLS + marks).map_err(fault("filled"))?;
        Ok(Arc::new(made))
    }

    pub(super) fn description(&self) -> Description {
        Description {
            process: std::process::id(),
            file: self.file.as_raw_fd().unsigned_abs(),
            size: self.map.len as u64,
        }
    }

    /// Room for a packet of `size` bytes, or `None` where there is none.
    pub(super) fn take(self: &Arc<Self>, size: usize) -> Option<Block> {
        let part = self.lock().free.take(size)?;
        let block = Block { home: self.clone(), used: part.start..part.start + size, part };
        // Without pages, writing would end the process with a signal.
        self.ready(block.part.end).ok()?;
        Some(block)
    }

    /// Gives the pages up to `end`, all at once: one by one, they cost more than the writes into them.
    fn ready(&self, end: usize) -> rustix::io::Result<()> {
        let mut parts = self.lock();
        if end <= parts.ready {
            return Ok(());
        }
        let begin = parts.ready;
        let end = end.checked_next_multiple_of(STEP).map_or(self.map.len, |end| end.min(self.map.len));
        let length = end - begin;
        rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), begin as u64, length as u64)?;
        parts.ready = end;
        drop(parts);
        #[expect(unsafe_code, reason = "there is no safe form")]
        // SAFETY: in bounds; it changes no content. Older kernels refuse it, and then pages are mapped one by one.
        unsafe {
            libc::madvise(self.map.start.as_ptr().add(begin).cast(), length, libc::MADV_POPULATE_WRITE);
        }
        Ok(())
    }

    /// The `index`-th number of 64 bits, from the bells on. They and the packets after the marks are reached in other ways.
    pub(super) fn number(&self, index: usize) -> Option<&AtomicU64> {
        self.map.number(index + BELLS / 8)
    }

    /// Sets a mark, for a peer to read.
    pub(super) fn set_mark(&self, index: usize, number: u64) {
        if let Some(mark) = self.number(index) {
            mark.store(number, Ordering::Release);
        }
    }

    /// The rank's own bells.
    pub(super) fn bells(&self) -> Option<&Bells> {
        self.map.bells()
    }

    /// Where these bytes lie in it.
    pub(super) fn position_of(&self, bytes: &[u8]) -> Option<usize> {
        self.map.position_of(bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a packet in the own memory. Free again when it is dropped.
pub(super) struct Block {
    home: Arc<OwnMemory>,
    part: Range<usize>,
    used: Range<usize>,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        let Range { start, end } = self.used;
        #[expect(unsafe_code, reason = "bytes of a mapping")]
        // SAFETY: in bounds, initialised (a new file is all zeros), and no other block has these bytes.
        unsafe {
            std::slice::from_raw_parts(self.home.map.start.as_ptr().add(start), end - start)
        }
    }
}

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        let Range { start, end } = self.used;
        #[expect(unsafe_code, reason = "bytes of a mapping")]
        // SAFETY: as above; peers read them only after they were announced, and then nothing has the block mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.home.map.start.as_ptr().add(start), end - start)
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.home.lock().free.give_back(self.part.clone());
    }
}

/// The memory of a peer, to read, and its bells, to ring.
pub(super) struct PeerMemory {
    all: Map,
    bells: Map,
}

impl PeerMemory {
    /// Maps a peer's memory, which must have `expected` bytes.
    pub(super) fn open(description: Description, expected: u64) -> Result<Arc<Self>, MemoryFault> {
        let Description { process, file, size } = description;
        if size != expected {
            return Err(MemoryFault::Size { expected, actual: size });
        }
        let path = format!("/proc/{process}/fd/{file}");
        // Whatever it is that the peer has named: opening it waits for nothing and starts nothing.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(fault("opened"))?;
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(fault("examined"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MemoryFault::Unsealed);
        }
        let actual = rustix::fs::fstat(&file).map_err(fault("examined"))?.st_size as u64;
        if actual != expected {
            return Err(MemoryFault::Size { expected, actual });
        }
        let file = std::os::fd::AsFd::as_fd(&file);
        let all = Map::new(file, expected as usize, libc::PROT_READ)?;
        let bells = Map::new(file, BELLS.min(expected as usize), libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Arc::new(Self { all, bells }))
    }

    /// The bytes in a range, or `None` if it reaches beyond the memory.
    pub(super) fn view(self: &Arc<Self>, range: Range<usize>) -> Option<View> {
        self.all.holds(&range).then(|| View { home: self.clone(), range })
    }

    /// A mark that the peer has set; 0 if it never has.
    pub(super) fn mark(&self, index: usize) -> u64 {
        self.number(index).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    /// The `index`-th number of 64 bits, from the bells on.
    pub(super) fn number(&self, index: usize) -> Option<&AtomicU64> {
        self.all.number(index.checked_add(BELLS / 8)?)
    }

    /// The peer's bells; `None` if its memory is too small for them.
    pub(super) fn bells(&self) -> Option<&Bells> {
        self.bells.bells()
    }

    /// Where these bytes lie in it.
    pub(super) fn position_of(&self, bytes: &[u8]) -> Option<usize> {
        self.all.position_of(bytes)
    }
}

/// Bytes of a peer's memory.
pub(super) struct View {
    home: Arc<PeerMemory>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        let Range { start, end } = self.range;
        #[expect(unsafe_code, reason = "bytes of a mapping")]
        // SAFETY: in bounds of a file that cannot be shortened, and initialised. The owner leaves them as they are until it reads
        // this rank's mark; see above for owners that do not.
        unsafe {
            std::slice::from_raw_parts(self.home.all.start.as_ptr().add(start), end - start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    fn shared() -> (Arc<OwnMemory>, Arc<PeerMemory>) {
        let own = OwnMemory::make(SIZE, 4096).unwrap();
        let peer = PeerMemory::open(own.description(), SIZE as u64).unwrap();
        (own, peer)
    }

    #[test]
    fn what_is_written_is_read_by_who_has_it_mapped() {
        let (own, peer) = shared();
        let mut block = own.take(5000).unwrap();
        block.as_mut().copy_from_slice(&[7; 5000]);
        let at = own.position_of(block.as_ref()).unwrap();
        let view = peer.view(at..at + 5000).unwrap();
        assert_eq!(view.as_ref(), [7; 5000]);
        assert_eq!(peer.position_of(&view.as_ref()[10..]), Some(at + 10));
        own.set_mark(3, 9);
        assert_eq!([peer.mark(3), peer.mark(2), peer.mark(usize::MAX)], [9, 0, 0]);
        drop(own);
        drop(block);
        assert_eq!(view.as_ref(), [7; 5000], "a mapping outlives its owner");
    }

    #[test]
    fn memory_is_used_again_and_bounded() {
        let (own, _) = shared();
        let first = own.take(4096).unwrap();
        let place = first.as_ref().as_ptr();
        let rest = own.take(SIZE - 3 * 4096 - BELLS).unwrap();
        assert!(own.take(4097).is_none());
        drop(first);
        assert_eq!(own.take(1).unwrap().as_ref().as_ptr(), place);
        drop(rest);
        assert!(own.take(SIZE - 4096 - BELLS).is_some());
        assert!(own.take(SIZE).is_none());
    }

    #[test]
    fn nothing_beyond_the_memory_is_seen() {
        let (_own, peer) = shared();
        assert!(peer.view(SIZE - 1..SIZE).is_some());
        assert!(peer.view(SIZE - 1..SIZE + 1).is_none());
        assert!(peer.view(usize::MAX - 3..usize::MAX).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "what a peer may say")]
        let reversed = 8..4;
        assert!(peer.view(reversed).is_none());
        assert!(peer.position_of(&[1, 2, 3]).is_none());
    }

    #[test]
    fn only_what_cannot_be_shortened_is_mapped() {
        let own = OwnMemory::make(SIZE, 4096).unwrap();
        let told = own.description();
        let refused = |told| PeerMemory::open(told, SIZE as u64).err().unwrap();
        assert!(matches!(refused(Description { size: 5, ..told }), MemoryFault::Size { actual: 5, .. }));
        assert!(matches!(refused(Description { file: 999_999, ..told }), MemoryFault::System { .. }));
        assert!(matches!(refused(Description { process: u32::MAX, ..told }), MemoryFault::System { .. }));
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(SIZE as u64).unwrap();
        let plain_file = plain.as_raw_fd().unsigned_abs();
        assert!(!matches!(refused(Description { file: plain_file, ..told }), MemoryFault::Size { .. }));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
        rustix::fs::ftruncate(&unsealed, SIZE as u64).unwrap();
        let file = unsealed.as_raw_fd().unsigned_abs();
        assert!(matches!(refused(Description { file, ..told }), MemoryFault::Unsealed));
        let other = OwnMemory::make(SIZE / 2, 4096).unwrap();
        let lying = Description { size: SIZE as u64, ..other.description() };
        assert!(matches!(refused(lying), MemoryFault::Size { .. }));
    }
}
