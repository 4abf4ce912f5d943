//! The data plane keeps the contract of transports, over real sockets and with shared memory.

use crate::fixture::{self, Ranks};
use mesh::DataPlane;
use recipe::PayloadPath;
use record::Rank;
use std::time::Duration;
use strategies::{Kind, Packet, Tag, Transport};
use tempfile::TempDir;
use transport_contract::{Crew, TestMember};

fn ranks_of(sockets: &TempDir, count: u32, peer: Duration, transport: PayloadPath) -> Ranks<'_> {
    Ranks { sockets: sockets.path(), count, peer, transport }
}

/// A data plane whose payloads go through sockets.
struct SocketPlane(DataPlane);

impl TestMember for SocketPlane {
    type Ground = TempDir;

    fn all(ranks: u32, patience: Duration) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::Zeromq).open();
        (sockets, planes.into_iter().map(Self).collect())
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::Zeromq).open_narrow(window);
        (sockets, planes.into_iter().map(Self).collect())
    }

    fn transport(&self) -> Box<dyn Transport> {
        self.0.transport()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn close(self) -> Result<(), String> {
        self.0.close(fixture::PATIENCE).map_err(|error| error.to_string())
    }

    fn is_left_tidy(sockets: &TempDir) {
        assert_eq!(std::fs::read_dir(sockets.path()).unwrap().count(), 0, "sockets are left");
    }
}

/// A data plane whose ranks share memory.
struct SharingPlane(DataPlane);

impl TestMember for SharingPlane {
    type Ground = TempDir;

    fn all(ranks: u32, patience: Duration) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::SharedMemory).open();
        (sockets, planes.into_iter().map(Self).collect())
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::SharedMemory).open_narrow(window);
        (sockets, planes.into_iter().map(Self).collect())
    }

    fn transport(&self) -> Box<dyn Transport> {
        self.0.transport()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn close(self) -> Result<(), String> {
        SocketPlane(self.0).close()
    }

    fn is_left_tidy(sockets: &TempDir) {
        SocketPlane::is_left_tidy(sockets);
    }
}

transport_contract::world_tests!(Crew<SocketPlane>);
transport_contract::member_tests!(SocketPlane);

mod shared_memory {
    use super::{Crew, SharingPlane};

    transport_contract::world_tests!(Crew<SharingPlane>);
    transport_contract::member_tests!(SharingPlane);
}

/// More small messages than the line to a peer and its list of loans hold, so that some go through the socket between others
/// that do not.
#[test]
fn messages_keep_their_order_whichever_way_they_go() {
    const MESSAGES: u64 = 6000;
    let sockets = fixture::sockets();
    let planes = ranks_of(&sockets, 2, fixture::PATIENCE, PayloadPath::SharedMemory).open_narrow(4 << 20);
    let kind = |step: u64| if step.is_multiple_of(3) { Kind::Ask } else { Kind::Push };
    let content = |step: u64| Packet(step.to_le_bytes()[..step as usize % 9].to_vec().into());
    let mut sender = planes[0].transport();
    let receive = |wanted: Kind| {
        let mut receiver = planes[1].transport();
        move || {
            for step in (0..MESSAGES).filter(|step| kind(*step) == wanted) {
                let envelope = receiver.recv(Rank(0), Tag::new(wanted, step)).unwrap();
                assert_eq!(envelope.packet, content(step), "message {step}");
            }
        }
    };
    for step in 0..MESSAGES / 2 {
        sender.send(Rank(1), Tag::new(kind(step), step), content(step)).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(receive(Kind::Ask));
        scope.spawn(receive(Kind::Push));
        for step in MESSAGES / 2..MESSAGES {
            sender.send(Rank(1), Tag::new(kind(step), step), content(step)).unwrap();
        }
    });
    drop(sender);
    std::thread::scope(|scope| {
        for plane in planes {
            scope.spawn(move || DataPlane::close(plane, fixture::PATIENCE).unwrap());
        }
    });
}
