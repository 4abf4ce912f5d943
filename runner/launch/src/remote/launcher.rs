//! The launcher of an attempt whose ranks run on connected hosts. The evaluator runs on the driver's machine.

use super::delivery::HostedWorker;
use super::error::HostFault;
use super::hosts::Hosts;
use super::link::{AttemptEnd, HostLink};
use crate::channel::{Opened, Reply, Request, Route, ToAgent};
use crate::checkpoints::state_file;
use crate::digest;
use crate::launcher::{
    Artifact, Artifacts, Fetch, Launcher, NodeIndex, NodePlace, NodeReport, Opening, SpawnRequest,
};
use crate::local::LocalLauncher;
use crate::log::{log_file, tail};
use crate::{Attempt, LaunchError, ProcessExit};
use mesh::Member;
use recipe::{Access, PortRange, Tunnel};
use record::{HostRecord, Nanos, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Readings of a host's clock at a time; the one with the shortest way decides.
const READINGS: usize = 16;
/// A clock that is known no better than this is noted; the page names the error of all.
const COARSE: Duration = Duration::from_millis(5);

/// Runs the ranks of an attempt on connected hosts.
pub(crate) struct HostsLauncher {
    attempt: u64,
    hosts: Arc<Hosts>,
    /// The ports of doors; without it the system chooses.
    ports: Option<PortRange>,
    /// By the node's position in the cluster; `None` for one without ranks.
    nodes: Vec<Option<OpenNode>>,
    /// Launcher of the evaluator, which runs on the driver's machine.
    local: LocalLauncher,
    /// Whether the hosts fork the processes.
    forks: bool,
    directory: PathBuf,
    exit: UnboundedSender<(Member, ProcessExit)>,
    exits: UnboundedReceiver<(Member, ProcessExit)>,
    reading: UnboundedSender<HostRecord>,
    readings: UnboundedReceiver<HostRecord>,
    note: UnboundedSender<String>,
    notes: UnboundedReceiver<String>,
    /// The node of each started rank.
    started: BTreeMap<Member, NodeIndex>,
    /// Hosts that were asked to open the attempt, whether they have or not.
    asked: Vec<Arc<HostLink>>,
    /// Files that were fetched or are being fetched, by their names in the attempt's directory.
    fetched: BTreeMap<String, FetchedFile>,
}

/// A node on which an attempt is open.
struct OpenNode {
    link: Arc<HostLink>,
    worker: HostedWorker,
    place: NodePlace,
    door: Option<SocketAddr>,
    clock: ClockReading,
}

/// By how much a host's clock is ahead of this machine's, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub(super) ahead: i64,
    /// At most, to either side.
    pub(super) error: u64,
}

impl ClockReading {
    /// By how much at most a clock is wrong that was set by an earlier reading: clocks drift apart.
    fn error_of(self, earlier: Self) -> u64 {
        self.error.saturating_add(self.ahead.abs_diff(earlier.ahead))
    }
}

impl HostsLauncher {
    /// A launcher for an attempt whose directory exists.
    pub(crate) fn new(
        hosts: Arc<Hosts>,
        order: &Attempt<'_>,
        ports: Option<PortRange>,
    ) -> Result<Self, LaunchError> {
        let (exit, exits) = mpsc::unbounded_channel();
        let (reading, readings) = mpsc::unbounded_channel();
        let (note, notes) = mpsc::unbounded_channel();
        let mesh::Secret(random) = mesh::random_secret();
        let attempt = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| random[index]));
        let local = LocalLauncher::new(&order.directory, order.forks.clone())?;
        Ok(Self {
            attempt,
            hosts,
            ports,
            nodes: Vec::new(),
            local,
            forks: order.forks.is_some(),
            directory: order.directory.clone(),
            exit,
            exits,
            reading,
            readings,
            note,
            notes,
            started: BTreeMap::new(),
            asked: Vec::new(),
            fetched: BTreeMap::new(),
        })
    }

    fn node(&self, node: NodeIndex) -> Option<&OpenNode> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }

    /// The folder on a node with the states that its ranks continue from.
    async fn state(
        &self,
        index: u32,
        link: &HostLink,
        opening: &Opening<'_>,
    ) -> Result<Option<PathBuf>, LaunchError> {
        let Some(folder) = opening.resume else { return Ok(None) };
        if link.node.access == Access::Local {
            return Ok(Some(folder.to_owned()));
        }
        let ranks = (0..).map(Rank).zip(&opening.spec.cluster.placements);
        let own = ranks
            .filter(|(_, placement)| placement.node == index)
            .map(|(rank, _)| folder.join(state_file(rank)));
        self.hosts.bring_state(link, self.attempt, own.collect()).await.map(Some)
    }

    async fn open_node(
        &mut self,
        index: u32,
        opening: &Opening<'_>,
        several: bool,
    ) -> Result<OpenNode, LaunchError> {
        let node = &opening.spec.cluster.nodes[index as usize];
        let link = self.hosts.live_link(node).await?;
        // Before the request: an attempt whose opening is cut short is closed there too.
        self.asked.push(link.clone());
        let doors = several && opening.spec.cluster.tunnel == Tunnel::None;
        let loopback = || IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listen = doors.then(|| self.hosts.address(node).unwrap_or_else(loopback));
        let attempt = self.attempt;
        let secret = opening.secret.clone();
        let ports = self.ports;
        let open = Request::Open { attempt, secret, forks: self.forks, listen, ports };
        let Opened { sockets, directory, door } = match link.request(open, Vec::new()).await? {
            Reply::Opened(opened) => opened,
            other => return Err(unexpected(&link, &other)),
        };
        let data = self.hosts.data(node, &opening.spec.dataset.source);
        let clock = read_clock(&link).await?;
        let resume = self.state(index, &link, opening).await?;
        let place = NodePlace { sockets, directory, data, resume };
        Ok(OpenNode { worker: self.hosts.worker(node), link, place, door, clock })
    }
}

