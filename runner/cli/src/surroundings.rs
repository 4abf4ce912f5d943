//! What decides a run's numbers beside its recipe: the data, the worker program, the machine.

use crate::exit::{Exit, Failure};
use launch::{NodeFacts, WorkerBinary};
use recipe::{Source, Surroundings, hex};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The surroundings of every run of a plan; data sets are digested once each.
pub(crate) struct Scene {
    /// The worker program.
    pub(crate) worker: WorkerBinary,
    /// This machine.
    pub(crate) node: NodeFacts,
    data: BTreeMap<String, String>,
}

impl Scene {
    /// Finds the worker program and looks at the machine.
    pub(crate) fn look() -> Result<Self, Failure> {
        let worker = launch::examine(&launch::find_worker()?)?;
        Ok(Self { worker, node: launch::node_facts(), data: BTreeMap::new() })
    }

    /// The surroundings of runs on this data.
    pub(crate) fn of(&mut self, source: &Source) -> Result<Surroundings, Failure> {
        let described = describe(source)?;
        if !self.data.contains_key(&described) {
            let digest = digest_of(source, &described)?;
            self.data.insert(described.clone(), digest);
        }
        Ok(Surroundings {
            data: self.data.get(&described).cloned().unwrap_or_default(),
            worker: self.worker.sha256.clone(),
            hardware: launch::hardware(std::slice::from_ref(&self.node)),
        })
    }
}

fn describe(source: &Source) -> Result<String, Failure> {
    serde_json::to_string(source)
        .map_err(|error| Failure::new(Exit::Internal, format!("a data set has no JSON form: {error}")))
}

/// How a data set's files begin; each is there plain or compressed.
fn beginnings(source: &Source) -> Option<(&Path, &'static str, &'static [&'static str])> {
    match source {
        Source::Synthetic { .. } => None,
        Source::Mnist { path } => Some((
            path,
            "MNIST: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
            &["train-images", "train-labels", "t10k-images", "t10k-labels"],
        )),
        Source::Cifar10 { path } => Some((
            path,
            "CIFAR-10: data_batch_1.bin .. data_batch_5.bin, test_batch.bin",
            &["data_batch_", "test_batch"],
        )),
        Source::Cifar100 { path } => Some((path, "CIFAR-100: train.bin, test.bin", &["train", "test"])),
    }
}

fn digest_of(source: &Source, described: &str) -> Result<String, Failure> {
    let Some((folder, expected, starts)) = beginnings(source) else {
        return Ok(hex(&Sha256::digest(described)));
    };
    let fault = |error: io::Error| {
        Failure::new(Exit::Preflight, format!("the data in {} cannot be read: {error}", folder.display()))
            .cure("name the folder of the data set's files: --set dataset.path=FOLDER")
    };
    let files = data_files(folder, starts).map_err(fault)?;
    if files.is_empty() {
        return Err(Failure::new(
            Exit::Preflight,
            format!("{} holds no file of {expected}", folder.display()),
        )
        .cure("put the files there, plain or .gz, or name their folder: --set dataset.path=FOLDER"));
    }
    digest_files(&files).map_err(fault)
}

/// The files of a data set, sorted by name.
fn data_files(folder: &Path, starts: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && starts.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// SHA-256 over each file's name, length and content.
fn digest_files(files: &[PathBuf]) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    for path in files {
        let mut file = File::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        hash.update(format!("{name}\n{}\n", file.metadata()?.len()));
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
        }
    }
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(folder: &Path) -> Result<String, Failure> {
        let source = Source::Mnist { path: folder.to_owned() };
        digest_of(&source, &describe(&source).unwrap())
    }

    #[test]
    fn names_and_contents_of_the_files_decide_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train-images-idx3-ubyte"), [1, 2]).unwrap();
        let first = digest(folder.path()).unwrap();
        fs::write(folder.path().join("README"), "notes").unwrap();
        assert_eq!(digest(folder.path()).unwrap(), first);
        fs::write(folder.path().join("train-images-idx3-ubyte"), [1, 3]).unwrap();
        let second = digest(folder.path()).unwrap();
        assert_ne!(second, first);
        fs::write(folder.path().join("train-labels-idx1-ubyte.gz"), []).unwrap();
        assert_ne!(digest(folder.path()).unwrap(), second);
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("train-images-idx3-ubyte"), [1, 2]).unwrap();
        assert_eq!(digest(copy.path()).unwrap(), first);
    }

    #[test]
    fn missing_data_is_a_failed_preflight_with_a_cure() {
        let folder = tempfile::tempdir().unwrap();
        for place in [folder.path().to_owned(), folder.path().join("nowhere")] {
            let Err(Failure::Fault { exit, cure, .. }) = digest(&place) else { panic!("no failure") };
            assert_eq!(exit, Exit::Preflight);
            assert!(cure.unwrap().contains("dataset.path"));
        }
    }
}
