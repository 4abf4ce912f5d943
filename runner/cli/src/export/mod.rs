//! The forms of export, one per file.

pub(crate) mod bundle;
pub(crate) mod chrome_trace;
pub(crate) mod events;
pub(crate) mod parquet;
pub(crate) mod samples;
pub(crate) mod table;
pub(crate) mod typed;
pub(crate) mod verdicts;
pub(crate) mod weights;

use crate::exit::{Exit, Failure};
use crate::reuse::short;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use store::{RunInFull, Selection, Store};

/// A file, or standard output where none is named; must be flushed.
pub(crate) fn open(path: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(anstream::stdout()))) };
    Ok(Box::new(create(path)?))
}

/// A file; must be flushed.
pub(crate) fn create(path: &Path) -> Result<BufWriter<Named>, Failure> {
    // As for pages and figures.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(path));
    let file = made.map_err(|error| unwritable(path, &error))?;
    Ok(BufWriter::with_capacity(1 << 18, Named { path: path.to_owned(), file }))
}

/// The runs that fit.
///
/// # Errors
/// No run fits the selection, or the store cannot be read.
pub(crate) async fn fitting(store: &Store, selection: &Selection) -> Result<Vec<RunInFull>, Failure> {
    let found = store.list_in_full(selection).await?;
    if found.is_empty() {
        return Err(none_fits(selection));
    }
    Ok(found)
}

fn none_fits(selection: &Selection) -> Failure {
    Failure::new(Exit::Empty, format!("no run fits `{selection}`"))
}

pub(crate) fn never_begun(run: &RunInFull) -> Failure {
    Failure::new(Exit::Empty, format!("run {} was never begun", short(&run.id)))
}

/// A file whose errors name it.
pub(crate) struct Named {
    path: PathBuf,
    file: File,
}

impl Named {
    fn name(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| self.name(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| self.name(error))
    }
}

/// A file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let failure =
        Failure::new(Exit::of_file(error), format!("{} cannot be written: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull => failure.cure("free some space, or name another place with -o"),
        _ => failure.cure("name another place with -o"),
    }
}
