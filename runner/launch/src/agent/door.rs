//! How the sockets of one host lead to those of another: a listener in the place of each rank that is elsewhere, and the door
//! at which such connections arrive.

use super::rank_sockets::RankSockets;
use crate::channel::{Destination, FromAgent, Outlet, Route, Streams};
use mesh::door::{HANDSHAKE_TIME, Knock, admit, knock};
use mesh::{RelayedTcp, Secret};
use recipe::PortRange;
use record::Rank;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinHandle};

/// Bytes that are copied at once.
const BUFFER: usize = 256 << 10;
/// Connections at the door whose peers have not proved who they are; beyond it the oldest is closed.
const UNPROVEN: usize = 128;
/// How long a connection to another host's door is tried.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
/// For a probe, from its connection to its last byte.
const PROBE_TIME: Duration = Duration::from_secs(30);

/// The rank that a probe asks for: no run has as many. The door itself replies to it.
const PROBE: Rank = Rank(u32::MAX);
/// Round trips of a probe, and the most transfers of a size; the shortest counts.
const ROUND_TRIPS: usize = 20;
/// For the transfers of one size.
const SIZE_TIME: Duration = Duration::from_secs(1);

/// A rank of another host.
#[derive(Clone)]
pub(super) struct Away {
    pub(super) attempt: u64,
    pub(super) rank: Rank,
    pub(super) route: Route,
    pub(super) secret: Secret,
    /// To the driver, which records why a connection was not made.
    pub(super) outlet: Outlet<FromAgent>,
}

impl Away {
    fn note(&self, address: SocketAddr, error: &io::Error) {
        let text = format!(
            "no connection with rank {} through the door at {address}: {error}; `bakeoff nodes check` tries each way",
            self.rank
        );
        tracing::warn!("{text}");
        self.outlet.tell(FromAgent::Note { attempt: self.attempt, text });
    }
}

/// The tasks that lead connections; dropping them ends all.
#[derive(Default)]
pub(super) struct Relays(Mutex<Vec<JoinHandle<()>>>);

