//! Facts about machines beside the recipe: the planner's own, the inventory, files of hosts, and Slurm's allocation.

use crate::files::{Files, Machine};
use crate::keys::key::Range;
use crate::node_list;
use crate::resolve::shared_keys::{INVENTORY, WORKERS};
use crate::text::finding::Finding;
use crate::text::turning::turns_text;
use crate::values::settings::Settings;
use crate::{Access, Device, Node};
use serde::Deserialize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A machine of an inventory, as its table says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct HostTable {
    /// Name that `ssh` is called with; the table's name where it is missing.
    host: Option<String>,
    user: Option<String>,
    port: Option<u16>,
    slots: Option<u32>,
    cores: Option<u32>,
    address: Option<IpAddr>,
    data: Option<PathBuf>,
    worker: Option<PathBuf>,
    libtorch: Option<PathBuf>,
    device: Option<Device>,
    environment: BTreeMap<String, String>,
    /// Price of an hour of the machine.
    price: Option<f64>,
    groups: Vec<String>,
}

impl HostTable {
    /// The machine, with `slots` of the recipe in front of its own.
    fn node(&self, name: &str, slots: Option<u32>) -> Node {
        let slots = slots.or(self.slots).unwrap_or(1);
        let host = self.host.as_deref().unwrap_or(name);
        let login = self.user.as_ref().map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        let access = if name == "local" { Access::Local } else { Access::Ssh { login, port: self.port } };
        Node {
            name: name.to_owned(),
            slots,
            access,
            cores: self.cores,
            address: self.address,
            data: self.data.clone(),
            worker: self.worker.clone(),
            libtorch: self.libtorch.clone(),
            // Where the table names none it is the recipe's, which comes later.
            device: Device::Cpu,
            environment: self.environment.clone(),
        }
    }

    /// Its problem, as a fragment of a sentence.
    fn wrong(&self) -> Option<String> {
        let names = self.host.iter().chain(&self.user).find(|name| !node_list::is_name(name));
        if let Some(name) = names {
            return Some(format!("`{}` is no name that `ssh` takes", name.escape_debug()));
        }
        if let Some(text) = self.texts().find(|text| text.chars().any(turns_text)) {
            let shown = text.escape_debug();
            return Some(format!("`{shown}` has a character that changes how text is shown"));
        }
        if self.slots.is_some_and(|slots| slots > node_list::MOST_SLOTS) {
            return Some(format!("`slots` is at most {}", node_list::MOST_SLOTS));
        }
        if let Some(price) = self.price.filter(|price| !Range::PRICE.contains(*price)) {
            return Some(format!("`price` cannot be {price}: it is {}", Range::PRICE.describe()));
        }
        let zero = [(self.slots, "slots"), (self.cores, "cores"), (self.port.map(u32::from), "port")];
        let (_, zero) = zero.into_iter().find(|(value, _)| *value == Some(0))?;
        Some(format!("`{zero}` is at least 1"))
    }

    /// Every text of it that may be shown.
    fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let paths = [&self.data, &self.worker, &self.libtorch].into_iter().flatten();
        let named = self.groups.iter().chain(self.environment.iter().flat_map(|(name, value)| [name, value]));
        named.map(|text| Cow::from(text.as_str())).chain(paths.map(|path| path.to_string_lossy()))
    }
}

/// The machines of an inventory, by name.
type Hosts = BTreeMap<String, HostTable>;

/// Facts about machines while a recipe is planned.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Cores of the planner's machine.
    pub(crate) cores: u32,
    pub(crate) machines: &'a Machines<'a>,
    pub(crate) files: &'a dyn Files,
}

/// Machines beside the recipe. Files are read once.
pub(crate) struct Machines<'a> {
    files: &'a dyn Files,
    machine: &'a Machine,
    inventories: RefCell<BTreeMap<PathBuf, Result<Hosts, String>>>,
    lists: RefCell<BTreeMap<PathBuf, Result<Vec<Listed>, String>>>,
}

/// A line of a file of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    slots: Option<u32>,
}

impl<'a> Machines<'a> {
    pub(crate) fn new(files: &'a dyn Files, machine: &'a Machine) -> Self {
        Self { files, machine, inventories: RefCell::default(), lists: RefCell::default() }
    }

