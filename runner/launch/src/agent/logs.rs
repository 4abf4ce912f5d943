//! Sends what a process writes to its standard error to the driver.

use crate::channel::{Frame, FromAgent, Outlet};
use bytes::Bytes;
use mesh::Member;
use std::io::{PipeReader, Read};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long an exit waits for the rest of the log.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);
/// The most bytes of a log that are sent at once.
const MOST: usize = 64 << 10;

/// Sends a log until its end. The channel's slowness becomes the process's: nothing is dropped.
pub(super) fn send(
    mut log: PipeReader,
    attempt: u64,
    member: Member,
    outlet: Outlet<FromAgent>,
) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; MOST];
        while let Ok(read @ 1..) = log.read(&mut buffer) {
            let payload = Bytes::copy_from_slice(&buffer[..read]);
            if !outlet.send_blocking(Frame { message: FromAgent::Log { attempt, member }, payload }) {
                return;
            }
        }
    })
}
