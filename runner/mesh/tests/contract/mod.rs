//! The contract of `strategies::Transport`, as tests for any transport: `contract::tests!(MyWorld)` makes them.

use bytes::Bytes;
use record::Rank;
use std::collections::BTreeMap;
use strategies::{Kind, Packet, StepError, Tag, Transport};

/// Where a test of the contract takes place.
pub(crate) trait World {
    /// Runs `body` once for each lane of each rank, all at the same time, each with a handle of its own; returns
    /// when all have returned. A panic in a body is a panic of `run`.
    fn run(ranks: u32, lanes: u32, body: impl Fn(Place, &mut dyn Transport) + Send + Sync + 'static);
}

/// Who a body is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) rank: Rank,
    pub(crate) lane: u32,
    pub(crate) ranks: u32,
}

impl Place {
    /// The other ranks.
    pub(crate) fn peers(self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).map(Rank).filter(move |peer| *peer != self.rank)
    }

    fn after(self, steps: u32) -> Rank {
        Rank((self.rank.0 + steps) % self.ranks)
    }
}

/// Bytes that no other message has.
pub(crate) fn pattern(size: usize, seed: u64) -> Packet {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend((state >> 7).to_le_bytes());
    }
    bytes.truncate(size);
    Packet(Bytes::from(bytes))
}

/// Compares without printing megabytes.
pub(crate) fn assert_same(got: &Packet, size: usize, seed: u64) {
    assert_eq!(got.0.len(), size, "size of message {seed}");
    assert!(*got == pattern(size, seed), "contents of message {seed}");
}

/// Between two ranks, messages of a kind arrive complete, once, in order.
pub(crate) fn order<W: World>(ranks: u32) {
    const MESSAGES: u64 = 300;
    W::run(ranks, 1, |place, transport| {
        for step in 1..=MESSAGES {
            for peer in place.peers() {
                let seed = step << 16 | u64::from(place.rank.0) << 8 | u64::from(peer.0);
                let size = (seed as usize * 31) % 5000;
                transport.send(peer, Tag::new(Kind::Reduce, step), pattern(size, seed)).unwrap();
            }
        }
        for step in 1..=MESSAGES {
            for peer in place.peers() {
                let seed = step << 16 | u64::from(peer.0) << 8 | u64::from(place.rank.0);
                let envelope = transport.recv(peer, Tag::new(Kind::Reduce, step)).unwrap();
                assert_eq!((envelope.from, envelope.tag.step), (peer, step));
                assert_same(&envelope.packet, (seed as usize * 31) % 5000, seed);
            }
        }
    });
}

/// All sizes arrive as they were sent, nothing and everything in between; the tag's fields survive.
pub(crate) fn sizes<W: World>(sizes: &'static [usize]) {
    W::run(2, 1, move |place, transport| {
        let peer = place.after(1);
        let tag =
            |number: usize| Tag { kind: Kind::Pull, step: u64::MAX - 1, call: u32::MAX, part: number as u32 };
        for (number, size) in sizes.iter().enumerate() {
            if place.rank == Rank(0) {
                transport.send(peer, tag(number), pattern(*size, number as u64)).unwrap();
            } else {
                let envelope = transport.recv(peer, tag(number)).unwrap();
                assert_same(&envelope.packet, *size, number as u64);
            }
        }
    });
}

/// A ring in which all send first.
pub(crate) fn ring<W: World>(ranks: u32, size: usize, rounds: u64) {
    W::run(ranks, 1, move |place, transport| {
        let (next, before) = (place.after(1), place.after(place.ranks - 1));
        for step in 1..=rounds {
            let tag = Tag::new(Kind::Reduce, step);
            transport.send(next, tag, pattern(size, step + u64::from(place.rank.0))).unwrap();
            let envelope = transport.recv(before, tag).unwrap();
            assert_same(&envelope.packet, size, step + u64::from(before.0));
        }
    });
}

/// Kinds do not wait for each other: the lane that reads one is not held up by what nobody reads yet.
pub(crate) fn kinds<W: World>() {
    W::run(3, 4, |place, transport| {
        let kind = Kind::ALL[place.lane as usize];
        for step in 1..=100 {
            for peer in place.peers() {
                let seed = step * 100 + u64::from(place.rank.0 * 10 + place.lane);
                transport
                    .send(peer, Tag::new(kind, step).part(7), pattern(100 * place.lane as usize, seed))
                    .unwrap();
            }
        }
        // The first lane's messages came first, and are read last.
        for step in 1..=100 {
            for peer in place.peers() {
                let seed = step * 100 + u64::from(peer.0 * 10 + place.lane);
                let envelope = transport.recv(peer, Tag::new(kind, step).part(7)).unwrap();
                assert_same(&envelope.packet, 100 * place.lane as usize, seed);
            }
        }
    });
}

