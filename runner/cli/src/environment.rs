//! What decides a run's numbers beside its recipe: the data, the worker program, the machines.

use crate::disk::DiskFiles;
use crate::exit::{Exit, Failure};
use launch::{NodeFacts, Nodes, WorkerBinary};
use recipe::{DatasetFiles, Files, Node, Plan, Provenance, RunSpec, Source, hex};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The environment of all runs of a plan. Each data set is digested once.
pub(crate) struct Environment {
    /// The worker program.
    pub(crate) worker: WorkerBinary,
    /// The plan's machines, by the name of the node.
    nodes: BTreeMap<String, NodeFacts>,
    data: BTreeMap<String, String>,
}

impl Environment {
    /// Finds the worker program, and gathers the facts about the plan's machines.
    pub(crate) fn of(plan: &Plan, machines: &impl Nodes) -> Result<Self, Failure> {
        let worker = launch::examine(&launch::find_worker()?)?;
        let nodes = plan.cells.iter().flat_map(|cell| &cell.spec.cluster.nodes);
        Ok(Self { worker, nodes: gather(nodes, machines)?, data: BTreeMap::new() })
    }

    /// The facts about the machine of a node of the plan.
    pub(crate) fn facts(&self, node: &Node) -> Option<&NodeFacts> {
        self.nodes.get(&node.name)
    }

    /// The surroundings of a run.
    pub(crate) fn surroundings(&mut self, spec: &RunSpec) -> Result<Provenance, Failure> {
        let source = &spec.dataset.source;
        let described = describe(source)?;
        if !self.data.contains_key(&described) {
            let digest = digest_of(source, &described)?;
            self.data.insert(described.clone(), digest);
        }
        Ok(Provenance {
            data: self.data.get(&described).cloned().unwrap_or_default(),
            worker: self.worker.sha256.clone(),
            hardware: launch::hardware(spec.cluster.nodes.iter().filter_map(|node| self.facts(node))),
        })
    }
}

/// The facts about each node, by its name.
fn gather<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    machines: &impl Nodes,
) -> Result<BTreeMap<String, NodeFacts>, Failure> {
    let mut facts = BTreeMap::new();
    for node in nodes {
        if !facts.contains_key(&node.name) {
            let found = machines.facts(node).map_err(|error| {
                Failure::new(Exit::Preflight, format!("node `{}` cannot be used: {error}", node.name))
            })?;
            facts.insert(node.name.clone(), found);
        }
    }
    Ok(facts)
}

fn describe(source: &Source) -> Result<String, Failure> {
    serde_json::to_string(source)
        .map_err(|error| Failure::new(Exit::Internal, format!("a data set has no JSON form: {error}")))
}

/// The files of a data set in its folder; each may have `.gz` at its end instead of lying there plain.
struct FileSet<'a> {
    source: &'a Source,
    folder: &'a Path,
    files: DatasetFiles,
}

/// The files that a worker reads; none where the data is built in.
fn file_set(source: &Source) -> Option<FileSet<'_>> {
    Some(FileSet { source, folder: source.path()?, files: source.kind().profile().files? })
}

impl FileSet<'_> {
    /// Where the files are, in a fixed order.
    fn find(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut found = Vec::new();
        for name in self.files.required {
            found.push(self.place(name).ok_or_else(|| self.missing(name))?);
        }
        let before = found.len();
        found.extend(self.files.some.iter().filter_map(|name| self.place(name)));
        match self.files.some.first() {
            Some(name) if found.len() == before => Err(self.missing(name)),
            _ => Ok(found),
        }
    }

    /// The plain file, else the compressed one, as a worker looks for them.
    fn place(&self, name: &str) -> Option<PathBuf> {
        [self.folder.join(name), self.folder.join(format!("{name}.gz"))]
            .into_iter()
            .find(|path| path.is_file())
    }

    fn missing(&self, name: &str) -> Failure {
        let folder = self.folder.display();
        Failure::new(Exit::Preflight, format!("{folder} has neither {name} nor {name}.gz")).cure(
            match self.source.fetch_command(&DiskFiles.data_folder()) {
                Some(command) => format!("{command}, or name the files' folder: --set dataset.path=FOLDER"),
                None => "name the files' folder: --set dataset.path=FOLDER".to_owned(),
            },
        )
    }
}

