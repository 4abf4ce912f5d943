//! The directories of an attempt that are removed with it; those of killed owners are removed later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names the process that owns a directory: its id, when it started, its space of process numbers, the boot and the host. The
/// folder may be shared by many hosts, as homes are. Drivers before this file had these fields take a file `owner`, and leave
/// what has none alone.
const OWNER: &str = "owned-by";

/// A private directory of this process; dropping it removes it.
pub(crate) struct OwnedDirectory {
    pub(crate) path: PathBuf,
}

impl OwnedDirectory {
    /// Makes one for the sockets of an attempt.
    pub(crate) fn of_sockets() -> io::Result<Self> {
        Self::owned(mesh::private_directory().map_err(io::Error::other)?)
    }

    /// Makes one in an existing folder.
    pub(crate) fn make_in(parent: &Path) -> io::Result<Self> {
        Self::owned(mesh::private_directory_in(parent).map_err(io::Error::other)?)
    }

    fn owned(path: PathBuf) -> io::Result<Self> {
        let directory = Self { path };
        let owner = directory.path.join(OWNER);
        fs::write(&owner, owner_line(std::process::id()).unwrap_or_default())?;
        Ok(directory)
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and `reap` will try again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of sockets that killed drivers left behind and returns their number. The kernel has killed the
/// processes with their driver.
pub fn reap() -> usize {
    let mut parents: Vec<PathBuf> = vec!["/tmp".into()];
    parents.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()));
    parents.iter().map(|parent| reap_in(parent)).sum()
}

/// The same in one folder.
pub(crate) fn reap_in(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("bakeoff-"));
    ours.filter(|entry| is_left_behind(&entry.path()) && fs::remove_dir_all(entry.path()).is_ok()).count()
}

/// Whether the directory names an owner that has exited. A directory without a readable owner belongs to another user or
/// is just being made.
fn is_left_behind(directory: &Path) -> bool {
    let Ok(owner) = fs::read_to_string(directory.join(OWNER)) else { return false };
    let [pid, _, space, boot, host] = owner.split(' ').collect::<Vec<_>>()[..] else { return false };
    let Ok(pid) = pid.parse() else { return false };
    let here = Here::look();
    if host != here.host {
        return false;
    }
    // Of another container on this host nothing is known before the next boot.
    boot != here.boot || space == here.space && owner_line(pid).is_none_or(|line| line != owner)
}

/// Space of process numbers, boot and host: they tell processes with equal numbers apart.
struct Here {
    space: String,
    boot: String,
    host: String,
}

impl Here {
    fn look() -> Self {
        let space =
            fs::read_link("/proc/self/ns/pid").map_or_else(|_| "?".into(), |link| link.display().to_string());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { space, boot: boot.trim().to_owned(), host }
    }
}

/// Who the process is; `None` if there is none with that number.
fn owner_line(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the starting time is the
    // 22nd field, so the 20th after it.
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    let Here { space, boot, host } = Here::look();
    Some(format!("{pid} {started} {space} {boot} {host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_owners_that_are_gone_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = |name: &str, owner: Option<&str>| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            if let Some(owner) = owner {
                fs::write(path.join(OWNER), owner).unwrap();
            }
            path
        };
        let mine = owner_line(std::process::id()).unwrap();
        let Here { space, boot, host } = Here::look();
        let of = |pid: u32, boot: &str, host: &str| format!("{pid} 12 {space} {boot} {host}");
        let gone = directory("bakeoff-gone", Some(&of(u32::MAX, &boot, &host)));
        let recycled = directory("bakeoff-recycled", Some(&of(std::process::id(), &boot, &host)));
        let rebooted = directory("bakeoff-rebooted", Some(&of(std::process::id(), "before", &host)));
        let kept = [
            directory("bakeoff-mine", Some(&mine)),
            directory("bakeoff-young", None),
            directory("bakeoff-odd", Some("hello")),
            directory("other", Some(&of(u32::MAX, &boot, &host))),
            // A home that hosts share.
            directory("bakeoff-elsewhere", Some(&of(u32::MAX, &boot, "another"))),
            directory("bakeoff-container", Some(&of(u32::MAX, &boot, &host).replace(&space, "pid:[1]"))),
        ];
        assert_eq!(reap_in(parent.path()), 3);
        assert!(!gone.exists() && !recycled.exists() && !rebooted.exists());
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn a_directory_goes_with_its_attempt() {
        let sockets = OwnedDirectory::of_sockets().unwrap();
        let path = sockets.path.clone();
        assert!(path.join(OWNER).exists() && !is_left_behind(&path));
        drop(sockets);
        assert!(!path.exists());
    }
}
