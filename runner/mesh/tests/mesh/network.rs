//! The data plane over TCP, on loopback.

use crate::fixture::{PATIENCE, RealClock, briefing, sockets};
use mesh::{DataPlane, Member, MeshError};
use record::Rank;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use strategies::Transport;
use transport_contract::{LanePosition, TestWorld};

/// Addresses without a listener.
pub(crate) fn free_addresses(ranks: u32) -> Vec<SocketAddr> {
    let listeners: Vec<_> = (0..ranks).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

struct Network;

impl TestWorld for Network {
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static) {
        assert_eq!(lanes, 1, "one is enough here");
        let body = Arc::new(body);
        let addresses = Arc::new(free_addresses(ranks));
        let private = sockets();
        let run = |rank: u32| {
            let briefing = briefing(private.path(), Member::Rank(Rank(rank)), ranks, PATIENCE);
            let body = body.clone();
            let addresses = addresses.clone();
            thread::spawn(move || {
                let clock = RealClock::start();
                let plane = DataPlane::open_on(&briefing, Rank(rank), clock, &addresses).unwrap();
                body(LanePosition { rank: Rank(rank), lane: 0, ranks }, plane.transport());
                plane.close(PATIENCE).unwrap();
            })
        };
        let ranks: Vec<_> = (0..ranks).map(run).collect();
        for rank in ranks {
            rank.join().unwrap();
        }
    }
}

#[test]
fn messages_keep_their_order() {
    transport_contract::traffic::order::<Network>(3);
}

#[test]
fn all_sizes_arrive() {
    transport_contract::traffic::sizes::<Network>(&[0, 1, 65_535, 65_536, 65_537, 3_000_001, 20 << 20, 1]);
}

#[test]
fn a_ring_sends_first() {
    transport_contract::traffic::ring::<Network>(4, 8 << 20, 2);
}

#[test]
fn a_rank_without_an_address_cannot_be_reached() {
    let private = sockets();
    let briefing = briefing(private.path(), Member::Rank(Rank(0)), 2, PATIENCE);
    let error = DataPlane::open_on(&briefing, Rank(0), RealClock::start(), &free_addresses(1)).err().unwrap();
    assert!(matches!(error, MeshError::Stranger(Member::Rank(Rank(1)))), "{error}");
}

#[test]
fn a_peer_with_another_secret_is_refused_over_tcp_as_well() {
    let private = sockets();
    let addresses = free_addresses(2);
    let open = |rank: u32, secret: u8| {
        let mut briefing = briefing(private.path(), Member::Rank(Rank(rank)), 2, PATIENCE);
        briefing.secret.0 = [secret; 32];
        briefing.deadlines.start_up = Duration::from_secs(2);
        let addresses = addresses.clone();
        thread::spawn(move || DataPlane::open_on(&briefing, Rank(rank), RealClock::start(), &addresses).err())
    };
    let one = open(0, 1);
    let other = open(1, 2);
    assert!(one.join().unwrap().is_some() && other.join().unwrap().is_some());
}
