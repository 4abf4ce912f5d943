//! The hosts of a plan, connected for as long as its sweep lasts.

use super::delivery::{DataWish, HostedWorker, WorkerFiles, hosted_data, hosted_state, hosted_worker};
use super::error::{HostError, HostFault};
use super::link::HostLink;
use super::start::{AgentProgram, Upload};
use crate::{FreeResources, LaunchError, NodeFacts, Nodes, WorkerBinary, data_digest};
use recipe::{Access, Node, Source};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, JoinSet};

/// Hosts that are connected at the same time: more would run into the limits of a jump host's sshd.
const AT_ONCE: usize = 8;

/// The connected hosts of a plan.
pub struct Hosts {
    links: BTreeMap<String, Arc<HostLink>>,
    /// In the place of links that were lost.
    revived: tokio::sync::Mutex<BTreeMap<String, Arc<HostLink>>>,
    workers: BTreeMap<String, HostedWorker>,
    /// The folder of each data set on each host, where it is another than on this machine.
    data: BTreeMap<(String, PathBuf), PathBuf>,
    /// Of the worker program and its libraries, which are digested once.
    worker_files: WorkerFiles,
    uploads: UnboundedSender<Upload>,
}

impl Hosts {
    /// Starts an agent on each of these nodes, several at once; `uploads` learns how far files are that are sent.
    ///
    /// # Errors
    /// The hosts that cannot be used; the others are let go.
    pub async fn connect(nodes: &[Node], uploads: UnboundedSender<Upload>) -> Result<Self, Vec<HostError>> {
        match Self::connect_each(nodes, uploads).await {
            (hosts, errors) if errors.is_empty() => Ok(hosts),
            (_, errors) => Err(errors),
        }
    }

    /// The same with the hosts that can be used, and the errors of the others.
    pub async fn connect_each(nodes: &[Node], uploads: UnboundedSender<Upload>) -> (Self, Vec<HostError>) {
        let mut hosts = Self {
            links: BTreeMap::new(),
            revived: tokio::sync::Mutex::default(),
            workers: BTreeMap::new(),
            data: BTreeMap::new(),
            worker_files: WorkerFiles::default(),
            uploads,
        };
        let unread = |error: io::Error| HostError {
            host: "this machine".into(),
            fault: HostFault::NoProgram { program: "/proc/self/exe".into(), reason: error.to_string() },
        };
        let program = match AgentProgram::this() {
            Ok(program) => program,
            Err(error) => return (hosts, vec![unread(error)]),
        };
        let mut waiting: Vec<&Node> = nodes.iter().rev().collect();
        waiting.dedup_by_key(|node| &node.name);
        let mut connecting = JoinSet::new();
        let mut errors = Vec::new();
        loop {
            while connecting.len() < AT_ONCE
                && let Some(node) = waiting.pop()
            {
                let node = node.clone();
                let program = program.clone();
                let uploads = hosts.uploads.clone();
                connecting.spawn(async move { HostLink::connect(&node, &program, &uploads).await });
            }
            match connecting.join_next().await {
                None => break,
                Some(Ok(Ok(link))) => drop(hosts.links.insert(link.node.name.clone(), link)),
                Some(Ok(Err(error))) => errors.push(error),
                Some(Err(error)) => errors.push(unread(io::Error::other(error))),
            }
        }
        errors.sort_by(|a, b| a.host.cmp(&b.host));
        (hosts, errors)
    }

    /// Makes the worker program and its libraries ready on every host, several at once: named by the node, or sent to its cache
    /// once. It is loaded for ranks that compute with `threads` threads, if any are to start; for others it is loaded when they start.
    ///
    /// # Errors
    /// The first host by name that cannot have it, or on which it does not run.
    pub async fn bring_worker(
        &mut self,
        worker: &WorkerBinary,
        threads: Option<u32>,
    ) -> Result<(), LaunchError> {
        let brought = self.at_each(|link, uploads| {
            let worker = worker.clone();
            let files = self.worker_files.clone();
            async move { hosted_worker(&link, &worker, &files, &uploads, threads).await }
        });
        for (host, worker) in brought.await? {
            self.workers.insert(host, worker);
        }
        Ok(())
    }

    /// The identity of the worker program that a host has, and of its libtorch.
    pub fn worker_identity(&self, node: &Node) -> Option<&str> {
        self.workers.get(&node.name).map(|worker| worker.identity.as_str())
    }

    pub(super) async fn bring_worker_to(
        &mut self,
        link: &HostLink,
        worker: &WorkerBinary,
    ) -> Result<(), LaunchError> {
        let no_rank_starts = None;
        let worker = hosted_worker(link, worker, &self.worker_files, &self.uploads, no_rank_starts).await?;
        self.workers.insert(link.node.name.clone(), worker);
        Ok(())
    }

    /// Checks that every host, several at once, has the same data set as this machine, and where `copy` says so brings it there.
    ///
    /// # Errors
    /// The first host by name that has not, or has another.
    pub async fn bring_data(&mut self, source: &Source, copy: bool) -> Result<(), LaunchError> {
        let Some(path) = source.path() else { return Ok(()) };
        let expected = data_digest(source).map_err(LaunchError::Data)?;
        let found = self.at_each(|link, uploads| {
            let source = source.clone();
            let expected = expected.clone();
            async move { hosted_data(&link, &DataWish { source, expected, copy }, &uploads).await }
        });
        for (host, place) in found.await? {
            self.data_is_at(host, path, place);
        }
        Ok(())
    }

