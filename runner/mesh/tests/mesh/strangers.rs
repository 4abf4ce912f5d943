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
use strategies::{Kind, Packet, Tag};
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
        frame.extend(1_u32.to_le_bytes());
        frame.extend(mesh::BUILD.to_le_bytes());
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

#[test]
fn garbage_is_not_answered_and_disturbs_nobody() {
    let sockets = sockets();
    let planes = planes(sockets.path(), 2, PATIENCE);
    run(async {
        let mut stranger = dealer(&sockets.path().join("data-1")).await;
        for frame in garbage() {
            let mut message = ZmqMessage::from(frame);
            message.push_back(Bytes::from_static(b"payload"));
            stranger.send(message).await.unwrap();
        }
        assert!(timeout(Duration::from_millis(100), stranger.recv()).await.is_err());
    });
    let tag = Tag::new(Kind::Reduce, 1);
    planes[0].transport().send(Rank(1), tag, Packet(Bytes::from_static(b"true"))).unwrap();
    let envelope = planes[1].transport().recv_any(Kind::Reduce).unwrap();
    assert_eq!((envelope.from, &envelope.packet.0[..]), (Rank(0), &b"true"[..]));
    let closing: Vec<_> =
        planes.into_iter().map(|plane| thread::spawn(move || plane.close(PATIENCE))).collect();
    for thread in closing {
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn half_open_connections_and_broken_greetings_stall_nobody() {
    let sockets = sockets();
    run(async {
        let path = sockets.path().join("control");
        let mut server = ControlServer::bind(sockets.path(), &SECRET, &[PEER]).await.unwrap();
        // Says nothing; says something that is no greeting; begins a greeting and hangs up.
        let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
        UnixStream::connect(&path).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        UnixStream::connect(&path).unwrap().write_all(&[0xff, 0, 0, 0]).unwrap();
        let briefing = briefing(sockets.path(), PEER, 1, PATIENCE);
        let talking = thread::spawn(move || {
            let (client, _inbox) = ControlClient::connect(&briefing).unwrap();
            client.send(ToDriver::Goodbye);
            client.close(PATIENCE).unwrap();
        });
        assert_eq!(server.recv().await, Some((PEER, ToDriver::Goodbye)));
        talking.join().unwrap();
        drop(silent);
        server.close(PATIENCE).await;
    });
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
        let (mut back_from, mut back_to) = (driver.try_clone().unwrap(), member.try_clone().unwrap());
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
    let (true_sockets, false_sockets) = (sockets(), sockets());
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
        assert!(said.len() > 200, "hello, proof and good-bye were recorded");

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
