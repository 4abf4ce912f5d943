//! Send buffers of the data plane's sockets, sized for a segment of a ring. `zeromq` leaves those of Unix sockets as the system has them
//! (208 KiB on Linux), so that the plane's thread sleeps in the middle of a segment until the peer has read; those of TCP it sets to
//! 4 MiB, which no cache holds.

use crate::socket::Endpoint;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, sockopt};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::{fs, io};

/// Bytes that a socket takes before its peer reads them: a segment. Linux grants at most `net.core.wmem_max`, and doubles it for its own
/// bookkeeping.
const SEND_BUFFER: usize = 512 << 10;

/// Sets the send buffers of this process's connections to these endpoints; returns how many it found. `zeromq` hands out no descriptor,
/// so that they are found by the address of their peer.
pub(crate) fn size_send_buffers<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> usize {
    let peers: Vec<SocketAddrAny> = endpoints.into_iter().filter_map(address).collect();
    let is_peer = |socket: &OwnedFd| matches!(getpeername(socket), Ok(Some(peer)) if peers.contains(&peer));
    let connected = sockets().into_iter().filter_map(duplicate).filter(is_peer);
    connected.filter(|socket| size_send_buffer(socket).is_ok()).count()
}

/// Sets the send buffer of a socket that leads to a rank's data plane.
///
/// # Errors
/// It is no socket.
pub fn size_send_buffer(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER)?)
}

/// The address as the system tells it; `None` of a path that is too long for a socket.
fn address(endpoint: &Endpoint) -> Option<SocketAddrAny> {
    match endpoint {
        Endpoint::Ipc(path) => Some(SocketAddrUnix::new(path).ok()?.into()),
        Endpoint::Tcp(address) => Some((*address).into()),
    }
}

/// The descriptors of this process that are sockets; none where the system does not list them. No file is touched: closing a duplicate of
/// one would drop its locks.
fn sockets() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:["))
    };
    let sockets = entries.filter_map(Result::ok).filter(is_socket);
    sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The same socket behind a descriptor of its own; `None` where it was closed meanwhile.
fn duplicate(descriptor: RawFd) -> Option<OwnedFd> {
    #[expect(unsafe_code, reason = "zeromq keeps the descriptors of its sockets to itself")]
    // SAFETY: the call takes any number. Where the number is another file's by now, that file is looked at instead and stays open meanwhile.
    let duplicate = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    #[expect(unsafe_code, reason = "as above")]
    // SAFETY: a number that is not negative is a new descriptor, which nothing else owns.
    (duplicate >= 0).then(|| unsafe { OwnedFd::from_raw_fd(duplicate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    /// One test, because another one beside it might hold a duplicate of its sockets.
    #[test]
    fn only_connections_to_the_endpoints_are_sized() {
        let folder = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
        let _listeners = [&here, &there].map(|path| UnixListener::bind(path).unwrap());
        let [one, two, other] = [&here, &here, &there].map(|path| UnixStream::connect(path).unwrap());
        for socket in [&one, &two, &other] {
            sockopt::set_socket_send_buffer_size(socket, 1 << 14).unwrap();
        }
        let size = |socket: &UnixStream| sockopt::socket_send_buffer_size(socket).unwrap();
        let before = size(&other);
        assert_eq!(size_send_buffers(&[Endpoint::Ipc(here)]), 2);
        assert_eq!(size(&other), before);
        assert!(size(&one) > before && size(&one) == size(&two), "{} from {before}", size(&one));

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(size_send_buffers(&[Endpoint::Tcp(address)]), 0);
        let _stream = TcpStream::connect(address).unwrap();
        assert_eq!(size_send_buffers(&[Endpoint::Tcp(address)]), 1);
    }
}
