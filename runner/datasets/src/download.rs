//! One archive from the first source that has it: resumed where it broke off, never longer than it may be, and
//! checked before anybody uses it.

use crate::catalogue::Archive;
use crate::digest::{self, PIECE, Sum};
use crate::http::{Answer, Client, Patience};
use crate::lock::Workshop;
use crate::progress::FetchProgress;
use crate::source::DownloadSource;
use crate::{FetchError, Refusal};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Download of one archive.
pub(crate) struct Download<'a> {
    pub(crate) archive: &'static Archive,
    pub(crate) workshop: &'a Workshop,
    pub(crate) client: &'a Client,
    pub(crate) patience: Patience,
    pub(crate) progress: &'a mut dyn FnMut(FetchProgress<'_>),
}

/// Why one try at a source ended.
enum Broken {
    /// The source will not give it.
    Refused(Refusal),
    /// It may give the rest at another try.
    Interrupted(String),
    /// Nothing can be written.
    Disk(FetchError),
}

/// The part of an archive that is already on the disk.
struct Part<'a> {
    path: &'a Path,
    /// Its length in bytes, after which the next byte belongs.
    begin: u64,
}

impl Download<'_> {
    /// The verified archive, from the first of these sources that has it.
    pub(crate) fn run(&mut self, sources: &[DownloadSource]) -> Result<PathBuf, FetchError> {
        let mut refusals = Vec::new();
        for source in sources {
            let come = match source {
                DownloadSource::Web(base) => self.web(&format!("{base}/{}", self.archive.name)),
                DownloadSource::Folder(folder) => self.disk(&folder.join(self.archive.name)),
            };
            match come? {
                Ok(path) => return Ok(path),
                Err(refusal) => {
                    (self.progress)(FetchProgress::Refused { refusal: &refusal });
                    refusals.push(refusal);
                }
            }
        }
        Err(FetchError::Unavailable { archive: self.archive.name, refusals })
    }

    /// File in the workshop to which the bytes that come are appended.
    fn part(&self) -> PathBuf {
        self.workshop.path(&format!("{}.part", self.archive.name))
    }

    fn disk(&self, path: &Path) -> Result<Result<PathBuf, Refusal>, FetchError> {
        if !path.is_file() {
            return Ok(Err(Refusal::Missing { path: path.to_owned() }));
        }
        let (bytes, sha256) = digest::of_file(path).map_err(|error| FetchError::file(path, "read", error))?;
        Ok(self.check(&path.display().to_string(), bytes, sha256).map(|()| path.to_owned()))
    }

    fn check(&self, url: &str, bytes: u64, sha256: String) -> Result<(), Refusal> {
        let url = url.to_owned();
        if bytes != self.archive.bytes {
            return Err(Refusal::Length { url, expected: self.archive.bytes, got: Some(bytes) });
        }
        if sha256 != self.archive.sha256 {
            return Err(Refusal::Digest { url, expected: self.archive.sha256, got: sha256 });
        }
        Ok(())
    }

    /// All of it from one address.
    fn web(&mut self, url: &str) -> Result<Result<PathBuf, Refusal>, FetchError> {
        let part = self.part();
        let mut tries = 0;
        let mut pause = self.patience.pause;
        // Bytes that another source, or another day, left here may be of another file.
        let mut foreign = length(&part) > 0;
        loop {
            let before = length(&part);
            match self.attempt(url, &part) {
                Ok(()) => {
                    let (bytes, sha256) =
                        digest::of_file(&part).map_err(|error| FetchError::file(&part, "read", error))?;
                    let Err(refusal) = self.check(url, bytes, sha256) else { return Ok(Ok(part)) };
                    fs::remove_file(&part).map_err(|error| FetchError::file(&part, "removed", error))?;
                    if !foreign {
                        return Ok(Err(refusal));
                    }
                    foreign = false;
                }
                Err(Broken::Refused(refusal)) => return Ok(Err(refusal)),
                Err(Broken::Disk(error)) => return Err(error),
                Err(Broken::Interrupted(reason)) => {
                    // A server that brings something each time gets there.
                    tries = if length(&part) > before { 1 } else { tries + 1 };
                    if tries >= self.patience.tries {
                        let url = url.to_owned();
                        return Ok(Err(Refusal::Connection { url, reason, tries }));
                    }
                    (self.progress)(FetchProgress::Again { reason: &reason });
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(self.patience.answer);
                }
            }
        }
    }

    /// One request for the missing bytes.
    fn attempt(&mut self, url: &str, part: &Path) -> Result<(), Broken> {
        let mut have = length(part);
        let expected = self.archive.bytes;
        if have > expected {
            have = 0;
        }
        (self.progress)(FetchProgress::Source { archive: self.archive, url, have });
        if have == expected {
            return Ok(());
        }
        let (begin, body) = match self.client.get(url, have).map_err(|error| told(&error))? {
            Answer::Content { begin, total, body } => {
                let all = total.map(|total| if begin == 0 { total } else { total.max(begin) });
                if all.is_some_and(|all| all != expected) {
                    return Err(Broken::Refused(Refusal::Length { url: url.to_owned(), expected, got: all }));
                }
                if begin != 0 && begin != have {
                    return Err(Broken::Interrupted(format!(
                        "it sends byte {begin} where {have} was asked for"
                    )));
                }
                (begin, body)
            }
            Answer::Beyond => {
                // The bytes here do not fit the server's file.
                fs::remove_file(part)
                    .map_err(|error| Broken::Disk(FetchError::file(part, "removed", error)))?;
                return Err(Broken::Interrupted("it has no such bytes".into()));
            }
            Answer::Status(status @ (408 | 425 | 429 | 500..)) => {
                return Err(Broken::Interrupted(format!("the server returned status {status}")));
            }
            Answer::Status(status) => {
                return Err(Broken::Refused(Refusal::Status { url: url.to_owned(), status }));
            }
        };
        self.receive(url, body, Part { path: part, begin })
    }

    /// Appends the bytes of a reply to the part, which is cut to `begin` before.
    fn receive(&mut self, url: &str, mut body: Box<dyn Read>, part: Part<'_>) -> Result<(), Broken> {
        let Part { path: part, begin } = part;
        let disk = |error| Broken::Disk(FetchError::file(part, "written", error));
        let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(disk)?;
        file.set_len(begin).map_err(disk)?;
        let mut have = begin;
        let expected = self.archive.bytes;
        let mut piece = vec![0; PIECE];
        loop {
            let count = match body.read(&mut piece) {
                // Whether more would come shows only here, where the server said no length.
                Ok(0) | Err(_) if have == expected => break,
                Ok(0) => return Err(Broken::Interrupted(format!("it ended at byte {have} of {expected}"))),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Broken::Interrupted(said(&error))),
            };
            have += count as u64;
            if have > expected {
                let url = url.to_owned();
                // Nothing of it can be trusted.
                file.set_len(0).map_err(disk)?;
                return Err(Broken::Refused(Refusal::Length { url, expected, got: None }));
            }
            file.write_all(&piece[..count]).map_err(disk)?;
            (self.progress)(FetchProgress::Received { bytes: have });
        }
        file.sync_all().map_err(disk)
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// An error of the connection; what no further try can change is a refusal of the address.
fn told(error: &ureq::Error) -> Broken {
    Broken::Interrupted(match error {
        ureq::Error::HostNotFound => "no such host, or no network".into(),
        ureq::Error::ConnectionFailed => "no connection".into(),
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::Io(error) => said(error),
        other => other.to_string(),
    })
}

fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "it fell silent".into(),
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => {
            "the connection broke off".into()
        }
        _ => error.to_string(),
    }
}

/// Copies a reader's bytes into a fresh file, at most `limit` of them; returns length and digest. One byte
/// more than the limit is [`Copying::TooLong`].
pub(crate) fn copy_bounded(reader: &mut dyn Read, path: &Path, limit: u64) -> Result<(u64, String), Copying> {
    let mut sum = Sum::new(File::create(path).map_err(Copying::Write)?);
    let mut piece = vec![0; PIECE];
    loop {
        let count = match reader.read(&mut piece) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Copying::Read(error)),
        };
        if sum.bytes + count as u64 > limit {
            return Err(Copying::TooLong);
        }
        if count == 0 {
            sum.flush().map_err(Copying::Write)?;
            return Ok((sum.bytes, sum.hex()));
        }
        sum.write_all(&piece[..count]).map_err(Copying::Write)?;
    }
}

/// Why a copy ended early.
#[derive(Debug)]
pub(crate) enum Copying {
    /// The reader failed: the archive cannot be read or unpacked.
    Read(io::Error),
    /// The file could not be written.
    Write(io::Error),
    /// More came than was known.
    TooLong,
}
