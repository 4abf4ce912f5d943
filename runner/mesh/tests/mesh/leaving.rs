//! Ranks that stop, fall silent, leave early or crash, and receivers that do not read.

use crate::fixture::{PATIENCE, planes, sockets};
use bytes::Bytes;
use mesh::DataPlane;
use record::{Nanos, Rank};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use strategies::{Kind, Packet, StepError, Tag, Wanted};

const SHORT: Duration = Duration::from_millis(300);
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
fn silence_names_rank_peer_message_and_time() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, SHORT);
    let mut transport = planes[1].transport();
    let begin = Instant::now();
    let error = transport.recv(Rank(0), tag(3)).unwrap_err();
    let StepError::Silent { rank: Rank(1), peer: Some(Rank(0)), wanted, waited } = error.clone() else {
        panic!("{error}")
    };
    assert_eq!(wanted, Wanted::Message(tag(3)));
    assert!(waited >= Nanos(SHORT.as_nanos() as u64) && waited.0 <= begin.elapsed().as_nanos() as u64);
    assert!(error.to_string().contains("rank 1 waited"), "{error}");
    let error = transport.recv_any(Kind::Push).unwrap_err();
    assert!(
        matches!(error, StepError::Silent { peer: None, wanted: Wanted::Any(Kind::Push), .. }),
        "{error}"
    );
    close(planes);
}

#[test]
fn a_receiver_that_does_not_read_bounds_what_is_on_its_way() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, SHORT);
    let mut transport = planes[0].transport();
    let mut sent = 0;
    let error = loop {
        match transport.send(Rank(1), tag(sent + 1), packet(4 * MIB)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    // The window is 64 MiB, and each message costs a little more than its bytes.
    assert_eq!(sent, 15);
    let StepError::Silent { rank: Rank(0), peer: Some(Rank(1)), wanted: Wanted::Credit(wanted), .. } = error
    else {
        panic!("{error}")
    };
    assert_eq!(wanted, tag(16));
    // What was sent can still be read, and then there is room again.
    let mut receiver = planes[1].transport();
    for step in 1..=sent {
        receiver.recv(Rank(0), tag(step)).unwrap();
    }
    for step in sent + 1..=2 * sent {
        transport.send(Rank(1), tag(step), packet(4 * MIB)).unwrap();
        receiver.recv(Rank(0), tag(step)).unwrap();
    }
    assert_eq!(planes[0].links()[0].messages, 2 * sent);
    assert_eq!(planes[0].links()[0].bytes, 2 * sent * 4 * MIB as u64);
    close(planes);
}

#[test]
fn empty_messages_need_credits_too() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, SHORT);
    let mut transport = planes[0].transport();
    let sent =
        (1..2_000_000).take_while(|step| transport.send(Rank(1), tag(*step), packet(0)).is_ok()).count();
    assert!((10_000..1_000_000).contains(&sent), "{sent}");
    close(planes);
}

#[test]
fn a_sender_goes_on_as_soon_as_there_is_room() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, PATIENCE);
    let mut transport = planes[0].transport();
    // Sizes that leave odd rests of credits, so that the receiver holds back what the sender needs.
    let sizes = [40 * MIB, 20 * MIB, 63 * MIB, 1, 70 * MIB, 5 * MIB, 64 * MIB, 0, 1];
    let sender = thread::spawn(move || {
        for (size, step) in sizes.iter().zip(1..) {
            transport.send(Rank(1), tag(step), packet(*size)).unwrap();
        }
    });
    let mut receiver = planes[1].transport();
    for (size, step) in sizes.iter().zip(1..) {
        assert_eq!(receiver.recv(Rank(0), tag(step)).unwrap().packet.0.len(), *size);
    }
    sender.join().unwrap();
    close(planes);
}

#[test]
fn stop_wakes_everybody_who_waits() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, PATIENCE);
    let (mut one, mut any, mut full) = (planes[0].transport(), planes[0].transport(), planes[0].transport());
    let (started, starts) = mpsc::channel();
    let mut waits = Vec::new();
    let start = started.clone();
    waits.push(thread::spawn(move || {
        start.send(()).unwrap();
        one.recv(Rank(1), tag(1)).map(drop)
    }));
    let start = started.clone();
    waits.push(thread::spawn(move || {
        start.send(()).unwrap();
        any.recv_any(Kind::Push).map(drop)
    }));
    waits.push(thread::spawn(move || {
        started.send(()).unwrap();
        (1..).try_for_each(|step| full.send(Rank(1), tag(step), packet(16 * MIB)))
    }));
    for _ in &waits {
        starts.recv_timeout(PATIENCE).unwrap();
    }
    let stopper = planes[0].stopper();
    thread::spawn(move || stopper.stop()).join().unwrap();
    for wait in waits {
        assert_eq!(wait.join().unwrap(), Err(StepError::Stopped));
    }
    let mut late = planes[0].transport();
    assert_eq!(late.recv(Rank(1), tag(1)).map(drop), Err(StepError::Stopped));
    assert_eq!(late.send(Rank(1), tag(1), packet(1)), Err(StepError::Stopped));
    close(planes);
}

