//! Links that drop: what two ranks send each other vanishes, over each transport, and nothing else changes.

use crate::fixture::{self, PATIENCE, Ranks, RealClock, briefing, sockets};
use crate::network::free_addresses;
use mesh::{DataPlane, Member};
use recipe::PayloadPath;
use record::Rank;
use std::thread;
use std::time::Duration;
use strategies::{Kind, Packet, Senders, StepError, Tag, Transport, Wanted};

/// A deadline that is meant to be reached.
const SHORT: Duration = Duration::from_millis(400);
/// A message that travels in several pieces after its announcement.
const LONG: usize = 3 << 20;

const NEAR: Rank = Rank(0);
const STRUCK: Rank = Rank(1);
const OTHER: Rank = Rank(2);

fn tag(step: u64) -> Tag {
    Tag::new(Kind::Ask, step)
}

fn packet(size: usize) -> Packet {
    Packet(vec![7; size].into())
}

fn over_tcp() -> Vec<DataPlane> {
    let addresses = free_addresses(3);
    let open = |rank: u32| {
        let addresses = addresses.clone();
        thread::spawn(move || {
            let private = sockets();
            let briefing = briefing(private.path(), Member::Rank(Rank(rank)), 3, SHORT);
            DataPlane::open_on(&briefing, Rank(rank), RealClock::start(), &addresses).unwrap()
        })
    };
    let opening: Vec<_> = (0..3).map(open).collect();
    opening.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn close(planes: Vec<DataPlane>) {
    thread::scope(|scope| {
        for plane in planes {
            scope.spawn(move || plane.close(PATIENCE).unwrap());
        }
    });
}

/// Waits in vain, and says so: the peer is connected still, and in no other error.
#[track_caller]
fn is_silent(transport: &mut dyn Transport, rank: Rank, from: Rank, step: u64) {
    let error = transport.recv(from, tag(step)).unwrap_err();
    let StepError::Silent { rank: waiting, peer, wanted, .. } = error.clone() else { panic!("{error}") };
    assert_eq!((waiting, peer, wanted), (rank, Some(from), Wanted::Message(tag(step))));
}

/// Of three ranks, the link between the first two drops at the second.
fn drops(planes: Vec<DataPlane>, window: usize) {
    let mut lanes: Vec<Box<dyn Transport>> = planes.iter().map(DataPlane::transport).collect();
    for (from, to) in [(NEAR, STRUCK), (STRUCK, NEAR)] {
        lanes[from.index()].send(to, tag(1), packet(9)).unwrap();
        assert_eq!(lanes[to.index()].recv(from, tag(1)).unwrap().packet, packet(9));
    }
    planes[STRUCK.index()].link_dropper().drop_link(NEAR);
    // A rank without a link to itself, and one that there is not, have nothing to lose.
    planes[STRUCK.index()].link_dropper().drop_link(STRUCK);
    planes[STRUCK.index()].link_dropper().drop_link(Rank(9));
    // More than may be on its way at a time: no lane takes it out, and none waits for room.
    for size in [9, LONG, window, window, window, window] {
        for (from, to) in [(NEAR, STRUCK), (STRUCK, NEAR)] {
            lanes[from.index()].send(to, tag(2), packet(size)).unwrap();
        }
    }
    // All other links carry what they carried before.
    for (from, to) in [(NEAR, OTHER), (OTHER, NEAR), (STRUCK, OTHER), (OTHER, STRUCK), (STRUCK, STRUCK)] {
        for size in [0, 9, LONG] {
            lanes[from.index()].send(to, tag(2), packet(size)).unwrap();
            assert_eq!(lanes[to.index()].recv(from, tag(2)).unwrap().packet, packet(size), "{from} to {to}");
        }
    }
    is_silent(lanes[STRUCK.index()].as_mut(), STRUCK, NEAR, 2);
    is_silent(lanes[NEAR.index()].as_mut(), NEAR, STRUCK, 2);
    let any = lanes[STRUCK.index()].recv_any(Kind::Ask, Senders::Of(&[NEAR])).unwrap_err();
    assert!(matches!(any, StepError::Silent { peer: None, .. }), "{any}");
    let sent = planes[STRUCK.index()].links().into_iter().find(|link| link.to == NEAR).unwrap();
    assert_eq!(sent.messages, 7, "what vanishes was sent");
    drop(lanes);
    close(planes);
}

fn local(transport: PayloadPath, window: Option<u64>) {
    let folder = sockets();
    let ranks = Ranks { sockets: folder.path(), count: 3, peer: SHORT, transport };
    match window {
        Some(window) => drops(ranks.open_narrow(window), window as usize),
        None => drops(ranks.open(), 48 << 20),
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "sockets are left");
}

#[test]
fn over_unix_sockets() {
    local(PayloadPath::Zeromq, None);
    local(PayloadPath::Zeromq, Some(1 << 20));
}

#[test]
fn in_shared_memory() {
    local(PayloadPath::SharedMemory, None);
    local(PayloadPath::SharedMemory, Some(1 << 20));
}

#[test]
fn over_tcp_sockets() {
    drops(over_tcp(), 48 << 20);
}

/// A peer whose link has dropped is still heard when it leaves: the connection is there, only its messages are not.
#[test]
fn who_leaves_is_noticed_all_the_same() {
    let folder = sockets();
    let planes = fixture::planes(folder.path(), 2, PATIENCE);
    let [near, struck] = <[DataPlane; 2]>::try_from(planes).unwrap_or_else(|_| panic!("two ranks"));
    struck.link_dropper().drop_link(NEAR);
    let mut lane = near.transport();
    let waits = thread::spawn(move || lane.recv(STRUCK, tag(1)).map(drop));
    thread::scope(|scope| {
        scope.spawn(move || struck.close(PATIENCE).unwrap());
        let gone = StepError::Gone { rank: NEAR, peer: STRUCK, wanted: Wanted::Message(tag(1)) };
        assert_eq!(waits.join().unwrap(), Err(gone));
        near.close(PATIENCE).unwrap();
    });
}
