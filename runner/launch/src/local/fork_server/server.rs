//! A fork server of this machine: the process, and the thread that keeps it.

use super::Loaded;
use crate::local::ending::{die_with_parent, kill_group};
use crate::local::environment;
use mesh::{FORK_SERVER, ForkExit, ForkReply, ForkRequest, fork_sockets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// For a program to be loaded. Generous: the first start after a boot reads hundreds of megabytes of libraries.
const LOADING: Duration = Duration::from_secs(30);
/// For a process to be forked, and for the text of one that introduces the program: a few milliseconds of work.
pub(super) const FORKING: Duration = Duration::from_secs(5);

/// By which a fork is killed.
#[derive(Clone, Debug)]
pub(crate) struct ForkHandle {
    pid: Pid,
    descriptor: Arc<OwnedFd>,
}

/// Report of a server about one of its forks.
#[derive(Debug)]
pub(super) enum Event {
    Exited(ForkExit),
    Reaped,
}

/// A server that was loaded. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    id: u32,
    socket: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
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
pub(super) struct Begun {
    pub(super) handle: ForkHandle,
    pub(super) events: Receiver<Event>,
}

/// Why a fork has not begun.
pub(super) enum StartError {
    Ended,
    Io(io::Error),
}

impl Server {
    pub(super) fn load(loaded: Loaded) -> io::Result<Self> {
        let (socket, theirs) = fork_sockets()?;
        let socket = Arc::new(socket);
        let state = Arc::new(Mutex::new(State::default()));
        let keeping = ServerThread { socket: socket.clone(), state: state.clone() };
        let (ready, loading) = channel();
        // To the kernel the parent of the server is this thread, with whose end it would be killed.
        let thread = thread::Builder::new().name("fork server".into());
        let thread = Some(thread.spawn(move || keeping.keep(&loaded, theirs, &ready))?);
        let id =
            loading.recv().map_err(|_| io::Error::other("the thread that keeps the server is gone"))??;
        Ok(Self { id, socket, state, thread })
    }

    /// Requests a fork, and waits until it has begun.
    pub(super) fn start(&self, request: ForkRequest) -> Result<Begun, StartError> {
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
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(error)) => Err(StartError::Io(error)),
            Err(RecvTimeoutError::Disconnected) => Err(StartError::Ended),
            Err(RecvTimeoutError::Timeout) => {
                self.end("it does not fork");
                Err(StartError::Ended)
            }
        }
    }

    /// Its id; none once it has ended.
    pub(super) fn id(&self) -> Option<u32> {
        (!lock(&self.state).ended).then_some(self.id)
    }

    /// By which it takes requests.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Ends a server that does what it should not.
    pub(super) fn end(&self, reason: &str) {
        tracing::warn!(server = self.id, reason, "a fork server is killed, and its processes with it");
        self.hang_up();
    }

    /// Both the server and its thread, which kills it, take it as the end.
    fn hang_up(&self) {
        // Fails only if the server has ended.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hang_up();
        // Then it is reaped. A thread that panicked has left it to its own end.
        self.thread.take().map(JoinHandle::join);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that starts a server, takes its replies, and reaps it.
struct ServerThread {
    socket: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
}

impl ServerThread {
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
pub(super) fn is_readable(descriptor: impl AsFd, within: Option<Duration>) -> io::Result<bool> {
    let within = within.map(|within| Timespec {
        tv_sec: within.as_secs().cast_signed(),
        tv_nsec: i64::from(within.subsec_nanos()),
    });
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut polled, within.as_ref()))? > 0)
}

/// Waits until a descriptor is readable.
pub(super) fn readable_until(descriptor: impl AsFd, deadline: Instant) -> io::Result<()> {
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

    /// Readable once it has exited.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Kills the process group of a fork that is not reaped.
    pub(crate) fn kill(&self) {
        // Of one that was reaped the id may be another's.
        if pidfd_send_signal(&*self.descriptor, Signal::KILL) != Err(Errno::SRCH) {
            kill_group(self.pid);
        }
    }
}
