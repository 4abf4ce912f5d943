//! The process that drives a sweep, and whether it is alive. A process id alone is not enough: the system reuses them, and
//! those of another machine or container mean other processes.

use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The process that drives a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Process id, which the system reuses: `born` tells processes apart.
    pub pid: u32,
    /// Boot id of the machine and start time of the process: unique together with the process id. Empty if the system
    /// does not tell.
    pub born: String,
    /// Name of its machine or container; empty if it is not known.
    #[serde(default)]
    pub host: String,
    /// The space of process ids that its own belongs to, as the kernel names it; empty if it is not known.
    #[serde(default)]
    pub space: String,
}

/// The reason that is shown for an attempt whose driver was killed.
pub(crate) const KILLED: &str = "the driver was killed";

/// Seconds without a heartbeat after which a driver elsewhere counts as dead. It has one every [`HEARTBEAT`] seconds; the
/// rest is for a busy database and for clocks that differ.
const SILENCE: i64 = 60;
/// Seconds between two heartbeats of a driver.
pub(crate) const HEARTBEAT: u64 = 5;

static BOOT: LazyLock<String> = LazyLock::new(|| line_of("/proc/sys/kernel/random/boot_id"));
static HOST: LazyLock<String> = LazyLock::new(|| line_of("/proc/sys/kernel/hostname"));
static SPACE: LazyLock<String> = LazyLock::new(|| {
    fs::read_link("/proc/self/ns/pid")
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
});

impl Driver {
    /// Identifies the calling process; parts that the system does not tell are empty.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self { pid, born: born(pid).unwrap_or_default(), host: HOST.clone(), space: SPACE.clone() }
    }

    /// The process with this id, if there is one.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, born: born(pid)?, host: HOST.clone(), space: SPACE.clone() })
    }

    /// Whether its process id means a process here: the same boot of the same machine, and the same space of ids.
    pub fn is_here(&self) -> bool {
        let boot = self.born.split(':').next().unwrap_or_default();
        !boot.is_empty() && boot == BOOT.as_str() && (self.space.is_empty() || self.space == *SPACE)
    }

    /// Whether the process runs here. One of another machine, container or boot does not.
    pub fn lives(&self) -> bool {
        self.is_here() && born(self.pid).is_some_and(|born| born == self.born)
    }

    /// Whether the process runs: here, by the system's word; elsewhere, if it was heard of within the last minute. Both
    /// times are in seconds since 1970.
    pub fn is_alive(&self, heard: i64, now: i64) -> bool {
        if self.is_here() { self.lives() } else { now.saturating_sub(heard) < SILENCE }
    }
}

/// Wall-clock time in seconds since 1970; 0 for a clock that is before that.
#[expect(
    clippy::disallowed_methods,
    reason = "heartbeats are compared between machines, which share no other clock"
)]
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// `boot id:ticks`, from Linux's `/proc`; `None` for a process that has exited, reaped or not.
fn born(pid: u32) -> Option<String> {
    let boot = Some(BOOT.as_str()).filter(|boot| !boot.is_empty())?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything, a parenthesis included.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let ticks = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{boot}:{ticks}"))
}

/// The text of a file of one line; empty if there is none.
fn line_of(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let driver = Driver::of(child.id()).unwrap();
        assert!(driver.lives() && Driver::this().lives());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!driver.lives());
        assert!(!Driver { born: "another boot:1".to_owned(), ..Driver::this() }.lives());
    }

    #[test]
    fn a_process_of_another_container_or_machine_lives_as_long_as_it_is_heard() {
        let this = Driver::this();
        // The same number and start may be there by chance: in another space they mean another process.
        let container = Driver { space: "pid:[1]".to_owned(), ..this.clone() };
        let machine = Driver { born: "another boot:1".to_owned(), host: "bench2".to_owned(), ..this.clone() };
        for elsewhere in [container, machine] {
            assert!(!elsewhere.is_here() && !elsewhere.lives());
            assert!(elsewhere.is_alive(1_000, 1_059) && !elsewhere.is_alive(1_000, 1_060));
            // A clock that is ahead.
            assert!(elsewhere.is_alive(1_100, 1_000));
        }
        // Here the system knows better than any heartbeat.
        assert!(this.is_alive(0, 1_000_000));
        assert!(!Driver { pid: u32::MAX, ..this.clone() }.is_alive(1_000, 1_000));
        // Recorded before the space was.
        let earlier = Driver { host: String::new(), space: String::new(), ..this };
        assert!(earlier.is_here() && earlier.lives());
    }
}
