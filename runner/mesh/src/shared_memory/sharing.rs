//! One rank's side of the memory that the ranks of a host share.

use super::bells::{Bell, Bells};
use super::lines::{self, LINE, LineFault, LineLocation, LineReader, LineWriter, Record};
use super::loans::{Loans, SLOTS};
use super::memory::{BELLS, Block, Description, MemoryFault, OwnMemory, PeerMemory, View};
use bytes::Bytes;
use record::Rank;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use strategies::buffers::{Buffers, PacketMemory};
use strategies::{Kind, Packet};
use tokio::sync::watch;

/// How much is shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Bytes for packets. What does not fit travels through the socket.
    pub(crate) packets: u64,
    /// The smallest packet that is shared, in bytes: a smaller one is copied sooner than it is announced and returned.
    pub(crate) smallest: usize,
}

/// Where a packet lies, as its sender announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The rank whose memory it is in; not always the sender, because packets are passed on.
    pub(crate) owner: Rank,
    /// The sender's slot, where the receiver sets its mark.
    pub(crate) slot: u32,
    /// The number of the loan: what the mark is set to.
    pub(crate) number: u64,
    /// The first byte in the owner's memory.
    pub(crate) offset: u64,
}

/// Why a reference is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockFault {
    #[error("there is no shared memory of rank {0}")]
    Owner(Rank),
    #[error("{size} bytes at {offset} reach beyond the memory of rank {owner}")]
    Bounds { owner: Rank, offset: u64, size: u64 },
    #[error("there is no slot {0}")]
    Slot(u32),
}

/// How far the mapping of the peers' memory has come.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    /// The peers whose memory is not mapped yet.
    pub(crate) missing: BTreeSet<Rank>,
    /// The first that could not be mapped.
    pub(crate) fault: Option<(Rank, MemoryFault)>,
}

/// One rank's memory, and what it has mapped of its peers'.
pub(crate) struct Sharing {
    me: Rank,
    own: Arc<OwnMemory>,
    size: u64,
    smallest: usize,
    peers: Vec<Peer>,
    joining: watch::Sender<Joining>,
}

#[derive(Default)]
struct Peer {
    memory: OnceLock<Arc<PeerMemory>>,
    loans: Mutex<Loans>,
}

