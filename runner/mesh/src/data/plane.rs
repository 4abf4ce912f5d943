//! The data plane of one rank: opening, and leaving without losing anything.

use super::accept::{Acceptor, Connections};
use super::link;
use super::requests::AcceptRequest;
use super::shared::{Handle, Queues, Shared, Terms};
use super::window::{Ending, WINDOW, Window};
use crate::handshake::{End, Plane};
use crate::shared_memory::{Joining, MemoryFault, Sharing, Size, write_packets_into};
use crate::socket::{Endpoint, Proven, SocketFile, bind, introduce};
use crate::socket_buffers::size_send_buffers;
use crate::thread::PlaneThread;
use crate::unproven::Unproven;
use crate::{Briefing, Member, MeshError, Secret, directory};
use recipe::PayloadPath;
use record::{Clock, LinkRecord, Nanos, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use strategies::emulation::{Arrivals, Carrier};
use strategies::{StepError, Transport};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A rank's connections to all other ranks. Dropping it without [`close`](Self::close) looks to the peers like a crash.
pub struct DataPlane {
    shared: Arc<Shared>,
    /// Hangs up the links.
    hang_up: CancellationToken,
    /// Ends the plane's thread, which then removes the file of its socket.
    end: CancellationToken,
    thread: PlaneThread,
}

/// The smallest packet that ranks of one host share, in bytes: a page.
const SMALLEST_SHARED: usize = 4096;

/// Stops a data plane from anywhere.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Wakes every wait with [`strategies::StepError::Stopped`].
    pub fn stop(&self) {
        self.0.end(&StepError::Stopped);
    }
}

/// Lets links between a rank and its peers drop. The peers stay connected: they are heard when they leave.
#[derive(Clone)]
pub struct LinkDropper(Arc<Shared>);

impl LinkDropper {
    /// Lets vanish, for good, whatever this rank and a peer send each other, and what the peer has sent and has not arrived yet. No rank
    /// learns it: a lane that waits for such a message waits until its deadline.
    pub fn drop_link(&self, peer: Rank) {
        self.0.drop_link(peer);
    }
}

impl DataPlane {
    /// Binds the rank's own socket, connects to every peer, and waits until every peer has connected, all
    /// within `deadlines.start_up`. `clock` stamps the arrival of announcements. The directory of the sockets
    /// must be the user's own and closed to everybody else.
    pub fn open(briefing: &Briefing, me: Rank, clock: Arc<dyn Clock>) -> Result<Self, MeshError> {
        Self::open_watched(briefing, me, clock, None)
    }

    /// The same; `arrivals` is notified of every message before a lane can take it.
    pub fn open_watched(
        briefing: &Briefing,
        me: Rank,
        clock: Arc<dyn Clock>,
        arrivals: Option<Arc<dyn Arrivals>>,
    ) -> Result<Self, MeshError> {
        let sharing = share(briefing, me, WINDOW, SMALLEST_SHARED)?;
        Self::open_locally(briefing, me, Terms { clock, arrivals, window: WINDOW, sharing })
    }

    /// The same with `window` bytes of credits instead of 64 MiB, the same number on all ranks: for tests of messages
    /// that exceed it. Where memory is shared, each message that fits is.
    pub fn open_narrow(
        briefing: &Briefing,
        me: Rank,
        clock: Arc<dyn Clock>,
        window: u64,
    ) -> Result<Self, MeshError> {
        let sharing = share(briefing, me, window, 1)?;
        Self::open_locally(briefing, me, Terms { clock, arrivals: None, window, sharing })
    }

    fn open_locally(briefing: &Briefing, me: Rank, terms: Terms) -> Result<Self, MeshError> {
        directory::check_private(&briefing.sockets)?;
        let place = |rank| Ok(Endpoint::Ipc(directory::data_socket(&briefing.sockets, rank)?));
        Self::open_at(briefing, me, terms, place)
    }

    /// The same over TCP, with one address per rank: between network namespaces of one machine, which no other process
    /// can reach, and for benchmarks on its loopback. The handshake is the same, but a stranger who reaches the address can
    /// make the socket library allocate memory before the handshake: no run may use this on an open network.
    pub fn open_on(
        briefing: &Briefing,
        me: Rank,
        clock: Arc<dyn Clock>,
        addresses: &[SocketAddr],
    ) -> Result<Self, MeshError> {
        let place = |rank: Rank| {
            let address = addresses.get(rank.index()).copied();
            address.map(Endpoint::Tcp).ok_or(MeshError::Stranger(Member::Rank(rank)))
        };
        let terms = Terms { clock, arrivals: None, window: WINDOW, sharing: None };
        Self::open_at(briefing, me, terms, place)
    }

