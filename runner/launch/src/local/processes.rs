//! The processes of an attempt on this machine: started, watched and killed without exception. A worker is a fork of a
//! program that was loaded before ([`super::fork_server`]), or is executed where there is none.
//!
//! Three mechanisms ensure that none outlives the attempt. Dropping [`Processes`] kills every process group, also one that is being
//! started then, so a panic or an early return is covered. The kernel kills a process when the thread that started it ends
//! (`PDEATHSIG`), or its fork server does, so a killed driver is covered, even where the process is stopped and cannot
//! react. And the standard input, open as long as the attempt, ends with the driver.

use super::ending::{die_with_parent, kill_group};
use super::fork_server::{Fork, ForkHandle, ForkServers, Loaded};
use crate::ProcessExit;
use mesh::Member;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// A process to start.
pub(crate) struct SpawnLocal {
    /// The member that it will be.
    pub(crate) member: Member,
    pub(crate) program: PathBuf,
    /// Written to its standard input, which stays open afterwards.
    pub(crate) briefing: Vec<u8>,
    /// Receives its standard error.
    pub(crate) log: File,
    /// Threads that the variables of its libraries say.
    pub(crate) threads: u32,
    /// Variables that are set for it.
    pub(crate) environment: BTreeMap<String, String>,
}

/// The processes of an attempt. Dropping them kills them.
pub(crate) struct Processes {
    requests: Sender<(SpawnLocal, oneshot::Sender<io::Result<u32>>)>,
    table: ProcessTable,
    forks: Option<ForkServers>,
}

/// The processes that are not reaped yet, so that their ids cannot belong to others.
#[derive(Clone, Default)]
struct ProcessTable(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    members: BTreeMap<Member, Handle>,
    /// Whether the attempt is over: a process that is started from now on is killed.
    closed: bool,
}

/// By which a process is killed.
enum Handle {
    Executed(Pid),
    Forked(ForkHandle),
}

impl Handle {
    fn id(&self) -> u32 {
        let pid = match self {
            Self::Executed(pid) => *pid,
            Self::Forked(fork) => fork.pid(),
        };
        pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills the process group.
    fn kill(&self) {
        match self {
            Self::Executed(pid) => kill_group(*pid),
            Self::Forked(fork) => fork.kill(),
        }
    }
}

impl Processes {
    /// No processes yet; `exits` receives how each exited. Without `forks` each is executed.
    pub(crate) fn new(
        exits: mpsc::UnboundedSender<(Member, ProcessExit)>,
        forks: Option<ForkServers>,
    ) -> io::Result<Self> {
        let (requests, inbox) = channel();
        let table = ProcessTable::default();
        let starter = Starter { table: table.clone(), exits, forks: forks.clone() };
        // To the kernel the parent of a process is the thread that started it. A thread of the runtime's pool may end
        // at any time, and its end would kill the processes; this thread ends with the attempt.
        thread::Builder::new().name("starter".into()).spawn(move || starter.work(inbox))?;
        Ok(Self { requests, table, forks })
    }

    /// Starts a process in a process group of its own and returns its id.
    pub(crate) async fn start(&self, request: SpawnLocal) -> io::Result<u32> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.requests.send((request, answer)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    /// The result of `read` on the ids of the processes that are not reaped yet, and of the servers that forked them. None is
    /// reaped meanwhile, so that its processor time is either its own or that of the children of this process or of a
    /// server.
    pub(crate) fn while_unreaped<T>(&self, read: impl FnOnce(&[u32]) -> T) -> T {
        let servers = self.forks.as_ref().map(ForkServers::ids).unwrap_or_default();
        let table = self.table.lock();
        let own = table.members.values().map(Handle::id);
        let pids: Vec<u32> = own.chain(servers).collect();
        read(&pids)
    }

    /// Kills a member's process group if it is not reaped yet.
    pub(crate) fn kill(&self, member: Member) {
        if let Some(process) = self.table.lock().members.get(&member) {
            process.kill();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        table.closed = true;
        table.members.values().for_each(Handle::kill);
    }
}

impl ProcessTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table is whole between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that starts the processes.
struct Starter {
    table: ProcessTable,
    exits: mpsc::UnboundedSender<(Member, ProcessExit)>,
    forks: Option<ForkServers>,
}

impl Starter {
    fn work(self, inbox: Receiver<(SpawnLocal, oneshot::Sender<io::Result<u32>>)>) {
        for (request, answer) in inbox {
            // Fails if the attempt was dropped meanwhile; then the process is killed already.
            let _ = answer.send(self.start(request));
        }
    }

    fn start(&self, request: SpawnLocal) -> io::Result<u32> {
        let SpawnLocal { member, program, briefing, log, threads, environment } = request;
        let (reader, mut input) = io::pipe()?;
        let table = self.table.clone();
        let exits = self.exits.clone();
        let (hand, handed) = channel::<Started>();
        // Before the process, which nothing would wait for if no thread could be had.
        thread::Builder::new().name(format!("reaper of {member}")).spawn(move || {
            let Ok(started) = handed.recv() else { return };
            // A process that exits without reading breaks the pipe; its exit is reported anyway.
            let _ = input.write_all(&briefing);
            let exit = reap(member, started, &table);
            drop(input);
            // Fails when the attempt is over.
            let _ = exits.send((member, exit));
        })?;
        let started = self.started(&Loaded { program, threads, environment }, reader, log)?;
        let handle = started.handle();
        let number = handle.id();
        let mut table = self.table.lock();
        if table.closed {
            handle.kill();
        }
        table.members.insert(member, handle);
        // Fails only if the thread panicked.
        let _ = hand.send(started);
        Ok(number)
    }

    /// Forks a process where a server can be had, and executes one otherwise.
    fn started(&self, loaded: &Loaded, input: PipeReader, log: File) -> io::Result<Started> {
        let fork = match &self.forks {
            Some(forks) => forks.start(loaded, &input, &log)?,
            None => None,
        };
        if let Some(fork) = fork {
            return Ok(Started::Forked(fork));
        }
        let mut command = Command::new(&loaded.program);
        command.stdin(input).stdout(Stdio::null()).stderr(log).process_group(0);
        super::environment::settle(&mut command, loaded.threads);
        command.envs(&loaded.environment);
        die_with_parent(&mut command);
        Ok(Started::Executed(command.spawn()?))
    }
}

/// A process that was started and is not reaped yet.
enum Started {
    Executed(Child),
    Forked(Fork),
}

impl Started {
    fn handle(&self) -> Handle {
        match self {
            Self::Executed(child) => Handle::Executed(Pid::from_child(child)),
            Self::Forked(fork) => Handle::Forked(fork.handle()),
        }
    }

    /// Waits until it has exited, without reaping it: until then its id cannot be used again.
    fn exit(&self) -> ProcessExit {
        let pid = match self {
            Self::Executed(child) => Pid::from_child(child),
            Self::Forked(fork) => return fork.exit(),
        };
        loop {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(Some(status)) => return ProcessExit::from(&status),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // Impossible for a child that is not reaped; if it happens, the process is gone.
                Err(_) => return ProcessExit::Signal(0),
            }
        }
    }

    fn reap(self) {
        match self {
            Self::Executed(mut child) => drop(child.wait()),
            Self::Forked(fork) => fork.reap(),
        }
    }
}

/// Waits for the end of a process, kills the rest of its group, and removes it from the table.
fn reap(member: Member, process: Started, table: &ProcessTable) -> ProcessExit {
    let exit = process.exit();
    let mut table = table.lock();
    process.handle().kill();
    process.reap();
    table.members.remove(&member);
    exit
}