/// One lane may leave messages of two kinds and read them in another order than they were sent.
pub(crate) fn sorted_by_kind<W: World>() {
    W::run(2, 1, |place, transport| {
        let peer = place.after(1);
        for kind in Kind::ALL {
            transport.send(peer, Tag::new(kind, 1), pattern(70_000, kind as u64)).unwrap();
        }
        for kind in Kind::ALL.into_iter().rev() {
            let envelope = transport.recv(peer, Tag::new(kind, 1)).unwrap();
            assert_same(&envelope.packet, 70_000, kind as u64);
        }
    });
}

/// `recv_any` takes each message of the kind once, in the order of each sender.
pub(crate) fn from_anyone<W: World>(ranks: u32) {
    W::run(ranks, 1, |place, transport| {
        const EACH: u64 = 50;
        if place.rank != Rank(0) {
            for step in 1..=EACH {
                transport.send(Rank(0), Tag::new(Kind::Push, step), pattern(step as usize, step)).unwrap();
            }
            transport.recv(Rank(0), Tag::new(Kind::Pull, 1)).unwrap();
            return;
        }
        let mut steps = BTreeMap::new();
        for _ in 0..EACH * u64::from(place.ranks - 1) {
            let envelope = transport.recv_any(Kind::Push).unwrap();
            let step = steps.entry(envelope.from).or_insert(0);
            *step += 1;
            assert_eq!(envelope.tag, Tag::new(Kind::Push, *step));
            assert_same(&envelope.packet, *step as usize, *step);
        }
        assert!(place.peers().all(|peer| steps[&peer] == EACH));
        for peer in place.peers() {
            transport.send(peer, Tag::new(Kind::Pull, 1), Packet::default()).unwrap();
        }
    });
}

/// A tag is a check: another one than the expected is an error that names both.
pub(crate) fn unexpected<W: World>() {
    W::run(2, 1, |place, transport| {
        let (sent, wanted) = (Tag::new(Kind::Ask, 4), Tag::new(Kind::Ask, 5));
        if place.rank == Rank(0) {
            transport.send(Rank(1), sent, Packet::default()).unwrap();
        } else {
            let error = transport.recv(Rank(0), wanted).unwrap_err();
            assert_eq!(error, StepError::Unexpected { rank: Rank(1), peer: Rank(0), wanted, got: sent });
        }
    });
}

/// The suite.
macro_rules! tests {
    ($world:ty) => {
        #[test]
        fn messages_keep_their_order_among_2() {
            contract::order::<$world>(2);
        }
        #[test]
        fn messages_keep_their_order_among_3() {
            contract::order::<$world>(3);
        }
        #[test]
        fn messages_keep_their_order_among_8() {
            contract::order::<$world>(8);
        }
        #[test]
        fn a_rank_may_be_alone() {
            contract::order::<$world>(1);
        }
        #[test]
        fn all_sizes_arrive() {
            contract::sizes::<$world>(&[
                0, 1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 4_095, 4_096, 65_535, 65_536, 65_537, 1_048_575,
                1_048_576, 1_048_577, 3_000_001, 0, 8_388_608, 1,
            ]);
        }
        #[test]
        fn large_messages_arrive() {
            contract::sizes::<$world>(&[64 << 20, 64 << 20, (64 << 20) + 1, 100 << 20, 0, 1]);
        }
        #[test]
        fn a_ring_of_1_sends_first() {
            contract::ring::<$world>(1, 1000, 3);
        }
        #[test]
        fn a_ring_of_2_sends_first() {
            contract::ring::<$world>(2, 8 << 20, 5);
        }
        #[test]
        fn a_ring_of_3_sends_first() {
            contract::ring::<$world>(3, 8 << 20, 3);
        }
        #[test]
        fn a_ring_of_4_sends_first() {
            contract::ring::<$world>(4, 8 << 20, 3);
        }
        #[test]
        fn a_ring_of_8_sends_first() {
            contract::ring::<$world>(8, 8 << 20, 1);
        }
        #[test]
        fn a_ring_may_send_more_than_all_credits_first() {
            contract::ring::<$world>(2, 80 << 20, 2);
        }
        #[test]
        fn empty_messages_are_messages() {
            contract::ring::<$world>(4, 0, 20);
        }
        #[test]
        fn lanes_do_not_wait_for_each_other() {
            contract::kinds::<$world>();
        }
        #[test]
        fn the_inbox_is_sorted_by_kind() {
            contract::sorted_by_kind::<$world>();
        }
        #[test]
        fn anyone_may_be_first() {
            contract::from_anyone::<$world>(4);
        }
        #[test]
        fn another_tag_is_an_error() {
            contract::unexpected::<$world>();
        }
    };
}
pub(crate) use tests;
