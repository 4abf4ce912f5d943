//! Disk space reserved in advance, so that a run that fails because the disk is full can still be recorded.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The file's name in the store's folder.
const NAME: &str = "reserve";
/// Bytes: enough for the end of an attempt and of a sweep, and for a page.
const SIZE: usize = 4 << 20;

/// Reserves the space unless it is reserved already. A failure is ignored: without space, the next write reports it.
pub(crate) fn keep(folder: &Path) {
    let path = folder.join(NAME);
    if fs::metadata(&path).is_ok_and(|file| file.len() == SIZE as u64) {
        return;
    }
    if let Err(error) = fill(&path) {
        tracing::debug!(path = %path.display(), %error, "no disk space is reserved");
        let _ = fs::remove_file(&path);
    }
}

/// Writes real bytes: a hole in a file reserves nothing.
fn fill(path: &Path) -> io::Result<()> {
    fs::File::create(path)?.write_all(&vec![0x55; SIZE])
}

/// Frees the space; returns whether there was any.
pub(crate) fn free(folder: &Path) -> bool {
    fs::remove_file(folder.join(NAME)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[tokio::test]
    async fn the_space_is_reserved_when_a_store_opens_and_freed_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        assert_eq!(fs::metadata(folder.path().join(NAME)).unwrap().len(), SIZE as u64);
        assert!(store.free_reserve());
        assert!(!store.free_reserve());
        store.close().await;
        Store::open(folder.path()).await.unwrap().close().await;
        assert!(folder.path().join(NAME).exists());
    }
}
