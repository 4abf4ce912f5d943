//! The data plane keeps the contract of transports, over real sockets.

use crate::contract::{self, Crew, Member};
use crate::fixture;
use mesh::DataPlane;
use std::time::Duration;
use strategies::Transport;
use tempfile::TempDir;

impl Member for DataPlane {
    type Ground = TempDir;

    fn all(ranks: u32, patience: Duration) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = fixture::planes(sockets.path(), ranks, patience);
        (sockets, planes)
    }

    fn narrow(ranks: u32, patience: Duration, window: u64) -> (TempDir, Vec<Self>) {
        let sockets = fixture::sockets();
        let planes = fixture::narrow_planes(sockets.path(), ranks, patience, window);
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

contract::world_tests!(Crew<DataPlane>);
contract::member_tests!(DataPlane);