/// A file that is fetched once, however often it is asked for.
type FetchedFile = Arc<OnceCell<()>>;

fn unexpected(link: &HostLink, reply: &Reply) -> LaunchError {
    link.fault(HostFault::Refused { what: format!("an unexpected reply: {reply:?}") }).into()
}

/// Compares a host's clock with this machine's, after Cristian (1989): the reading with the shortest round trip decides, and half
/// of the trip bounds its error.
pub(super) async fn read_clock(link: &HostLink) -> Result<ClockReading, LaunchError> {
    let mut best = ClockReading { ahead: 0, error: u64::MAX };
    for _ in 0..READINGS {
        let before = crate::agent::monotonic();
        let Reply::Clock(there) = link.request(Request::Clock, Vec::new()).await? else { continue };
        let after = crate::agent::monotonic();
        let error = (after - before).div_ceil(2);
        if error < best.error {
            best = ClockReading { ahead: there.wrapping_sub(before + (after - before) / 2) as i64, error };
        }
    }
    Ok(best)
}

impl Launcher for HostsLauncher {
    async fn open(&mut self, opening: Opening<'_>) -> Result<(), LaunchError> {
        let cluster = &opening.spec.cluster;
        let used: BTreeSet<u32> = cluster.placements.iter().map(|placement| placement.node).collect();
        for index in 0..cluster.nodes.len() as u32 {
            let open = if used.contains(&index) {
                Some(self.open_node(index, &opening, used.len() > 1).await?)
            } else {
                None
            };
            self.nodes.push(open);
        }
        let rank_nodes: Vec<(Rank, u32)> =
            (0..).map(Rank).zip(cluster.placements.iter().map(|placement| placement.node)).collect();
        let link_of = |node: u32| self.node(NodeIndex(node)).map(|open| Arc::downgrade(&open.link));
        for (index, open) in (0..).zip(&self.nodes) {
            let Some(open) = open else { continue };
            let away = rank_nodes.iter().filter(|(_, node)| *node != index);
            open.link.begin(
                self.attempt,
                AttemptEnd {
                    exits: self.exit.clone(),
                    directory: self.directory.clone(),
                    control: mesh::door::control_socket(opening.sockets).map_err(LaunchError::Channel)?,
                    hosts: away.clone().filter_map(|(rank, node)| Some((*rank, link_of(*node)?))).collect(),
                    notes: self.note.clone(),
                    running: BTreeSet::new(),
                },
            );
            let route = |(rank, node): &(Rank, u32)| {
                let door = self.node(NodeIndex(*node)).and_then(|open| open.door);
                (*rank, door.map_or(Route::Tunnel, Route::Door))
            };
            let bound = Duration::from_nanos(open.clock.error);
            if bound > COARSE {
                let name = &open.link.node.name;
                // Fails when the attempt is over.
                let _ = self.note.send(format!("the clock of {name} is only known to within {bound:.1?}"));
            }
            let routes = away.map(route).collect();
            open.link.request(Request::Route { attempt: self.attempt, routes }, Vec::new()).await?;
        }
        Ok(())
    }

    fn place(&self, member: Member, node: NodeIndex) -> Option<&NodePlace> {
        match member {
            Member::Evaluator => None,
            Member::Rank(_) => self.node(node).map(|open| &open.place),
        }
    }

