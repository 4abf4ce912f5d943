//! Buffers of the data plane's sockets. The crate leaves those of Unix sockets as the system has them (208 KiB on Linux), less than a
//! segment of a ring with what follows it: its thread sleeps in the middle of a message until the peer has read. Those of TCP it makes
//! 4 MiB long, which no cache holds.

use crate::socket::Endpoint;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, sockopt};
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Bytes that a socket takes before its peer reads them. The system may limit it (`net.core.wmem_max`), and keeps as much again for
/// what it notes about them.
const SEND_BUFFER: usize = 512 << 10;

/// Sets the send buffers of this process's connections to these endpoints; returns how many it found. The crate hands out no descriptor,
/// so that they are found by the address of their peer.
pub(crate) fn size_send_buffers<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> usize {
    let peers: Vec<SocketAddrAny> = endpoints.into_iter().filter_map(address).collect();
    let is_peer = |socket: &OwnedFd| matches!(getpeername(socket), Ok(Some(peer)) if peers.contains(&peer));
    let connected = open_descriptors().into_iter().filter_map(duplicate).filter(is_peer);
    connected.filter(|socket| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER).is_ok()).count()
}

/// The address as the system tells it; `None` of a path that is too long for a socket.
fn address(endpoint: &Endpoint) -> Option<SocketAddrAny> {
    match endpoint {
        Endpoint::Ipc(path) => Some(SocketAddrUnix::new(path).ok()?.into()),
        Endpoint::Tcp(address) => Some((*address).into()),
    }
}

/// The descriptors of this process; none where the system does not list them.
fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The same open file behind a descriptor of its own; `None` where it was closed meanwhile.
fn duplicate(descriptor: RawFd) -> Option<OwnedFd> {
    #[expect(unsafe_code, reason = "the crate keeps the descriptors of its sockets to itself")]
    // SAFETY: it is not -1, used for this one call only, and the system refuses to duplicate one that was closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn only_connections_to_the_endpoint_are_changed() {
        let folder = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
        let _listeners = [&here, &there].map(|path| UnixListener::bind(path).unwrap());
        let [one, two, other] = [&here, &here, &there].map(|path| UnixStream::connect(path).unwrap());
        let size = |socket: &UnixStream| sockopt::socket_send_buffer_size(socket).unwrap();
        let before = size(&other);
        assert_eq!(size_send_buffers(&[Endpoint::Ipc(here)]), 2);
        assert_eq!(size(&other), before);
        assert!(size(&one) > before && size(&one) == size(&two), "{} from {before}", size(&one));
    }

    #[test]
    fn connections_over_tcp_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(size_send_buffers(&[Endpoint::Tcp(address)]), 0);
        let _stream = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(size_send_buffers(&[Endpoint::Tcp(address)]), 1);
    }
}
