//! The data plane keeps the contract of transports, over real sockets.

use crate::contract::{self, Place, World};
use record::Rank;
use std::sync::Arc;
use std::thread;
use strategies::Transport;

struct Mesh;

impl World for Mesh {
    fn run(ranks: u32, lanes: u32, body: impl Fn(Place, &mut dyn Transport) + Send + Sync + 'static) {
        let sockets = crate::fixture::sockets();
        let body = Arc::new(body);
        let planes = crate::fixture::planes(sockets.path(), ranks, crate::fixture::PATIENCE);
        let run = |(plane, rank): (mesh::DataPlane, u32)| {
            let body = body.clone();
            thread::spawn(move || {
                let run = |lane| {
                    let (body, mut transport) = (body.clone(), plane.transport());
                    thread::spawn(move || body(Place { rank: Rank(rank), lane, ranks }, &mut *transport))
                };
                let lanes: Vec<_> = (0..lanes).map(run).collect();
                for lane in lanes {
                    lane.join().unwrap();
                }
                plane.close(crate::fixture::PATIENCE).unwrap();
            })
        };
        let ranks: Vec<_> = planes.into_iter().zip(0..).map(run).collect();
        for rank in ranks {
            rank.join().unwrap();
        }
        assert_eq!(std::fs::read_dir(sockets.path()).unwrap().count(), 0, "sockets are left");
    }
}

contract::tests!(Mesh);
