//! The processes of an attempt: started, watched, and killed without exception.
//!
//! Three things see to it that none outlives the attempt. Dropping [`Processes`] kills every process group,
//! so a panic or an early return is covered. The kernel kills a process when the thread that started it ends
//! (`PDEATHSIG`), so a killed driver is covered, even where the process is stopped and cannot react. And the
//! standard input, open for as long as the attempt, ends with the driver.

use crate::arithmetic;
use crate::exit::Exit;
use mesh::Member;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group, set_parent_process_death_signal,
    waitid,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// A process to start.
pub(crate) struct Order {
    /// Who it is.
    pub(crate) member: Member,
    /// The program.
    pub(crate) program: PathBuf,
    /// What it reads from its standard input, which stays open afterwards.
    pub(crate) briefing: Vec<u8>,
    /// What its standard error goes to.
    pub(crate) log: File,
    /// How many threads it computes with.
    pub(crate) threads: u32,
}

/// The processes of an attempt. Dropping them kills them.
pub(crate) struct Processes {
    orders: Sender<(Order, oneshot::Sender<io::Result<u32>>)>,
    roll: Roll,
}

/// The processes that are there and not reaped, so that their numbers are still theirs.
#[derive(Clone, Default)]
struct Roll(Arc<Mutex<BTreeMap<Member, Pid>>>);

impl Processes {
    /// No processes yet; their ends will be told to `exits`.
    pub(crate) fn new(exits: mpsc::UnboundedSender<(Member, Exit)>) -> io::Result<Self> {
        let (orders, inbox) = channel();
        let roll = Roll::default();
        let starter = Starter { roll: roll.clone(), exits };
        // To the kernel the parent of a process is the thread that started it. A thread of the runtime's pool
        // may end at any moment, and would take the processes with it; this one ends with the attempt.
        thread::Builder::new().name("starter".into()).spawn(move || starter.work(inbox))?;
        Ok(Self { orders, roll })
    }

    /// Starts a process in a process group of its own, and answers its number.
    pub(crate) async fn start(&self, order: Order) -> io::Result<u32> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.orders.send((order, answer)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    /// Kills a member's process group, if it is still there.
    pub(crate) fn kill(&self, member: Member) {
        if let Some(pid) = self.roll.lock().get(&member) {
            kill_group(*pid);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for pid in self.roll.lock().values() {
            kill_group(*pid);
        }
    }
}

impl Roll {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Member, Pid>> {
        // The map is whole between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that starts the processes.
struct Starter {
    roll: Roll,
    exits: mpsc::UnboundedSender<(Member, Exit)>,
}

impl Starter {
    fn work(self, inbox: Receiver<(Order, oneshot::Sender<io::Result<u32>>)>) {
        for (order, answer) in inbox {
            // Nobody waits for the answer if the attempt was dropped meanwhile; then the roll is empty or
            // already killed, and the end of this thread kills the rest.
            let _ = answer.send(self.start(order));
        }
    }

    fn start(&self, order: Order) -> io::Result<u32> {
        let Order { member, program, briefing, log, threads } = order;
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).process_group(0);
        arithmetic::settle(&mut command, threads);
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let number = child.id();
        let pid = Pid::from_child(&child);
        self.roll.lock().insert(member, pid);
        let (roll, exits) = (self.roll.clone(), self.exits.clone());
        let keeper = thread::Builder::new().name(format!("keeper of {member}"));
        let input = child.stdin.take();
        let keep = move || {
            // A process that ends without reading breaks the pipe; its end is told anyway.
            let input = input.map(|mut input| input.write_all(&briefing).map(|()| input));
            let exit = reap(member, pid, child, &roll);
            drop(input);
            // Nobody listens when the attempt is over.
            let _ = exits.send((member, exit));
        };
        if let Err(error) = keeper.spawn(keep) {
            // The child went down with the closure, unreaped: its number is still its own.
            kill_group(pid);
            return Err(error);
        }
        Ok(number)
    }
}

/// Waits for the end of a process, ends what is left of its group, and strikes it off the roll.
fn reap(member: Member, pid: Pid, mut child: Child, roll: &Roll) -> Exit {
    let exit = loop {
        // Without reaping yet: until then the number cannot be given to anybody else.
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => break Exit::from(&status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // Not possible for a child of ours that nobody reaped; if it is, the process is gone.
            Err(_) => break Exit::Signal(0),
        }
    };
    let mut roll = roll.lock();
    kill_group(pid);
    let _ = child.wait();
    roll.remove(&member);
    exit
}

/// Asks the kernel to kill the process when the thread that starts it ends.
fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request was made.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    #[expect(unsafe_code, reason = "the only way to have it in force before the program's first instruction")]
    // SAFETY: between fork and exec only async-signal-safe work is allowed; these are two plain system calls,
    // and neither they nor the error allocate or take a lock.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Kills a process group whose leader is not reaped yet.
fn kill_group(pid: Pid) {
    // The only possible failure is that everybody in it is gone.
    let _ = kill_process_group(pid, Signal::KILL);
}
