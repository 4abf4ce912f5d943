//! Processes at the sockets that do not belong to the attempt: they cannot read, write, stall or crash it.

use crate::fixture::{PATIENCE, RealClock, briefing, planes, sockets};
use bytes::Bytes;
use mesh::{ControlClient, ControlServer, DataPlane, Member, MeshError, Secret, ToDriver};
use record::Rank;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use strategies::{Kind, Packet, Senders, StepError, Tag};
use tokio::time::timeout;
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

const SECRET: Secret = Secret([42; 32]);
const PEER: Member = Member::Rank(Rank(0));

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(3 * PATIENCE, future).await.unwrap() })
}

async fn dealer(path: &Path) -> DealerSocket {
    let mut dealer = DealerSocket::new();
    dealer.connect(&format!("ipc://{}", path.display())).await.unwrap();
    dealer
}

/// Frames that look like all kinds of messages, and like none.
fn garbage() -> Vec<Bytes> {
    let preamble = |word: u8| {
        let mut frame = b"BKHS".to_vec();
        frame.extend(mesh::PROTOCOL.to_le_bytes());
        frame.extend(mesh::wire_format().to_le_bytes());
        frame.push(word);
        frame.extend([0; 64]);
        frame
    };
    let mut frames: Vec<Vec<u8>> =
        vec![vec![], vec![0], vec![0xff; 1000], vec![1; 41], b"BKDF".to_vec(), vec![0; 48]];
    frames.extend((0..9).map(preamble));
    let mut data = b"BKDF\x01\x00\x01\x00".to_vec();
    data.resize(48, 0);
    data[40] = 1;
    frames.push(data);
    frames.into_iter().map(Bytes::from).collect()
}

/// Two ranks and a driver with one member, whose doors strangers know.
struct Run {
    sockets: tempfile::TempDir,
    planes: Vec<DataPlane>,
}

impl Run {
    fn start() -> Self {
        let sockets = sockets();
        let planes = planes(sockets.path(), 2, PATIENCE);
        Self { sockets, planes }
    }

    /// The doors of the data plane.
    fn doors(&self) -> [PathBuf; 2] {
        ["data-0", "data-1"].map(|name| self.sockets.path().join(name))
    }

    /// The ranks receive from each other only, and leave in order.
    fn goes_on(self) {
        let tag = Tag::new(Kind::Reduce, 1);
        for (from, to) in [(0, 1), (1, 0)] {
            let packet = Packet(Bytes::from_static(b"true"));
            self.planes[from].transport().send(Rank(to as u32), tag, packet).unwrap();
            let envelope = self.planes[to].transport().recv_any(Kind::Reduce, Senders::Everyone).unwrap();
            assert_eq!((envelope.from, &envelope.packet.0[..]), (Rank(from as u32), &b"true"[..]));
        }
        let closing: Vec<_> =
            self.planes.into_iter().map(|plane| thread::spawn(move || plane.close(PATIENCE))).collect();
        for thread in closing {
            thread.join().unwrap().unwrap();
        }
    }
}

/// Lets strangers do something at the control door before its member comes, who is then heard as if nothing had
/// happened.
fn at_the_control_door(strangers: impl FnOnce(&Path)) {
    let sockets = sockets();
    run(async {
        let mut server = ControlServer::bind(sockets.path(), &SECRET, &[PEER]).await.unwrap();
        strangers(&sockets.path().join("control"));
        let briefing = briefing(sockets.path(), PEER, 1, PATIENCE);
        let talking = thread::spawn(move || {
            let (client, _inbox) = ControlClient::connect(&briefing).unwrap();
            client.send(ToDriver::Goodbye);
            client.close(PATIENCE).unwrap();
        });
        assert_eq!(server.recv().await, Some((PEER, ToDriver::Goodbye)));
        talking.join().unwrap();
        server.close(PATIENCE).await;
    });
}

/// Says all kinds of nonsense as a peer of the socket library, and hears nothing.
async fn talk_nonsense(door: &Path) {
    let mut stranger = dealer(door).await;
    for frame in garbage() {
        let mut message = ZmqMessage::from(frame);
        message.push_back(Bytes::from_static(b"payload"));
        stranger.send(message).await.unwrap();
    }
    assert!(timeout(Duration::from_millis(100), stranger.recv()).await.is_err());
}

#[test]
fn garbage_gets_no_reply_and_disturbs_no_peer() {
    let scene = Run::start();
    run(async {
        for door in scene.doors() {
            talk_nonsense(&door).await;
        }
    });
    scene.goes_on();
    at_the_control_door(|door| {
        let door = door.to_owned();
        thread::spawn(move || run(talk_nonsense(&door))).join().unwrap();
    });
}

