//! The fork server: a worker program, loaded once, which makes a process of itself for each worker that the driver wants.
//!
//! To load libtorch and to register its operators takes a third of a second of processor time, more than many a short run
//! computes; a fork takes a millisecond. The server has one thread and computes nothing, so that its forks find every lock
//! free and every library as it was loaded. Their memory is the server's until they write to it.
//!
//! The server ends when its socket, its standard input, is closed, and when the thread that started it ends; with it the
//! kernel ends its processes. It waits for nothing but its socket and their exits.

use super::{ForkExit, ForkReply, ForkRequest};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, setpgid, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use rustix::thread::set_name;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Names of the server and of its processes for the system, at most 15 bytes each.
const SERVER: &CStr = c"bakeoff-forks";
const WORKER: &CStr = c"bakeoff-worker";

/// In which process [`serve_forks`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// In the server, whose driver has closed the socket.
    Server,
    /// In a process that is to be a worker: its standard input brings its briefing.
    Worker,
    /// In a process that is to print what the driver must know of the program, and to exit.
    Introducer,
}

/// Forks a process for each request of the driver, whose socket is the standard input. To be called before any other thread
/// is started.
///
/// # Errors
/// This process has other threads, or the system has no descriptors of processes; the socket is broken; a process could not
/// become what the driver wants.
pub fn serve_forks() -> io::Result<Forked> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_name(SERVER)?;
    reap_children_only_when_asked()?;
    check_that_forks_are_sound()?;
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
        let wanted = match ForkRequest::receive(stdin())? {
            None => return Ok(Forked::Server),
            Some(ForkRequest::Reap { pid }) => {
                // One that was just killed is reaped with its exit.
                if let Some(process) = processes.get_mut(&pid) {
                    process.wanted = true;
                }
                reap_if_wanted(pid, &mut processes)?;
                continue;
            }
            Some(ForkRequest::Start { input, log }) => Wanted::Worker { input, log },
            Some(ForkRequest::Introduce { output }) => Wanted::Introducer { output },
        };
        match start() {
            Ok(Side::Fork { server }) => {
                // With it the descriptors of the others are closed.
                drop(processes);
                return wanted.into_fork_of(server);
            }
            Ok(Side::Server { pid, descriptor }) => {
                processes.insert(pid, Process { descriptor, reported: false, wanted: false });
                ForkReply::Started { pid }.send(stdin())?;
            }
            Err(error) => {
                let Some(errno) = error.raw_os_error() else { return Err(error) };
                ForkReply::Failed { errno }.send(stdin())?;
            }
        }
    }
}

/// A process that is not reaped yet.
struct Process {
    /// Readable once it has exited.
    descriptor: OwnedFd,
    reported: bool,
    /// Whether the driver wants it to be reaped.
    wanted: bool,
}

/// Result of the server's wait: whether a request has come, and which processes have exited.
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
        let request = ready[0];
        let exits = &ready[1..];
        let exited =
            running.iter().zip(exits).filter(|(_, exit)| **exit).map(|((pid, _), _)| **pid).collect();
        Ok(Self { request, exited })
    }
}

/// In which process a fork returned.
enum Side {
    Server { pid: u32, descriptor: OwnedFd },
    Fork { server: Pid },
}

fn start() -> io::Result<Side> {
    let server = getpid();
    #[expect(unsafe_code, reason = "the only way to a process that need not be loaded")]
    // SAFETY: this process has one thread, which was checked, so that its fork finds no lock taken and no thread missing.
    let pid: libc::c_int = unsafe { libc::fork() };
    let Some(pid) = Pid::from_raw(pid) else { return Ok(Side::Fork { server }) };
    if pid.as_raw_nonzero().get() < 0 {
        return Err(io::Error::last_os_error());
    }
    // On both sides: the driver may kill the group as soon as it knows it. Fails if the process has exited already.
    let _ = setpgid(Some(pid), Some(pid));
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        // Without a descriptor its exit would never be seen. It stays a zombie until the server's end.
        let _ = kill_process(pid, Signal::KILL);
    })?;
    Ok(Side::Server { pid: pid.as_raw_nonzero().get().unsigned_abs(), descriptor })
}

/// Purpose of a fork, with the descriptors that it takes over.
enum Wanted {
    Worker { input: OwnedFd, log: OwnedFd },
    Introducer { output: OwnedFd },
}

impl Wanted {
    /// Makes this process, a fork of `server`, what one is that the driver executed: in a group of its own, with its own input, log or
    /// output, killed with the server.
    fn into_fork_of(self, server: Pid) -> io::Result<Forked> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The server may have died before the request was made.
        if getppid() != Some(server) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        set_name(WORKER)?;
        setpgid(None, None)?;
        match self {
            Self::Worker { input, log } => {
                dup2_stdin(input)?;
                dup2_stderr(log)?;
                Ok(Forked::Worker)
            }
            Self::Introducer { output } => {
                // In place of the server's socket.
                dup2_stdin(File::open("/dev/null")?)?;
                dup2_stdout(output)?;
                Ok(Forked::Introducer)
            }
        }
    }
}

/// Reports how a process has exited, once.
fn report(pid: u32, processes: &mut BTreeMap<u32, Process>) -> io::Result<()> {
    let how = match wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG) {
        Ok(None) => return Ok(()),
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ForkExit::Code(code),
            (None, signal) => ForkExit::Signal(signal.unwrap_or_default()),
        },
        // Impossible for one that is not reaped; if it happens, the process is gone, and the others must not go with it.
        Err(_) => ForkExit::Signal(0),
    };
    if let Some(process) = processes.get_mut(&pid) {
        process.reported = true;
    }
    ForkReply::Exited { pid, how }.send(stdin())?;
    reap_if_wanted(pid, processes)
}

/// Reaps a process that has exited and that the driver wants to be reaped.
fn reap_if_wanted(pid: u32, processes: &mut BTreeMap<u32, Process>) -> io::Result<()> {
    if !processes.get(&pid).is_some_and(|process| process.reported && process.wanted) {
        return Ok(());
    }
    processes.remove(&pid);
    // A zombie, so that it does not wait; one that is gone needs no reaping.
    let _ = wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    ForkReply::Reaped { pid }.send(stdin())
}

fn wait(pid: u32, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return Ok(None) };
    Ok(rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?)
}

/// A driver that was started with SIGCHLD ignored would pass that on, and the kernel would reap forks by itself.
fn reap_children_only_when_asked() -> io::Result<()> {
    #[expect(unsafe_code, reason = "the disposition of a signal is set by a C function only")]
    // SAFETY: takes two numbers; the default disposition runs no code of this process.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A fork has only the thread that made it: locks that others held would stay locked. So a process with other threads refuses to
/// serve, and so does one that cannot open descriptors of processes.
fn check_that_forks_are_sound() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run before the first fork")));
    }
    pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(())
}