impl Drop for Relays {
    fn drop(&mut self) {
        for task in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Relays {
    /// Admits peers at a door and connects them with the sockets of this host's ranks.
    pub(super) fn serve(&self, listener: TcpListener, sockets: &Arc<RankSockets>) {
        let sockets = Arc::downgrade(sockets);
        self.keep(tokio::spawn(async move {
            let mut unproven: VecDeque<AbortHandle> = VecDeque::new();
            loop {
                let Ok((stream, from)) = listener.accept().await else {
                    // Too many open files, for example: it may get better.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                unproven.retain(|one| !one.is_finished());
                if unproven.len() >= UNPROVEN
                    && let Some(oldest) = unproven.pop_front()
                {
                    oldest.abort();
                }
                unproven.push_back(tokio::spawn(enter(stream, from, sockets.clone())).abort_handle());
            }
        }));
    }

    /// Leads what connects to `socket` to the driver's control plane.
    pub(super) fn lead_to_driver(
        &self,
        socket: &Path,
        attempt: u64,
        streams: &Streams<FromAgent>,
    ) -> io::Result<()> {
        let streams = streams.clone();
        self.accept(socket, move |stream| {
            let streams = streams.clone();
            async move { streams.open(stream, attempt, Destination::Control).await }
        })
    }

    /// Leads what connects to `socket` to a rank of another host.
    pub(super) fn lead(&self, socket: &Path, to: Away, streams: &Streams<FromAgent>) -> io::Result<()> {
        let streams = streams.clone();
        self.accept(socket, move |stream| {
            let streams = streams.clone();
            let to = to.clone();
            async move {
                match to.route {
                    Route::Tunnel => streams.open(stream, to.attempt, Destination::Rank(to.rank)).await,
                    Route::Door(address) => {
                        if let Err(error) = pass(stream, address, &to).await {
                            to.note(address, &error);
                        }
                    }
                }
            }
        })
    }

    fn accept<F>(&self, socket: &Path, lead: impl Fn(UnixStream) -> F + Send + 'static) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = UnixListener::bind(socket)?;
        self.keep(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => drop(connections.spawn(lead(stream))),
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        }));
        Ok(())
    }

    fn keep(&self, task: JoinHandle<()>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}

/// Binds the door: at the first free port of a range, or at one that the system chooses.
pub(super) async fn bind(address: IpAddr, ports: Option<PortRange>) -> io::Result<TcpListener> {
    // At port 0 the system chooses.
    let tried = ports.map_or(0..=0, |ports| ports.first..=ports.last);
    let mut fault = io::Error::other("no port");
    for port in tried {
        match TcpListener::bind((address, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => fault = error,
        }
    }
    let range = ports.map_or_else(String::new, |ports| format!(", ports {} to {}", ports.first, ports.last));
    Err(io::Error::new(fault.kind(), format!("no door at {address}{range}: {fault}")))
}

/// A peer at the door, from its handshake to the end of its connection.
async fn enter(mut stream: TcpStream, from: SocketAddr, sockets: Weak<RankSockets>) {
    let secret = |asked: Knock| sockets.upgrade()?.secret_for(asked.attempt);
    let admitted = tokio::time::timeout(HANDSHAKE_TIME, admit(&mut stream, secret)).await;
    let rank = match admitted {
        Ok(Ok(asked)) => asked.rank,
        Ok(Err(error)) => return tracing::warn!(%from, %error, "a peer was refused at the door"),
        Err(_) => return tracing::warn!(%from, "a peer said nothing at the door"),
    };
    if rank == PROBE {
        echo(stream).await;
        return;
    }
    // It is no stranger any more: it no longer counts among those that may be closed.
    tokio::spawn(async move {
        if let Ok(socket) = RankSockets::connect(sockets, rank).await {
            join(socket, stream).await;
        }
    });
}

/// Leads a connection through the door of another host.
async fn pass(socket: UnixStream, address: SocketAddr, to: &Away) -> io::Result<()> {
    let until = tokio::time::Instant::now() + PATIENCE;
    let stream = loop {
        match admitted(address, to).await {
            Ok(stream) => break stream,
            // Nothing listens yet, or strangers crowd the door, which closes the oldest of those that have not proven who they are.
            Err(error) if tokio::time::Instant::now() >= until => {
                return Err(io::Error::new(error.kind(), format!("nothing admits it at {address}: {error}")));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    join(socket, stream).await;
    Ok(())
}

/// A connection that the door of another host has admitted.
async fn admitted(address: SocketAddr, to: &Away) -> io::Result<TcpStream> {
    let late = |what: &str| io::Error::new(io::ErrorKind::TimedOut, format!("{what} at {address}"));
    let connected = tokio::time::timeout(HANDSHAKE_TIME, TcpStream::connect(address)).await;
    let mut stream = connected.map_err(|_| late("nothing listens"))??;
    let asked = Knock { attempt: to.attempt, rank: to.rank };
    let shaken = tokio::time::timeout(HANDSHAKE_TIME, knock(&mut stream, asked, &to.secret)).await;
    shaken.map_err(|_| late("the door does not reply"))?.map_err(io::Error::other)?;
    Ok(stream)
}

/// Sends back what comes, until the peer closes.
async fn echo(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::with_capacity(BUFFER, from);
    let _ = tokio::time::timeout(PROBE_TIME, tokio::io::copy_buf(&mut from, &mut to)).await;
}

/// Times measured on the way to the door of another host.
pub(super) struct Probed {
    /// Shortest round trip of one byte.
    pub(super) round_trip: Duration,
    /// Of each size the shortest time in which its bytes go there and come back.
    pub(super) transfers: Vec<Duration>,
}

/// Measures the way to the door of another host with messages of these sizes.
pub(super) async fn probe(
    address: SocketAddr,
    attempt: u64,
    secret: &Secret,
    sizes: &[u64],
) -> io::Result<Probed> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no door at {address} replied"));
    let probing = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        knock(&mut stream, Knock { attempt, rank: PROBE }, secret).await.map_err(io::Error::other)?;
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            round_trip = round_trip.min(there_and_back(&mut stream, 1).await?);
        }
        let mut transfers = Vec::with_capacity(sizes.len());
        for size in sizes {
            transfers.push(shortest(&mut stream, *size).await?);
        }
        Ok(Probed { round_trip, transfers })
    };
    tokio::time::timeout(PROBE_TIME, probing).await.map_err(|_| late())?
}

/// Copies bytes both ways until either end closes.
async fn join(mut socket: UnixStream, stream: TcpStream) {
    // Small messages must not wait for large ones.
    let _ = stream.set_nodelay(true);
    let mut stream = RelayedTcp::new(stream);
    let _ = copy_bidirectional_with_sizes(&mut socket, &mut stream, BUFFER, BUFFER).await;
}

/// The shortest time of several, as often as fits into `SIZE_TIME`, and once at least.
async fn shortest(stream: &mut TcpStream, bytes: u64) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let took = there_and_back(stream, bytes).await?;
        shortest = shortest.min(took);
        if begun.elapsed() + took > SIZE_TIME {
            break;
        }
    }
    Ok(shortest)
}

/// The time in which bytes go to an echo and come back, both at once.
async fn there_and_back(stream: &mut TcpStream, bytes: u64) -> io::Result<Duration> {
    let begun = Instant::now();
    let (mut from, mut to) = stream.split();
    let piece = vec![0; bytes.min(BUFFER as u64) as usize];
    let sending = async {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(BUFFER as u64);
            to.write_all(&piece[..part as usize]).await?;
            left -= part;
        }
        io::Result::Ok(())
    };
    let receiving = async {
        let mut buffer = vec![0; piece.len()];
        let mut left = bytes;
        while left > 0 {
            match from.read(&mut buffer).await? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                read => left = left.saturating_sub(read as u64),
            }
        }
        Ok(())
    };
    tokio::try_join!(sending, receiving)?;
    Ok(begun.elapsed())
}
