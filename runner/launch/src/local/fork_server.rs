//! Fork servers on this machine: worker programs that were loaded once and fork a process for each worker (their messages:
//! [`mesh::ForkRequest`]).
//!
//! A server belongs to this process and not to an attempt: the attempts of a sweep share it. Its forks are watched and killed
//! by the attempt that started them: by a descriptor, which is never another process's, and by their ids as long as the descriptor
//! shows that they are not reaped. That a fork has exited is learnt from the kernel; how, from the server. A server
//! that does not reply in time is killed, and its forks with it; the next process gets another.
//! The server is killed with the thread that started it, which ends with this process, and its forks with the server.

mod fork;
mod introduction;
mod server;

pub(crate) use fork::Fork;
pub(crate) use server::ForkHandle;

use super::environment;
use mesh::ForkRequest;
use recipe::{Access, Role, RunSpec};
use server::{Server, StartError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The fork servers of this process, made as they are needed. Clones share them; they end with the last clone and the last
/// of their forks.
#[derive(Clone, Debug, Default)]
pub struct ForkServers(Arc<Mutex<BTreeMap<Loaded, Slot>>>);

/// A server that is being loaded, was loaded, or could not be: then its processes are executed from then on. It is loaded without a lock on
/// the others.
type Slot = Arc<OnceLock<Option<Arc<Server>>>>;

/// How a program was loaded: a process that differs in one of these needs a server of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Loaded {
    pub(crate) program: PathBuf,
    /// Threads that the variables of its libraries say.
    pub(crate) threads: u32,
    /// Variables that are set for it.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Loaded {
    /// The first process that the driver starts for a run: a rank, or the evaluator where agents start the ranks.
    pub(crate) fn for_first_of(spec: &RunSpec, program: &Path) -> Self {
        let alone = spec.cluster.nodes.iter().all(|node| node.access == Access::Local);
        let role = spec
            .cluster
            .placements
            .first()
            .filter(|_| alone)
            .map_or(Role::Worker, |placement| placement.role);
        let threads = spec.threads.of(role);
        Self { program: program.into(), threads, environment: environment::of_local_node(&spec.cluster) }
    }
}

impl ForkServers {
    /// Forks a process with this standard input and standard error; none where the program does not serve.
    ///
    /// # Errors
    /// The system starts no process.
    pub(crate) fn start(&self, loaded: &Loaded, input: &PipeReader, log: &File) -> io::Result<Option<Fork>> {
        // A server that has ended, because a user killed it, is replaced once.
        for _ in 0..2 {
            let Some(server) = self.server(loaded) else { return Ok(None) };
            let input = input.try_clone()?.into();
            let log = log.try_clone()?.into();
            match Fork::start(&server, ForkRequest::Start { input, log }) {
                Err(StartError::Ended) => self.forget(loaded, &server),
                Err(StartError::Io(error)) => return Err(error),
                Ok(fork) => return Ok(Some(fork)),
            }
        }
        Ok(None)
    }

    /// Introduction of a program, printed by a fork of its server; `None` where there is no server, or its fork fails.
    pub(crate) fn introduction(&self, loaded: &Loaded) -> Option<Vec<u8>> {
        let told = |error: io::Error| {
            tracing::info!(%error, program = %loaded.program.display(), "no fork introduces it; it is executed");
        };
        introduction::introduction(&self.server(loaded)?).map_err(told).ok()
    }

    /// The ids of the servers: the processor time of reaped forks is that of their server's children.
    pub fn ids(&self) -> Vec<u32> {
        let servers = self.lock();
        servers.values().filter_map(|slot| slot.get()?.as_ref()?.id()).collect()
    }

    /// The server of a program, loaded now if it was not yet; none if it cannot be had.
    fn server(&self, loaded: &Loaded) -> Option<Arc<Server>> {
        let slot = self.lock().entry(loaded.clone()).or_default().clone();
        let load = || {
            let server = Server::load(loaded.clone()).map(Arc::new);
            // Its processes are executed one by one; their logs show why.
            let told = |error: &io::Error| {
                tracing::info!(%error, program = %loaded.program.display(), "it does not serve forks");
            };
            server.inspect_err(told).ok()
        };
        slot.get_or_init(load).clone()
    }

    fn forget(&self, loaded: &Loaded, ended: &Arc<Server>) {
        let mut servers = self.lock();
        let known = servers.get(loaded).and_then(|slot| slot.get()?.as_ref());
        if known.is_some_and(|known| Arc::ptr_eq(known, ended)) {
            servers.remove(loaded);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Loaded, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
