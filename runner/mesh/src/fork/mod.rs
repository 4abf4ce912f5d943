//! The messages between a driver and a fork server, which is a worker program that was loaded once and forks a process for each
//! worker.
//!
//! They have a pair of sequenced-packet sockets; each message is one packet of [`SIZE`] bytes, all numbers little endian: a word
//! (u32), a process id (u32) and a number (i32). A request to start a process brings two descriptors: the reading end of
//! its standard input, and its standard error. A request to introduce the program brings one: the standard output of a process that
//! prints the introduction and exits. The server never calls libtorch, which decides once whether there are GPUs: every fork would
//! inherit the answer.
//!
//! ```text
//!   server                       driver
//!   Ready                  ->
//!                          <-    Start, with two descriptors, or
//!                          <-    Introduce, with one
//!   Started { pid } or
//!   Failed { errno }       ->
//!   Exited { pid, how }    ->                              (not reaped yet: the id is still its own)
//!                          <-    Reap { pid }
//!   Reaped { pid }         ->
//! ```
//!
//! Requests to start are carried out, and replied to, in their order.

mod server;

pub use server::{Forked, serve_forks};

use rustix::io::{IoSlice, IoSliceMut, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The argument that lets a worker program print what the driver must know of it.
pub const INTRODUCE: &str = "--protocol";

/// The arguments that make a worker program a fork server; one that cannot be one introduces itself and ends.
pub const FORK_SERVER: [&str; 2] = [INTRODUCE, "--fork-server"];

/// The size of a message in bytes.
const SIZE: usize = 12;

/// Request of a driver to its fork server.
#[derive(Debug)]
pub enum ForkRequest {
    /// To start a process.
    Start {
        /// Becomes its standard input.
        input: OwnedFd,
        /// Becomes its standard error.
        log: OwnedFd,
    },
    /// To start a process that prints what the driver must know of the program.
    Introduce {
        /// Becomes its standard output.
        output: OwnedFd,
    },
    /// To reap a process that has exited.
    Reap {
        /// Its process id.
        pid: u32,
    },
}

/// Message of a fork server to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkReply {
    /// It has been loaded.
    Ready,
    /// A process was started.
    Started {
        /// Its process id, which is also that of its process group.
        pid: u32,
    },
    /// No process was started.
    Failed {
        /// The system's number of the error.
        errno: i32,
    },
    /// A process has exited and is not reaped yet.
    Exited {
        /// Its process id, which no other process gets before it is reaped.
        pid: u32,
        /// By which code or signal.
        how: ForkExit,
    },
    /// A process was reaped: its id may belong to another from now on.
    Reaped {
        /// The process id that it had.
        pid: u32,
    },
}

/// How a forked process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkExit {
    /// It returned an exit code.
    Code(i32),
    /// A signal ended it, by its number.
    Signal(i32),
}

/// A pair of sockets: the driver's, and the one that becomes the server's standard input.
pub fn fork_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl ForkRequest {
    /// Sends it; its descriptors are closed on this side.
    pub fn send(self, socket: impl AsFd) -> io::Result<()> {
        match self {
            Self::Start { input, log } => send(socket.as_fd(), [1, 0, 0], &[input.as_fd(), log.as_fd()]),
            Self::Introduce { output } => send(socket.as_fd(), [3, 0, 0], &[output.as_fd()]),
            Self::Reap { pid } => send(socket.as_fd(), [2, pid.cast_signed(), 0], &[]),
        }
    }

    /// Waits for the next one; none after the driver has closed its socket.
    pub fn receive(socket: impl AsFd) -> io::Result<Option<Self>> {
        let Some(Packet { numbers: [word, pid, _], descriptors }) = receive(socket.as_fd())? else {
            return Ok(None);
        };
        let mut descriptors = descriptors.into_iter();
        match (word, descriptors.next(), descriptors.next()) {
            (1, Some(input), Some(log)) => Ok(Some(Self::Start { input, log })),
            (2, None, None) => Ok(Some(Self::Reap { pid: pid.cast_unsigned() })),
            (3, Some(output), None) => Ok(Some(Self::Introduce { output })),
            _ => Err(unknown("request", word)),
        }
    }
}

