//! Makes the page of a sweep and puts it where the user wants it.

use crate::exit::{Exit, Failure};
use crate::output::{Console, human};
use recipe::hex;
use reports::{DataFile, Options, Page, Timelines, Traced};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use store::{NewReport, Selection, Store, SweepRows};

/// The settings of a page that no option changes.
pub(crate) fn options() -> Options {
    Options { generated_by: format!("bakeoff {}", env!("CARGO_PKG_VERSION")), ..Options::default() }
}

/// Content of a page: runs of one sweep, and how they are shown.
pub(crate) struct Content<'a> {
    /// The rows of one sweep.
    pub(crate) rows: &'a SweepRows,
    /// The selection that they are.
    pub(crate) selection: &'a Selection,
    /// How they are shown.
    pub(crate) options: &'a Options,
}

/// Writes a page. Its folder is made if it does not exist.
pub(crate) async fn write(
    store: &Store,
    content: &Content<'_>,
    file: &Path,
    console: &Console,
) -> Result<(), Failure> {
    let Content { rows, selection, options } = *content;
    let data = data_folder(file);
    let name = data.file_name().map(|name| name.to_string_lossy().into_owned());
    let page = made(store, rows, &Options { data_folder: name, ..options.clone() }).await?;
    for warning in &page.warnings {
        console.warn(warning, "");
    }
    // A page that cannot be written leaves no new data beside an old one.
    places(file)?;
    for part in &page.data {
        save(&data.join(&part.name), &part.text)?;
    }
    save(file, &page.html)?;
    for (file, error) in remove_stale(&data, &page.data) {
        console.warn(&format!("{} is of an earlier page and stays: {error}", file.display()), "delete it");
    }
    if store.is_read_only() {
        // Then only the page itself tells of it.
        return Ok(());
    }
    let report = NewReport {
        selection: &selection.to_string(),
        path: &file.to_string_lossy(),
        sha256: &hex(&Sha256::digest(&page.html)),
        created: human::now(),
    };
    Ok(store.record_report(&report).await?)
}

/// Makes a page, with the timelines that it shows.
pub(crate) async fn made(store: &Store, rows: &SweepRows, options: &Options) -> Result<Page, Failure> {
    let mut timelines = Timelines::new();
    for run in reports::wanted_timelines(rows) {
        let id = store.find_run(&run).await?;
        let spans = store.timeline(&id).await?;
        let course = store.course(&id, reports::STRETCHES).await?;
        timelines.insert(run, Traced { spans, course });
    }
    Ok(reports::page(rows, &timelines, options)?)
}

/// The folder beside a page for data that is too large to embed: `page-data` for `page.html`.
fn data_folder(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{stem}-data"))
}

/// Removes the CSV files that an earlier page of this name left in its folder: beside the new page they would look like its
/// data. Only files that a page may have written are touched, and the folder only if nothing else is in it. Returns what
/// could not be removed.
fn remove_stale(data: &Path, fresh: &[DataFile]) -> Vec<(PathBuf, std::io::Error)> {
    let is_stale = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let known = name.to_str().filter(|name| reports::is_data_file(name));
        known.is_some_and(|name| fresh.iter().all(|part| part.name != name))
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    let Ok(entries) = fs::read_dir(data) else { return Vec::new() };
    let stale: Vec<PathBuf> = entries.flatten().filter(is_stale).map(|entry| entry.path()).collect();
    if stale.is_empty() {
        return Vec::new();
    }
    let remove = |file: PathBuf| fs::remove_file(&file).err().map(|error| (file, error));
    let left = stale.into_iter().filter_map(remove).collect();
    // Fails, as it should, where anything is left.
    let _ = fs::remove_dir(data);
    left
}

/// Whether a file can be written, found out before hours are spent on what goes into it.
pub(crate) fn prepare(file: &Path) -> Result<(), Failure> {
    let (folder, beside) = places(file)?;
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&beside, ""))
        .and_then(|()| fs::remove_file(&beside));
    tried.map_err(|error| unwritable(Exit::Preflight, file, &error))?;
    let data = data_folder(file);
    if data.exists() && !data.is_dir() {
        return Err(unwritable(Exit::Preflight, &data, &ErrorKind::NotADirectory.into()));
    }
    Ok(())
}

/// Writes a file whole or not at all: a half page would look like a page.
pub(crate) fn save(file: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let (folder, beside) = places(file)?;
    let saved = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&beside, content))
        .and_then(|()| fs::rename(&beside, file));
    saved.map_err(|error| {
        // The partial file is of no use.
        let _ = fs::remove_file(&beside);
        unwritable(Exit::of_file(&error), file, &error)
    })
}

/// The folder of a file, and the name under which the file is written first.
fn places(file: &Path) -> Result<(&Path, PathBuf), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().filter(|_| !file.is_dir());
    let name = name.ok_or_else(|| unwritable(Exit::Usage, file, &ErrorKind::IsADirectory.into()))?;
    Ok((folder, folder.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()))))
}

fn unwritable(exit: Exit, file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit, format!("{} cannot be written: {error}", file.display()))
        .cure("name another file, or check the folder's owner and free space")
}

/// Opens a page in the user's browser.
pub(crate) fn open(file: &Path, console: &Console) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let quiet = command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = quiet.spawn() {
        console.warn(
            &format!("no browser was opened: {program}: {error}"),
            &format!("open {} yourself", file.display()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_in_a_folder_named_after_the_page() {
        assert_eq!(data_folder(Path::new("out/page.html")), Path::new("out/page-data"));
        assert_eq!(data_folder(Path::new("page")), Path::new("page-data"));
    }

    #[test]
    fn a_new_page_leaves_no_data_of_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("page-data");
        fs::create_dir(&data).unwrap();
        let file = |name: &str| DataFile { name: name.to_owned(), text: String::new() };
        for name in ["night-runs.csv", "night-links.csv", "notes.csv"] {
            fs::write(data.join(name), "").unwrap();
        }
        let exists = |name: &str| data.join(name).exists();
        assert!(remove_stale(&data, &[file("night-runs.csv")]).is_empty());
        assert_eq!(["night-runs.csv", "night-links.csv", "notes.csv"].map(exists), [true, false, true]);
        // A file that no page has written keeps the folder.
        assert!(remove_stale(&data, &[]).is_empty());
        assert_eq!(["night-runs.csv", "notes.csv"].map(exists), [false, true]);
        fs::rename(data.join("notes.csv"), data.join("night-paces.csv")).unwrap();
        assert!(remove_stale(&data, &[]).is_empty() && !data.exists());
        // A folder that no page has written is not touched either.
        fs::create_dir(&data).unwrap();
        assert!(remove_stale(&data, &[]).is_empty() && data.exists());
    }
}