/// First bytes of the socket library on every connection: its greeting, and that it is a DEALER of this identity.
fn introduction(identity: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity".to_vec();
    ready.extend((identity.len() as u32).to_be_bytes());
    ready.extend(identity);
    bytes.extend([0x04, ready.len() as u8]);
    bytes.extend(ready);
    bytes
}

/// Connections that say nothing, nonsense, half of a greeting, a greeting and nothing, half of a frame, or that the
/// rest of a frame is longer than any memory that can be addressed.
fn half_open(door: &Path) -> Vec<UnixStream> {
    let hello = introduction(b"");
    let frame = |head: &[u8]| [&hello[..], head].concat();
    let giant = [&[2_u8][..], &u64::MAX.to_be_bytes()].concat();
    let words: Vec<Vec<u8>> = vec![
        vec![],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        hello[..30].to_vec(),
        hello[..64].to_vec(),
        hello[..70].to_vec(),
        hello.clone(),
        frame(&[0]),
        frame(&[0, 200, 1, 2, 3]),
        frame(&[1, 1, 0, 2, 0, 0, 0]),
        frame(&giant),
        [&hello[..64], &giant].concat(),
        vec![0xff; 200],
    ];
    let connections = words.iter().cycle().take(3 * words.len()).map(|words| {
        let mut connection = UnixStream::connect(door).unwrap();
        // The other side may hang up in the middle of it.
        let _ = connection.write_all(words);
        connection
    });
    connections.collect()
}

#[test]
fn half_open_connections_and_giant_frames_stall_no_peer() {
    let scene = Run::start();
    let silent: Vec<_> = scene.doors().iter().flat_map(|door| half_open(door)).collect();
    scene.goes_on();
    drop(silent);
    at_the_control_door(|door| drop(half_open(door)));
    at_the_control_door(|door| std::mem::forget(half_open(door)));
}

#[test]
fn strangers_with_one_identity_disturb_only_each_other() {
    let scene = Run::start();
    let talk = |door: &Path, identity: &[u8]| {
        let mut connection = UnixStream::connect(door).unwrap();
        let _ = connection.write_all(&introduction(identity));
        let _ = connection.write_all(b"\x00\x05hello");
        connection
    };
    let doors = scene.doors();
    let twins: Vec<_> = doors.iter().flat_map(|door| (0..10).map(|_| talk(door, b"rank 1"))).collect();
    scene.goes_on();
    drop(twins);
}

/// An attack that no program in front of this socket library can prevent, and why only the user may reach the sockets:
/// a frame of a length that can be addressed but not be had ends the process that believes it. The others learn of it.
#[test]
fn a_stranger_that_gets_as_far_as_the_decoder_can_end_a_process_but_not_a_run_in_silence() {
    let sockets = sockets();
    let mut victim = crate::processes::Process::start(sockets.path(), 1, 2, &["hold"]);
    let briefing = briefing(sockets.path(), PEER, 2, PATIENCE);
    let plane = DataPlane::open(&briefing, Rank(0), RealClock::start()).unwrap();
    victim.says("open");
    let mut stranger = UnixStream::connect(sockets.path().join("data-1")).unwrap();
    stranger.write_all(&introduction(b"")).unwrap();
    stranger.write_all(&[&[2_u8][..], &(1_u64 << 62).to_be_bytes()].concat()).unwrap();
    let error = plane.transport().recv_any(Kind::Push, Senders::Everyone).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
}

#[test]
fn no_other_user_can_reach_the_sockets() {
    use std::os::unix::process::CommandExt;
    const OTHER_USER: u32 = 65_534;
    let scene = Run::start();
    let [door, _] = scene.doors();
    let looks = |user: Option<u32>| {
        let mut command = std::process::Command::new("test");
        command.arg("-e").arg(&door);
        user.map(|user| command.uid(user).gid(user));
        command.status().unwrap().success()
    };
    assert!(looks(None));
    if rustix::process::getuid().is_root() {
        assert!(!looks(Some(OTHER_USER)));
    } else {
        eprintln!("NOT RUN: looking at the sockets as another user, which only root can become");
    }
    scene.goes_on();
}

#[test]
fn a_wrong_secret_passes_neither_way() {
    let sockets = sockets();
    run(async {
        let server = ControlServer::bind(sockets.path(), &SECRET, &[PEER]).await.unwrap();
        let mut wrong = briefing(sockets.path(), PEER, 1, PATIENCE);
        wrong.secret = Secret([43; 32]);
        let error = thread::spawn(move || ControlClient::connect(&wrong).err().unwrap()).join().unwrap();
        assert!(matches!(error, MeshError::Secret { .. }), "{error}");
        server.close(PATIENCE).await;
    });
}

