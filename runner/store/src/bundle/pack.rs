//! Writes a bundle.

use super::content::Content;
use super::error::BundleError;
use super::manifest::{BundledFile, BundledSweep, Manifest};
use super::{BundleFile, FORMAT, MANIFEST, is_plain};
use crate::journal::event_reader;
use crate::layout::{self, RUNS};
use crate::sql::document::to_json;
use crate::{Selection, Store, StoreError};
use flate2::Compression;
use flate2::write::GzEncoder;
use recipe::hex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// Models that a bundle takes along, of those that runs kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundledModels {
    /// No model; [`Bundled::models_left_out`] counts them.
    None,
    /// All that were kept.
    Kept,
}

/// A bundle that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Its sweeps, oldest first.
    pub sweeps: Vec<BundledSweep>,
    /// Number of files in it.
    pub files: usize,
    /// Bytes of these files before compression.
    pub unpacked: u64,
    /// Bytes of the bundle.
    pub bytes: u64,
    /// SHA-256 of the bundle, in hexadecimal.
    pub sha256: String,
    /// The models that were left out.
    pub models_left_out: LeftOut,
}

/// Files that are not in a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// A file on its way into a bundle.
struct Source {
    listed: BundledFile,
    bytes: Bytes,
}

/// Where its bytes are.
enum Bytes {
    /// A journal's whole lines.
    Here(Vec<u8>),
    /// A file that does not change any more.
    File(PathBuf),
}

impl Store {
    /// Writes the sweeps of which a run fits, with those whose results they took, as one file.
    ///
    /// # Errors
    /// [`StoreError::Empty`], [`StoreError::UnderWay`]; a file that cannot be read or written. No file is left then.
    pub async fn bundle(
        &self,
        selection: &Selection,
        models: BundledModels,
        version: &str,
        output: &Path,
    ) -> Result<Bundled, BundleError> {
        let chosen = self.sweeps_fitting(selection).await?;
        let chosen: BTreeSet<String> = chosen.into_iter().map(|found| found.sweep.to_string()).collect();
        let needed_by = self.sources_of(&chosen).await?;
        let all: BTreeSet<&String> = chosen.iter().chain(needed_by.keys()).collect();
        let mut manifest =
            Manifest { format: FORMAT, bakeoff: version.to_owned(), sweeps: Vec::new(), files: Vec::new() };
        let mut sources = Vec::new();
        let mut logs = Vec::new();
        let mut left_out = LeftOut::default();
        for sweep in all {
            self.refuse_running(sweep).await?;
            let path = layout::sweep_journal(&self.folder, sweep);
            let (journal, content) = whole_journal(&path, sweep)?;
            let needed_by = needed_by.get(sweep).map(|by| by.iter().cloned().collect()).unwrap_or_default();
            manifest.sweeps.push(described(&content, needed_by));
            let name = format!("{RUNS}/sweep-{sweep}.jsonl");
            let listed =
                BundledFile { name, size: journal.len() as u64, sha256: hex(&Sha256::digest(&journal)) };
            sources.push(Source { listed, bytes: Bytes::Here(journal) });
            for ((run, number), bytes) in &content.logs {
                let directory = layout::attempt_directory(&self.folder, run, *number);
                let log = event_reader::file_of(&directory);
                if log.is_file() {
                    logs.push(log);
                } else if *bytes > 0 {
                    let reason = format!(
                        "it is missing; `bakeoff db prune {run}` removes its run, and the others can be bundled"
                    );
                    return Err(BundleError::Unbundled { path: log, reason });
                }
                match models {
                    BundledModels::Kept => logs.extend(kept(&directory)),
                    BundledModels::None => {
                        let sizes = kept(&directory)
                            .into_iter()
                            .filter_map(|path| Some(fs::metadata(path).ok()?.len()));
                        for size in sizes {
                            left_out.files += 1;
                            left_out.bytes += size;
                        }
                    }
                }
            }
        }
        logs.sort();
        for path in logs {
            sources.push(self.source(path)?);
        }
        manifest.files = sources.iter().map(|source| source.listed.clone()).collect();
        let (bytes, sha256) = written(&manifest, &sources, output)?;
        let files = sources.len();
        let unpacked = manifest.bytes();
        Ok(Bundled { sweeps: manifest.sweeps, files, unpacked, bytes, sha256, models_left_out: left_out })
    }

