//! The machines of a plan: this one, and the hosts that are connected for as long as a sweep lasts.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Console, human};
use crate::progress::Sending;
use launch::{FreeResources, HostError, Hosts, LocalNodes, NodeFacts, Nodes, Upload, WorkerBinary};
use recipe::{Access, Cell, Node, Plan, Tunnel};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// Where the runs of a plan take place.
#[derive(Clone)]
pub(crate) enum Machines {
    /// On this machine alone.
    Here,
    /// On hosts, of which this machine may be one.
    Hosts(Arc<Hosts>),
}

impl Machines {
    /// Connects these hosts of a plan and makes worker and data ready there. Does nothing for a plan that stays on this machine.
    /// Reports what goes wrong with each host, all at once.
    pub(crate) async fn connect(
        plan: &Plan,
        nodes: &[Node],
        worker: &WorkerBinary,
        context: &Context<'_>,
    ) -> Result<Self, Failure> {
        if nodes.iter().all(|node| node.access == Access::Local) {
            return Ok(Self::Here);
        }
        let console = context.console;
        let begun = Instant::now();
        let connected = Self::ready(plan, nodes, worker, show_uploads(context), console).await;
        let hosts = connected?;
        let names = human::count(nodes.len(), "machine");
        console.say(&format!("{names} connected and ready in {:.1} s", begun.elapsed().as_secs_f64()));
        let other = nodes
            .iter()
            .find(|node| hosts.worker_identity(node).is_some_and(|identity| identity != worker.identity));
        if let Some(node) = other {
            console.warn(
                &format!("{} has another worker program, or another libtorch, than this machine", node.name),
                "sums may have other bits there: leave `worker` and `libtorch` out of its inventory, and it gets those of this machine",
            );
        }
        if plan.cells.iter().any(is_readable_on_the_way) {
            console.warn(
                "ranks of different machines exchange tensors over TCP: each connection is authenticated, none is encrypted",
                "on a network that others use, `nodes.tunnel = \"ssh\"` encrypts them, at a lower speed",
            );
        }
        Ok(Self::Hosts(Arc::new(hosts)))
    }

    async fn ready(
        plan: &Plan,
        nodes: &[Node],
        worker: &WorkerBinary,
        uploads: mpsc::UnboundedSender<Upload>,
        console: &Console,
    ) -> Result<Hosts, Failure> {
        let mut hosts = match Hosts::connect(nodes, uploads).await {
            Ok(hosts) => hosts,
            Err(errors) => {
                for error in &errors {
                    console.error(&error.to_string(), &error.cure());
                }
                return Err(Failure::Told(Exit::Preflight));
            }
        };
        let threads = plan.runs.first().map(|run| plan.cells[run.cell].spec.threads.worker);
        hosts.bring_worker(worker, threads).await?;
        let mut sources: Vec<_> = plan.cells.iter().map(|cell| &cell.spec.dataset.source).collect();
        sources.dedup();
        for source in sources {
            hosts.bring_data(source, plan.hosts.copy_data).await?;
        }
        Ok(hosts)
    }

    /// Free resources of a host; `None` for this machine.
    pub(crate) fn free(&self, node: &Node) -> Option<FreeResources> {
        match self {
            Self::Hosts(hosts) if node.access != Access::Local => hosts.free(node),
            Self::Hosts(_) | Self::Here => None,
        }
    }

    /// The identity of the worker program of a host; `None` for this machine.
    pub(crate) fn worker_identity(&self, node: &Node) -> Option<&str> {
        match self {
            Self::Hosts(hosts) => hosts.worker_identity(node),
            Self::Here => None,
        }
    }

    /// Ends the agents on other machines, if there are any.
    pub(crate) async fn close(&self) {
        if let Self::Hosts(hosts) = self {
            hosts.close().await;
        }
    }
}

impl Nodes for Machines {
    fn facts(&self, node: &Node) -> io::Result<NodeFacts> {
        match self {
            Self::Here => LocalNodes.facts(node),
            Self::Hosts(hosts) => hosts.facts(node),
        }
    }
}

/// Whether ranks of a cell exchange tensors with other machines outside of a tunnel.
fn is_readable_on_the_way(cell: &Cell) -> bool {
    let cluster = &cell.spec.cluster;
    cell.excluded.is_none() && cluster.tunnel == Tunnel::None && cluster.machines() > 1
}

/// Connects the hosts that can be reached, and returns the errors of the others.
pub(crate) async fn connect_each(nodes: &[Node], context: &Context<'_>) -> (Hosts, Vec<HostError>) {
    Hosts::connect_each(nodes, show_uploads(context)).await
}

/// Shows uploads until the last sender is dropped.
fn show_uploads(context: &Context<'_>) -> mpsc::UnboundedSender<Upload> {
    let (uploads, mut arriving) = mpsc::unbounded_channel::<Upload>();
    let mut sending = Sending::begin(context.global.progress, context.console);
    tokio::spawn(async move {
        while let Some(upload) = arriving.recv().await {
            sending.show(&upload);
        }
        sending.finish();
    });
    uploads
}

/// Key of a machine among those of a plan: the host that `ssh` is called with, the same for two names of one machine.
pub(crate) fn host_of(node: &Node) -> String {
    match &node.access {
        Access::Local => "local".to_owned(),
        Access::Ssh { login, .. } => {
            login.rsplit_once('@').map_or(login.as_str(), |(_, host)| host).to_owned()
        }
        Access::Slurm { host } => host.clone(),
    }
}

/// Names that may be one machine, of pairs of a name and what the machine calls itself: `lab01 and lab02 call themselves n1`.
pub(crate) fn namesakes<'a>(machines: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, host) in machines {
        named.entry(host).or_default().push(name);
    }
    let words = |(host, names): (&str, Vec<&str>)| {
        let (last, others) = names.split_last().filter(|(_, others)| !others.is_empty())?;
        Some(format!("{} and {last} call themselves {host}", others.join(", ")))
    };
    let words: Vec<String> = named.into_iter().filter_map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The machines on which ranks of a plan run, each once, in the order of the recipe.
pub(crate) fn nodes_of(plan: &Plan) -> Vec<Node> {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: Vec<Node> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_none()) {
        let cluster = &cell.spec.cluster;
        for (index, node) in (0..).zip(&cluster.nodes) {
            if cluster.placements.iter().any(|placement| placement.node == index)
                && !nodes.contains_key(node.name.as_str())
            {
                nodes.insert(&node.name, found.len());
                found.push(node.clone());
            }
        }
    }
    found
}