    fn open_at(
        briefing: &Briefing,
        me: Rank,
        terms: Terms,
        place: impl Fn(Rank) -> Result<Endpoint, MeshError>,
    ) -> Result<Self, MeshError> {
        let ranks = briefing.spec.cluster.ranks();
        if me.0 >= ranks {
            return Err(MeshError::Stranger(Member::Rank(me)));
        }
        let path_of = |rank| Ok((rank, place(rank)?));
        let everybody = (0..ranks).map(Rank);
        let mut peers = everybody.map(path_of).collect::<Result<BTreeMap<_, _>, MeshError>>()?;
        peers.remove(&me);
        let (shared, queues, requested) = Shared::new(me, ranks, briefing.deadlines.peer, terms);
        let hang_up = CancellationToken::new();
        let end = CancellationToken::new();
        let opening = Opening {
            shared: shared.clone(),
            endpoint: place(me)?,
            peers,
            secret: briefing.secret.clone(),
            patience: briefing.deadlines.start_up,
            hang_up: hang_up.clone(),
        };
        let (opened, outcome) = mpsc::sync_channel(1);
        let ended = end.clone();
        let thread = PlaneThread::spawn("data", move || async move {
            match opening.run(queues, requested).await {
                Err(error) => drop(opened.send(Err(error))),
                Ok(_file) => {
                    if opened.send(Ok(())).is_ok() {
                        ended.cancelled().await;
                    }
                }
            }
        })?;
        outcome.recv().unwrap_or_else(|_| Err(MeshError::Lost("the data plane".into())))?;
        Ok(Self { shared, hang_up, end, thread })
    }

    /// A handle to the rank's transport, one for each lane.
    pub fn transport(&self) -> Box<dyn Transport> {
        Box::new(Handle(self.shared.clone()))
    }

    /// The same, to be wrapped by an emulated network card.
    pub fn carrier(&self) -> Box<dyn Carrier> {
        Box::new(Handle(self.shared.clone()))
    }

    /// Wakes every wait with [`strategies::StepError::Stopped`].
    pub fn stop(&self) {
        self.stopper().stop();
    }

    /// A handle that stops the plane from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
    }

    /// A handle that lets links of this rank drop.
    pub fn link_dropper(&self) -> LinkDropper {
        LinkDropper(self.shared.clone())
    }

    /// Lets this process write its packets where its peers read them, if the ranks share memory: without it they are copied
    /// there. A process has one plane that does so.
    pub fn write_packets_into_shared_memory(&self) {
        self.shared.sharing.iter().for_each(write_packets_into);
    }

    /// Bytes and messages sent to each peer so far.
    pub fn links(&self) -> Vec<LinkRecord> {
        self.shared.peers().map(|peer| self.shared.window(peer).sent()).collect()
    }

    /// Processor time of the thread that moves the bytes.
    pub fn cpu_time(&self) -> Nanos {
        self.thread.cpu_time()
    }

    /// Says goodbye to all peers. Returns when each has received everything that was sent to it, or has said goodbye
    /// itself.
    pub fn close(self, deadline: Duration) -> Result<(), MeshError> {
        let begin = Instant::now();
        let until = begin + deadline;
        self.shared.windows.iter().for_each(Window::goodbye);
        let open = |peer: &Rank| self.shared.window(*peer).settle(until) == Ending::Open;
        let unsettled: Vec<_> = self.shared.peers().filter(open).collect();
        self.hang_up.cancel();
        let (done, lingered) = mpsc::sync_channel(1);
        if self.shared.requests.send(AcceptRequest::Linger(done)).is_ok()
            && lingered.recv_timeout(until.saturating_duration_since(Instant::now())).is_err()
        {
            tracing::warn!(rank = %self.shared.me, "a peer that said goodbye did not close its link in time");
        }
        if unsettled.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = unsettled.iter().map(|peer| format!("rank {peer}")).collect();
        Err(MeshError::Unsettled {
            missing: format!("the messages to {}", names.join(", ")),
            waited: begin.elapsed(),
        })
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.stop();
        self.end.cancel();
        self.thread.join();
    }
}