#[test]
fn a_crash_is_noticed_at_once_but_what_came_before_it_counts() {
    let sockets = sockets();
    let mut planes = planes(sockets.path(), 3, PATIENCE);
    let mut crashing = planes[2].transport();
    crashing.send(Rank(0), tag(1), packet(10)).unwrap();
    let mut transport = planes[0].transport();
    transport.recv(Rank(2), tag(1)).unwrap();
    let waiting = thread::spawn(move || (transport.recv(Rank(2), tag(2)).map(drop), transport));
    let mut server = planes[1].transport();
    let serving = thread::spawn(move || server.recv_any(Kind::Push).map(drop));
    drop(planes.pop());
    let (error, mut transport) = waiting.join().unwrap();
    let gone = |rank, wanted| Err(StepError::Gone { rank, peer: Rank(2), wanted });
    assert_eq!(error, gone(Rank(0), Wanted::Message(tag(2))));
    assert_eq!(serving.join().unwrap(), gone(Rank(1), Wanted::Any(Kind::Push)));
    let error = (1..1000).find_map(|step| transport.send(Rank(2), tag(step), packet(10)).err());
    assert!(
        matches!(error, Some(StepError::Gone { peer: Rank(2), wanted: Wanted::Credit(_), .. })),
        "{error:?}"
    );
    // The other ranks go on with each other.
    transport.send(Rank(1), tag(9), packet(10)).unwrap();
    planes[1].transport().recv(Rank(0), tag(9)).unwrap();
    let outcomes: Vec<_> = planes
        .into_iter()
        .map(|plane| thread::spawn(move || plane.close(PATIENCE)))
        .map(|thread| thread.join().unwrap().unwrap_err().to_string())
        .collect();
    assert!(outcomes.iter().all(|error| error.contains("rank 2")), "{outcomes:?}");
}

#[test]
fn who_leaves_early_loses_nothing_and_disturbs_nobody() {
    let sockets = sockets();
    let mut planes = planes(sockets.path(), 3, PATIENCE);
    let early = planes.remove(0);
    let mut transport = early.transport();
    for step in 1..=20 {
        transport.send(Rank(1), tag(step), packet(2 * MIB)).unwrap();
        transport.send(Rank(2), tag(step), packet(100)).unwrap();
    }
    // Nobody has read anything yet, and the peers are not about to leave.
    early.close(PATIENCE).unwrap();
    let error = transport.send(Rank(1), tag(21), packet(1)).unwrap_err();
    assert!(matches!(error, StepError::Transport { .. } | StepError::Stopped), "{error}");
    for (plane, rank) in planes.iter().zip([Rank(1), Rank(2)]) {
        let mut transport = plane.transport();
        for step in 1..=20 {
            transport.recv(Rank(0), tag(step)).unwrap();
        }
        let error = transport.recv(Rank(0), tag(21)).unwrap_err();
        assert_eq!(error, StepError::Gone { rank, peer: Rank(0), wanted: Wanted::Message(tag(21)) });
    }
    let (mut one, mut two) = (planes[0].transport(), planes[1].transport());
    one.send(Rank(2), tag(1), packet(3 * MIB)).unwrap();
    let anyone = thread::spawn(move || (two.recv_any(Kind::Reduce).unwrap().from, two));
    assert_eq!(anyone.join().unwrap().0, Rank(1));
    close(planes);
}

#[test]
fn a_long_message_that_moves_is_not_silence() {
    let sockets = sockets();
    // Each message takes a while, and the deadline is for one of them, not for all.
    let planes = planes(sockets.path(), 2, Duration::from_secs(2));
    let mut sender = planes[0].transport();
    let sending = thread::spawn(move || sender.send(Rank(1), tag(1), packet(256 * MIB)));
    let envelope = planes[1].transport().recv(Rank(0), tag(1)).unwrap();
    assert_eq!(envelope.packet.0.len(), 256 * MIB);
    assert!(envelope.began > Nanos(0));
    sending.join().unwrap().unwrap();
    assert!(planes[0].cpu_time() > Nanos(0));
    close(planes);
}
