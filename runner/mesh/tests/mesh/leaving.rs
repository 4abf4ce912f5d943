//! Behaviour beyond the contract of transports: long messages that move, and the counters of a plane.

use crate::fixture::{PATIENCE, planes, sockets};
use bytes::Bytes;
use mesh::DataPlane;
use record::{Nanos, Rank};
use std::thread;
use std::time::Duration;
use strategies::{Kind, Packet, Tag};

const MIB: usize = 1 << 20;

fn tag(step: u64) -> Tag {
    Tag::new(Kind::Reduce, step)
}

fn packet(size: usize) -> Packet {
    Packet(Bytes::from(vec![7; size]))
}

fn close(planes: Vec<DataPlane>) {
    let closing: Vec<_> =
        planes.into_iter().map(|plane| thread::spawn(move || plane.close(PATIENCE).unwrap())).collect();
    for thread in closing {
        thread.join().unwrap();
    }
}

#[test]
fn what_is_sent_is_counted_by_receiver() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 3, PATIENCE);
    let mut transport = planes[0].transport();
    for step in 1..=4 {
        transport.send(Rank(2), tag(step), packet(MIB)).unwrap();
    }
    let sent: Vec<_> = planes[0].links().iter().map(|link| (link.to, link.messages, link.bytes)).collect();
    assert_eq!(sent, [(Rank(1), 0, 0), (Rank(2), 4, 4 << 20)]);
    close(planes);
}

#[test]
fn a_long_message_that_moves_is_not_silence() {
    let sockets = sockets();
    // Each message takes a while, and the deadline is for one of them, not for all.
    let planes = planes(sockets.path(), 2, Duration::from_secs(5));
    let mut sender = planes[0].transport();
    let long = packet(256 * MIB);
    let sending = thread::spawn(move || sender.send(Rank(1), tag(1), long));
    let envelope = planes[1].transport().recv(Rank(0), tag(1)).unwrap();
    assert_eq!(envelope.packet.0.len(), 256 * MIB);
    assert!(envelope.began > Nanos(0));
    sending.join().unwrap().unwrap();
    assert!(planes[0].cpu_time() > Nanos(0));
    close(planes);
}