    /// The sweeps outside of these from which they took results, and theirs in turn; each with the chosen ones that need it.
    async fn sources_of(
        &self,
        chosen: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, BundleError> {
        let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for first in chosen {
            let mut known = BTreeSet::from([first.clone()]);
            let mut next = vec![first.clone()];
            while !next.is_empty() {
                let found: Vec<String> = sqlx::query_scalar(
                    "SELECT DISTINCT owner.ulid FROM run JOIN sweep ON sweep.id = run.sweep \
                     JOIN run AS source ON source.id = run.reused_from JOIN sweep AS owner ON owner.id = source.sweep \
                     WHERE sweep.ulid IN (SELECT value FROM json_each(?)) ORDER BY owner.ulid",
                )
                .bind(to_json("list of sweeps", &next)?)
                .fetch_all(&self.reader)
                .await
                .map_err(StoreError::from)?;
                next = found.into_iter().filter(|sweep| known.insert(sweep.clone())).collect();
                for sweep in next.iter().filter(|sweep| !chosen.contains(*sweep)) {
                    needed.entry(sweep.clone()).or_default().insert(first.clone());
                }
            }
        }
        Ok(needed)
    }

    async fn refuse_running(&self, sweep: &str) -> Result<(), BundleError> {
        let state: String = sqlx::query_scalar("SELECT state FROM sweep WHERE ulid = ?")
            .bind(sweep)
            .fetch_one(&self.reader)
            .await
            .map_err(StoreError::from)?;
        match state.as_str() {
            "running" => Err(StoreError::UnderWay { sweep: sweep.to_owned() }.into()),
            _ => Ok(()),
        }
    }

    fn source(&self, path: PathBuf) -> Result<Source, BundleError> {
        let unbundled = |reason: String| BundleError::Unbundled { path: path.clone(), reason };
        let name = path.strip_prefix(&self.folder).ok().and_then(Path::to_str).map(str::to_owned);
        let name = name.filter(|name| BundleFile::of(name).is_some());
        let name = name.ok_or_else(|| unbundled("its name is none that a driver gives".to_owned()))?;
        let read = || -> io::Result<BundledFile> {
            let mut digest = Digesting { inner: io::sink(), digest: Sha256::new(), bytes: 0 };
            io::copy(&mut File::open(&path)?, &mut digest)?;
            Ok(BundledFile { name, size: digest.bytes, sha256: hex(&digest.digest.finalize()) })
        };
        match read() {
            Ok(listed) => Ok(Source { listed, bytes: Bytes::File(path) }),
            Err(error) => Err(unbundled(format!("{error}; `bakeoff db rebuild` says what else is missing"))),
        }
    }
}

/// The whole lines of a journal: a torn last one is ignored, as every reader does.
pub(super) fn whole_journal(path: &Path, sweep: &str) -> Result<(Vec<u8>, Content), BundleError> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BundleError::NoJournal { sweep: sweep.to_owned() });
        }
        Err(source) => return Err(StoreError::Folder { path: path.to_owned(), source }.into()),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    let content = Content::read(&bytes).and_then(|content| content.fault(sweep).map_or(Ok(content), Err));
    match content {
        Ok(content) => Ok((bytes, content)),
        Err(reason) => {
            let reason = format!("{reason}; a later bakeoff may have written it, or it was damaged");
            Err(BundleError::Unbundled { path: path.to_owned(), reason })
        }
    }
}