fn digest_of(source: &Source, described: &str) -> Result<String, Failure> {
    let Some(files) = file_set(source) else {
        return Ok(hex(&Sha256::digest(described)));
    };
    digest_files(&files.find()?).map_err(|error| {
        Failure::new(
            Exit::Preflight,
            format!("the data in {} cannot be read: {error}", files.folder.display()),
        )
        .cure("check the files' owner, or name another folder: --set dataset.path=FOLDER")
    })
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
    use recipe::DatasetKind;
    use std::fs;

    fn mnist() -> &'static [&'static str] {
        DatasetKind::Mnist.profile().files.unwrap().required
    }

    fn digest(folder: &Path) -> Result<String, Failure> {
        let source = Source::Mnist { path: folder.to_owned() };
        digest_of(&source, &describe(&source).unwrap())
    }

    /// A folder with these files, each holding its name.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), name).unwrap();
        }
        folder
    }

    /// A cluster whose machines are named after their nodes.
    struct Scripted;

    impl Nodes for Scripted {
        fn facts(&self, node: &Node) -> io::Result<NodeFacts> {
            if node.name == "down" {
                return Err(io::Error::other("no route to host"));
            }
            let host = format!("{}.example", node.name);
            let system = "Linux 6.1".into();
            let processor = "Core 9".into();
            Ok(NodeFacts { host, system, processor, cores: 2, memory: 1 << 30 })
        }
    }

    #[test]
    fn facts_belong_to_the_node_that_they_are_about() {
        let node = |name: &str| Node { name: name.into(), slots: 1 };
        let facts = gather(&[node("one"), node("two"), node("one")], &Scripted).unwrap();
        let hosts: Vec<&str> = facts.values().map(|facts| facts.host.as_str()).collect();
        assert_eq!(hosts, ["one.example", "two.example"]);
        let Err(Failure::Fault { exit, error, .. }) = gather(&[node("one"), node("down")], &Scripted) else {
            panic!("a node that is down has facts")
        };
        assert_eq!(
            (exit, error.to_string().as_str()),
            (Exit::Preflight, "node `down` cannot be used: no route to host")
        );
    }

    #[test]
    fn names_and_contents_of_the_files_decide_and_nothing_else() {
        let one = folder(mnist());
        let first = digest(one.path()).unwrap();
        fs::write(one.path().join("README"), "notes").unwrap();
        assert_eq!(digest(one.path()).unwrap(), first);
        assert_eq!(digest(folder(mnist()).path()).unwrap(), first);
        // Where both lie there, the plain file is read.
        fs::write(one.path().join("t10k-labels-idx1-ubyte.gz"), "packed").unwrap();
        assert_eq!(digest(one.path()).unwrap(), first);
        fs::remove_file(one.path().join("t10k-labels-idx1-ubyte")).unwrap();
        let packed = digest(one.path()).unwrap();
        fs::write(one.path().join("t10k-labels-idx1-ubyte.gz"), "packet").unwrap();
        let changed = digest(one.path()).unwrap();
        assert!(packed != first && changed != first && changed != packed);
    }

    #[test]
    fn whichever_batches_are_there_count() {
        let digest = |names: &[&str]| {
            let folder = folder(names);
            let source = Source::Cifar10 { path: folder.path().to_owned() };
            digest_of(&source, "").ok()
        };
        let one = digest(&["test_batch.bin", "data_batch_4.bin"]);
        let two = digest(&["test_batch.bin", "data_batch_4.bin", "data_batch_2.bin.gz"]);
        assert!(one.is_some() && two.is_some() && one != two);
        assert_eq!((digest(&["test_batch.bin"]), digest(&["data_batch_1.bin"])), (None, None));
    }

    #[test]
    fn missing_data_is_a_failed_preflight_that_names_the_file() {
        for place in [folder(&mnist()[1..]).path().to_owned(), PathBuf::from("/nowhere")] {
            let Err(Failure::Fault { exit, error, cure }) = digest(&place) else { panic!("no failure") };
            assert_eq!(exit, Exit::Preflight);
            assert!(
                error.to_string().ends_with("neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz")
            );
            assert!(cure.unwrap().contains("dataset.path"));
        }
    }
}
