//! The manifest: a bundle's first file, which lists its sweeps and its files.

use super::error::BundleError;
use super::{BundleFile, FORMAT, LONGEST_JOURNALS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of the longest manifest: a million files.
pub(super) const LONGEST: u64 = 256 << 20;

/// Sweeps and files of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Version of the form.
    pub(super) format: u32,
    /// Version of the program that wrote it.
    pub(super) bakeoff: String,
    /// For people and other programs; an importer reads the journals.
    pub(super) sweeps: Vec<BundledSweep>,
    /// In the order of the archive.
    pub(super) files: Vec<BundledFile>,
}

/// A sweep of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledSweep {
    /// ULID of the sweep.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// Number of its runs.
    pub runs: usize,
    /// Hosts and processors of its machines.
    pub machines: Vec<String>,
    /// Sweeps that were selected, and that took results from this one, which was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needed_by: Vec<String>,
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundledFile {
    /// Path in the store's folder.
    pub(super) name: String,
    /// Length in bytes.
    pub(super) size: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub(super) sha256: String,
}

/// Fields that the manifests of every format have.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(default)]
    bakeoff: String,
}

impl Manifest {
    /// Reads a manifest, and refuses names and sizes that no bundle has.
    pub(super) fn read(text: &[u8], bundle: &Path) -> Result<Self, BundleError> {
        let path = || bundle.to_owned();
        let foreign = |error: serde_json::Error| BundleError::Foreign {
            path: path(),
            reason: format!("its manifest cannot be read: {error}"),
        };
        let head: Head = serde_json::from_slice(text).map_err(foreign)?;
        if head.format > FORMAT {
            let writer = head.bakeoff.chars().take(40).collect();
            return Err(BundleError::Newer { path: path(), found: head.format, known: FORMAT, writer });
        }
        if head.format == 0 {
            return Err(BundleError::Foreign { path: path(), reason: "it has format 0".to_owned() });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(foreign)?;
        match manifest.fault() {
            None => Ok(manifest),
            Some(reason) => Err(BundleError::Damaged { path: path(), reason }),
        }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    fn fault(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut journals = BTreeSet::new();
        for file in &self.files {
            let Some(place) = BundleFile::of(&file.name) else {
                return Some(format!("it has a file {:?}, which is none of a sweep's", cut(&file.name)));
            };
            if file.size > place.longest() {
                return Some(format!("its {} would have {} bytes", file.name, file.size));
            }
            if let BundleFile::Journal(sweep) = place {
                journals.insert(sweep);
            }
            if !names.insert(&file.name) {
                return Some(format!("it has {} twice", file.name));
            }
        }
        let is_journal =
            |file: &BundledFile| matches!(BundleFile::of(&file.name), Some(BundleFile::Journal(_)));
        let held = self
            .files
            .iter()
            .filter(|file| is_journal(file))
            .fold(0_u64, |sum, file| sum.saturating_add(file.size));
        if held > LONGEST_JOURNALS {
            return Some(format!("its journals would have {held} bytes"));
        }
        let sweeps: BTreeSet<&str> = self.sweeps.iter().map(|sweep| sweep.sweep.as_str()).collect();
        if sweeps != journals || self.sweeps.len() != journals.len() || sweeps.is_empty() {
            return Some("its sweeps and its journals are not the same ones".to_owned());
        }
        // Logs are checked against journals, which must be there before.
        let late = self.files.iter().skip(journals.len()).any(is_journal);
        late.then(|| "a journal comes after a log".to_owned())
    }
}

/// The beginning of a foreign text.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SWEEP: &str = "01JD0QV1CKSTARR0000000000A";

    fn good() -> Value {
        let file = |name: &str| json!({ "name": name, "size": 3, "sha256": "00" });
        json!({
            "format": 1, "bakeoff": "0.1.0",
            "sweeps": [{ "sweep": SWEEP, "recipe": "r", "started": 1, "runs": 1, "machines": [] }],
            "files": [file(&format!("runs/sweep-{SWEEP}.jsonl")), file(&format!("runs/{SWEEP}/1/events.mpk"))],
        })
    }

    fn read(value: &Value) -> Result<Manifest, String> {
        Manifest::read(value.to_string().as_bytes(), Path::new("x.tar.gz")).map_err(|error| error.to_string())
    }

    /// A change of a good manifest, and its error.
    type Case<'c> = (&'c dyn Fn(&mut Value), &'c str);

    #[test]
    fn what_no_bundle_has_is_refused_before_anything_is_unpacked() {
        assert_eq!(read(&good()).unwrap().bytes(), 6);
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut value = good();
            change(&mut value);
            read(&value).unwrap_err()
        };
        let cases: [Case; 10] = [
            (&|value| value["format"] = json!(2), "reads up to 1"),
            (&|value| value["format"] = json!(0), "format 0"),
            (&|value| value["files"][0]["size"] = json!(-1), "cannot be read"),
            (&|value| value["files"][0]["size"] = json!(1_u64 << 60), "would have"),
            (&|value| value["files"][1]["name"] = json!("../../etc/passwd"), "none of a sweep's"),
            (&|value| value["files"][1]["name"] = json!("\u{1b}[2J"), "\\u{1b}[2J"),
            (&|value| value["files"][1] = value["files"][0].clone(), "twice"),
            (&|value| value["sweeps"] = json!([]), "not the same ones"),
            (&|value| value["files"].as_array_mut().unwrap().reverse(), "after a log"),
            (&|value| *value = json!([1]), "cannot be read"),
        ];
        for (change, words) in cases {
            let said = changed(change);
            assert!(said.contains(words) && !said.contains('\u{1b}'), "{said}");
        }
        // The words of a later version may be others.
        let later = read(&json!({ "format": 9, "bakeoff": "7.0.0", "parts": 3 })).unwrap_err();
        assert!(later.contains("7.0.0"), "{later}");
    }
}
