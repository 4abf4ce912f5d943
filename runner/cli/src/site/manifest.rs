//! The list of the files that `publish` wrote into a folder: others are never changed or removed.

use crate::exit::{Exit, Failure};
use recipe::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path};

/// The list's name in the folder.
pub(super) const NAME: &str = "bakeoff-site.json";

const VERSION: u32 = 1;

/// The largest list that is read: some 100,000 files.
const LARGEST: u64 = 16 << 20;

/// The files of a site.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// SHA-256 of each file in hexadecimal, by its path in the site.
    pub(super) files: BTreeMap<String, String>,
}

impl Manifest {
    /// That of a folder; an empty one where there is none yet.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let file = root.join(NAME);
        let wrong = |why: String| {
            Failure::new(Exit::Usage, format!("{} cannot be used: {why}", file.display()))
                .cure("publish into a new folder; without its list, no file here counts as this program's")
        };
        let mut text = String::new();
        match fs::File::open(&file).and_then(|open| open.take(LARGEST).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, files: BTreeMap::new() });
            }
            Err(error) => return Err(wrong(error.to_string())),
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(wrong(format!(
                "its version is {}, and this program knows {VERSION}",
                manifest.version
            )));
        }
        // A list that was changed by hand must not lead out of the folder.
        match manifest.files.keys().find(|path| !is_inside(path)) {
            Some(path) => Err(wrong(format!("it names `{path}`, which is not in the folder"))),
            None => Ok(manifest),
        }
    }

    /// The manifest as JSON, with an end of line.
    pub(super) fn text(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Failure::new(Exit::Internal, format!("the list of files has no text: {error}")))
    }
}

fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// SHA-256 of a file's content.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_does_not_lead_out_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: &str| {
            let text = format!("{{\"version\": 1, \"files\": {{\"{path}\": \"\"}}}}");
            fs::write(folder.path().join(NAME), text).unwrap();
            Manifest::read(folder.path()).is_ok()
        };
        let paths = ["a.html", "sweeps/a.html", "../a.html", "/etc/passwd", "sweeps/../../a", ""];
        assert_eq!(paths.map(read), [true, true, false, false, false, false]);
    }
}
