//! An attempt on one host: its processes, its sockets and its files.

use super::Agent;
use super::door::{self, Probed, Relays};
use super::logs;
use super::rank_sockets::{RankSockets, over};
use crate::channel::{Frame, FromAgent, Opened, Outlet, PIECE, Route, Streams, Urgency};
use crate::local::{ForkServers, HostReader, Processes, SpawnLocal};
use crate::sockets::OwnedDirectory;
use bytes::Bytes;
use mesh::{Member, Secret};
use recipe::PortRange;
use record::{HostRecord, Nanos, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A process to start on this host.
pub(super) struct Start {
    pub(super) member: Member,
    pub(super) program: PathBuf,
    pub(super) threads: u32,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) briefing: Vec<u8>,
}

/// An attempt on this host. Dropping it kills its processes and removes its directories; the fields are dropped in their
/// order.
pub(super) struct HostedAttempt {
    id: u64,
    processes: Processes,
    relays: Relays,
    host: HostReader,
    logs: Arc<Mutex<BTreeMap<Member, JoinHandle<()>>>>,
    outlet: Outlet<FromAgent>,
    sockets: Arc<RankSockets>,
    directory: OwnedDirectory,
}

impl HostedAttempt {
    /// Makes the attempt's directories. Without `forks` its processes are executed.
    pub(super) fn open(
        id: u64,
        secret: Secret,
        forks: Option<ForkServers>,
        agent: &Agent,
    ) -> io::Result<Arc<Self>> {
        let (exit, mut exits) = mpsc::unbounded_channel();
        let logs: Arc<Mutex<BTreeMap<Member, JoinHandle<()>>>> = Arc::default();
        let sent = logs.clone();
        let outlet = agent.outlet.clone();
        tokio::spawn(async move {
            while let Some((member, exit)) = exits.recv().await {
                let log = sent.lock().unwrap_or_else(PoisonError::into_inner).remove(&member);
                if let Some(log) = log {
                    // A process that was started by the member may keep its standard error open.
                    let _ = tokio::time::timeout(logs::LAST_WORDS, log).await;
                }
                // Behind its log, which may wait.
                outlet.send(Urgency::Bulk, FromAgent::Exited { attempt: id, member, exit }).await;
            }
        });
        let directory = OwnedDirectory::make_in(&agent.cache.attempts()?)?;
        fs::create_dir(directory.path.join("snapshots"))?;
        Ok(Arc::new(Self {
            id,
            processes: Processes::new(exit, forks)?,
            relays: Relays::default(),
            host: HostReader::new(),
            logs,
            outlet: agent.outlet.clone(),
            sockets: Arc::new(RankSockets::of(id, secret)?),
            directory,
        }))
    }

    /// Opens a door for the ranks of other hosts at this address.
    pub(super) async fn listen(
        self: &Arc<Self>,
        address: IpAddr,
        ports: Option<PortRange>,
    ) -> io::Result<SocketAddr> {
        let listener = door::bind(address, ports).await?;
        let at = listener.local_addr()?;
        self.relays.serve(listener, &self.sockets);
        Ok(at)
    }

    /// The folder for files that the driver sends for this attempt alone.
    pub(super) fn adopted_folder(&self) -> io::Result<PathBuf> {
        let folder = self.directory.path.join("adopted");
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Reply to the driver: the attempt's directories on this host, and the address of its door.
    pub(super) fn opened(&self, door: Option<SocketAddr>) -> Opened {
        Opened { sockets: self.sockets.path().to_owned(), directory: self.directory.path.clone(), door }
    }

    /// Listens in the place of the driver and of the ranks of other hosts, and leads what connects there.
    pub(super) fn route(
        self: &Arc<Self>,
        routes: &[(Rank, Route)],
        streams: &Streams<FromAgent>,
    ) -> io::Result<()> {
        let control = mesh::door::control_socket(self.sockets.path()).map_err(io::Error::other)?;
        self.relays.lead_to_driver(&control, self.id, streams)?;
        for (rank, route) in routes {
            let socket = mesh::door::data_socket(self.sockets.path(), *rank).map_err(io::Error::other)?;
            let to = door::Away {
                attempt: self.id,
                rank: *rank,
                route: *route,
                secret: self.sockets.secret().clone(),
                outlet: self.outlet.clone(),
            };
            self.relays.lead(&socket, to, streams)?;
        }
        Ok(())
    }

    /// Starts a process and returns its id.
    pub(super) async fn start(&self, start: Start) -> io::Result<u32> {
        let Start { member, program, threads, environment, briefing } = start;
        let (reader, writer) = io::pipe()?;
        let log = File::from(std::os::fd::OwnedFd::from(writer));
        let sending = logs::send(reader, self.id, member, self.outlet.clone());
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(member, sending);
        self.processes.start(SpawnLocal { member, program, briefing, log, threads, environment }).await
    }

    /// Kills a member's process group.
    pub(super) fn kill(&self, member: Member) {
        self.processes.kill(member);
    }

    /// The sockets of the attempt's ranks on this host.
    pub(super) fn sockets(&self) -> &Arc<RankSockets> {
        &self.sockets
    }

    /// Measures the way to another host's door.
    pub(super) async fn probe(&self, door: SocketAddr, sizes: &[u64]) -> io::Result<Probed> {
        door::probe(door, self.id, self.sockets.secret(), sizes).await
    }

    /// Deletes a file of the attempt's directory.
    pub(super) fn discard(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.file(name)?)
    }

    /// Sends a file of the attempt's directory.
    pub(super) fn send_file(&self, name: &str, request: u32, outlet: &Outlet<FromAgent>) -> io::Result<()> {
        let mut file = File::open(self.file(name)?)?;
        loop {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            let frame = Frame { message: FromAgent::Piece { request }, payload: Bytes::from(piece) };
            if !outlet.send_blocking(frame) || read == 0 {
                return Ok(());
            }
        }
    }

    /// The counters of this host.
    pub(super) fn read_host(&self, node: u32, at: Nanos) -> Option<HostRecord> {
        let read = self.host.read(at, &self.processes)?;
        Some(HostRecord { node, ..read })
    }

    /// The path of a file within the attempt's directory, and of none outside of it.
    fn file(&self, name: &str) -> io::Result<PathBuf> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || name.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name} is no file of an attempt"),
            ));
        }
        Ok(self.directory.path.join(name))
    }
}

/// The attempts of a host. One may be closed before the request that opens it was carried out.
#[derive(Default)]
pub(super) struct HostedAttempts(Mutex<Table>);

#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Arc<HostedAttempt>>,
    closed: BTreeSet<u64>,
}

impl HostedAttempts {
    pub(super) fn get(&self, attempt: u64) -> Option<Arc<HostedAttempt>> {
        self.lock().open.get(&attempt).cloned()
    }

    /// Keeps an attempt until it is closed.
    ///
    /// # Errors
    /// It was closed before; what it has made is gone.
    pub(super) fn insert(&self, attempt: u64, here: Arc<HostedAttempt>) -> io::Result<()> {
        let mut table = self.lock();
        if table.closed.remove(&attempt) {
            return Err(over());
        }
        table.open.insert(attempt, here);
        Ok(())
    }

    pub(super) fn close(&self, attempt: u64) {
        let mut table = self.lock();
        let here = table.open.remove(&attempt);
        if here.is_none() {
            table.closed.insert(attempt);
        }
        // Ending processes takes time.
        drop(table);
        drop(here);
    }

    pub(super) fn clear(&self) {
        let open = std::mem::take(&mut self.lock().open);
        drop(open);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
