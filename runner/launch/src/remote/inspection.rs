//! State of hosts before a run, for a person: each host by itself, and the ways between them.

use super::error::{HostError, HostFault};
use super::hosts::Hosts;
use super::launcher::{ClockReading, read_clock};
use super::link::{AttemptEnd, HostLink};
use crate::channel::{Opened, Reply, Request};
use crate::{FreeResources, LaunchError, NetworkFacts, NodeFacts, WorkerBinary, data_digest};
use recipe::{Node, PortRange, Source};
use record::{HostRecord, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A question to hosts.
#[derive(Clone, Copy, Debug)]
pub struct Inspect<'a> {
    /// The worker that is to run there.
    pub worker: &'a WorkerBinary,
    /// The data sets that must be there.
    pub sources: &'a [&'a Source],
    /// Whether data sets are brought to hosts that lack them.
    pub copy_data: bool,
    /// The ports of doors; without it the system chooses.
    pub ports: Option<PortRange>,
    /// Sizes of the messages that go over each way and come back; none for round trips only.
    pub sizes: &'a [u64],
}

/// A host that was inspected.
#[derive(Debug)]
pub struct HostState {
    /// As the recipe names it.
    pub node: Node,
    /// Processor, cores and memory.
    pub facts: NodeFacts,
    /// Free memory there, and free room on the disk of its cache.
    pub free: FreeResources,
    /// At most by how many nanoseconds the comparison of its monotonic clock with this machine's is wrong; `u64::MAX` where they were
    /// not compared.
    pub clock_error: u64,
    /// Its wall clock beside this machine's; `None` where it was not read.
    pub wall_clock: Option<WallClock>,
    /// Its network card, and the buffers of its kernel.
    pub network: NetworkFacts,
    /// Of load, processor time and pressure; `None` where the kernel shows none.
    pub counters: Option<HostRecord>,
    /// Why the worker does not run there.
    pub worker: Result<(), LaunchError>,
    /// Why a data set is not there.
    pub data: Result<(), LaunchError>,
    /// Where the other hosts reach it, or why it cannot listen there.
    pub door: Result<SocketAddr, HostError>,
}

/// The way from one host to another.
#[derive(Debug)]
pub struct WayState {
    /// The node that connects.
    pub from: String,
    /// The node that listens.
    pub to: String,
    /// Times measured on the way, or why it cannot be passed.
    pub outcome: Result<Way, HostError>,
}

/// How far a wall clock is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Nanoseconds; negative behind it.
    pub ahead: i64,
    /// At most by how many nanoseconds that is wrong.
    pub error: u64,
}

/// Times measured on a way between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The shortest round trip of a byte.
    pub round_trip: Duration,
    /// Shortest time there and back, for each size that was asked for.
    pub sent: Vec<Sent>,
}

/// A message that went over a way and came back, both at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Bytes in each direction.
    pub bytes: u64,
    /// Until the last one was back.
    pub time: Duration,
}

impl Hosts {
    /// Inspects all connected hosts and the ways between them.
    pub async fn inspect(&mut self, nodes: &[Node], inspect: Inspect<'_>) -> (Vec<HostState>, Vec<WayState>) {
        let attempt = u64::MAX;
        let secret = mesh::random_secret();
        let mut states = Vec::new();
        let mut doors: Vec<(Arc<HostLink>, SocketAddr)> = Vec::new();
        for node in nodes {
            let Some(link) = self.link(node) else { continue };
            let worker = self.bring_worker_to(&link, inspect.worker).await;
            let data = self.inspect_data(&link, &inspect).await;
            let (exits, _) = mpsc::unbounded_channel();
            let (notes, _) = mpsc::unbounded_channel();
            let end = AttemptEnd {
                exits,
                directory: "/".into(),
                control: "/".into(),
                hosts: BTreeMap::new(),
                notes,
                running: BTreeSet::new(),
            };
            link.begin(attempt, end);
            let listen = Some(self.address(node).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
            let open =
                Request::Open { attempt, secret: secret.clone(), forks: false, listen, ports: inspect.ports };
            let no_door = || link.fault(HostFault::Refused { what: "it opened no door".into() });
            let door = match link.request(open, Vec::new()).await {
                Ok(Reply::Opened(Opened { door: Some(door), .. })) => Ok(door),
                Ok(_) => Err(no_door()),
                Err(error) => Err(error),
            };
            let host = Request::Host { attempt, node: 0, at: Nanos(0) };
            let counters = match link.request(host, Vec::new()).await {
                Ok(Reply::Host(counters)) => counters,
                _ => None,
            };
            let (network, wall_clock) = network(&link, door.as_ref().ok().map(SocketAddr::ip)).await;
            let clock = read_clock(&link).await.unwrap_or(ClockReading { ahead: 0, error: u64::MAX });
            doors.extend(door.as_ref().ok().map(|door| (link.clone(), *door)));
            states.push(HostState {
                node: node.clone(),
                facts: link.greeting.facts.clone(),
                free: link.greeting.free,
                clock_error: clock.error,
                wall_clock,
                network,
                counters,
                worker,
                data,
                door,
            });
        }
        let ways = ways(&doors, attempt, inspect.sizes).await;
        for (link, _) in &doors {
            link.finish(attempt);
        }
        (states, ways)
    }

    async fn inspect_data(&mut self, link: &HostLink, inspect: &Inspect<'_>) -> Result<(), LaunchError> {
        for source in inspect.sources {
            let expected = data_digest(source).map_err(LaunchError::Data)?;
            self.bring_data_to(link, source, &expected, inspect.copy_data).await?;
        }
        Ok(())
    }
}

/// The network facts of a host, and its wall clock beside this machine's in the middle of the exchange.
async fn network(link: &HostLink, address: Option<IpAddr>) -> (NetworkFacts, Option<WallClock>) {
    let before = crate::local::network(None).wall;
    let reply = link.request(Request::Network { address }, Vec::new()).await;
    let after = crate::local::network(None).wall;
    let Ok(Reply::Network(facts)) = reply else { return (NetworkFacts::default(), None) };
    let half = (after - before) / 2;
    let ahead = facts.wall.saturating_sub(before + half);
    (facts, Some(WallClock { ahead, error: half.unsigned_abs() }))
}

/// One way after the other: ways that are measured at the same time slow each other down.
async fn ways(doors: &[(Arc<HostLink>, SocketAddr)], attempt: u64, sizes: &[u64]) -> Vec<WayState> {
    let mut ways = Vec::new();
    for (from, _) in doors {
        for (to, door) in doors.iter().filter(|(to, _)| to.node.name != from.node.name) {
            let probe = Request::Probe { attempt, door: *door, sizes: sizes.to_vec() };
            let outcome = match from.request(probe, Vec::new()).await {
                Ok(Reply::Probed { round_trip, transfers }) => {
                    let sent = sizes.iter().zip(transfers);
                    let sent = sent.map(|(bytes, time)| Sent { bytes: *bytes, time }).collect();
                    Ok(Way { round_trip, sent })
                }
                Ok(_) => Err(from.fault(HostFault::Refused { what: "an unexpected reply".into() })),
                Err(error) => Err(error),
            };
            ways.push(WayState { from: from.node.name.clone(), to: to.node.name.clone(), outcome });
        }
    }
    ways
}
