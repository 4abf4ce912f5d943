//! Everything beside its recipe that decides a run's numbers: the data, the worker program, the machines.

use crate::context::Context;
use crate::disk::DiskFiles;
use crate::exit::{Exit, Failure};
use crate::machines::{Machines, namesakes, nodes_of};
use launch::{DataFilesError, ForkServers, NodeFacts, Nodes, WorkerBinary};
use recipe::{Files, Node, Plan, Provenance, RunSpec, Source};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The environment of all runs of a plan. Each data set is digested once.
pub(crate) struct Environment {
    pub(crate) worker: WorkerBinary,
    /// Servers with the worker program loaded once for all runs; unused if it cannot fork.
    forks: ForkServers,
    /// Where runs take place.
    pub(crate) machines: Machines,
    /// The plan's machines, by the name of the node.
    nodes: BTreeMap<String, NodeFacts>,
    /// Machines that take the place of those, where several runs are made at once.
    spare: BTreeMap<String, NodeFacts>,
    /// Machines as they were asked of a queue, which gives each run its own later; `None` without a queue.
    asked: Option<String>,
    data: Vec<(Source, String)>,
}

impl Environment {
    /// Finds the worker program, connects the plan's machines, and gathers the facts about them. Takes no time for a plan that
    /// stays on this machine.
    pub(crate) async fn of(plan: &Plan, context: &Context<'_>) -> Result<Self, Failure> {
        Self::with(plan, &nodes_of(plan), context).await
    }

    /// The same with these machines, among which are those of the plan.
    pub(crate) async fn with(plan: &Plan, all: &[Node], context: &Context<'_>) -> Result<Self, Failure> {
        let forks = ForkServers::default();
        let path = launch::find_worker()?;
        let worker = match plan.runs.first() {
            Some(run) => launch::examine_for(&plan.cells[run.cell].spec, &path, &forks)?,
            None => launch::examine(&path)?,
        };
        let machines = Machines::connect(plan, all, &worker, context).await?;
        let own = nodes_of(plan);
        let (own, spare): (Vec<&Node>, Vec<&Node>) =
            all.iter().partition(|node| own.iter().any(|other| other.name == node.name));
        let nodes = gather(own, &machines)?;
        let spare = gather(spare, &machines)?;
        Ok(Self { worker, forks, machines, nodes, spare, asked: None, data: Vec::new() })
    }

    /// That of runs in front of a queue, which was asked for machines in these words.
    pub(crate) fn in_front_of_a_queue(asked: String) -> Result<Self, Failure> {
        let worker = launch::examine(&launch::find_worker()?)?;
        let none = BTreeMap::new;
        let machines = Machines::Here;
        let data = Vec::new();
        let forks = ForkServers::default();
        Ok(Self { worker, forks, machines, nodes: none(), spare: none(), asked: Some(asked), data })
    }

    /// Servers that fork workers, unless the worker program cannot be one.
    pub(crate) fn forks(&self) -> Option<ForkServers> {
        self.worker.forks.then(|| self.forks.clone())
    }

    /// The facts about the machine of a node of the plan.
    pub(crate) fn facts(&self, node: &Node) -> Option<&NodeFacts> {
        self.nodes.get(&node.name).or_else(|| self.spare.get(&node.name))
    }

    /// Names that may be one machine: `lab01 and lab02 call themselves n1`. `here` is what this machine calls itself where it
    /// must not be among them.
    pub(crate) fn namesakes(&self, machines: &[Node], here: Option<&str>) -> Option<String> {
        let here = here.map(|host| ("this machine", host));
        let nodes =
            machines.iter().filter_map(|node| Some((node.name.as_str(), self.facts(node)?.host.as_str())));
        namesakes(here.into_iter().chain(nodes))
    }

    /// Whether a queue is to give each run its machines.
    pub(crate) fn is_in_front_of_a_queue(&self) -> bool {
        self.asked.is_some()
    }

    /// The surroundings of a run.
    pub(crate) fn surroundings(&mut self, spec: &RunSpec) -> Result<Provenance, Failure> {
        let source = &spec.dataset.source;
        let known = self.data.iter().find(|(known, _)| known == source).map(|(_, digest)| digest.clone());
        let digest = if let Some(digest) = known {
            digest
        } else {
            let digest = launch::data_digest(source).map_err(|error| fault(source, error))?;
            self.data.push((source.clone(), digest.clone()));
            digest
        };
        let hardware = self.asked.clone().unwrap_or_else(|| {
            let nodes = spec.cluster.nodes.iter();
            launch::hardware(nodes.filter_map(|node| Some((node, self.nodes.get(&node.name)?))))
        });
        Ok(Provenance { data: digest, worker: self.workers_of(spec), hardware })
    }

    /// The worker program of a run; where hosts have others, those of all machines.
    fn workers_of(&self, spec: &RunSpec) -> String {
        let own = self.worker.identity.as_str();
        let nodes = spec.cluster.nodes.iter();
        let each: Vec<&str> = nodes.map(|node| self.machines.worker_identity(node).unwrap_or(own)).collect();
        if each.iter().all(|identity| *identity == own) {
            return own.to_owned();
        }
        recipe::hex(&Sha256::digest(each.join(" ")))
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

/// The failure of a plan by a data set that a worker cannot read, with its cure.
fn fault(source: &Source, error: DataFilesError) -> Failure {
    let told = error.to_string();
    let cure = match (&error, source.fetch_command(&DiskFiles.data_folder())) {
        (DataFilesError::Missing { .. }, Some(command)) => {
            format!("{command}, or name the files' folder: --set dataset.path=FOLDER")
        }
        (DataFilesError::Missing { .. }, None) => {
            "name the files' folder: --set dataset.path=FOLDER".to_owned()
        }
        (DataFilesError::Unreadable { .. }, _) => {
            "check the files' owner, or name another folder: --set dataset.path=FOLDER".to_owned()
        }
        (DataFilesError::Pictures { problems }, _) => {
            problems.first().map_or_else(String::new, |problem| problem.cure().to_owned())
        }
    };
    Failure::new(Exit::Preflight, told).cure(cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

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
            Ok(NodeFacts { host, system, processor, gpus: String::new(), cores: 2, memory: 1 << 30 })
        }
    }

    #[test]
    fn facts_belong_to_the_node_that_they_are_about() {
        let node = |name: &str| Node { name: name.into(), ..Node::local(1) };
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
    fn missing_data_is_a_failed_preflight_that_names_the_file() {
        let source = Source::Mnist { path: "/nowhere".into() };
        let error = launch::data_digest(&source).unwrap_err();
        let Failure::Fault { exit, error, cure } = fault(&source, error) else { panic!("told already") };
        assert_eq!(exit, Exit::Preflight);
        let missing = "/nowhere has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz";
        assert_eq!(error.to_string(), missing);
        assert!(cure.unwrap().contains("dataset.path"));
    }
}
