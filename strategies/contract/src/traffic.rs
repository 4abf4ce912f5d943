//! Messages between ranks that do what they should: order, sizes, tags, kinds.

use crate::TestWorld;
use bytes::Bytes;
use record::Rank;
use std::collections::BTreeMap;
use strategies::{Kind, Packet, Senders, StepError, Tag};

/// Bytes that no other message has.
pub fn pattern(size: usize, seed: u64) -> Packet {
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
pub fn assert_same(got: &Packet, size: usize, seed: u64) {
    assert_eq!(got.0.len(), size, "size of message {seed}");
    assert!(*got == pattern(size, seed), "contents of message {seed}");
}

/// Between two ranks, messages of a kind arrive complete, once, in order.
pub fn order<W: TestWorld>(ranks: u32) {
    const MESSAGES: u64 = 300;
    W::run(ranks, 1, |place, mut transport| {
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
pub fn sizes<W: TestWorld>(sizes: &'static [usize]) {
    W::run(2, 1, move |place, mut transport| {
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
pub fn ring<W: TestWorld>(ranks: u32, size: usize, rounds: u64) {
    W::run(ranks, 1, move |place, mut transport| {
        let next = place.after(1);
        let before = place.after(place.ranks - 1);
        for step in 1..=rounds {
            let tag = Tag::new(Kind::Reduce, step);
            transport.send(next, tag, pattern(size, step + u64::from(place.rank.0))).unwrap();
            let envelope = transport.recv(before, tag).unwrap();
            assert_same(&envelope.packet, size, step + u64::from(before.0));
        }
    });
}

/// Kinds do not wait for each other: the lane that reads one is not held up by messages that are not read yet.
pub fn kinds<W: TestWorld>() {
    W::run(3, 4, |place, mut transport| {
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
pub fn sorted_by_kind<W: TestWorld>() {
    W::run(2, 1, |place, mut transport| {
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
pub fn from_anyone<W: TestWorld>(ranks: u32) {
    W::run(ranks, 1, |place, mut transport| {
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
            let envelope = transport.recv_any(Kind::Push, Senders::Everyone).unwrap();
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
pub fn unexpected<W: TestWorld>() {
    W::run(2, 1, |place, mut transport| {
        let sent = Tag::new(Kind::Ask, 4);
        let wanted = Tag::new(Kind::Ask, 5);
        if place.rank == Rank(0) {
            transport.send(Rank(1), sent, Packet::default()).unwrap();
        } else {
            let error = transport.recv(Rank(0), wanted).unwrap_err();
            assert_eq!(error, StepError::Unexpected { rank: Rank(1), peer: Rank(0), wanted, got: sent });
        }
    });
}

/// One message of a GiB between two ranks, where the machine has the memory for it: it is in memory twice.
#[expect(clippy::print_stderr, reason = "what does not run is said")]
pub fn gibibyte<W: TestWorld>() {
    const SIZE: usize = 1 << 30;
    const BLOCK: usize = 1 << 20;
    if memory_available() < 3 << 30 {
        eprintln!("NOT RUN: a message of 1 GiB, because less than 3 GiB of memory are available");
        return;
    }
    W::run(2, 1, |place, mut transport| {
        let peer = place.after(1);
        let tag = Tag::new(Kind::Push, 1);
        if place.rank == Rank(0) {
            let mut bytes = vec![5; SIZE];
            for (number, block) in bytes.chunks_mut(BLOCK).enumerate() {
                block[number] = number as u8;
            }
            return transport.send(peer, tag, Packet(Bytes::from(bytes))).unwrap();
        }
        let envelope = transport.recv(peer, tag).unwrap();
        assert_eq!(envelope.packet.0.len(), SIZE);
        let mut expected = vec![5; BLOCK];
        for (number, block) in envelope.packet.0.chunks(BLOCK).enumerate() {
            expected[number] = number as u8;
            assert!(*block == expected[..], "block {number}");
            expected[number] = 5;
        }
    });
}

/// Bytes that can be allocated without harm, as far as Linux tells.
fn memory_available() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(u64::MAX, |kib| kib << 10)
}
