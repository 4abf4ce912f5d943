//! Why a data set did not come, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a data set did not come.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum FetchError {
    /// Another process fetches into the same folder.
    #[error("another `bakeoff data fetch`{} is filling {}", holder.map(|pid| format!(" (process {pid})")).unwrap_or_default(), folder.display())]
    Busy {
        folder: PathBuf,
        /// The other process, where it said who it is.
        holder: Option<u32>,
    },
    /// The disk has no room.
    #[error("{} needs {} MiB more, and its disk has {} left", folder.display(), needed.div_ceil(1 << 20), available >> 20)]
    Room {
        folder: PathBuf,
        /// Bytes that are still to be written.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// A file or folder cannot be made, read or written.
    #[error("{} cannot be {what}: {source}", path.display())]
    File {
        path: PathBuf,
        /// Operation that failed: `made`, `read`, `written`, `removed`.
        what: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No source has the file.
    #[error("{archive} did not come from any source{}", listed(refusals))]
    Unavailable {
        archive: &'static str,
        /// Refusal of each source, in the order in which they were asked.
        refusals: Vec<Refusal>,
    },
    /// An archive with the right digest does not have the known files.
    #[error("{archive} does not unpack as it should: {reason}")]
    Packing { archive: &'static str, reason: String },
}

/// Why a source did not give a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Refusal {
    /// It answered with another status than 200.
    #[error("{url}: the server returned status {status}")]
    Status { url: String, status: u16 },
    /// It could not be reached, or fell silent, as often as was tried.
    #[error("{url}: {reason}{}", if *tries > 1 { format!(" ({tries} times)") } else { String::new() })]
    Connection {
        url: String,
        reason: String,
        /// How often it was tried.
        tries: u32,
    },
    /// Its file has another length.
    #[error("{url}: has {} where {expected} bytes were expected", got.map_or("more".to_owned(), |got| format!("{got} bytes")))]
    Length {
        url: String,
        expected: u64,
        /// The length of its file, as far as it is known.
        got: Option<u64>,
    },
    /// Its file has another digest.
    #[error("{url}: has SHA-256 {got} where {expected} was published")]
    Digest { url: String, expected: &'static str, got: String },
    /// A folder has no such file.
    #[error("{}: no such file", path.display())]
    Missing { path: PathBuf },
}

impl FetchError {
    /// A file that could not be used.
    pub(crate) fn file(path: impl Into<PathBuf>, what: &'static str, source: io::Error) -> Self {
        Self::File { path: path.into(), what, source }
    }

    /// Advice to the user, as an imperative.
    pub fn cure(&self) -> String {
        match self {
            Self::Busy { .. } => "wait for it, then run this again: it only checks what came".into(),
            Self::Room { .. } => ROOM.into(),
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => ROOM.into(),
            Self::File { .. } => {
                "name a folder that you may write to: --folder FOLDER, or BAKEOFF_DATA for all data sets"
                    .into()
            }
            Self::Unavailable { refusals, .. } => unavailable(refusals).into(),
            Self::Packing { .. } => {
                "the archive itself is as published, so this is a fault of bakeoff: report it".into()
            }
        }
    }
}

const ROOM: &str = "free some space and run this again, which continues where it stopped; or name a folder on another \
                    disk: --folder FOLDER, or BAKEOFF_DATA";

/// A line for each.
fn listed(refusals: &[Refusal]) -> String {
    let lines: Vec<String> = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
    lines.concat()
}

fn unavailable(refusals: &[Refusal]) -> &'static str {
    let any = |kind: fn(&Refusal) -> bool| refusals.iter().any(kind);
    if any(|refusal| matches!(refusal, Refusal::Missing { .. })) {
        "--from FOLDER needs the published files under their own names; `bakeoff data list -v` names them"
    } else if any(|refusal| matches!(refusal, Refusal::Digest { .. } | Refusal::Length { .. })) {
        "what came is not what was published: a page of a proxy, or another version; try a source of your own with \
         --from URL"
    } else if any(|refusal| matches!(refusal, Refusal::Connection { .. })) {
        "check the network; behind a proxy set HTTPS_PROXY; or fetch the files elsewhere and give them with --from \
         FOLDER. Running this again continues where it stopped"
    } else {
        "the sources may have moved: give another one with --from URL, or a folder with --from FOLDER"
    }
}
