//! Fork servers on this machine: worker programs that were loaded once and fork a process for each worker (their messages:
//! [`mesh::ForkRequest`]).
//!
//! A server belongs to this process and not to an attempt: the attempts of a sweep share it. Its forks are watched and killed
//! by the attempt that started them: by a descriptor, which is never another process's, and by their ids as long as the descriptor
//! shows that they are not reaped. That a fork has exited is learnt from the kernel; how, from the server. A server
//! that does not reply in time is killed, and its forks with it; the next process gets another.
//! The server is killed with the thread that started it, which ends with this process, and its forks with the server.

use super::environment;
use super::processes::{die_with_parent, kill_group};
use crate::ProcessExit;
use mesh::{FORK_SERVER, ForkExit, ForkReply, ForkRequest, fork_sockets};
use recipe::{Access, Role, RunSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// For a program to be loaded. Generous: the first start after a boot reads hundreds of megabytes of libraries.
const LOADING: Duration = Duration::from_secs(30);
/// For a process to be forked, and for the text of one that introduces the program: a few milliseconds of work.
const FORKING: Duration = Duration::from_secs(5);
/// For a report of how a process has exited; the supervisor waits longer for one that it killed.
const REPORTING: Duration = Duration::from_secs(2);
/// For a process to be reaped, while the attempt's other processes cannot be killed. It is reaped later otherwise.
const REAPING: Duration = Duration::from_millis(500);

/// The bytes that an introduction may have.
const LONGEST_INTRODUCTION: usize = 1 << 20;

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
        let role = spec.cluster.seats.first().filter(|_| alone).map_or(Role::Worker, |seat| seat.role);
        let threads = spec.threads.of(role);
        Self { program: program.into(), threads, environment: environment::of_local_node(&spec.cluster) }
    }
}

/// A process that a server has forked, not reaped yet. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Fork {
    handle: ForkHandle,
    events: Receiver<Event>,
    server: Arc<Server>,
    reaped: bool,
}

/// By which a fork is killed.
#[derive(Clone, Debug)]
pub(crate) struct ForkHandle {
    pid: Pid,
    descriptor: Arc<OwnedFd>,
}

