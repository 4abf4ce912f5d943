//! Layout of a model file, read by the worker binary, which has the library for it.

use crate::LaunchError;
use crate::worker_binary::ask;
use recipe::{LayoutError, ModelLayout, Shape};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// A large file is read, and run a few times.
const PATIENCE: Duration = Duration::from_mins(2);
/// How the line of a layout begins.
const LAYOUT: &str = "{\"sha256\":";
/// How the worker binary ends if the file is no model that it can train.
const REFUSED: i32 = 3;

/// A model file without a description.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// The worker binary cannot be asked.
    #[error(transparent)]
    Worker(#[from] LaunchError),
    /// It cannot train the file: the reason, as a sentence that names it.
    #[error("{0}")]
    Refused(String),
    /// The model does not come back.
    #[error("the model in the file did not come back from a few examples within {} s", waited.as_secs())]
    Hangs {
        /// How long the driver has waited.
        waited: Duration,
    },
    /// It printed something else than a layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// It ended without a layout.
    #[error("bakeoff-worker ended with {status} while it read the file: {said}")]
    Ended {
        /// Exit status of the worker binary.
        status: std::process::ExitStatus,
        /// The beginning of what it printed.
        said: String,
    },
}

/// Asks the worker binary for the layout of a model file that takes examples of the shape `input`.
pub fn describe_model(worker: &Path, file: &Path, input: Shape) -> Result<ModelLayout, DescriptionError> {
    let shape = input.to_string();
    let arguments = [OsStr::new("--describe-model"), file.as_os_str(), OsStr::new(&shape)];
    let output = match ask(worker, &arguments, &BTreeMap::new(), PATIENCE) {
        Err(LaunchError::WorkerHangs { waited, .. }) => return Err(DescriptionError::Hangs { waited }),
        answer => answer?,
    };
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().chars().take(1000).collect::<String>();
    match output.status.code() {
        Some(0) => {
            // A script may print lines of its own.
            let text = String::from_utf8_lossy(&output.stdout);
            let layout = text.lines().find(|line| line.starts_with(LAYOUT));
            Ok(ModelLayout::read(layout.unwrap_or_default())?)
        }
        Some(REFUSED) => Err(DescriptionError::Refused(said(&output.stderr))),
        _ => Err(DescriptionError::Ended { status: output.status, said: said(&output.stderr) }),
    }
}
