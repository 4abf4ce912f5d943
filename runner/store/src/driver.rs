//! The process that drives a sweep, and whether it is alive. A process id alone is not enough: the system reuses them.

use serde::{Deserialize, Serialize};
use std::fs;

/// The process that drives a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Its process id.
    pub pid: u32,
    /// Boot id of the machine and start time of the process: unique together with the process id. Empty if the system
    /// does not tell.
    pub born: String,
}

/// The reason that is shown for an attempt whose driver was killed.
pub(crate) const KILLED: &str = "the driver was killed";

impl Driver {
    /// The calling process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self { pid, born: born(pid).unwrap_or_default() }
    }

    /// The process with this id, if there is one.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, born: born(pid)? })
    }

    /// Whether the process still runs. A process of another machine or an earlier boot does not.
    pub fn lives(&self) -> bool {
        born(self.pid).is_some_and(|born| born == self.born)
    }
}

/// `boot id:ticks`, from Linux's `/proc`; `None` for a process that has exited, reaped or not.
fn born(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything, a parenthesis included.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let ticks = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{}:{ticks}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let driver = Driver { pid: child.id(), born: born(child.id()).unwrap() };
        assert!(driver.lives() && Driver::this().lives());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!driver.lives());
        assert!(!Driver { born: "another boot:1".to_owned(), ..Driver::this() }.lives());
    }
}
