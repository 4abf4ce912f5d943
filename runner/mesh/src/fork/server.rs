//! The fork server: a worker program, loaded once, which makes a process of itself for each worker that the driver wants.
//!
//! To load libtorch and to register its operators takes a third of a second of processor time, more than many a short run
//! computes; a fork takes a millisecond. The server has one thread and computes nothing, so that its forks find every lock
//! free and every library as it was loaded. Their memory is the server's until they write to it.
//!
//! The server ends when its socket, its standard input, is closed, and when the thread that started it ends; with it the
//! kernel ends its processes.

use super::{ForkExit, ForkReply, ForkRequest};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, setpgid, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, stdin};
use rustix::thread::set_name;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

/// What the system calls the server and its processes, at most 15 bytes.
const SERVER: &CStr = c"bakeoff-forks";
const WORKER: &CStr = c"bakeoff-worker";

/// In which process [`serve_forks`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// In the server, whose driver has closed the socket.
    Server,
    /// In a process that is to be a worker: its standard input brings its briefing.
    Worker,
}

/// Forks a process for each request of the driver, whose socket is the standard input. To be called before any other thread
/// is started.
///
/// # Errors
/// The socket is broken, or a process could not become a worker.
pub fn serve_forks() -> io::Result<Forked> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_name(SERVER)?;
    ForkReply::Ready.send(stdin())?;
    let mut processes = BTreeMap::new();
    loop {
        let awaited = Awaited::next(&processes)?;
        for pid in awaited.exited {
            report(pid, &mut processes)?;
        }
        if !awaited.request {
            continue;
        }
        match ForkRequest::receive(stdin())? {
            None => return Ok(Forked::Server),
            Some(ForkRequest::Reap { pid }) => reap(pid, &mut processes)?,
            Some(ForkRequest::Start { input, log }) => match start() {
                Ok(Side::Worker { server }) => {
                    // With it the descriptors of the others are closed.
                    drop(processes);
                    become_worker(server, input, log)?;
                    return Ok(Forked::Worker);
                }
                Ok(Side::Server { pid, descriptor }) => {
                    processes.insert(pid, Process { descriptor, reported: false });
                    ForkReply::Started { pid }.send(stdin())?;
                }
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    ForkReply::Failed { errno }.send(stdin())?;
                }
            },
        }
    }
}

/// A process that is not reaped yet.
struct Process {
    /// Readable once it has exited.
    descriptor: OwnedFd,
    reported: bool,
}

/// What the server waited for.
struct Awaited {
    request: bool,
    exited: Vec<u32>,
}

impl Awaited {
    /// Waits for a request of the driver, and for the exit of a process that runs.
    fn next(processes: &BTreeMap<u32, Process>) -> io::Result<Self> {
        let running: Vec<(&u32, &Process)> =
            processes.iter().filter(|(_, process)| !process.reported).collect();
        let input = stdin();
        let mut polled = vec![PollFd::new(&input, PollFlags::IN)];
        polled.extend(running.iter().map(|(_, process)| PollFd::new(&process.descriptor, PollFlags::IN)));
        rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let (request, exits) = (ready[0], &ready[1..]);
        let exited =
            running.iter().zip(exits).filter(|(_, exit)| **exit).map(|((pid, _), _)| **pid).collect();
        Ok(Self { request, exited })
    }
}

/// In which process a fork returned.
enum Side {
    Server { pid: u32, descriptor: OwnedFd },
    Worker { server: Pid },
}

fn start() -> io::Result<Side> {
    let server = getpid();
    #[expect(unsafe_code, reason = "the only way to a process that need not be loaded")]
    // SAFETY: this process has one thread, so that its fork finds no lock taken and no thread missing.
    let pid: libc::c_int = unsafe { libc::fork() };
    let Some(pid) = Pid::from_raw(pid) else { return Ok(Side::Worker { server }) };
    if pid.as_raw_nonzero().get() < 0 {
        return Err(io::Error::last_os_error());
    }
    // On both sides: the driver may kill the group as soon as it knows it. Fails if the process has exited already.
    let _ = setpgid(Some(pid), Some(pid));
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        // Without a descriptor its exit would never be seen.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    })?;
    Ok(Side::Server { pid: pid.as_raw_nonzero().get().unsigned_abs(), descriptor })
}

/// Makes this process what one is that the driver executed: in a group of its own, with its own input and log, killed with the
/// server.
fn become_worker(server: Pid, input: OwnedFd, log: OwnedFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The server may have died before the request was made.
    if getppid() != Some(server) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    set_name(WORKER)?;
    setpgid(None, None)?;
    dup2_stdin(input)?;
    dup2_stderr(log)?;
    Ok(())
}

/// Reports how a process has exited, once.
fn report(pid: u32, processes: &mut BTreeMap<u32, Process>) -> io::Result<()> {
    let Some(status) = wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)? else { return Ok(()) };
    if let Some(process) = processes.get_mut(&pid) {
        process.reported = true;
    }
    let how = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ForkExit::Code(code),
        (None, signal) => ForkExit::Signal(signal.unwrap_or_default()),
    };
    ForkReply::Exited { pid, how }.send(stdin())
}

/// Reaps a process of the server.
fn reap(pid: u32, processes: &mut BTreeMap<u32, Process>) -> io::Result<()> {
    if processes.remove(&pid).is_some() {
        wait(pid, WaitIdOptions::EXITED)?;
    }
    ForkReply::Reaped { pid }.send(stdin())
}

fn wait(pid: u32, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
    Ok(rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?)
}
