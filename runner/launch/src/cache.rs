//! The cache of a host: files by their SHA-256, uploaded once, and folders of them under their names.
//!
//! ```text
//! CACHE/files/<sha256>              a file; it has this name only after its digest was checked
//! CACHE/sets/<name>/<file>          links to files
//! CACHE/attempts/bakeoff-<random>   the directory of an attempt, removed with it
//! ```

use crate::channel::CachedFile;
use crate::sockets;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

/// Pieces of a file that wait for the disk.
const PIECES: usize = 16;
/// No upload takes as long.
const ABANDONED: Duration = Duration::from_hours(24);

/// The folder of this user's cache: `$BAKEOFF_CACHE`, else `bakeoff` in `$XDG_CACHE_HOME` or in `~/.cache`. The script that
/// starts an agent decides alike.
pub(crate) fn folder() -> io::Result<PathBuf> {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = named("BAKEOFF_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("bakeoff")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/bakeoff")));
    folder.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "no HOME, so that there is no place for a cache")
    })
}

/// The cache. Clones share it.
#[derive(Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    /// The files that are being written, by their request.
    arriving: Arc<Mutex<BTreeMap<u32, Sender<Bytes>>>>,
}

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, arriving: Arc::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of attempts; made if it does not exist.
    pub(super) fn attempts(&self) -> io::Result<PathBuf> {
        self.made("attempts")
    }

    /// Removes the directories of attempts whose agents were killed, and files whose upload ended long ago without an end.
    pub(super) fn reap(&self) {
        sockets::reap_in(&self.folder.join("attempts"));
        for folder in ["files", "agents"] {
            let entries = fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()).filter(|path| path.extension().is_some()) {
                let age = fs::metadata(&path).and_then(|metadata| metadata.modified()).map(|at| at.elapsed());
                if matches!(age, Ok(Ok(age)) if age > ABANDONED) {
                    // Another agent may be quicker.
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    /// The positions of the files that are not here.
    pub(super) fn missing(&self, files: &[CachedFile]) -> Vec<usize> {
        let here = |file: &CachedFile| {
            let path = self.path(file);
            path.is_some_and(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() == file.size))
        };
        files.iter().enumerate().filter(|(_, file)| !here(file)).map(|(index, _)| index).collect()
    }

    /// Writes a file whose pieces arrive from now on; an empty one ends it. It appears under its name at once, and only if its
    /// digest is right.
    pub(super) fn store(&self, request: u32, file: CachedFile) -> JoinHandle<io::Result<()>> {
        let (pieces, mut arriving) = mpsc::channel(PIECES);
        self.lock().insert(request, pieces);
        let cache = self.clone();
        tokio::task::spawn_blocking(move || {
            let stored = cache.write(&file, &mut arriving);
            cache.lock().remove(&request);
            stored
        })
    }

    /// Takes a piece of a file and waits for room; those of a file that failed are dropped.
    pub(super) async fn piece(&self, request: u32, bytes: Bytes) {
        let pieces = self.lock().get(&request).cloned();
        if let Some(pieces) = pieces {
            // Fails when the writer has failed, which it replies.
            let _ = pieces.send(bytes).await;
        }
    }

    /// Makes a folder that holds these files under their names; one that is there already is replaced link by link.
    pub(super) fn assemble(&self, folder: &str, files: &[CachedFile]) -> io::Result<PathBuf> {
        let set = self.made(&format!("sets/{}", plain(folder)?))?;
        for file in files {
            let target = self.path(file).ok_or_else(|| invalid(&file.sha256))?;
            let link = set.join(plain(&file.name)?);
            if fs::read_link(&link).is_ok_and(|current| current == target) {
                continue;
            }
            let mesh::Secret(random) = mesh::random_secret();
            let fresh = set.join(format!(".{}-{}", plain(&file.name)?, recipe::hex(&random[..6])));
            std::os::unix::fs::symlink(&target, &fresh)?;
            fs::rename(&fresh, &link)?;
        }
        Ok(set)
    }

    /// Moves files out of the cache into a folder, under their names.
    pub(super) fn adopt(&self, folder: &Path, files: &[CachedFile]) -> io::Result<()> {
        for file in files {
            let path = self.path(file).ok_or_else(|| invalid(&file.sha256))?;
            fs::rename(path, folder.join(plain(&file.name)?))?;
        }
        Ok(())
    }

    fn write(&self, file: &CachedFile, arriving: &mut Receiver<Bytes>) -> io::Result<()> {
        let path = self.path(file).ok_or_else(|| invalid(&file.sha256))?;
        self.made("files")?;
        // Hosts may share the folder, and processes of two hosts a number.
        let mesh::Secret(random) = mesh::random_secret();
        let fresh = path.with_extension(format!("{}.part", recipe::hex(&random[..6])));
        let written = Self::fill(&fresh, file, arriving).and_then(|()| fs::rename(&fresh, &path));
        if written.is_err() {
            // There is nothing more to do if it cannot be removed either.
            let _ = fs::remove_file(&fresh);
        }
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", fresh.display())))
    }

    fn fill(fresh: &Path, file: &CachedFile, arriving: &mut Receiver<Bytes>) -> io::Result<()> {
        let mode = if file.program { 0o700 } else { 0o600 };
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(fresh)?;
        let mut hash = Sha256::new();
        let mut left = file.size;
        loop {
            // The channel was lost, or its end has come.
            let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let bytes = arriving.blocking_recv().ok_or_else(ended)?;
            if bytes.is_empty() {
                break;
            }
            left = left.checked_sub(bytes.len() as u64).ok_or_else(|| invalid(&file.name))?;
            hash.update(&bytes);
            out.write_all(&bytes)?;
        }
        if left > 0 || recipe::hex(&hash.finalize()) != file.sha256 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it was damaged on its way"));
        }
        File::sync_all(&out)
    }

    /// Where a file is or will be; `None` if its digest is none.
    fn path(&self, file: &CachedFile) -> Option<PathBuf> {
        let digest = &file.sha256;
        let plain = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| self.folder.join("files").join(digest))
    }

    fn made(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Sender<Bytes>>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name without a folder.
fn plain(name: &str) -> io::Result<&str> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    if plain { Ok(name) } else { Err(invalid(name)) }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is no file for the cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> CachedFile {
        let sha256 = recipe::hex(&Sha256::digest(content));
        CachedFile { name: name.into(), sha256, size: content.len() as u64, program: true }
    }

    /// Stores a file whose bytes arrive as `pieces`.
    fn put(cache: &Cache, file: &CachedFile, pieces: &[&[u8]]) -> io::Result<()> {
        let (sender, mut arriving) = mpsc::channel(PIECES);
        for piece in pieces {
            sender.try_send(Bytes::copy_from_slice(piece)).unwrap();
        }
        drop(sender);
        cache.write(file, &mut arriving)
    }

    #[test]
    fn a_file_appears_only_when_it_is_whole_and_right() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"));
        let program = file("worker", b"abcdef");
        assert_eq!(cache.missing(std::slice::from_ref(&program)), [0]);
        for wrong in [&[b"abc".as_slice()][..], &[b"abc", b""], &[b"abcdeg", b""], &[b"abcdefg", b""]] {
            put(&cache, &program, wrong).unwrap_err();
            assert_eq!(cache.missing(std::slice::from_ref(&program)), [0], "{wrong:?}");
            assert_eq!(fs::read_dir(folder.path().join("cache/files")).unwrap().count(), 0);
        }
        put(&cache, &program, &[b"abc", b"def", b""]).unwrap();
        assert!(cache.missing(std::slice::from_ref(&program)).is_empty());
    }

    #[test]
    fn files_stand_in_a_folder_under_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        let old = file("worker", b"old");
        let new = file("worker", b"new");
        for (file, content) in [(&old, b"old"), (&new, b"new")] {
            put(&cache, file, &[content, b""]).unwrap();
            let set = cache.assemble("set", std::slice::from_ref(file)).unwrap();
            assert_eq!(fs::read(set.join("worker")).unwrap(), content);
            assert_eq!(fs::read_dir(set).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_file_that_an_attempt_adopts_leaves_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"));
        let state = file("rank-1.state", b"state");
        put(&cache, &state, &[b"state", b""]).unwrap();
        cache.adopt(folder.path(), std::slice::from_ref(&state)).unwrap();
        assert_eq!(fs::read(folder.path().join("rank-1.state")).unwrap(), b"state");
        assert_eq!(cache.missing(&[state]), [0]);
    }

    #[test]
    fn no_name_leads_out_of_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        let named = |name: &str| CachedFile { name: name.into(), ..file("x", b"x") };
        put(&cache, &named("x"), &[b"x", b""]).unwrap();
        for name in ["../x", "", ".", "..", "a/b"] {
            assert!(cache.assemble("set", &[named(name)]).is_err(), "{name}");
            assert!(cache.assemble(name, &[named("x")]).is_err(), "{name}");
            assert!(cache.adopt(folder.path(), &[named(name)]).is_err(), "{name}");
        }
        let odd = CachedFile { sha256: "../../etc/passwd".into(), ..named("x") };
        assert!(put(&cache, &odd, &[b""]).is_err());
        assert_eq!(cache.missing(&[odd]), [0]);
    }
}