    pub(super) async fn bring_data_to(
        &mut self,
        link: &HostLink,
        source: &Source,
        expected: &str,
        copy: bool,
    ) -> Result<(), LaunchError> {
        let Some(path) = source.path() else { return Ok(()) };
        let wish = DataWish { source: source.clone(), expected: expected.to_owned(), copy };
        let place = hosted_data(link, &wish, &self.uploads).await?;
        self.data_is_at(link.node.name.clone(), path, place);
        Ok(())
    }

    fn data_is_at(&mut self, host: String, path: &Path, place: PathBuf) {
        if place != path {
            self.data.insert((host, path.to_owned()), place);
        }
    }

    /// Does the same on every host, at most [`AT_ONCE`] at a time. The error of the first host by name counts.
    async fn at_each<T, F>(
        &self,
        action: impl Fn(Arc<HostLink>, UnboundedSender<Upload>) -> F,
    ) -> Result<Vec<(String, T)>, LaunchError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LaunchError>> + Send + 'static,
    {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let tasks: Vec<_> = (self.links.values())
            .map(|link| {
                let name = link.node.name.clone();
                let turns = turns.clone();
                let acting = action(link.clone(), self.uploads.clone());
                let task = tokio::spawn(async move {
                    let _turn = turns.acquire_owned().await;
                    acting.await
                });
                (name, AbortOnDrop(task))
            })
            .collect();
        let mut done = Vec::new();
        for (name, mut task) in tasks {
            let failed = |_| LaunchError::NoHost { host: name.clone() };
            let result = (&mut task.0).await.map_err(failed)??;
            done.push((name, result));
        }
        Ok(done)
    }

    /// Free resources of a node when it was connected, with the disk of its cache.
    pub fn free(&self, node: &Node) -> Option<FreeResources> {
        Some(self.links.get(&node.name)?.greeting.free)
    }

    /// Ends the agents of all hosts, and waits for them for at most a few seconds.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        let revived = self.revived.lock().await;
        for link in self.links.values().chain(revived.values()) {
            let link = link.clone();
            closing.spawn(async move { link.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    pub(crate) fn link(&self, node: &Node) -> Option<Arc<HostLink>> {
        self.links.get(&node.name).cloned()
    }

    /// The same, connected again if the connection was lost: the host's cache has what was sent before.
    ///
    /// # Errors
    /// It is not among the connected nodes, or cannot be reached any more.
    pub(crate) async fn live_link(&self, node: &Node) -> Result<Arc<HostLink>, LaunchError> {
        let mut revived = self.revived.lock().await;
        let current = revived.get(&node.name).cloned().or_else(|| self.link(node));
        let current = current.ok_or_else(|| LaunchError::NoHost { host: node.name.clone() })?;
        if !current.is_lost() {
            return Ok(current);
        }
        tracing::info!(host = node.name, "connecting again");
        let unread = |source| LaunchError::File { path: "/proc/self/exe".into(), what: "read", source };
        let program = AgentProgram::this().map_err(unread)?;
        let link = HostLink::connect(&current.node, &program, &self.uploads).await?;
        revived.insert(node.name.clone(), link.clone());
        Ok(link)
    }

    /// Brings the files of a checkpoint to the directory of an attempt on a host, and returns their folder there.
    ///
    /// # Errors
    /// A file cannot be read, or the host does not take it.
    pub(crate) async fn bring_state(
        &self,
        link: &HostLink,
        attempt: u64,
        files: Vec<PathBuf>,
    ) -> Result<PathBuf, LaunchError> {
        hosted_state(link, attempt, files, &self.uploads).await
    }

    pub(crate) fn worker(&self, node: &Node) -> HostedWorker {
        self.workers.get(&node.name).cloned().unwrap_or_default()
    }

    /// Where a data set of this machine is on a node.
    pub(crate) fn data(&self, node: &Node, source: &Source) -> Option<PathBuf> {
        self.data.get(&(node.name.clone(), source.path()?.to_owned())).cloned()
    }

    /// The address at which the other hosts reach a node: as its node says, else the one at which the driver reached it; of
    /// the driver's own machine the one that the others see.
    pub(crate) fn address(&self, node: &Node) -> Option<IpAddr> {
        let greeting = &self.links.get(&node.name)?.greeting;
        let remote = |link: &&Arc<HostLink>| matches!(link.node.access, Access::Ssh { .. });
        let seen = || self.links.values().filter(remote).find_map(|link| link.greeting.driver_at);
        node.address.or_else(|| match node.access {
            Access::Local => seen().or(greeting.reached_at),
            Access::Ssh { .. } | Access::Slurm { .. } => greeting.reached_at,
        })
    }
}

impl Nodes for Hosts {
    fn facts(&self, node: &Node) -> io::Result<NodeFacts> {
        let link = self.links.get(&node.name);
        link.map(|link| link.greeting.facts.clone()).ok_or_else(|| io::Error::other("it is not connected"))
    }
}

/// A task that ends with what waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
