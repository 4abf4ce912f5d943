//! One fetch at a time in a folder: a lock that the kernel gives back when its holder dies.

use crate::FetchError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder for downloads under way, held by one process at a time.
pub(crate) struct Workshop {
    pub(crate) folder: PathBuf,
    lock: PathBuf,
    _held: File,
}

/// The workshop's name in the data set's folder; what has not come whole stays in it.
const NAME: &str = ".fetch";

impl Workshop {
    /// Makes the workshop in a data set's folder, and the folder itself.
    pub(crate) fn open(folder: &Path) -> Result<Self, FetchError> {
        let own = folder.join(NAME);
        let lock = own.join("lock");
        loop {
            fs::create_dir_all(&own).map_err(|error| FetchError::file(&own, "made", error))?;
            let unusable = |error| FetchError::file(&lock, "written", error);
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(true).create(true).truncate(false).open(&lock);
            let mut file = match opened {
                // The last holder cleared up between the two calls.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(unusable)?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    return Err(FetchError::Busy {
                        folder: folder.to_owned(),
                        holder: text.trim().parse().ok(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
            // A holder that cleared up took the file away: then this lock is on nothing.
            let same =
                |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
            let still = file
                .metadata()
                .ok()
                .zip(fs::metadata(&lock).ok())
                .is_some_and(|(one, other)| same(one, other));
            if still {
                file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
                return Ok(Self { folder: own, lock, _held: file });
            }
        }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Clears up; what has not come whole stays, and the folder with it.
    pub(crate) fn close(self) {
        // The next fetch reports a rest that is in its way.
        let _ = fs::remove_file(&self.lock);
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_fetch_is_refused_until_the_first_one_ends() {
        let folder = tempfile::tempdir().unwrap();
        let first = Workshop::open(folder.path()).unwrap();
        let Err(FetchError::Busy { holder, .. }) = Workshop::open(folder.path()) else {
            panic!("two at once")
        };
        assert_eq!(holder, Some(std::process::id()));
        first.close();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let second = Workshop::open(folder.path()).unwrap();
        fs::write(second.path("a.part"), "half").unwrap();
        second.close();
        assert!(folder.path().join(".fetch/a.part").is_file(), "what came is kept");
        // Left behind by a process that was killed.
        fs::write(folder.path().join(".fetch/lock"), "1\n").unwrap();
        Workshop::open(folder.path()).unwrap().close();
    }
}
