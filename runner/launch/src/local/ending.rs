//! How processes end that this one has started: with it, or when their group is killed.

use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Asks the kernel to kill the process when the thread that starts it ends.
pub(super) fn die_with_parent(command: &mut Command) {
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
pub(super) fn kill_group(pid: Pid) {
    // Fails only if all processes of the group are gone.
    let _ = kill_process_group(pid, Signal::KILL);
}
