//! Ranks that stop, fall silent, leave or crash, and receivers that do not read.

use crate::crew::{TestMember, close};
use crate::{LITTLE, PATIENCE};
use bytes::Bytes;
use record::{Nanos, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use strategies::{Kind, Packet, Senders, StepError, Tag, Transport, Wanted};

/// A deadline that is meant to be reached.
const SHORT: Duration = Duration::from_millis(300);
const MIB: usize = 1 << 20;

/// The most that a sender may hold for one peer that takes nothing out, whatever it sends: the bound that every
/// transport states.
const BOUND: usize = 64 * MIB;

fn tag(step: u64) -> Tag {
    Tag::new(Kind::Reduce, step)
}

fn packet(size: usize) -> Packet {
    Packet(Bytes::from(vec![7; size]))
}

fn gone(rank: Rank, peer: Rank, wanted: Wanted) -> StepError {
    StepError::Gone { rank, peer, wanted }
}

/// Memory of packets that is still in use.
#[derive(Clone, Default)]
struct Held(Arc<AtomicUsize>);

struct Weighed(Vec<u8>, Held);

impl Held {
    fn packet(&self, size: usize) -> Packet {
        self.0.fetch_add(size, Ordering::SeqCst);
        Packet(Bytes::from_owner(Weighed(vec![7; size], self.clone())))
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl AsRef<[u8]> for Weighed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Weighed {
    fn drop(&mut self) {
        self.1.0.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

/// A wait in vain ends after its deadline and says who waited, for whom, for what, and how long.
pub fn silence<M: TestMember>() {
    let (ground, members) = M::all(2, SHORT);
    let mut transport = members[1].transport();
    let begin = Instant::now();
    let error = transport.recv(Rank(0), tag(3)).unwrap_err();
    let StepError::Silent { rank: Rank(1), peer: Some(Rank(0)), wanted, waited } = error.clone() else {
        panic!("{error}")
    };
    assert_eq!(wanted, Wanted::Message(tag(3)));
    assert!(waited >= Nanos(SHORT.as_nanos() as u64) && waited.0 <= begin.elapsed().as_nanos() as u64);
    let text = error.to_string();
    for word in ["rank 1 waited", "from rank 0", "step 3"] {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    let error = transport.recv_any(Kind::Push, Senders::Everyone).unwrap_err();
    let any = Wanted::Any(Kind::Push);
    assert!(
        matches!(error, StepError::Silent { rank: Rank(1), peer: None, wanted, .. } if wanted == any),
        "{error}"
    );
    close::<M>(ground, members);
}

/// Who waits for one rank is not kept waiting by another that sends.
pub fn noise_of_others<M: TestMember>() {
    let (ground, members) = M::all(3, SHORT);
    let mut waiting = members[0].transport();
    let mut noisy = members[2].transport();
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let noise = thread::spawn(move || {
        for step in 1..=2_000 {
            noisy.send(Rank(0), tag(step), packet(100)).unwrap();
            thread::sleep(Duration::from_millis(10));
            if ended.load(Ordering::SeqCst) {
                return;
            }
        }
        panic!("the wait was as long as the noise");
    });
    let error = waiting.recv(Rank(1), tag(1)).unwrap_err();
    over.store(true, Ordering::SeqCst);
    assert!(matches!(error, StepError::Silent { peer: Some(Rank(1)), .. }), "{error}");
    noise.join().unwrap();
    close::<M>(ground, members);
}

/// A receiver that takes nothing out holds its sender up when `BOUND` is on its way, and not before a message
/// fits; what was sent can still be read, and then there is room again.
pub fn unread<M: TestMember>() {
    // One wait is in vain; the others, of messages this long, must not be.
    const PATIENCE: Duration = Duration::from_secs(5);
    let (ground, members) = M::all(2, PATIENCE);
    let mut sender = members[0].transport();
    let mut receiver = members[1].transport();
    let held = Held::default();
    let mut sent = 0;
    let error = loop {
        match sender.send(Rank(1), tag(sent + 1), held.packet(4 * MIB)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(held.bytes() <= BOUND, "{} bytes are held", held.bytes());
    };
    // Each message costs a little more than its bytes, so the sixteenth does not fit.
    assert_eq!(sent, 15);
    let StepError::Silent { rank: Rank(0), peer: Some(Rank(1)), wanted: Wanted::Credit(wanted), waited } =
        error
    else {
        panic!("{error}")
    };
    assert_eq!(wanted, tag(16));
    assert!(waited >= Nanos(PATIENCE.as_nanos() as u64));
    for step in 1..=sent {
        receiver.recv(Rank(0), tag(step)).unwrap();
    }
    for step in sent + 1..=2 * sent {
        sender.send(Rank(1), tag(step), held.packet(4 * MIB)).unwrap();
        receiver.recv(Rank(0), tag(step)).unwrap();
    }
    close::<M>(ground, members);
    drop((sender, receiver));
    assert_eq!(held.bytes(), 0, "nothing is held when all is over");
}

/// Messages without a byte cannot be sent without end either.
pub fn unread_empty<M: TestMember>() {
    let (ground, members) = M::all(2, SHORT);
    let mut transport = members[0].transport();
    let sent =
        (1..2_000_000).take_while(|step| transport.send(Rank(1), tag(*step), packet(0)).is_ok()).count();
    assert!((10_000..1_000_000).contains(&sent), "{sent}");
    close::<M>(ground, members);
}

/// `has_room` is true of a message that can go at once; a full window has room again after the receiver took some out.
pub fn room<M: TestMember>() {
    let (ground, members) = M::narrow(2, PATIENCE, LITTLE);
    let mut sender = members[0].transport();
    let mut receiver = members[1].transport();
    assert!(sender.has_room(Rank(1), 100 * MIB), "alone, any size may travel");
    sender.send(Rank(1), tag(1), packet(100)).unwrap();
    // A message costs at most 256 bytes beside its own.
    assert!(sender.has_room(Rank(1), LITTLE as usize - 100 - 2 * 256));
    let fits = |sender: &dyn Transport| sender.has_room(Rank(1), LITTLE as usize - 100);
    assert!(!fits(sender.as_ref()));
    assert!(sender.has_room(Rank(0), 100 * MIB), "nothing travels to oneself");
    receiver.recv(Rank(0), tag(1)).unwrap();
    let begin = Instant::now();
    while !fits(sender.as_ref()) {
        assert!(begin.elapsed() < PATIENCE, "there is no room again");
        thread::sleep(Duration::from_millis(1));
    }
    sender.send(Rank(1), tag(2), packet(100)).unwrap();
    assert!(!fits(sender.as_ref()));
    // Where a message would fail, it fails at once.
    assert!(sender.has_room(Rank(9), 1));
    members[0].stop();
    assert!(fits(sender.as_ref()));
    assert_eq!(sender.send(Rank(1), tag(3), packet(LITTLE as usize - 100)), Err(StepError::Stopped));
    receiver.recv(Rank(0), tag(2)).unwrap();
    close::<M>(ground, members);
}

/// Sizes that leave odd rests of credits, so that a receiver holds back what its sender needs.
pub fn room_again<M: TestMember>() {
    const SIZES: [usize; 9] = [40 * MIB, 20 * MIB, 63 * MIB, 1, 70 * MIB, 5 * MIB, 64 * MIB, 0, 1];
    let (ground, members) = M::all(2, PATIENCE);
    let mut sender = members[0].transport();
    let mut receiver = members[1].transport();
    let sending = thread::spawn(move || {
        for (size, step) in SIZES.into_iter().zip(1..) {
            sender.send(Rank(1), tag(step), packet(size)).unwrap();
        }
    });
    for (size, step) in SIZES.into_iter().zip(1..) {
        assert_eq!(receiver.recv(Rank(0), tag(step)).unwrap().packet.0.len(), size);
    }
    sending.join().unwrap();
    close::<M>(ground, members);
}

/// Receives and sends that wait are cancelled by a stop, and so is whatever comes later; the peer is not.
pub fn stopped<M: TestMember>() {
    let (ground, members) = M::all(3, PATIENCE);
    let handle = || members[0].transport();
    let mut one = handle();
    let mut any = handle();
    let mut full = handle();
    // Fills the window first, so that what follows waits for certain.
    for step in 1..=15 {
        full.send(Rank(1), tag(step), packet(4 * MIB)).unwrap();
    }
    let outcomes = thread::scope(|scope| {
        let waits = [
            scope.spawn(move || one.recv(Rank(1), tag(1)).map(drop)),
            scope.spawn(move || any.recv_any(Kind::Push, Senders::Everyone).map(drop)),
            scope.spawn(move || full.send(Rank(1), tag(16), packet(4 * MIB))),
        ];
        // Whether they wait already does not matter: before or after, a stop is the end of each.
        thread::sleep(Duration::from_millis(50));
        members[0].stop();
        waits.map(|wait| wait.join().unwrap())
    });
    assert_eq!(outcomes, [const { Err(StepError::Stopped) }; 3]);
    let mut late = members[0].transport();
    assert_eq!(late.recv(Rank(1), tag(1)).map(drop), Err(StepError::Stopped));
    assert_eq!(late.send(Rank(1), tag(1), packet(1)), Err(StepError::Stopped));
    let mut peer = members[1].transport();
    let mut other = members[2].transport();
    peer.send(Rank(2), tag(1), packet(10)).unwrap();
    other.recv(Rank(1), tag(1)).unwrap();
    close::<M>(ground, members);
}

/// A rank that waits for a crashed one learns it at once; the others continue with each other.
pub fn crash<M: TestMember>() {
    let (_ground, mut members) = M::all(3, PATIENCE);
    let mut crashing = members[2].transport();
    crashing.send(Rank(0), tag(1), packet(10)).unwrap();
    let mut transport = members[0].transport();
    transport.recv(Rank(2), tag(1)).unwrap();
    let waiting = thread::spawn(move || (transport.recv(Rank(2), tag(2)).map(drop), transport));
    let mut server = members[1].transport();
    let serving = thread::spawn(move || server.recv_any(Kind::Push, Senders::Everyone).map(drop));
    drop(members.pop());
    let (error, mut transport) = waiting.join().unwrap();
    assert_eq!(error, Err(gone(Rank(0), Rank(2), Wanted::Message(tag(2)))));
    assert_eq!(serving.join().unwrap(), Err(gone(Rank(1), Rank(2), Wanted::Any(Kind::Push))));
    let error = transport.send(Rank(2), tag(3), packet(10));
    assert_eq!(error, Err(gone(Rank(0), Rank(2), Wanted::Credit(tag(3)))));
    transport.send(Rank(1), tag(9), packet(10)).unwrap();
    members[1].transport().recv(Rank(0), tag(9)).unwrap();
    // They cannot leave in peace, or they can; but they can leave, and never blame each other.
    let closing: Vec<_> =
        members.into_iter().map(|member| thread::spawn(move || member.close().err())).collect();
    for thread in closing {
        let blame = thread.join().unwrap();
        assert!(blame.as_ref().is_none_or(|text| text.contains("rank 2")), "{blame:?}");
    }
}

/// Messages from before the end of a rank arrive, even if they were not read yet; later ones never come.
pub fn goodbye<M: TestMember>() {
    let (ground, mut members) = M::all(3, PATIENCE);
    let early = members.remove(0);
    let mut transport = early.transport();
    for step in 1..=20 {
        transport.send(Rank(1), tag(step), packet(2 * MIB)).unwrap();
        transport.send(Rank(2), tag(step), packet(100)).unwrap();
    }
    early.close().unwrap();
    let error = transport.send(Rank(1), tag(21), packet(1)).unwrap_err();
    assert!(matches!(error, StepError::Transport { .. } | StepError::Stopped), "{error}");
    for (member, rank) in members.iter().zip([Rank(1), Rank(2)]) {
        let mut transport = member.transport();
        for step in 1..=20 {
            transport.recv(Rank(0), tag(step)).unwrap();
        }
        let error = transport.recv(Rank(0), tag(21)).unwrap_err();
        assert_eq!(error, gone(rank, Rank(0), Wanted::Message(tag(21))));
        let error = transport.send(Rank(0), tag(1), packet(1)).unwrap_err();
        assert_eq!(error, gone(rank, Rank(0), Wanted::Credit(tag(1))));
    }
    let mut one = members[0].transport();
    let mut two = members[1].transport();
    one.send(Rank(2), tag(1), packet(3 * MIB)).unwrap();
    assert_eq!(two.recv_any(Kind::Reduce, Senders::Everyone).unwrap().from, Rank(1));
    close::<M>(ground, members);
}

/// The end of one rank leaves a server waiting for the others, that of the last does not.
pub fn last_goodbye<M: TestMember>() {
    let (ground, mut members) = M::all(3, PATIENCE);
    let mut server = members[0].transport();
    let second = members.remove(1);
    second.close().unwrap();
    // Who waits for it alone need not wait for the third to leave.
    let error = server.recv_any(Kind::Ask, Senders::Of(&[Rank(0), Rank(1)])).unwrap_err();
    assert_eq!(error, gone(Rank(0), Rank(1), Wanted::Any(Kind::Ask)));
    let mut third = members[1].transport();
    third.send(Rank(0), Tag::new(Kind::Push, 1), packet(1)).unwrap();
    assert_eq!(server.recv_any(Kind::Push, Senders::Everyone).unwrap().from, Rank(2));
    let waiting = thread::spawn(move || server.recv_any(Kind::Push, Senders::Everyone).map(drop));
    members.remove(1).close().unwrap();
    assert_eq!(waiting.join().unwrap(), Err(gone(Rank(0), Rank(2), Wanted::Any(Kind::Push))));
    close::<M>(ground, members);
}

/// A rank that does not exist is an error, at once.
pub fn no_such_rank<M: TestMember>() {
    let (ground, members) = M::all(2, PATIENCE);
    let mut transport = members[0].transport();
    let errors = [transport.send(Rank(2), tag(1), packet(1)), transport.recv(Rank(7), tag(1)).map(drop)];
    for error in errors {
        assert!(matches!(error, Err(StepError::Transport { rank: Rank(0), .. })), "{error:?}");
    }
    close::<M>(ground, members);
}
