//! The seam between an attempt and the machines that it runs on.
//!
//! An attempt knows nodes by number, processes by member, and files by name. [`crate::LocalLauncher`] runs everything on
//! the driver's own machine; a launcher for other machines implements the same traits.

use crate::{LaunchError, ProcessExit};
use mesh::{Member, Secret};
use recipe::RunSpec;
use record::{HostRecord, Nanos};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// Starts and kills the processes of one attempt. Dropping it kills all that are left.
pub trait Launcher: Send {
    /// Makes the nodes of an attempt ready, before the first process is started.
    fn open(&mut self, opening: Opening<'_>) -> impl Future<Output = Result<(), LaunchError>> + Send {
        let _ = opening;
        std::future::ready(Ok(()))
    }

    /// Where a member's process finds the attempt; `None` where that is where the driver finds it.
    fn place(&self, member: Member, node: NodeIndex) -> Option<&NodePlace> {
        let _ = (member, node);
        None
    }

    /// Starts a process and returns its process id on its node.
    fn start(&mut self, request: SpawnRequest) -> impl Future<Output = Result<u32, LaunchError>> + Send;

    /// Kills a member's process and all processes that it started. Does nothing if it has exited.
    fn kill(&mut self, member: Member);

    /// The next report of the nodes. Waits for ever if there is none; dropping the future loses nothing.
    fn next_report(&mut self) -> impl Future<Output = NodeReport> + Send;

    /// By how many nanoseconds the monotonic clock of a node is ahead of the driver's; negative if it is behind.
    fn clock_ahead(&self, node: NodeIndex) -> i64;

    /// The counters of the attempt's machines at `at` on the clock of the run, each machine once; those that are not at hand are
    /// reported later. Empty if none is known: the page then says so.
    fn read_hosts(&mut self, at: Nanos) -> Vec<HostRecord> {
        let _ = at;
        Vec::new()
    }
}

/// Report about the processes and machines of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeReport {
    /// The process of a member exited.
    Exit(Member, ProcessExit),
    /// The counters of a machine that [`Launcher::read_hosts`] asked for and did not return.
    Reading(HostRecord),
    /// A sentence for the attempt's record.
    Note(String),
}

/// Facts about an attempt that nodes need before its processes are started.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Specification of the run that the attempt trains.
    pub spec: &'a RunSpec,
    /// The directory of the driver's sockets.
    pub sockets: &'a Path,
    /// Shared by the attempt's processes, which prove to each other that they know it.
    pub secret: &'a Secret,
    /// The folder of the checkpoint that the run continues from, with the files of all ranks.
    pub resume: Option<&'a Path>,
}

/// Where the processes of a node find an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// The directory of the sockets.
    pub sockets: PathBuf,
    /// The attempt's directory on the node.
    pub directory: PathBuf,
    /// The folder of the data set, where it is another than the driver's.
    pub data: Option<PathBuf>,
    /// The folder of the checkpoint that the run continues from, with the files of the node's ranks.
    pub resume: Option<PathBuf>,
}

/// The files that the processes of an attempt write, by name.
pub trait Artifacts: Send {
    /// Brings a file to the evaluator's node, into the attempt's directory, and checks its digest there. Fails if the digest
    /// differs from the artifact's.
    fn fetch(&mut self, artifact: Artifact) -> Fetch;

    /// Deletes a file wherever it is.
    fn discard(&mut self, artifact: &Artifact) -> io::Result<()>;

    /// Deletes a file that was fetched on the node that wrote it, where that is another place.
    fn release(&mut self, artifact: &Artifact) {
        let _ = artifact;
    }

    /// The last `bytes` bytes of a member's standard error.
    fn log_tail(&mut self, member: Member, bytes: u64) -> io::Result<Vec<u8>>;
}

/// A fetch under way.
pub type Fetch = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A node's position in [`recipe::Cluster::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// The node of the driver, on which the evaluator runs.
    pub const DRIVER: Self = Self(0);
}

/// A process to start.
#[derive(Debug)]
pub struct SpawnRequest {
    /// The member that it will be.
    pub member: Member,
    /// The node that it runs on.
    pub node: NodeIndex,
    /// Path of the worker program on the driver's machine.
    pub program: PathBuf,
    /// Written to its standard input, which stays open afterwards: its end tells the process that the driver is gone.
    pub briefing: Vec<u8>,
    /// Threads that the variables of its libraries say.
    pub threads: u32,
    /// The variables that the inventory gives workers of the driver's machine; a launcher of others knows those of its nodes.
    pub environment: BTreeMap<String, String>,
}

/// A file in an attempt's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The node that it was written on.
    pub node: NodeIndex,
    /// Its path within the attempt's directory.
    pub name: String,
    /// SHA-256 of its bytes in hexadecimal.
    pub sha256: String,
}