/// What a server has reported of a fork.
#[derive(Debug)]
enum Event {
    Exited(ForkExit),
    Reaped,
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
            let (input, log) = (input.try_clone()?.into(), log.try_clone()?.into());
            match server.start(ForkRequest::Start { input, log }) {
                Err(StartError::Ended) => self.forget(loaded, &server),
                Err(StartError::Io(error)) => return Err(error),
                Ok(fork) => return Ok(Some(fork)),
            }
        }
        Ok(None)
    }

    /// What a program prints of itself, of which a server is loaded; none where it cannot be had.
    pub(crate) fn introduction(&self, loaded: &Loaded) -> Option<Vec<u8>> {
        let told = |error: io::Error| {
            tracing::info!(%error, program = %loaded.program.display(), "no fork introduces it; it is executed");
        };
        self.server(loaded)?.introduction().map_err(told).ok()
    }

    /// The ids of the servers: the processor time of reaped forks is that of their server's children.
    pub fn ids(&self) -> Vec<u32> {
        let servers = self.lock();
        let known = servers.values().filter_map(|slot| slot.get()?.as_ref());
        known.filter(|server| !lock(&server.state).ended).map(|server| server.id).collect()
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

/// A server that was loaded. Dropping it ends it.
#[derive(Debug)]
struct Server {
    id: u32,
    socket: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
    keeper: Option<JoinHandle<()>>,
}

/// The requests to a server without a reply, and its forks.
#[derive(Debug, Default)]
struct State {
    /// Whether it has ended.
    ended: bool,
    /// In the order of the requests.
    starting: VecDeque<Sender<io::Result<Begun>>>,
    forks: BTreeMap<u32, KeptFork>,
}

/// A fork that is not reaped.
#[derive(Debug)]
struct KeptFork {
    handle: ForkHandle,
    events: Sender<Event>,
}

/// A fork that has begun.
struct Begun {
    handle: ForkHandle,
    events: Receiver<Event>,
}

enum StartError {
    Ended,
    Io(io::Error),
}

impl Server {
    fn load(loaded: Loaded) -> io::Result<Self> {
        let (socket, theirs) = fork_sockets()?;
        let socket = Arc::new(socket);
        let state = Arc::new(Mutex::new(State::default()));
        let keeper = Keeper { socket: socket.clone(), state: state.clone() };
        let (ready, loading) = channel();
        // To the kernel the parent of the server is this thread, with whose end it would be killed.
        let thread = thread::Builder::new().name("fork server".into());
        let keeper = Some(thread.spawn(move || keeper.keep(&loaded, theirs, &ready))?);
        let id =
            loading.recv().map_err(|_| io::Error::other("the thread that keeps the server is gone"))??;
        Ok(Self { id, socket, state, keeper })
    }

    /// What a fork prints of the program.
    ///
    /// # Errors
    /// It does not end within [`FORKING`], fails, or prints more than [`LONGEST_INTRODUCTION`].
    fn introduction(self: &Arc<Self>) -> io::Result<Vec<u8>> {
        let (mut introduction, output) = io::pipe()?;
        let fork =
            self.start(ForkRequest::Introduce { output: output.into() }).map_err(|error| match error {
                StartError::Io(error) => error,
                StartError::Ended => io::ErrorKind::BrokenPipe.into(),
            })?;
        // An early return drops the fork, which kills it.
        let deadline = Instant::now() + FORKING;
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            readable_until(&introduction, deadline)?;
            match introduction.read(&mut piece)? {
                0 => break,
                read if text.len() + read <= LONGEST_INTRODUCTION => text.extend_from_slice(&piece[..read]),
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a text without an end")),
            }
        }
        readable_until(&fork.handle.descriptor, deadline)?;
        match fork.exit() {
            ProcessExit::Code(0) => {
                fork.reap();
                Ok(text)
            }
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    fn start(self: &Arc<Self>, request: ForkRequest) -> Result<Fork, StartError> {
        let (reply, started) = channel();
        {
            // Under the lock, so that the replies have the order of the requests.
            let mut state = lock(&self.state);
            if state.ended || request.send(&*self.socket).is_err() {
                return Err(StartError::Ended);
            }
            state.starting.push_back(reply);
        }
        match started.recv_timeout(FORKING) {
            Ok(Ok(Begun { handle, events })) => {
                Ok(Fork { handle, events, server: self.clone(), reaped: false })
            }
            Ok(Err(error)) => Err(StartError::Io(error)),
            Err(RecvTimeoutError::Disconnected) => Err(StartError::Ended),
            Err(RecvTimeoutError::Timeout) => {
                self.end("it does not fork");
                Err(StartError::Ended)
            }
        }
    }

    /// Ends a server that does what it should not.
    fn end(&self, reason: &str) {
        tracing::warn!(server = self.id, reason, "a fork server is killed, and its processes with it");
        self.hang_up();
    }

    /// Both the server and its keeper, which kills it, take it as the end.
    fn hang_up(&self) {
        // Fails only if the server has ended.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hang_up();
        // Then it is reaped. A keeper that panicked has left it to the end of its thread.
        self.keeper.take().map(JoinHandle::join);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that starts a server, takes its replies, and reaps it.
struct Keeper {
    socket: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
}

impl Keeper {
    fn keep(self, loaded: &Loaded, theirs: OwnedFd, ready: &Sender<io::Result<u32>>) {
        let outcome = execute(loaded, theirs).map(|mut child| {
            match self.first_reply() {
                Ok(()) => {
                    // Fails only if the thread that waits for it is gone.
                    let _ = ready.send(Ok(child.id()));
                    self.take_replies();
                    // With whatever they have started, as long as the server has not left them to the kernel.
                    lock(&self.state).forks.values().for_each(|fork| fork.handle.kill());
                    tracing::debug!(server = child.id(), "a fork server has ended");
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
            kill_group(Pid::from_child(&child));
            // A child that was killed.
            let _ = child.wait();
        });
        if let Err(error) = outcome {
            let _ = ready.send(Err(error));
        }
        let mut state = lock(&self.state);
        // Whatever still waits for a reply learns that there will be none.
        *state = State { ended: true, ..State::default() };
    }

    fn first_reply(&self) -> io::Result<()> {
        if !is_readable(&self.socket, Some(LOADING))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match ForkReply::receive(&*self.socket)? {
            Some(ForkReply::Ready) => Ok(()),
            other => Err(io::Error::other(format!("its first reply is {other:?}"))),
        }
    }

    fn take_replies(&self) {
        // A reply that cannot be understood ends the server like its own end.
        while let Ok(Some(reply)) = ForkReply::receive(&*self.socket) {
            let mut state = lock(&self.state);
            match reply {
                ForkReply::Ready => {}
                ForkReply::Started { pid } => state.started(pid, &self.socket),
                ForkReply::Failed { errno } => {
                    if let Some(waiting) = state.starting.pop_front() {
                        let _ = waiting.send(Err(io::Error::from_raw_os_error(errno)));
                    }
                }
                ForkReply::Exited { pid, how } => {
                    if let Some(fork) = state.forks.get(&pid) {
                        let _ = fork.events.send(Event::Exited(how));
                    }
                }
                ForkReply::Reaped { pid } => {
                    if let Some(fork) = state.forks.remove(&pid) {
                        let _ = fork.events.send(Event::Reaped);
                    }
                }
            }
        }
    }
}

impl State {
    fn started(&mut self, pid: u32, socket: &OwnedFd) {
        let waiting = self.starting.pop_front();
        let Some(id) = Pid::from_raw(pid.cast_signed()) else { return };
        let begun = match pidfd_open(id, PidfdFlags::empty()) {
            Ok(descriptor) => {
                let (sender, events) = channel();
                let handle = ForkHandle { pid: id, descriptor: Arc::new(descriptor) };
                self.forks.insert(pid, KeptFork { handle: handle.clone(), events: sender });
                Ok(Begun { handle, events })
            }
            // Only a server that has ended leaves its forks to be reaped; that it has, the attempt learns from the channel.
            Err(Errno::SRCH) => return,
            Err(error) => {
                // The server has not been asked to reap it, so that the id is its own.
                kill_group(id);
                let _ = (ForkRequest::Reap { pid }).send(socket);
                Err(error.into())
            }
        };
        if let Some(waiting) = waiting {
            // Fails if the attempt waits no more: then it has ended the server.
            let _ = waiting.send(begun);
        }
    }
}

/// Whether a descriptor becomes readable within a time, or at all.
fn is_readable(descriptor: impl AsFd, within: Option<Duration>) -> io::Result<bool> {
    let within = within.map(|within| Timespec {
        tv_sec: within.as_secs().cast_signed(),
        tv_nsec: i64::from(within.subsec_nanos()),
    });
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut polled, within.as_ref()))? > 0)
}

/// Waits until a descriptor is readable.
fn readable_until(descriptor: impl AsFd, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if is_readable(descriptor, Some(left))? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

fn execute(loaded: &Loaded, theirs: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(&loaded.program);
    command.args(FORK_SERVER).stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    environment::settle(&mut command, loaded.threads);
    command.envs(&loaded.environment);
    die_with_parent(&mut command);
    // With the command, this process's copy of the server's socket is closed.
    command.spawn()
}

impl ForkHandle {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Kills the process group of a fork that is not reaped.
    pub(crate) fn kill(&self) {
        // Of one that was reaped the id may be another's.
        if pidfd_send_signal(&*self.descriptor, Signal::KILL) != Err(Errno::SRCH) {
            kill_group(self.pid);
        }
    }
}

impl Fork {
    pub(crate) fn handle(&self) -> ForkHandle {
        self.handle.clone()
    }

    /// Waits until it has exited.
    pub(crate) fn exit(&self) -> ProcessExit {
        // Fails only where the kernel has no memory for it.
        while is_readable(&self.handle.descriptor, None).is_err() {
            thread::sleep(REAPING);
        }
        match self.events.recv_timeout(REPORTING) {
            Ok(Event::Exited(ForkExit::Code(code))) => ProcessExit::Code(code),
            Ok(Event::Exited(ForkExit::Signal(signal))) => ProcessExit::Signal(signal),
            Err(RecvTimeoutError::Timeout) => {
                self.server.end("it does not report exits");
                ProcessExit::Signal(Signal::KILL.as_raw())
            }
            // The server has ended, and the kernel has killed its forks.
            Ok(Event::Reaped) | Err(RecvTimeoutError::Disconnected) => {
                ProcessExit::Signal(Signal::KILL.as_raw())
            }
        }
    }

    /// Lets its server reap it, and waits for that a little.
    pub(crate) fn reap(mut self) {
        self.reaped = true;
        let request = ForkRequest::Reap { pid: self.id() };
        if request.send(&*self.server.socket).is_err() {
            return;
        }
        // A server that takes longer does it all the same; one that is stuck is found with the next start or exit.
        let deadline = Instant::now() + REAPING;
        while let Ok(Event::Exited(_)) =
            self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {}
    }

    fn id(&self) -> u32 {
        self.handle.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        if !self.reaped {
            self.handle.kill();
            // Fails if the server has ended: then the kernel reaps it.
            let _ = (ForkRequest::Reap { pid: self.id() }).send(&*self.server.socket);
        }
    }
}