    async fn start(&mut self, request: SpawnRequest) -> Result<u32, LaunchError> {
        let SpawnRequest { member, node, program, briefing, threads, environment } = request;
        let Some(open) = self.node(node).filter(|_| member != Member::Evaluator) else {
            let request = SpawnRequest { member, node, program, briefing, threads, environment };
            return self.local.start(request).await;
        };
        let link = open.link.clone();
        let HostedWorker { program, environment, .. } = open.worker.clone();
        let attempt = self.attempt;
        link.runs(attempt, member);
        self.started.insert(member, node);
        let start = Request::Start { attempt, member, program, threads, environment };
        match link.request(start, briefing).await? {
            Reply::Started(pid) => Ok(pid),
            other => Err(unexpected(&link, &other)),
        }
    }

    fn kill(&mut self, member: Member) {
        match self.started.get(&member).and_then(|node| self.node(*node)) {
            Some(open) => open.link.tell(ToAgent::Kill { attempt: self.attempt, member }),
            None => self.local.kill(member),
        }
    }

    async fn next_report(&mut self) -> NodeReport {
        tokio::select! {
            report = self.local.next_report() => report,
            Some((member, exit)) = self.exits.recv() => NodeReport::Exit(member, exit),
            Some(reading) = self.readings.recv() => NodeReport::Reading(reading),
            Some(note) = self.notes.recv() => NodeReport::Note(note),
        }
    }

    fn clock_ahead(&self, node: NodeIndex) -> i64 {
        self.node(node).map_or(0, |open| open.clock.ahead)
    }

    /// Asks the hosts; their readings are reported.
    fn read_hosts(&mut self, at: Nanos) -> Vec<HostRecord> {
        for (node, open) in (0..).zip(&self.nodes) {
            let Some(open) = open else { continue };
            let link = open.link.clone();
            let reading = self.reading.clone();
            let attempt = self.attempt;
            let begun = open.clock;
            tokio::spawn(async move {
                let read = link.request(Request::Host { attempt, node, at }, Vec::new()).await;
                let Ok(Reply::Host(Some(record))) = read else { return };
                let now = read_clock(&link).await;
                let clock_error = now.map_or(begun.error, |now| now.error_of(begun));
                // Fails when the attempt is over.
                let _ = reading.send(HostRecord { clock_error: Some(Nanos(clock_error)), ..record });
            });
        }
        Vec::new()
    }
}

impl Artifacts for HostsLauncher {
    fn fetch(&mut self, artifact: Artifact) -> Fetch {
        let Artifact { node, name, sha256 } = artifact;
        if let Err(error) = inside(&name) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let path = self.directory.join(&name);
        let Some(open) = self.node(node) else {
            return self.local.fetch(Artifact { node, name, sha256 });
        };
        let link = open.link.clone();
        let attempt = self.attempt;
        let file = self.fetched.entry(name.clone()).or_default().clone();
        Box::pin(async move {
            let fetch = async || {
                // Of a run that continues, the models of the part before are here, and not on the host.
                let here = path.clone();
                let expected = sha256.clone();
                let checked = tokio::task::spawn_blocking(move || digest::check(&here, &expected)).await;
                if checked.is_ok_and(|checked| checked.is_ok()) {
                    return Ok(());
                }
                if let Some(folder) = path.parent() {
                    tokio::fs::create_dir_all(folder).await?;
                }
                link.fetch(attempt, name, path, sha256).await
            };
            file.get_or_try_init(fetch).await.copied()
        })
    }

    fn release(&mut self, artifact: &Artifact) {
        if let Some(open) = self.node(artifact.node) {
            open.link.tell(ToAgent::Discard { attempt: self.attempt, name: artifact.name.clone() });
        }
    }

    fn discard(&mut self, artifact: &Artifact) -> io::Result<()> {
        inside(&artifact.name)?;
        self.release(artifact);
        self.fetched.remove(&artifact.name);
        match fs::remove_file(self.directory.join(&artifact.name)) {
            // It was never fetched.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn log_tail(&mut self, member: Member, bytes: u64) -> io::Result<Vec<u8>> {
        tail(&log_file(&self.directory, member), bytes)
    }
}

impl Drop for HostsLauncher {
    fn drop(&mut self) {
        for link in &self.asked {
            link.finish(self.attempt);
        }
    }
}

/// Refuses a name that leads out of an attempt's directory: it comes from another machine.
fn inside(name: &str) -> io::Result<()> {
    let plain = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if plain && !name.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is no file of an attempt")))
}

/// Whether a run needs agents: it has ranks elsewhere than on this machine.
pub fn needs_hosts(cluster: &recipe::Cluster) -> bool {
    cluster.nodes.iter().any(|node| node.access != Access::Local)
}
