//! A bundle: sweeps as one file, for the store of another user.
//!
//! It is a compressed archive (`tar`, gzip) of what a rebuild reads, under the names that it has in a store. A manifest comes first, with
//! size and SHA-256 of each file, then the journals, then event logs and models. The same sweeps give the same bytes.
//!
//! ```text
//! manifest.json
//! runs/sweep-<id>.jsonl
//! runs/<run>/<number>/events.mpk or events.mpk.gz
//! runs/<run>/<number>/snapshots/<file>      if models were asked for
//! ```
//!
//! A reader takes it for hostile: nothing of it is believed before its place in the manifest, its size and its digest were checked, and
//! no name, number or word of it reaches the store that a driver would not have written.

pub(crate) mod alike;
pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod import;
mod known_models;
pub(crate) mod manifest;
mod moved;
pub(crate) mod pack;
pub(crate) mod standing;
mod unpack;

use crate::layout::RUNS;
use std::path::Path;

/// The manifest's name in the archive.
const MANIFEST: &str = "manifest.json";
/// The form that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// Bytes of the longest journal that is read: it is held in memory, and one of 10,000 runs has a tenth of this.
const LONGEST_JOURNAL: u64 = 256 << 20;

/// Bytes of all journals of a bundle: they are held together.
const LONGEST_JOURNALS: u64 = 1 << 30;

/// Kind of a file of a bundle, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BundleFile<'a> {
    /// The journal of this sweep.
    Journal(&'a str),
    /// The event log of an attempt.
    Log(OfAttempt<'a>),
    /// A model of an attempt.
    Model(OfAttempt<'a>),
}

/// A file of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfAttempt<'a> {
    run: &'a str,
    number: u32,
}

impl<'a> BundleFile<'a> {
    /// `None` for every name that no driver gives to a file.
    fn of(name: &'a str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            [RUNS, journal] => {
                let sweep = journal.strip_prefix("sweep-")?.strip_suffix(".jsonl")?;
                is_id(sweep).then_some(Self::Journal(sweep))
            }
            [RUNS, run, number, "events.mpk" | "events.mpk.gz"] => {
                Some(Self::Log(OfAttempt::of(run, number)?))
            }
            [RUNS, run, number, "snapshots", file] => {
                is_plain(file).then_some(Self::Model(OfAttempt::of(run, number)?))
            }
            _ => None,
        }
    }

    /// Bytes of the longest such file.
    fn longest(&self) -> u64 {
        match self {
            Self::Journal(_) => LONGEST_JOURNAL,
            Self::Log(_) | Self::Model(_) => u64::MAX >> 1,
        }
    }
}

impl<'a> OfAttempt<'a> {
    fn of(run: &'a str, number: &'a str) -> Option<Self> {
        let parsed: u32 = number.parse().ok()?;
        (is_id(run) && (1..100_000).contains(&parsed) && parsed.to_string() == number)
            .then_some(Self { run, number: parsed })
    }
}

/// Whether a text is an id as this program makes them: a ULID in upper case.
fn is_id(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() && !b"ILOU".contains(&byte);
    text.len() == 26 && text.bytes().all(letter)
}

/// Whether a text can only be the name of a file in the folder that it is put in.
fn is_plain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=100).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits)
}

/// Free bytes of the disk that a folder lies on; `None` if the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_driver_gives_have_a_place() {
        let sweep = "01JD0QV1CKSTARR0000000000A";
        let run = "01JD0QV1CKSTARR0000000000B";
        assert!(is_id(sweep) && is_id(run) && !is_id(&sweep.replace('S', "U")));
        assert_eq!(BundleFile::of(&format!("runs/sweep-{sweep}.jsonl")), Some(BundleFile::Journal(sweep)));
        let of = OfAttempt { run, number: 12 };
        assert_eq!(
            BundleFile::of(&format!("runs/{run}/12/events.mpk.gz")),
            Some(BundleFile::Log(of.clone()))
        );
        assert_eq!(BundleFile::of(&format!("runs/{run}/12/snapshots/a-1.f32")), Some(BundleFile::Model(of)));
        for hostile in [
            "",
            "/",
            "runs",
            "bakeoff.db",
            "runs/pages.jsonl",
            "runs/../runs/x",
            &format!("/runs/sweep-{sweep}.jsonl"),
            &format!("runs//sweep-{sweep}.jsonl"),
            &format!("./runs/sweep-{sweep}.jsonl"),
            &format!("runs/sweep-{}.jsonl", sweep.to_lowercase()),
            &format!("runs/sweep-{sweep}.jsonl/"),
            &format!("runs/{run}/1/../../../events.mpk"),
            &format!("runs/{run}/0/events.mpk"),
            &format!("runs/{run}/01/events.mpk"),
            &format!("runs/{run}/+1/events.mpk"),
            &format!("runs/{run}/1/rank-0.log"),
            &format!("runs/{run}/1/checkpoints/8/rank-0.state"),
            &format!("runs/{run}/1/snapshots/.."),
            &format!("runs/{run}/1/snapshots/.hidden"),
            &format!("runs/{run}/1/snapshots/a b"),
            &format!("runs/{run}/1/snapshots/{}", "a".repeat(101)),
            &format!("runs/{run}/1/snapshots/a/b"),
        ] {
            assert_eq!(BundleFile::of(hostile), None, "{hostile}");
        }
    }
}