#[test]
fn a_rank_with_another_secret_is_never_let_in() {
    let sockets = sockets();
    let open = |rank, secret| {
        let mut briefing = briefing(sockets.path(), Member::Rank(rank), 2, PATIENCE);
        (briefing.secret, briefing.deadlines.start_up) = (Secret(secret), Duration::from_secs(3));
        thread::spawn(move || DataPlane::open(&briefing, rank, RealClock::start()).err().unwrap())
    };
    // Each finds the other out; the second may find only that the first has given up.
    let errors = [open(Rank(0), [42; 32]), open(Rank(1), [43; 32])].map(|rank| rank.join().unwrap());
    assert!(errors.iter().any(|error| matches!(error, MeshError::Secret { .. })), "{errors:?}");
}

#[test]
fn a_peer_that_does_not_come_is_named() {
    let sockets = sockets();
    let mut briefing = briefing(sockets.path(), PEER, 3, PATIENCE);
    briefing.deadlines.start_up = Duration::from_millis(100);
    let error = DataPlane::open(&briefing, Rank(0), RealClock::start()).err().unwrap();
    assert_eq!(error.to_string(), "rank 0 waited 100.0ms for the handshake with rank 1, rank 2");
    let error = DataPlane::open(&briefing, Rank(3), RealClock::start()).err().unwrap();
    assert_eq!(error.to_string(), "rank 3 is no member of this attempt");
}

/// Passes bytes both ways between a member and the true socket, and keeps what the member said.
fn record(listener: std::os::unix::net::UnixListener, target: PathBuf) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut member, _) = listener.accept().unwrap();
        let mut driver = UnixStream::connect(target).unwrap();
        let mut back_from = driver.try_clone().unwrap();
        let mut back_to = member.try_clone().unwrap();
        let back = thread::spawn(move || {
            let _ = std::io::copy(&mut back_from, &mut back_to);
            let _ = back_to.shutdown(std::net::Shutdown::Both);
        });
        let mut said = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = member.read(&mut piece) {
            said.extend(&piece[..length]);
            if driver.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = driver.shutdown(std::net::Shutdown::Both);
        back.join().unwrap();
        said
    })
}

#[test]
fn a_recording_of_a_whole_connection_is_worthless() {
    let true_sockets = sockets();
    let false_sockets = sockets();
    let other = Member::Rank(Rank(1));
    run(async {
        let mut server = ControlServer::bind(true_sockets.path(), &SECRET, &[PEER, other]).await.unwrap();
        let path = true_sockets.path().join("control");
        let listener = std::os::unix::net::UnixListener::bind(false_sockets.path().join("control")).unwrap();
        let recording = record(listener, path.clone());
        let briefing = briefing(false_sockets.path(), PEER, 2, PATIENCE);
        let talking = thread::spawn(move || {
            let (client, _inbox) = ControlClient::connect(&briefing).unwrap();
            client.send(ToDriver::Goodbye);
            client.close(PATIENCE).unwrap();
        });
        assert_eq!(server.recv().await, Some((PEER, ToDriver::Goodbye)));
        talking.join().unwrap();
        let said = recording.join().unwrap();
        assert!(said.len() > 200, "hello, proof and goodbye were recorded");

        let mut replay = UnixStream::connect(&path).unwrap();
        replay.write_all(&said).unwrap();
        let again = timeout(Duration::from_millis(200), server.recv()).await;
        assert!(again.is_err(), "{again:?}");
        server.close(PATIENCE).await;
    });
}

#[test]
fn a_second_connection_of_a_member_is_ignored() {
    let sockets = sockets();
    run(async {
        let mut server = ControlServer::bind(sockets.path(), &SECRET, &[PEER]).await.unwrap();
        let first = briefing(sockets.path(), PEER, 1, PATIENCE);
        let mut second = first.clone();
        second.deadlines.start_up = Duration::from_millis(200);
        let talking = thread::spawn(move || {
            let (client, _inbox) = ControlClient::connect(&first).unwrap();
            let error = ControlClient::connect(&second).err().unwrap();
            assert!(matches!(error, MeshError::Late { .. }), "{error}");
            client.send(ToDriver::Goodbye);
            client.close(PATIENCE).unwrap();
        });
        assert_eq!(server.recv().await, Some((PEER, ToDriver::Goodbye)));
        talking.join().unwrap();
        server.close(PATIENCE).await;
    });
}