/// The memory that the run's ranks share: room for the windows of two peers, and for a model on its way in and out. More of
/// it is touched only when so much is on its way.
fn share(
    briefing: &Briefing,
    me: Rank,
    window: u64,
    smallest: usize,
) -> Result<Option<Arc<Sharing>>, MeshError> {
    let Briefing { spec, .. } = briefing;
    let ranks = spec.cluster.ranks();
    if spec.communication.transport != PayloadPath::SharedMemory || me.0 >= ranks || ranks < 2 {
        return Ok(None);
    }
    let machines = spec.cluster.machines();
    if machines > 1 {
        let reason = format!("the ranks are on {machines} machines");
        return Err(MeshError::SharedMemory { owner: Member::Rank(me), reason });
    }
    let packets = 2 * window + 2 * 4 * spec.model.parameter_count() as u64;
    let made = Sharing::new(me, ranks, Size { packets, smallest });
    made.map(Some).map_err(|fault| unshared(me, fault))
}

fn unshared(owner: Rank, fault: MemoryFault) -> MeshError {
    MeshError::SharedMemory { owner: Member::Rank(owner), reason: fault.to_string() }
}

/// Waits until the memory of all peers is mapped.
async fn joined(sharing: Option<Arc<Sharing>>) -> Result<(), MeshError> {
    let Some(sharing) = sharing else { return Ok(()) };
    let mut joining = sharing.joining();
    let over = |joining: &Joining| joining.missing.is_empty() || joining.fault.is_some();
    let _ = joining.wait_for(over).await;
    match sharing.take_fault() {
        Some((peer, fault)) => Err(unshared(peer, fault)),
        None => Ok(()),
    }
}

/// Adds the peer to an error that names a socket only.
fn blamed(peer: Rank, error: MeshError) -> MeshError {
    match error {
        MeshError::Socket { .. } | MeshError::Lost(_) => {
            MeshError::Broke { peer: Member::Rank(peer), reason: Box::new(error) }
        }
        other => other,
    }
}

/// A data plane that is being opened.
struct Opening {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    peers: BTreeMap<Rank, Endpoint>,
    secret: Secret,
    patience: Duration,
    hang_up: CancellationToken,
}

impl Opening {
    /// Returns when all connections are open, in both directions.
    async fn run(
        self,
        mut queues: Queues,
        requested: UnboundedReceiver<AcceptRequest>,
    ) -> Result<SocketFile, MeshError> {
        let me = self.shared.me;
        let peers: BTreeSet<_> = self.shared.peers().collect();
        let (missing, arrivals) = watch::channel(peers.clone());
        let (router, gone, file) = bind(self.endpoint.clone()).await?;
        let unproven = Unproven::new(self.secret.clone(), Plane::Data, End::Member(Member::Rank(me)));
        let shared = self.shared.clone();
        let connections = Connections::default();
        tokio::spawn(Acceptor { router, gone, unproven, shared, missing, connections }.serve(requested));
        let mut unreached = peers;
        let mut arriving = arrivals.clone();
        let connected = async {
            let mut connecting = self.connect();
            while let Some(connected) = connecting.join_next().await {
                let Ok((peer, proven)) = connected else { continue };
                self.link(peer, proven.map_err(|error| blamed(peer, error))?, &mut queues);
                unreached.remove(&peer);
            }
            let sized = size_send_buffers(self.peers.values());
            if sized < self.peers.len() {
                tracing::debug!(rank = %me, sized, peers = self.peers.len(), "send buffers are as the system has them");
            }
            let _ = arriving.wait_for(BTreeSet::is_empty).await;
            joined(self.shared.sharing.clone()).await
        };
        match tokio::time::timeout(self.patience, connected).await {
            Ok(Ok(())) => Ok(file),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                unreached.extend(arrivals.borrow().iter());
                let peers = unreached.into_iter().map(Member::Rank).collect();
                Err(MeshError::Late { who: Member::Rank(me), peers, waited: self.patience })
            }
        }
    }

    /// Connects to all peers at once.
    fn connect(&self) -> JoinSet<(Rank, Result<Proven, MeshError>)> {
        let me = End::Member(Member::Rank(self.shared.me));
        let mut connecting = JoinSet::new();
        for (peer, endpoint) in &self.peers {
            let peer = *peer;
            let endpoint = endpoint.clone();
            let secret = self.secret.clone();
            let server = End::Member(Member::Rank(peer));
            connecting
                .spawn(async move { (peer, introduce(&endpoint, &secret, Plane::Data, me, server).await) });
        }
        connecting
    }

    fn link(&self, peer: Rank, proven: Proven, queues: &mut Queues) {
        let Some(queue) = queues.remove(&peer) else { return };
        let shared = self.shared.clone();
        let hang_up = self.hang_up.clone();
        tokio::spawn(async move {
            hang_up.run_until_cancelled(link::run(proven, queue, peer, &shared)).await;
        });
    }
}