    /// The machines that an entry of `nodes.use` names beside those that it spells out: `group:fast`, `hostfile:hosts.txt`,
    /// `slurm`. `None` for an entry that is none of them.
    pub(crate) fn named(
        &self,
        name: &str,
        slots: Option<u32>,
        settings: &Settings,
    ) -> Option<Result<Vec<Node>, Finding>> {
        if name == "slurm" {
            return Some(self.allocated(slots, settings));
        }
        if let Some(group) = name.strip_prefix("group:") {
            return Some(self.group(group, slots, settings));
        }
        let file = name.strip_prefix("hostfile:")?;
        Some(self.listed(Path::new(file), slots, settings))
    }

    /// A machine by its name: that of the inventory, else what `ssh` makes of the name.
    pub(crate) fn one(&self, name: &str, slots: Option<u32>, settings: &Settings) -> Node {
        if let Ok(hosts) = self.inventory(settings)
            && let Some(table) = hosts.get(name)
        {
            return table.node(name, slots);
        }
        let usual = if name == "local" { self.machine.cores.max(1) } else { 1 };
        node_list::node(name, slots.unwrap_or(usual))
    }

    /// Price of an hour of a machine, as the inventory states it.
    pub(crate) fn price(&self, name: &str, settings: &Settings) -> Option<f64> {
        self.inventory(settings).ok()?.get(name)?.price
    }

    /// Device of a machine's workers, as the inventory states it.
    pub(crate) fn device(&self, name: &str, settings: &Settings) -> Option<Device> {
        self.inventory(settings).ok()?.get(name)?.device
    }

    /// The problem of the inventory.
    pub(crate) fn finding(&self, settings: &Settings) -> Option<Finding> {
        let reason = self.inventory(settings).err()?;
        let path = settings.path(INVENTORY)?.display();
        Some(
            Finding::new("R022", format!("the inventory {path} cannot be used: {reason}"))
                .at_option(settings.span(INVENTORY), "this file")
                .note("a table for each machine: host, user, port, slots, cores, address, data, worker, libtorch, device, environment, price, groups")
                .cure("mend the file, or leave `inventory` out and name the machines in `nodes.use`"),
        )
    }

    fn inventory(&self, settings: &Settings) -> Result<Hosts, String> {
        let Some(path) = settings.path(INVENTORY) else { return Ok(Hosts::new()) };
        let mut read = self.inventories.borrow_mut();
        read.entry(path.clone())
            .or_insert_with(|| {
                let text = self.files.read(path).map_err(|problem| problem.to_string())?;
                read_inventory(&text)
            })
            .clone()
    }

    fn group(&self, group: &str, slots: Option<u32>, settings: &Settings) -> Result<Vec<Node>, Finding> {
        let Ok(hosts) = self.inventory(settings) else { return Ok(Vec::new()) };
        let nodes: Vec<Node> = hosts
            .iter()
            .filter(|(_, table)| table.groups.iter().any(|name| name == group))
            .map(|(name, table)| table.node(name, slots))
            .collect();
        if !nodes.is_empty() {
            return Ok(nodes);
        }
        let mut groups: Vec<&str> =
            hosts.values().flat_map(|table| &table.groups).map(String::as_str).collect();
        groups.sort_unstable();
        groups.dedup();
        let known = if groups.is_empty() { "none".to_owned() } else { groups.join(", ") };
        Err(Finding::new(
            "R021",
            format!("no machine of the inventory is in the group `{}`", group.escape_debug()),
        )
        .note(format!("groups: {known}"))
        .cure("name a group of `nodes.inventory`, or add `groups = [\"...\"]` to its machines"))
    }

