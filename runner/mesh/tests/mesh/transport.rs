//! The data plane keeps the contract of transports, over real sockets and with shared memory.

use crate::contract::{self, Crew, Member};
use crate::fixture::{self, Ranks};
use mesh::DataPlane;
use recipe::PayloadPath;
use std::time::Duration;
use strategies::Transport;
use tempfile::TempDir;

fn ranks_of(sockets: &TempDir, count: u32, peer: Duration, transport: PayloadPath) -> Ranks<'_> {
    Ranks { sockets: sockets.path(), count, peer, transport }
}

impl Member for DataPlane {
    type Ground = TempDir;

    fn all(ranks: u32, patience: Duration) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::Zeromq).open();
        (sockets, planes)
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = ranks_of(&sockets, ranks, patience, PayloadPath::Zeromq).open_narrow(window);
        (sockets, planes)
    }

    fn transport(&self) -> Box<dyn Transport> {
        DataPlane::transport(self)
    }

    fn stop(&self) {
        DataPlane::stop(self);
    }

    fn close(self) -> Result<(), String> {
        DataPlane::close(self, fixture::PATIENCE).map_err(|error| error.to_string())
    }

    fn is_left_tidy(sockets: &TempDir) {
        assert_eq!(std::fs::read_dir(sockets.path()).unwrap().count(), 0, "sockets are left");
    }
}

/// A data plane whose ranks share memory.
struct SharingPlane(DataPlane);

impl Member for SharingPlane {
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
        Member::close(self.0)
    }

    fn is_left_tidy(sockets: &TempDir) {
        DataPlane::is_left_tidy(sockets);
    }
}

contract::world_tests!(Crew<DataPlane>);
contract::member_tests!(DataPlane);

mod shared_memory {
    use super::{Crew, SharingPlane, contract};

    contract::world_tests!(Crew<SharingPlane>);
    contract::member_tests!(SharingPlane);
}