impl Peer {
    fn loans(&self) -> MutexGuard<'_, Loans> {
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sharing {
    /// The memory of `me` among `ranks` ranks. All of them must give the same size.
    pub(crate) fn new(me: Rank, ranks: u32, size: Size) -> Result<Arc<Self>, MemoryFault> {
        let marks = Layout(ranks as usize).end() * size_of::<u64>();
        let whole = BELLS + marks + (size.packets as usize).next_multiple_of(4096);
        let missing = (0..ranks).map(Rank).filter(|rank| *rank != me).collect();
        Ok(Arc::new(Self {
            me,
            own: OwnMemory::make(whole, marks)?,
            size: whole as u64,
            smallest: size.smallest,
            peers: (0..ranks).map(|_| Peer::default()).collect(),
            joining: watch::Sender::new(Joining { missing, fault: None }),
        }))
    }

    /// Where the others find the own memory.
    pub(crate) fn description(&self) -> Description {
        self.own.description()
    }

    /// Follows which peers' memory is mapped.
    pub(crate) fn joining(&self) -> watch::Receiver<Joining> {
        self.joining.subscribe()
    }

    /// Why a peer's memory could not be mapped, if it could not.
    pub(crate) fn take_fault(&self) -> Option<(Rank, MemoryFault)> {
        let mut taken = None;
        self.joining.send_modify(|joining| taken = joining.fault.take());
        taken
    }

    /// Maps a peer's memory, at most once.
    pub(crate) fn join(&self, peer: Rank, description: Description) {
        let opened = PeerMemory::open(description, self.size);
        self.joining.send_modify(|joining| match opened {
            Ok(memory) => {
                let peers = &self.peers;
                if peers.get(peer.index()).is_some_and(|other| other.memory.set(memory).is_ok()) {
                    joining.missing.remove(&peer);
                }
            }
            Err(fault) => drop(joining.fault.get_or_insert((peer, fault))),
        });
    }

    /// The packet in shared memory: copied there if it lies elsewhere, as it is where it is small or there is no room.
    pub(crate) fn place(&self, packet: Packet) -> Packet {
        if packet.0.len() < self.smallest || self.locate(&packet.0).is_some() {
            return packet;
        }
        self.block(packet.0.len()).map_or(packet.clone(), |mut block| {
            block.as_mut().copy_from_slice(&packet.0);
            Packet(Bytes::from_owner(block))
        })
    }

    /// Lends a packet to a peer; `None` if it is not in shared memory, or is small, or the peer has too many others.
    pub(crate) fn lend(&self, to: Rank, packet: &Bytes) -> Option<Reference> {
        if packet.len() < self.smallest {
            return None;
        }
        let (owner, offset) = self.locate(packet)?;
        let mut loans = self.peers.get(to.index())?.loans();
        self.reclaim_of(to, &mut loans);
        let (slot, number) = loans.lend(packet.clone())?;
        Some(Reference { owner, slot, number, offset: offset as u64 })
    }

    /// Ends a loan that the peer was not told of.
    pub(crate) fn withdraw(&self, to: Rank, place: Reference) {
        if let Some(peer) = self.peers.get(to.index()) {
            peer.loans().end(place.number);
        }
    }

    /// The packet that a peer refers to. It is returned to that peer when the last clone is dropped.
    pub(crate) fn borrow(
        self: &Arc<Self>,
        from: Rank,
        place: Reference,
        size: u64,
    ) -> Result<Bytes, BlockFault> {
        let Reference { owner, slot, number, offset } = place;
        if slot as usize >= SLOTS {
            return Err(BlockFault::Slot(slot));
        }
        let mark = Layout::mark(from, slot as usize);
        let bounds = BlockFault::Bounds { owner, offset, size };
        let Some(end) = offset.checked_add(size) else { return Err(bounds) };
        let range = offset as usize..end as usize;
        let memory = self.peers.get(owner.index()).and_then(|peer| peer.memory.get());
        let Some(view) = memory.ok_or(BlockFault::Owner(owner))?.view(range) else { return Err(bounds) };
        Ok(Bytes::from_owner(Borrowed { view, home: self.own.clone(), mark, number }))
    }

    /// The rank in whose memory these bytes lie, and where.
    fn locate(&self, bytes: &[u8]) -> Option<(Rank, usize)> {
        if let Some(at) = self.own.position_of(bytes) {
            return Some((self.me, at));
        }
        let mut owners = (0..).map(Rank).zip(&self.peers);
        owners.find_map(|(rank, peer)| Some((rank, peer.memory.get()?.position_of(bytes)?)))
    }

    fn block(&self, size: usize) -> Option<Block> {
        for (rank, peer) in (0..).map(Rank).zip(&self.peers) {
            self.reclaim_of(rank, &mut peer.loans());
        }
        self.own.take(size)
    }

    /// Takes back what a peer has returned. One that is gone returns nothing any more: what it had stays lent, because a
    /// third rank may still read what it passed on.
    fn reclaim_of(&self, peer: Rank, loans: &mut Loans) {
        if let Some(memory) = self.peers[peer.index()].memory.get() {
            loans.reclaim(|slot| memory.mark(Layout::mark(self.me, slot)));
        }
    }

    fn layout(&self) -> Layout {
        Layout(self.peers.len())
    }

    /// The end of the line to a peer, at most one for each.
    pub(crate) fn writer(&self, to: Rank) -> LineWriter {
        LineWriter::new(self.own.clone(), self.layout().line(self.me, to))
    }

    /// The end of the line from a peer, at most one for each.
    pub(crate) fn reader(&self, from: Rank) -> LineReader {
        LineReader::new(self.own.clone(), self.layout().line(from, self.me))
    }

    /// No line to this rank is read: to be called before a peer knows of the memory.
    pub(crate) fn read_no_lines(&self) {
        for from in (0..self.peers.len() as u32).map(Rank) {
            lines::close(&self.own, self.layout().line(from, self.me));
        }
    }

    /// Writes a record on the line to a peer; false if there is no room, or the peer reads none.
    pub(crate) fn write(&self, line: &mut LineWriter, to: Rank, record: &Record) -> bool {
        let memory = self.peers.get(to.index()).and_then(|peer| peer.memory.get());
        memory.is_some_and(|memory| line.write(memory, record))
    }

    /// The next record of the line from a peer that at most `passed` messages by another way come before.
    pub(crate) fn read(
        &self,
        line: &mut LineReader,
        from: Rank,
        passed: u64,
    ) -> Result<Option<Record>, LineFault> {
        let memory = self.peers.get(from.index()).and_then(|peer| peer.memory.get());
        memory.map_or(Ok(None), |memory| line.read(memory, passed))
    }

    /// The bells of this rank.
    pub(crate) fn bells(&self) -> Option<&Bells> {
        self.own.bells()
    }

    /// The bell of a peer's lane.
    pub(crate) fn bell(&self, of: Rank, kind: Kind) -> Option<&Bell> {
        Some(self.peers.get(of.index())?.memory.get()?.bells()?.of(kind))
    }
}

/// Where the marks and lines of a rank lie among as many ranks, in numbers of 64 bits after the bells: for each peer the marks
/// that return its loans and how far its line was read, and then the lines to the peers.
#[derive(Clone, Copy)]
struct Layout(usize);

impl Layout {
    /// Numbers of one peer: its marks, and a cache line.
    const OF_PEER: usize = SLOTS + 8;

