//! Makes the page of a sweep and puts it where the user wants it.

use crate::exit::{Exit, Failure};
use crate::output::{Talk, human};
use recipe::hex;
use reports::{Options, Timelines};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use store::{NewReport, Selection, Store, SweepRows};

/// What is asked of a page.
pub(crate) fn options(baseline: Option<&str>) -> Options {
    Options {
        baseline: baseline.map(str::to_owned),
        generated_by: format!("bakeoff {}", env!("CARGO_PKG_VERSION")),
        allow_large: false,
    }
}

/// Writes the page of these rows; its folder is made if it is not there.
pub(crate) async fn write(
    store: &Store,
    (rows, selection): (&SweepRows, &Selection),
    options: &Options,
    file: &Path,
    talk: &Talk,
) -> Result<(), Failure> {
    let mut timelines = Timelines::new();
    for run in reports::wanted_timelines(rows) {
        let spans = store.timeline(&store.find_run(&run).await?).await?;
        timelines.insert(run, spans);
    }
    let page = reports::page(rows, &timelines, options)?;
    for warning in &page.warnings {
        talk.warn(warning, "");
    }
    save(file, &page.html)?;
    let report = NewReport {
        selection: &selection.to_string(),
        path: &file.to_string_lossy(),
        sha256: &hex(&Sha256::digest(&page.html)),
        created: human::now(),
    };
    Ok(store.note_report(&report).await?)
}

/// Writes a file whole or not at all: a half page would look like a page.
pub(crate) fn save(file: &Path, text: &str) -> Result<(), Failure> {
    let fault = |error: std::io::Error| {
        let exit = if error.kind() == ErrorKind::InvalidInput { Exit::Usage } else { Exit::Internal };
        Failure::new(exit, format!("{} cannot be written: {error}", file.display()))
            .cure("name another file, or check the folder's owner and free space")
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(fault)?;
    let name = file.file_name().ok_or_else(|| fault(ErrorKind::InvalidInput.into()))?;
    let beside = folder.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, file)).map_err(|error| {
        // What is left of the attempt is of no use.
        let _ = fs::remove_file(&beside);
        fault(error)
    })
}

/// Opens a page in the user's browser.
pub(crate) fn open(file: &Path, talk: &Talk) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let quiet = command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = quiet.spawn() {
        talk.warn(
            &format!("no browser was opened: {program}: {error}"),
            &format!("open {} yourself", file.display()),
        );
    }
}