impl ForkReply {
    /// Sends the reply as one packet of the socket.
    pub fn send(self, socket: impl AsFd) -> io::Result<()> {
        let numbers = match self {
            Self::Ready => [1, 0, 0],
            Self::Started { pid } => [2, pid.cast_signed(), 0],
            Self::Failed { errno } => [3, 0, errno],
            Self::Exited { pid, how: ForkExit::Code(code) } => [4, pid.cast_signed(), code],
            Self::Exited { pid, how: ForkExit::Signal(signal) } => [5, pid.cast_signed(), signal],
            Self::Reaped { pid } => [6, pid.cast_signed(), 0],
        };
        send(socket.as_fd(), numbers, &[])
    }

    /// Waits for the next one; none after the server has ended.
    pub fn receive(socket: impl AsFd) -> io::Result<Option<Self>> {
        let Some(Packet { numbers: [word, pid, number], .. }) = receive(socket.as_fd())? else {
            return Ok(None);
        };
        let pid = pid.cast_unsigned();
        Ok(Some(match word {
            1 => Self::Ready,
            2 => Self::Started { pid },
            3 => Self::Failed { errno: number },
            4 => Self::Exited { pid, how: ForkExit::Code(number) },
            5 => Self::Exited { pid, how: ForkExit::Signal(number) },
            6 => Self::Reaped { pid },
            _ => return Err(unknown("reply", word)),
        }))
    }
}

struct Packet {
    numbers: [i32; 3],
    descriptors: Vec<OwnedFd>,
}

fn send(socket: BorrowedFd<'_>, numbers: [i32; 3], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = numbers.map(i32::to_le_bytes).concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("no room for descriptors"));
    }
    // A peer that has ended is an error here and no signal.
    let sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL))?;
    if sent == SIZE { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    let mut bytes = [0; SIZE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    match received.bytes {
        0 => Ok(None),
        SIZE => {
            let number =
                |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            Ok(Some(Packet { numbers: [number(0), number(4), number(8)], descriptors }))
        }
        other => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {other} bytes, not {SIZE}")))
        }
    }
}

fn unknown(what: &str, word: i32) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the {what} {word} is unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn requests_bring_their_descriptors() {
        let (driver, server) = fork_sockets().unwrap();
        let (mut read, write) = io::pipe().unwrap();
        let (input, _kept) = io::pipe().unwrap();
        ForkRequest::Start { input: input.into(), log: write.into() }.send(&driver).unwrap();
        ForkRequest::Reap { pid: 7 }.send(&driver).unwrap();
        let (mut introduction, output) = io::pipe().unwrap();
        ForkRequest::Introduce { output: output.into() }.send(&driver).unwrap();
        drop(driver);
        let Some(ForkRequest::Start { log, .. }) = ForkRequest::receive(&server).unwrap() else {
            panic!("no start")
        };
        File::from(log).write_all(b"words").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "words", "the sender has closed its end");
        assert!(matches!(ForkRequest::receive(&server).unwrap(), Some(ForkRequest::Reap { pid: 7 })));
        let Some(ForkRequest::Introduce { output }) = ForkRequest::receive(&server).unwrap() else {
            panic!("no request for an introduction")
        };
        File::from(output).write_all(b"name").unwrap();
        introduction.read_to_string(&mut text).unwrap();
        assert_eq!(text, "wordsname");
        assert!(ForkRequest::receive(&server).unwrap().is_none());
        assert!(ForkReply::Ready.send(&server).is_err(), "the driver reads no more");
    }

    #[test]
    fn replies_survive() {
        let (driver, server) = fork_sockets().unwrap();
        let pid = u32::MAX;
        let replies = [
            ForkReply::Ready,
            ForkReply::Started { pid },
            ForkReply::Failed { errno: 11 },
            ForkReply::Exited { pid, how: ForkExit::Code(255) },
            ForkReply::Exited { pid, how: ForkExit::Signal(9) },
            ForkReply::Reaped { pid },
        ];
        for reply in replies {
            reply.send(&server).unwrap();
            assert_eq!(ForkReply::receive(&driver).unwrap(), Some(reply));
        }
    }

    #[test]
    fn a_request_without_its_descriptors_and_a_strange_size_are_errors() {
        let (driver, server) = fork_sockets().unwrap();
        for word in [1, 3] {
            send(driver.as_fd(), [word, 0, 0], &[]).unwrap();
            assert!(ForkRequest::receive(&server).is_err());
        }
        rustix::io::write(&driver, b"strange").unwrap();
        assert!(ForkRequest::receive(&server).unwrap_err().to_string().contains("7 bytes"));
    }
}
