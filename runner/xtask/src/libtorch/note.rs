//! The note in a finished folder: where it came from, and the size of each library.
//!
//! It tells a complete folder from a damaged one at the price of a few file-system look-ups.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::layout;

const FILE: &str = "bakeoff-setup.json";

/// A folder's state according to its note.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// There is no such folder.
    Absent,
    /// There is a folder, but we did not finish it.
    NoNote,
    /// The folder is as it was when it was finished.
    Complete {
        /// Where it came from.
        source: String,
    },
    /// The folder has changed since; the first changed file.
    Damaged(String),
}

/// Leaves the note in a finished folder.
pub(super) fn write(folder: &Path, source: &str) -> Result<()> {
    let note = json!({ "source": source, "bytes": sizes(folder)? });
    let path = folder.join(FILE);
    fs::write(&path, format!("{note:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

/// Compares a folder with its note.
pub(super) fn check(folder: &Path) -> Check {
    if !folder.is_dir() {
        return Check::Absent;
    }
    let Ok(text) = fs::read_to_string(folder.join(FILE)) else { return Check::NoNote };
    let Ok(note) = serde_json::from_str::<Value>(&text) else {
        return Check::Damaged(format!("{FILE} is not readable"));
    };
    let (Some(source), Some(bytes)) = (note["source"].as_str(), note["bytes"].as_object()) else {
        return Check::Damaged(format!("{FILE} lacks its entries"));
    };
    for (name, size) in bytes {
        let found = folder.join(name).metadata().ok().map(|metadata| metadata.len());
        if found != size.as_u64() {
            return Check::Damaged(format!("{name} is not as it was"));
        }
    }
    match layout::inspect(folder) {
        Ok(_) => Check::Complete { source: source.to_owned() },
        Err(error) => Check::Damaged(format!("{error:#}")),
    }
}

fn sizes(folder: &Path) -> Result<BTreeMap<String, u64>> {
    let libraries = folder.join("lib");
    let problem = || format!("cannot list {}", libraries.display());
    let mut sizes = BTreeMap::new();
    for entry in fs::read_dir(&libraries).with_context(problem)? {
        let entry = entry.with_context(problem)?;
        // Through links, so that a PyTorch that is taken away is noticed.
        let metadata = entry.path().metadata().with_context(problem)?;
        if metadata.is_file() {
            sizes.insert(format!("lib/{}", entry.file_name().to_string_lossy()), metadata.len());
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_damage_is_noticed() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("libtorch");
        assert_eq!(check(&folder), Check::Absent);
        layout::tests::fake(&folder, "2.11.0+cpu");
        assert_eq!(check(&folder), Check::NoNote);
        let complete = Check::Complete { source: "a test".to_owned() };
        let damaged = |what: &str| Check::Damaged(what.to_owned());

        write(&folder, "a test").expect("a note");
        assert_eq!(check(&folder), complete);
        fs::write(folder.join("lib/libc10.so"), "shorter").expect("written");
        assert_eq!(check(&folder), damaged("lib/libc10.so is not as it was"));
        fs::remove_file(folder.join("lib/libc10.so")).expect("removed");
        assert_eq!(check(&folder), damaged("lib/libc10.so is not as it was"));

        layout::tests::fake(&folder, "2.10.0");
        assert!(matches!(check(&folder), Check::Damaged(what) if what.contains("2.10.0")));
        fs::write(folder.join(FILE), "{}").expect("written");
        assert_eq!(check(&folder), damaged("bakeoff-setup.json lacks its entries"));
        fs::write(folder.join(FILE), "{").expect("written");
        assert_eq!(check(&folder), damaged("bakeoff-setup.json is not readable"));
    }

    #[test]
    fn a_link_whose_target_is_gone_is_damage() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("libtorch");
        layout::tests::fake(&folder, "2.11.0");
        let target = scratch.path().join("libgomp.so.1");
        fs::write(&target, "elsewhere").expect("written");
        std::os::unix::fs::symlink(&target, folder.join("lib/libgomp.so.1")).expect("linked");
        write(&folder, "links").expect("a note");
        assert!(matches!(check(&folder), Check::Complete { .. }));
        fs::remove_file(&target).expect("removed");
        assert_eq!(check(&folder), Check::Damaged("lib/libgomp.so.1 is not as it was".to_owned()));
    }
}