    /// In the receiver's memory: where it returns what `sender` has lent in a slot.
    fn mark(sender: Rank, slot: usize) -> usize {
        sender.index() * Self::OF_PEER + slot
    }

    fn line(self, from: Rank, to: Rank) -> LineLocation {
        let head = from.index() * Self::OF_PEER + SLOTS;
        LineLocation { tail: self.0 * Self::OF_PEER + to.index() * LINE / 8, head }
    }

    fn end(self) -> usize {
        let lines = Self::OF_PEER * self.0 + LINE / 8 * self.0;
        lines.next_multiple_of(512)
    }
}

impl PacketMemory for Sharing {
    fn packet(&self, size: usize, fill: &mut dyn FnMut(&mut [u8])) -> Option<Packet> {
        if size < self.smallest {
            return None;
        }
        let mut block = self.block(size)?;
        fill(block.as_mut());
        Some(Packet(Bytes::from_owner(block)))
    }
}

/// Lets the packets of this process be written where its peers read them.
pub(crate) fn write_packets_into(sharing: &Arc<Sharing>) {
    Buffers::of_process().prefer(sharing.clone());
}

/// A packet in the memory of another rank. Dropping it sets the mark that returns it.
struct Borrowed {
    view: View,
    home: Arc<OwnMemory>,
    mark: usize,
    number: u64,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        self.view.as_ref()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.home.set_mark(self.mark, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: Size = Size { packets: 1 << 16, smallest: 1 };

    fn ranks(count: u32) -> Vec<Arc<Sharing>> {
        let ranks: Vec<_> = (0..count).map(|rank| Sharing::new(Rank(rank), count, SIZE).unwrap()).collect();
        for one in &ranks {
            for other in ranks.iter().filter(|other| other.me != one.me) {
                one.join(other.me, other.description());
            }
            let joining = one.joining();
            assert!(joining.borrow().missing.is_empty() && joining.borrow().fault.is_none());
        }
        ranks
    }

    fn packet(byte: u8, size: usize) -> Packet {
        Packet(Bytes::from(vec![byte; size]))
    }

    #[test]
    fn a_packet_is_copied_once_and_free_when_its_reader_drops_it() {
        let ranks = ranks(2);
        let placed = ranks[0].place(packet(7, 60_000));
        assert_eq!(ranks[0].place(placed.clone()).0.as_ptr(), placed.0.as_ptr(), "it lies there already");
        let reference = ranks[0].lend(Rank(1), &placed.0).unwrap();
        drop(placed);
        let borrowed = ranks[1].borrow(Rank(0), reference, 60_000).unwrap();
        assert_eq!(&borrowed[..], vec![7; 60_000]);
        let elsewhere = ranks[0].place(packet(8, 60_000));
        assert!(ranks[0].lend(Rank(1), &elsewhere.0).is_none(), "there is room for one only");
        drop(borrowed);
        let again = ranks[0].place(packet(9, 60_000));
        assert_eq!(ranks[0].lend(Rank(1), &again.0).unwrap().offset, reference.offset);
    }

    #[test]
    fn what_is_passed_on_stays_until_the_last_has_read_it() {
        let ranks = ranks(3);
        let placed = ranks[0].place(packet(7, 60_000));
        let first = ranks[0].lend(Rank(1), &placed.0).unwrap();
        drop(placed);
        let relayed = ranks[1].borrow(Rank(0), first, 60_000).unwrap();
        assert_eq!(ranks[1].place(Packet(relayed.clone())).0.as_ptr(), relayed.as_ptr());
        let second = ranks[1].lend(Rank(2), &relayed).unwrap();
        assert_eq!((second.owner, second.offset), (Rank(0), first.offset));
        drop(relayed);
        let last = ranks[2].borrow(Rank(1), second, 60_000).unwrap();
        let full = |sharing: &Sharing| sharing.block(60_000).is_none();
        assert!(full(&ranks[0]));
        assert_eq!(&last[..], vec![7; 60_000]);
        drop(last);
        assert!(full(&ranks[0]), "the rank between them has not seen it yet");
        drop(ranks[1].block(1));
        assert!(!full(&ranks[0]));
    }

    #[test]
    fn small_packets_and_a_fault_of_mapping_are_told() {
        let size = Size { smallest: 100, ..SIZE };
        let sharing = Sharing::new(Rank(0), 2, size).unwrap();
        let small = sharing.place(packet(1, 99));
        assert!(sharing.lend(Rank(1), &small.0).is_none());
        assert!(sharing.packet(99, &mut |_| ()).is_none());
        let other = Sharing::new(Rank(1), 2, Size { packets: 1 << 20, ..SIZE }).unwrap();
        sharing.join(Rank(1), other.description());
        let joining = sharing.joining();
        let fault = &joining.borrow().fault;
        assert!(matches!(fault, Some((Rank(1), MemoryFault::Size { .. }))), "{fault:?}");
    }

    #[test]
    fn what_a_peer_must_not_say_is_refused() {
        let ranks = ranks(2);
        let good = Reference { owner: Rank(0), slot: 0, number: 1, offset: 0 };
        let whole = ranks[0].size;
        let take = |place, size| ranks[1].borrow(Rank(0), place, size).err();
        assert!(take(good, whole).is_none());
        assert!(matches!(take(good, whole + 1), Some(BlockFault::Bounds { .. })));
        assert!(matches!(take(Reference { offset: whole, ..good }, 1), Some(BlockFault::Bounds { .. })));
        assert!(matches!(take(Reference { offset: u64::MAX, ..good }, 1), Some(BlockFault::Bounds { .. })));
        assert!(matches!(take(Reference { owner: Rank(1), ..good }, 1), Some(BlockFault::Owner(Rank(1)))));
        assert!(matches!(take(Reference { owner: Rank(9), ..good }, 1), Some(BlockFault::Owner(Rank(9)))));
        let slot = SLOTS as u32;
        assert!(matches!(take(Reference { slot, ..good }, 1), Some(BlockFault::Slot(_))));
    }

    proptest! {
        #[test]
        fn no_reference_reaches_other_memory(owner in 0..3_u32, slot in any::<u32>(), offset in any::<u64>(), size in any::<u64>()) {
            let ranks = ranks(2);
            let place = Reference { owner: Rank(owner), slot, number: 1, offset };
            if let Ok(bytes) = ranks[1].borrow(Rank(0), place, size) {
                prop_assert_eq!(bytes.len() as u64, size);
                prop_assert!(offset + size <= ranks[0].size);
            }
        }
    }
}
