//! Looks in `/proc` for processes that should be gone.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// A process as `/proc` shows it.
#[derive(Debug)]
struct Shown {
    pid: u32,
    parent: u32,
    group: u32,
    state: char,
}

/// Fails if after `patience` there is still a process in one of these groups. One that is dead and only not
/// yet reaped is gone.
pub(crate) fn groups_gone(groups: &[u32], patience: Duration) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let left: Vec<Shown> = processes()
            .into_iter()
            .filter(|shown| groups.contains(&shown.group) && shown.state != 'Z')
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > patience {
            return Err(format!("still there: {left:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a driver has this many processes, forks of its children among them, and one of them is stopped. Returns their
/// process groups.
pub(crate) fn wait_for_workers(driver: u32, count: usize, patience: Duration) -> Result<Vec<u32>, String> {
    let begun = Instant::now();
    loop {
        let all = processes();
        let own_child = |pid: u32| all.iter().any(|shown| shown.pid == pid && shown.parent == driver);
        let is_own = |shown: &&Shown| shown.parent == driver || own_child(shown.parent);
        let own: Vec<&Shown> = all.iter().filter(is_own).collect();
        if own.len() >= count && own.iter().any(|shown| shown.state == 'T') {
            return Ok(own.iter().map(|shown| shown.pid).collect());
        }
        if begun.elapsed() > patience {
            return Err(format!("only these came: {own:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn processes() -> Vec<Shown> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| shown(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn shown(pid: u32) -> Option<Shown> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Shown { pid, parent, group, state })
}
