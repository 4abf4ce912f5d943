//! Room that is kept aside, so that of a run that ends because the disk is full it can still be told.

use crate::Store;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The file's name in the store's folder.
const NAME: &str = "reserve";
/// Enough for the end of an attempt and of a sweep, and for a page.
const SIZE: usize = 4 << 20;

/// Takes the room, unless it is taken already. Where there is none, that is told by what is written next.
pub(crate) fn keep(folder: &Path) {
    let path = folder.join(NAME);
    if fs::metadata(&path).is_ok_and(|file| file.len() == SIZE as u64) {
        return;
    }
    if let Err(error) = fill(&path) {
        tracing::debug!(path = %path.display(), %error, "no room is kept aside");
        let _ = fs::remove_file(&path);
    }
}

/// Real bytes: a hole in a file is no room.
fn fill(path: &Path) -> io::Result<()> {
    fs::File::create(path)?.write_all(&vec![0x55; SIZE])
}

impl Store {
    /// Gives up the room that was kept aside; whether there was any. What could not be written may fit now.
    pub fn make_room(&self) -> bool {
        fs::remove_file(self.folder.join(NAME)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_kept_until_it_is_needed_and_then_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        assert_eq!(fs::metadata(folder.path().join(NAME)).unwrap().len(), SIZE as u64);
        assert!(store.make_room());
        assert!(!store.make_room());
        store.close().await;
        Store::open(folder.path()).await.unwrap().close().await;
        assert!(folder.path().join(NAME).exists());
    }
}
