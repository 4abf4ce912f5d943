//! The launcher of the driver's own machine: all nodes of a cluster are this machine, and all processes of an attempt
//! share its directory.

mod ending;
pub(crate) mod environment;
mod fork_server;
mod gpus;
mod host;
mod machine;
mod network;
mod processes;

pub use fork_server::ForkServers;
pub(crate) use fork_server::Loaded;
pub use machine::{LocalNodes, free_resources};
pub(crate) use network::network;
pub use network::{Interface, NetworkFacts};

use crate::digest;
use crate::launcher::{Artifact, Artifacts, Fetch, Launcher, NodeIndex, NodeReport, SpawnRequest};
use crate::log::{log_file, tail};
use crate::{LaunchError, ProcessExit};
pub(crate) use host::HostReader;
use mesh::Member;
pub(crate) use processes::{Processes, SpawnLocal};
use record::{HostRecord, Nanos};
use std::fs::{self, File};
use std::future;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Runs the processes of an attempt on the driver's machine.
pub struct LocalLauncher {
    processes: Processes,
    exits: UnboundedReceiver<(Member, ProcessExit)>,
    host: HostReader,
    directory: PathBuf,
}

impl LocalLauncher {
    /// A launcher for the attempt in `directory`, which exists. Without `forks` it executes the worker program for each process.
    pub fn new(directory: &Path, forks: Option<ForkServers>) -> Result<Self, LaunchError> {
        let (exit, exits) = mpsc::unbounded_channel();
        let processes = Processes::new(exit, forks).map_err(LaunchError::Thread)?;
        Ok(Self { processes, exits, host: HostReader::new(), directory: directory.to_owned() })
    }
}

impl Launcher for LocalLauncher {
    async fn start(&mut self, request: SpawnRequest) -> Result<u32, LaunchError> {
        let SpawnRequest { member, node: _, program, briefing, threads, environment } = request;
        let path = log_file(&self.directory, member);
        let log = File::create(&path).map_err(|source| LaunchError::File { path, what: "made", source })?;
        let worker = program.clone();
        let started =
            self.processes.start(SpawnLocal { member, program, briefing, log, threads, environment }).await;
        started.map_err(|source| LaunchError::WorkerStart { path: worker, source })
    }

    fn kill(&mut self, member: Member) {
        self.processes.kill(member);
    }

    async fn next_report(&mut self) -> NodeReport {
        match self.exits.recv().await {
            Some((member, exit)) => NodeReport::Exit(member, exit),
            // The thread that starts processes has ended, which `start` reports.
            None => future::pending().await,
        }
    }

    fn clock_ahead(&self, _: NodeIndex) -> i64 {
        0
    }

    /// One reading: all nodes are this machine.
    fn read_hosts(&mut self, at: Nanos) -> Vec<HostRecord> {
        self.host.read(at, &self.processes).into_iter().collect()
    }
}

impl Artifacts for LocalLauncher {
    /// Checks the digest; the evaluator reads the file that the rank wrote.
    fn fetch(&mut self, artifact: Artifact) -> Fetch {
        let path = self.directory.join(&artifact.name);
        Box::pin(async move {
            let checked = tokio::task::spawn_blocking(move || digest::check(&path, &artifact.sha256));
            checked.await.map_err(io::Error::other)?
        })
    }

    fn discard(&mut self, artifact: &Artifact) -> io::Result<()> {
        fs::remove_file(self.directory.join(&artifact.name))
    }

    fn log_tail(&mut self, member: Member, bytes: u64) -> io::Result<Vec<u8>> {
        tail(&log_file(&self.directory, member), bytes)
    }
}