    fn listed(&self, file: &Path, slots: Option<u32>, settings: &Settings) -> Result<Vec<Node>, Finding> {
        // Beside the inventory, if there is one; else where the command is typed.
        let folder = settings.path(INVENTORY).and_then(|path| path.parent()).map(Path::to_owned);
        let path = folder.unwrap_or_else(|| self.files.current_directory()).join(file);
        let mut read = self.lists.borrow_mut();
        let lines = read.entry(path.clone()).or_insert_with(|| {
            let text = self.files.read(&path).map_err(|problem| problem.to_string())?;
            read_list(&text)
        });
        match lines {
            Ok(lines) => {
                Ok(lines.iter().map(|line| self.one(&line.name, slots.or(line.slots), settings)).collect())
            }
            Err(reason) => Err(Finding::new(
                "R022",
                format!("the file of hosts {} cannot be used: {reason}", path.display()),
            )
            .note("a line for each machine: its name, and `slots=4` where it is not one")
            .cure("mend the file, or name the machines in `nodes.use`")),
        }
    }

    /// Whether each run gets its hosts later, from a queue of jobs.
    pub(crate) fn are_queued_for(&self) -> bool {
        self.machine.queued
    }

    /// The problem of a list of machines for a job, which has its own hosts and no others.
    pub(crate) fn outside_of_a_job(&self, nodes: &[Node]) -> Option<Finding> {
        if !self.machine.queued {
            return None;
        }
        let mixed =
            nodes.iter().any(|node| (node.access == Access::Local) != (nodes[0].access == Access::Local));
        let other = nodes.iter().find(|node| matches!(node.access, Access::Ssh { .. }));
        let title = match other {
            Some(node) => {
                format!("a job of the queue does not have the machine `{}`", node.name.escape_debug())
            }
            None if mixed => "a job of the queue has no machine but those that the queue gives it".to_owned(),
            None => return None,
        };
        Some(
            Finding::new("R021", title)
                .cure("write `use = [\"slurm*2\"]` with `workers = 4` for two workers on each of two hosts, or `use = [\"local*2\"]` for one host; or run it without `--submit`"),
        )
    }

    /// As many hosts as the workers need. Which ones they are is known when the queue gives them.
    fn to_come(slots: Option<u32>, settings: &Settings) -> Result<Vec<Node>, Finding> {
        let Some(slots) = slots else {
            return Err(Finding::new("R021", "how many workers each host of a job has is not known")
                .cure("write it: `use = [\"slurm*2\"]` for two on each host"));
        };
        let Some(workers) = WORKERS.of(settings) else {
            return Err(Finding::new(
                "R021",
                "how many hosts a job needs is not known without `nodes.workers`",
            )
            .cure(format!("add `workers = {slots}` for one host, {} for two", 2 * u64::from(slots))));
        };
        if settings.path(INVENTORY).is_some() {
            return Err(Finding::new("R022", "an inventory cannot describe the hosts of a job: which ones they are is known when it begins")
                .at_option(settings.span(INVENTORY), "this file")
                .cure("leave `nodes.inventory` out, or run inside of an allocation, where it is used: `salloc -N2 bakeoff run RECIPE`"));
        }
        let hosts = (workers as u32).div_ceil(slots.max(1));
        let node = |number: u32| {
            let name = format!("slurm-{number}");
            Node { access: Access::Slurm { host: name.clone() }, name, ..Node::local(slots) }
        };
        Ok((1..=hosts).map(node).collect())
    }

    fn allocated(&self, slots: Option<u32>, settings: &Settings) -> Result<Vec<Node>, Finding> {
        if self.machine.queued {
            return Self::to_come(slots, settings);
        }
        if self.machine.allocation.is_empty() {
            return Err(Finding::new(
                "R021",
                "`slurm` names the machines of an allocation, and there is none",
            )
            .note("SLURM_JOB_NODELIST is not set")
            .cure(
                "run it inside of one: `salloc -N2 bakeoff run RECIPE`, or in a batch script; or make each run a job: \
                 `bakeoff run RECIPE --submit slurm`",
            ));
        }
        let tables = self.inventory(settings).unwrap_or_default();
        let node = |host: &crate::AllocatedHost| {
            let table = tables.get(&host.name);
            let usual = table.and_then(|table| table.slots).unwrap_or(host.cores).max(1);
            let slots = slots.unwrap_or(usual);
            let described =
                table.map_or_else(|| Node::local(slots), |table| table.node(&host.name, Some(slots)));
            Node {
                name: host.name.clone(),
                access: Access::Slurm { host: host.name.clone() },
                // Slurm gives no more.
                cores: Some(described.cores.map_or(host.cores, |cores| cores.min(host.cores))),
                ..described
            }
        };
        Ok(self.machine.allocation.iter().map(node).collect())
    }
}

