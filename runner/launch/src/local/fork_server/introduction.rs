//! Introduction of a program, printed by a fork of its server.

use super::fork::Fork;
use super::server::{FORKING, Server, StartError, readable_until};
use crate::ProcessExit;
use mesh::ForkRequest;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

/// The bytes that an introduction may have.
const LONGEST: usize = 1 << 20;

/// Introduction that a fork of the server prints of the program.
///
/// # Errors
/// It does not end within [`FORKING`], fails, or prints more than [`LONGEST`].
pub(super) fn introduction(server: &Arc<Server>) -> io::Result<Vec<u8>> {
    let (mut printed, output) = io::pipe()?;
    let request = ForkRequest::Introduce { output: output.into() };
    let fork = Fork::start(server, request).map_err(|error| match error {
        StartError::Io(error) => error,
        StartError::Ended => io::ErrorKind::BrokenPipe.into(),
    })?;
    // An early return drops the fork, which kills it.
    let deadline = Instant::now() + FORKING;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        readable_until(&printed, deadline)?;
        let read = printed.read(&mut piece)?;
        if read == 0 {
            break;
        }
        text.extend_from_slice(&piece[..read]);
        if text.len() > LONGEST {
            let what = format!("it prints more than {LONGEST} bytes of itself");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    let exit = fork.exit_until(deadline)?;
    if exit != ProcessExit::Code(0) {
        return Err(io::Error::other(format!("its fork ended with {exit:?}")));
    }
    fork.reap();
    Ok(text)
}