fn described(content: &Content, needed_by: Vec<String>) -> BundledSweep {
    let entry = &content.entry;
    let machines = content
        .machines
        .iter()
        .map(|node| format!("{}: {}, {} cores", node.host, node.processor, node.cores));
    BundledSweep {
        sweep: entry.sweep.clone(),
        recipe: entry.plan.name.clone(),
        started: entry.started,
        runs: entry.runs.len(),
        machines: machines.collect(),
        needed_by,
    }
}

/// The models in the directory of an attempt, in order.
fn kept(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("snapshots")).into_iter().flatten().flatten();
    let files = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_file()) && is_plain(&entry.file_name().to_string_lossy())
    });
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Writes the bundle beside its place first; returns its size and digest.
fn written(manifest: &Manifest, sources: &[Source], output: &Path) -> Result<(u64, String), BundleError> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let beside = output.with_file_name(format!(".{name}.{}", std::process::id()));
    let unwritable = |source| BundleError::Unwritable { path: output.to_owned(), source };
    let file = File::create(&beside).map_err(unwritable)?;
    let packed = packed(manifest, sources, file, output).and_then(|packed| {
        fs::rename(&beside, output).map_err(unwritable)?;
        Ok(packed)
    });
    if packed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    packed
}

fn packed(
    manifest: &Manifest,
    sources: &[Source],
    file: File,
    output: &Path,
) -> Result<(u64, String), BundleError> {
    let unwritable = |source| BundleError::Unwritable { path: output.to_owned(), source };
    let out = Digesting { inner: BufWriter::new(file), digest: Sha256::new(), bytes: 0 };
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| unwritable(error.into()))?;
    text.push(b'\n');
    append(&mut archive, MANIFEST, &mut text.as_slice()).map_err(unwritable)?;
    for Source { listed, bytes } in sources {
        let mut file;
        let mut here;
        let inner: &mut dyn Read = match bytes {
            Bytes::Here(bytes) => {
                here = bytes.as_slice();
                &mut here
            }
            Bytes::File(path) => {
                let unread = |error: io::Error| BundleError::Unbundled {
                    path: path.clone(),
                    reason: error.to_string(),
                };
                file = BufReader::new(File::open(path).map_err(unread)?);
                &mut file
            }
        };
        let mut checked = Checked { inner: inner.take(listed.size), digest: Sha256::new(), bytes: 0 };
        let heading = Heading { name: &listed.name, size: listed.size };
        append_as(&mut archive, heading, &mut checked).map_err(unwritable)?;
        if checked.bytes != listed.size || hex(&checked.digest.finalize()) != listed.sha256 {
            let reason = "it changed while it was read: try again when no other command works on its sweep";
            return Err(BundleError::Unbundled {
                path: PathBuf::from(&listed.name),
                reason: reason.to_owned(),
            });
        }
    }
    let finish = || -> io::Result<(u64, String)> {
        let mut out = archive.into_inner()?.finish()?;
        out.flush()?;
        out.inner.get_ref().sync_all()?;
        Ok((out.bytes, hex(&out.digest.finalize())))
    };
    finish().map_err(unwritable)
}

/// A file's head: nothing in it depends on when or by whom it was written.
struct Heading<'a> {
    name: &'a str,
    size: u64,
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &mut &[u8]) -> io::Result<()> {
    append_as(archive, Heading { name, size: bytes.len() as u64 }, bytes)
}

fn append_as(
    archive: &mut tar::Builder<impl Write>,
    Heading { name, size }: Heading<'_>,
    bytes: &mut impl Read,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    archive.append(&header, bytes)
}

/// Digests and counts the bytes written.
struct Digesting<W> {
    inner: W,
    digest: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or(bytes));
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Digests and counts the bytes read.
struct Checked<R> {
    inner: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.digest.update(buffer.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }
}

/// SHA-256 of a file, in hexadecimal.
pub(super) fn digest_of(path: &Path) -> io::Result<String> {
    let mut digest = Digesting { inner: io::sink(), digest: Sha256::new(), bytes: 0 };
    io::copy(&mut File::open(path)?, &mut digest)?;
    Ok(hex(&digest.digest.finalize()))
}
