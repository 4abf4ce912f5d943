//! Detects network file systems, on which SQLite's write-ahead log does not work.

use std::fs;
use std::path::{Path, PathBuf};

const NETWORK: [&str; 12] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.sshfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
];

/// The kind of the network file system that holds `folder`; nothing for a local one, or where the system does not
/// say.
pub(crate) fn network_kind(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let kind = kind_of_mount(&mounts, &folder)?;
    NETWORK.contains(&kind.as_str()).then_some(kind)
}

/// The kind of the deepest mount that holds `folder`; of two at the same place, the later one hides the other.
fn kind_of_mount(mounts: &str, folder: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = PathBuf::from(fields.next()?.replace("\\040", " "));
            folder.starts_with(&place).then_some((place.components().count(), fields.next()?))
        })
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = "/dev/a / ext4 rw 0 0\nhost:/x /home nfs4 rw 0 0\n/dev/b /home/my\\040disk xfs rw 0 0\n";
        let kind = |folder: &str| kind_of_mount(mounts, Path::new(folder));
        assert_eq!(kind("/srv/runs").as_deref(), Some("ext4"));
        assert_eq!(kind("/home/ada/runs").as_deref(), Some("nfs4"));
        assert_eq!(kind("/home/my disk/runs").as_deref(), Some("xfs"));
        assert_eq!(kind("/homestead").as_deref(), Some("ext4"));
    }
}
