//! Ranks that are threads, each with a handle that a test can act on.

use crate::{LITTLE, LanePosition, PATIENCE, TestWorld};
use record::Rank;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use strategies::Transport;

/// One rank of a transport, in the hands of a test. Dropping it without [`TestMember::close`] is a crash.
pub trait TestMember: Sized + Send + Sync + 'static {
    /// Resources that must outlive the ranks, such as the directory of their sockets.
    type Ground: Send;

    /// All ranks of a run, connected; no wait is longer than `patience`.
    fn all(ranks: u32, patience: Duration) -> (Self::Ground, Vec<Self>);

    /// The same with a window of this many bytes to each peer.
    fn narrow(ranks: u32, patience: Duration, window: u64) -> (Self::Ground, Vec<Self>);

    /// A handle to the rank's transport.
    fn transport(&self) -> Box<dyn Transport>;

    /// Wakes every wait of the rank.
    fn stop(&self);

    /// Leaves in order; the error names the peer that prevented it.
    fn close(self) -> Result<(), String>;

    /// Whatever has to hold when all ranks have left.
    fn is_left_tidy(_: &Self::Ground) {}
}

/// Lets all ranks leave at once, as they do when a run ends.
pub(crate) fn close<M: TestMember>(ground: M::Ground, members: Vec<M>) {
    let closing: Vec<_> =
        members.into_iter().map(|member| thread::spawn(move || member.close().unwrap())).collect();
    for thread in closing {
        thread.join().unwrap();
    }
    M::is_left_tidy(&ground);
}

/// The world of such ranks.
pub struct Crew<M>(PhantomData<M>);

impl<M: TestMember> TestWorld for Crew<M> {
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static) {
        let (ground, members) = M::all(ranks, PATIENCE);
        run(&ground, members, lanes, body);
    }
}

/// The same world with little room.
pub struct NarrowCrew<M>(PhantomData<M>);

impl<M: TestMember> TestWorld for NarrowCrew<M> {
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static) {
        let (ground, members) = M::narrow(ranks, PATIENCE, LITTLE);
        run(&ground, members, lanes, body);
    }
}

fn run<M: TestMember>(
    ground: &M::Ground,
    members: Vec<M>,
    lanes: u32,
    body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let ranks = members.len() as u32;
    let run = |(rank, member): (u32, M)| {
        let body = body.clone();
        thread::spawn(move || {
            let run = |lane| {
                let body = body.clone();
                let transport = member.transport();
                thread::spawn(move || body(LanePosition { rank: Rank(rank), lane, ranks }, transport))
            };
            let lanes: Vec<_> = (0..lanes).map(run).collect();
            for lane in lanes {
                lane.join().unwrap();
            }
            member.close().unwrap();
        })
    };
    let ranks: Vec<_> = (0..).zip(members).map(run).collect();
    for rank in ranks {
        rank.join().unwrap();
    }
    M::is_left_tidy(ground);
}
