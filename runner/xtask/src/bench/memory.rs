//! The memory that the processes of a program take at most.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

/// Between two looks: the kernel keeps each process's peak, so that only what one takes right before its end escapes.
const LOOK: Duration = Duration::from_millis(250);

/// Does `work`, and looks at the processes that it starts: returns the peak of the largest one's resident memory in MiB, pages of
/// libraries and shared memory included.
pub(super) fn watched<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let looking = scope.spawn(move || {
            let mut largest = 0;
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                largest = largest.max(largest_descendant(std::process::id()));
            }
            largest
        });
        let made = work();
        drop(done);
        let Ok(kibibytes) = looking.join() else { bail!("the thread that looks at memory panicked") };
        Ok((made?, kibibytes as f64 / 1024.0))
    })
}

/// The peak of the largest process below `root`, in KiB.
fn largest_descendant(root: u32) -> u64 {
    let parents = parents();
    let descends = |mut process: u32| loop {
        match parents.get(&process) {
            Some(parent) if *parent == root => return true,
            Some(parent) if *parent > 1 => process = *parent,
            _ => return false,
        }
    };
    let below = parents.keys().filter(|process| descends(**process));
    below
        .filter_map(|process| peak(&fs::read_to_string(format!("/proc/{process}/status")).ok()?))
        .max()
        .unwrap_or(0)
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name may hold anything up to the last parenthesis; state and parent follow.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((process, parent))
    };
    processes.filter_map(parent).collect()
}

/// `VmHWM:      1234 kB`.
fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;

    #[test]
    fn the_largest_process_counts_also_below_another() {
        assert_eq!(peak("Name:\tx\nVmHWM:\t  1234 kB\nVmRSS:\t 7 kB\n"), Some(1234));
        let hold = "x = bytearray(80 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(0.8)";
        let python = || Child::new("sh").arguments(&["-c", "python3 -c \"$0\"; true", hold]).read();
        let (_, mebibytes) = watched(python).expect("python3");
        assert!((80.0..200.0).contains(&mebibytes), "{mebibytes}");
        assert!(watched(|| -> Result<()> { bail!("in vain") }).is_err());
    }
}