fn read_inventory(text: &str) -> Result<Hosts, String> {
    let hosts: Hosts = toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', " "))?;
    for (name, table) in &hosts {
        if name != "local" && !node_list::is_name(name) {
            return Err(format!("`{}` is no name of a machine", name.escape_debug()));
        }
        if let Some(wrong) = table.wrong() {
            return Err(format!("[{name}]: {wrong}"));
        }
    }
    Ok(hosts)
}

/// Reads `name slots=4`, as Open MPI does.
fn read_list(text: &str) -> Result<Vec<Listed>, String> {
    let mut listed = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let wrong = |what: &str| format!("line {number}: {what}");
        if name != "local" && !node_list::is_login(name) {
            return Err(wrong(&format!("`{}` is no name of a machine", name.escape_debug())));
        }
        let mut slots = None;
        for word in words {
            let count = word.strip_prefix("slots=").and_then(|count| count.parse().ok());
            match count {
                Some(count) if (1..=node_list::MOST_SLOTS).contains(&count) => slots = Some(count),
                _ => return Err(wrong(&format!("`{}` is not `slots=N`", word.escape_debug()))),
            }
        }
        listed.push(Listed { name: name.to_owned(), slots });
    }
    if listed.is_empty() { Err("it names no machine".into()) } else { Ok(listed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_an_inventory_has_what_its_table_says() {
        let text = "[fast1]\nhost = \"10.0.0.7\"\nuser = \"me\"\nport = 2222\nslots = 4\ncores = 8\n\
                    address = \"10.1.0.7\"\ndata = \"/scratch\"\ngroups = [\"fast\"]\n\n[slow]\n";
        let hosts = read_inventory(text).unwrap();
        let node = hosts["fast1"].node("fast1", None);
        assert_eq!(node.access, Access::Ssh { login: "me@10.0.0.7".into(), port: Some(2222) });
        assert_eq!((node.slots, node.cores), (4, Some(8)));
        assert_eq!(hosts["fast1"].node("fast1", Some(2)).slots, 2);
        let slow = hosts["slow"].node("slow", None);
        assert_eq!((slow.slots, slow.access), (1, Access::Ssh { login: "slow".into(), port: None }));
    }

    #[test]
    fn what_is_wrong_with_an_inventory_is_said() {
        let wrong = |text: &str| read_inventory(text).unwrap_err();
        assert!(wrong("[lab1]\npassword = \"x\"").contains("unknown field `password`"));
        assert_eq!(wrong("[lab1]\nhost = \"-oProxy\""), "[lab1]: `-oProxy` is no name that `ssh` takes");
        assert_eq!(wrong("[lab1]\nslots = 0"), "[lab1]: `slots` is at least 1");
        for price in ["-1", "nan", "inf", "1e13"] {
            let said = wrong(&format!("[lab1]\nprice = {price}"));
            assert!(said.starts_with("[lab1]: `price` cannot be "), "{said}");
        }
        let group = wrong("[lab1]\ngroups = [\"a\\u001b[2J\"]");
        assert_eq!(group, "[lab1]: `a\\u{1b}[2J` has a character that changes how text is shown");
        assert!(wrong("[lab1]\ndata = \"/\\u202e\"").contains("\\u{202e}"));
        assert!(wrong("[\"a b\"]").contains("no name of a machine"));
    }

    #[test]
    fn a_file_of_hosts_is_that_of_mpi() {
        let named = |name: &str, slots| Listed { name: name.into(), slots };
        let text = "# the lab\nlab1 slots=2\n\nme@lab2:22   # one\n";
        assert_eq!(read_list(text).unwrap(), [named("lab1", Some(2)), named("me@lab2:22", None)]);
        assert_eq!(read_list("lab1 slots=x").unwrap_err(), "line 1: `slots=x` is not `slots=N`");
        assert_eq!(read_list("\n-l\n").unwrap_err(), "line 2: `-l` is no name of a machine");
        assert_eq!(read_list("# none").unwrap_err(), "it names no machine");
    }
}
