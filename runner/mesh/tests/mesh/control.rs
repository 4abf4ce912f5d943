//! The control plane over real sockets.

use crate::fixture::{PATIENCE, briefing, sockets};
use mesh::{ControlClient, ControlServer, Member, MeshError, Secret, ToDriver, ToMember};
use record::Rank;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

const SECRET: Secret = Secret([42; 32]);

fn member(rank: u32) -> Member {
    Member::Rank(Rank(rank))
}

fn evaluated(number: usize) -> ToDriver {
    ToDriver::Evaluated { file: number.to_string(), failure: None }
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, future).await.unwrap() })
}

async fn heard(server: &mut ControlServer) -> (Member, ToDriver) {
    tokio::time::timeout(PATIENCE, server.recv()).await.unwrap().unwrap()
}

fn connect(sockets: &Path, who: Member) -> (ControlClient, mesh::ControlInbox) {
    ControlClient::connect(&briefing(sockets, who, 4, PATIENCE)).unwrap()
}

#[test]
fn ten_thousand_messages_each_arrive_once_and_in_order_before_close_returns() {
    const EACH: usize = 10_000;
    let sockets = sockets();
    let path = sockets.path().to_owned();
    run(async {
        let members = [member(0), member(1), member(2), Member::Evaluator];
        let mut server = ControlServer::bind(&path, &SECRET, &members).await.unwrap();
        let talk = |who| {
            let path = path.clone();
            thread::spawn(move || {
                let (client, _inbox) = connect(&path, who);
                (0..EACH).for_each(|number| client.send(evaluated(number)));
                client.send(ToDriver::Goodbye);
                client.close(PATIENCE)
            })
        };
        let talking: Vec<_> = members.map(talk).into_iter().collect();
        let mut next = BTreeMap::new();
        for _ in 0..members.len() * (EACH + 1) {
            let (who, said) = heard(&mut server).await;
            let number = next.entry(who).or_insert(0);
            let expected = if *number == EACH { ToDriver::Goodbye } else { evaluated(*number) };
            assert_eq!(said, expected, "{who}");
            *number += 1;
        }
        for thread in talking {
            thread.join().unwrap().unwrap();
        }
        let more = tokio::time::timeout(Duration::from_millis(50), server.recv()).await;
        assert!(more.is_err(), "{more:?}");
        server.close(PATIENCE).await;
    });
}

#[test]
fn the_driver_speaks_to_members_that_are_there_and_to_those_that_come() {
    let sockets = sockets();
    let path = sockets.path().to_owned();
    run(async {
        let mut server = ControlServer::bind(&path, &SECRET, &[member(0), member(1)]).await.unwrap();
        // Not connected yet.
        server.send(member(0), ToMember::Start { origin: 5 }).unwrap();
        server.send(member(0), ToMember::Stop).unwrap();
        let error = server.send(member(7), ToMember::Stop).unwrap_err();
        assert!(matches!(error, MeshError::Stranger(stranger) if stranger == member(7)), "{error}");
        let listening = thread::spawn({
            let path = path.clone();
            move || {
                let (client, inbox) = connect(&path, member(0));
                client.send(evaluated(1));
                let heard: Vec<_> = (0..3).map(|_| inbox.recv_timeout(PATIENCE).unwrap()).collect();
                assert_eq!(inbox.recv_timeout(Duration::from_millis(10)), None);
                assert!(!inbox.lost());
                client.close(PATIENCE).unwrap();
                assert!(inbox.lost());
                heard
            }
        });
        assert_eq!(heard(&mut server).await, (member(0), evaluated(1)));
        server.send(member(0), ToMember::Leave).unwrap();
        let expected = vec![ToMember::Start { origin: 5 }, ToMember::Stop, ToMember::Leave];
        assert_eq!(listening.join().unwrap(), expected);
        let gone = async {
            while server.send(member(0), ToMember::Stop).is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
        server.close(PATIENCE).await;
    });
}

#[test]
fn close_waits_for_last_words() {
    let sockets = sockets();
    let path = sockets.path().to_owned();
    run(async {
        let mut server = ControlServer::bind(&path, &SECRET, &[member(0)]).await.unwrap();
        let (connected, connection) = std::sync::mpsc::channel();
        let listening = thread::spawn({
            let path = path.clone();
            move || {
                let (client, inbox) = connect(&path, member(0));
                client.send(ToDriver::Goodbye);
                connected.send(()).unwrap();
                std::iter::from_fn(|| inbox.recv_timeout(PATIENCE)).count()
            }
        });
        heard(&mut server).await;
        connection.recv_timeout(PATIENCE).unwrap();
        for _ in 0..5_000 {
            server.send(member(0), ToMember::Stop).unwrap();
        }
        server.close(PATIENCE).await;
        assert_eq!(listening.join().unwrap(), 5_000);
    });
}

#[test]
fn a_driver_that_is_gone_is_noticed_and_nothing_waits_for_it() {
    let sockets = sockets();
    let path = sockets.path().to_owned();
    run(async {
        let server = ControlServer::bind(&path, &SECRET, &[member(0)]).await.unwrap();
        let (client, inbox) = thread::spawn({
            let path = path.clone();
            move || connect(&path, member(0))
        })
        .join()
        .unwrap();
        drop(server);
        assert_eq!(inbox.recv_timeout(PATIENCE), None);
        assert!(inbox.lost());
        client.send(ToDriver::Goodbye);
        let error = client.close(PATIENCE).unwrap_err();
        assert!(matches!(error, MeshError::Lost(_)), "{error}");
    });
}

#[test]
fn a_member_without_a_driver_gives_up_in_time() {
    let sockets = sockets();
    let mut briefing = briefing(sockets.path(), member(2), 4, PATIENCE);
    briefing.deadlines.start_up = Duration::from_millis(100);
    let error = ControlClient::connect(&briefing).err().unwrap();
    assert_eq!(error.to_string(), "rank 2 waited 100.0ms for the handshake with the driver");
}

#[test]
fn the_socket_goes_with_its_server_and_an_open_directory_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let sockets = sockets();
    let path = sockets.path();
    run(async {
        let server = ControlServer::bind(path, &SECRET, &[]).await.unwrap();
        let error = ControlServer::bind(path, &SECRET, &[]).await.err().unwrap();
        assert!(matches!(error, MeshError::Socket { .. }), "{error}");
        assert!(path.join("control").exists(), "the loser must not remove the winner's socket");
        server.close(PATIENCE).await;
    });
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let error = run(ControlServer::bind(path, &SECRET, &[])).err().unwrap();
    assert!(matches!(error, MeshError::Directory { .. }), "{error}");
    let long = path.join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    std::fs::set_permissions(&long, std::fs::Permissions::from_mode(0o700)).unwrap();
    let error = run(ControlServer::bind(&long, &SECRET, &[])).err().unwrap();
    assert!(matches!(error, MeshError::PathTooLong { limit: 107, .. }), "{error}");
}
