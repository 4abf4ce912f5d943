//! The private directory of an attempt's sockets, and the attempt's secret.

use crate::{MeshError, Secret};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket, in bytes: `sun_path` has 108, and the last is a zero.
pub(crate) const LONGEST_PATH: usize = 107;
const LONGEST_NAME: usize = "/data-4294967295".len();

/// Makes a fresh directory that only the user may enter, in `$XDG_RUNTIME_DIR` or else in `/tmp`. The caller
/// removes it.
pub fn private_directory() -> Result<PathBuf, MeshError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parent = runtime.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(|| "/tmp".into());
    private_directory_in(&parent)
}

/// The same in another folder, which exists.
pub fn private_directory_in(parent: &Path) -> Result<PathBuf, MeshError> {
    let Secret(random) = random_secret();
    let path = parent.join(format!("bakeoff-{}", recipe::hex(&random[..6])));
    if path.as_os_str().len() + LONGEST_NAME > LONGEST_PATH {
        return Err(MeshError::PathTooLong { path, limit: LONGEST_PATH - LONGEST_NAME });
    }
    // The mode is given to mkdir itself, so that there is no moment in which others may enter.
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => Ok(path),
        Err(reason) => Err(MeshError::Directory { path, reason }),
    }
}

/// 256 random bits from the system.
pub fn random_secret() -> Secret {
    Secret(random())
}

#[expect(clippy::expect_used, reason = "no user, file or peer can make the kernel's random numbers fail")]
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Refuses a directory that another user owns or may enter: the sockets in it are trusted before a handshake.
pub(crate) fn check_private(sockets: &Path) -> Result<(), MeshError> {
    let fault = |reason| MeshError::Directory { path: sockets.to_owned(), reason };
    let metadata = std::fs::metadata(sockets).map_err(fault)?;
    if metadata.permissions().mode() & 0o077 != 0 || metadata.uid() != rustix::process::getuid().as_raw() {
        let reason = "it must belong to you, and no other user may enter it (mode 0700)";
        return Err(fault(io::Error::new(io::ErrorKind::PermissionDenied, reason)));
    }
    Ok(())
}

/// The socket of the driver's control plane.
pub(crate) fn control_socket(sockets: &Path) -> Result<PathBuf, MeshError> {
    fitting(sockets.join("control"))
}

/// The socket of a member's data plane.
pub(crate) fn data_socket(sockets: &Path, rank: record::Rank) -> Result<PathBuf, MeshError> {
    fitting(sockets.join(format!("data-{rank}")))
}

fn fitting(path: PathBuf) -> Result<PathBuf, MeshError> {
    if path.as_os_str().len() > LONGEST_PATH {
        return Err(MeshError::PathTooLong { path, limit: LONGEST_PATH });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_fresh_private_and_short_enough() {
        let parent = tempfile::tempdir().unwrap();
        let one = private_directory_in(parent.path()).unwrap();
        let two = private_directory_in(parent.path()).unwrap();
        assert_ne!(one, two);
        for path in [&one, &two] {
            check_private(path).unwrap();
            data_socket(path, record::Rank(u32::MAX)).unwrap();
            control_socket(path).unwrap();
        }
        std::fs::set_permissions(&one, std::fs::Permissions::from_mode(0o701)).unwrap();
        assert!(check_private(&one).unwrap_err().to_string().contains("mode 0700"));
        assert!(matches!(check_private(&one.join("none")), Err(MeshError::Directory { .. })));
    }

    #[test]
    fn a_long_parent_is_refused_before_anything_is_made() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("x".repeat(80));
        std::fs::create_dir(&long).unwrap();
        let error = private_directory_in(&long).unwrap_err();
        assert!(error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
        assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
    }

    #[test]
    fn no_two_secrets_are_equal_and_none_is_printed() {
        let secret = random_secret();
        assert_ne!(secret, random_secret());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
