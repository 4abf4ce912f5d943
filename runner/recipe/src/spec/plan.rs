//! The plan that a recipe expands to: arms, cells, runs.

use crate::spec::axis_value::AxisValue;
use crate::spec::family::family;
use crate::spec::hex::hex;
use crate::spec::run_spec::RunSpec;
use crate::spec::search::Search;
use crate::{HostSettings, KeyValue, SharedValues, Threads};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Everything beside its recipe that decides a run's numbers; the driver fills it in before it asks for identities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// SHA-256 of the data set's files (names and contents), or of its description where it is built in.
    pub data: String,
    /// SHA-256 of the worker binary.
    pub worker: String,
    /// Processor model, cores and memory of the nodes.
    pub hardware: String,
}

/// The expansion of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The recipe's `name`.
    pub name: String,
    /// The recipe's `question`, empty where it asks none.
    pub question: String,
    /// The recipe's own text as it was read (the file named by the user, `extends` not expanded).
    pub source: String,
    /// The recipe as it is run: everything merged, overrides applied, defaults filled in, as TOML.
    pub expanded: String,
    /// The arms, in the order of the recipe.
    pub arms: Vec<Arm>,
    /// The points of the grid, excluded ones included.
    pub cells: Vec<Cell>,
    /// The values of all keys, by which runs are selected later.
    // Absent in plans of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<KeyValue>,
    /// The runs in the order in which they are started; of excluded cells there are none.
    pub runs: Vec<Run>,
    /// Numbers of repeats after which the arms that are decided get no more, the last of which is the most; empty where every cell has
    /// the same number.
    #[serde(default)]
    pub looks: Vec<u32>,
    /// How each arm finds its settings, where it searches them by successive halving. The cells of the rungs follow those of the grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// How the sweep is run.
    pub limits: Limits,
    /// How it uses machines.
    #[serde(default)]
    pub hosts: HostSettings,
    /// How it is reported.
    pub report: ReportSettings,
    /// Warnings before it is run.
    #[serde(default)]
    pub warnings: Vec<crate::Problem>,
}

impl Plan {
    /// Everything that any cell pretends about its surroundings, in words; empty where nothing is.
    pub fn emulated(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let cells = self.cells.iter().filter(|cell| cell.excluded.is_none());
        for words in cells.flat_map(|cell| cell.spec.emulation.words()) {
            if !all.contains(&words) {
                all.push(words);
            }
        }
        all
    }

    /// The recorded values of a cell's keys, one of each; none of a cell that the plan does not have.
    pub fn values_of(&self, cell: usize) -> Vec<KeyValue> {
        let values = |described: &Cell| SharedValues::of(&self.values).of_cell(described.arm, cell);
        self.cells.get(cell).map(values).unwrap_or_default()
    }

    /// The faults of all cells, in words, each with the arms whose runs end by it.
    pub fn faults(&self) -> Vec<String> {
        let mut all: Vec<(String, Vec<&str>)> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.excluded.is_none()) {
            let arm = self.arms.get(cell.arm).filter(|_| cell.spec.ends_by_fault());
            for fault in &cell.spec.faults {
                let words = fault.to_string();
                let known = all.iter().position(|(known, _)| *known == words);
                let place = known.unwrap_or_else(|| {
                    all.push((words, Vec::new()));
                    all.len() - 1
                });
                let arms = &mut all[place].1;
                let ended = arm.map(|arm| arm.name.as_str()).filter(|arm| !arms.contains(arm));
                arms.extend(ended.filter(|_| cell.spec.may_end_by(fault)));
            }
        }
        let words = |(words, ended): (String, Vec<&str>)| {
            if ended.is_empty() { words } else { format!("{words}, which ends runs of {}", ended.join(", ")) }
        };
        all.into_iter().map(words).collect()
    }

    /// How the cores are divided, in words; where that depends on the condition, with the conditions.
    pub fn threads(&self) -> Vec<String> {
        let mut all: Vec<(Threads, Vec<&str>)> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.excluded.is_none()) {
            let known = all.iter().position(|(threads, _)| *threads == cell.spec.threads);
            let place = known.unwrap_or_else(|| {
                all.push((cell.spec.threads, Vec::new()));
                all.len() - 1
            });
            // All arms of a condition have the same, and stand together.
            if all[place].1.last() != Some(&cell.condition.as_str()) {
                all[place].1.push(&cell.condition);
            }
        }
        let alike = all.len() == 1;
        let words = |(threads, conditions): (Threads, Vec<&str>)| match conditions.as_slice() {
            [one, others @ ..] if !alike && !others.is_empty() => {
                format!("{one} and {} more: {}", others.len(), threads.words())
            }
            [one, ..] if !alike => format!("{one}: {}", threads.words()),
            _ => threads.words(),
        };
        all.into_iter().map(words).collect()
    }

    /// The graphs of all cells without a centre, in words; empty where every strategy has one.
    pub fn graphs(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let cells = self.cells.iter().filter(|cell| cell.excluded.is_none());
        let graph = |cell: &Cell| {
            let words = cell.spec.strategy.graph_in_words(cell.spec.cluster.workers())?;
            let arm = self.arms.get(cell.arm)?;
            // A name of its own tells two arms of one kind apart.
            Some(if arm.name == arm.kind { words } else { format!("{}: {words}", arm.name) })
        };
        for words in cells.filter_map(graph) {
            if !all.contains(&words) {
                all.push(words);
            }
        }
        all
    }
}

/// An arm of a comparison: a strategy with its compression and communication settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Unique: the strategy's `name`, else its kind, with the values of the axes that multiply it.
    pub name: String,
    /// The strategy's kind.
    pub kind: String,
    /// Whether the others are compared with this one; exactly one is.
    pub baseline: bool,
}

/// One point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index into [`Plan::arms`].
    pub arm: usize,
    /// The values of the axes that are not part of the arm, as `workers=4 lr=0.1`; empty where there are none.
    /// Verdicts compare the arms within one condition.
    pub condition: String,
    /// Arm and condition: unique in the plan, and stable when other cells come or go.
    pub label: String,
    /// In the order of the axes.
    pub axes: Vec<AxisValue>,
    /// Specification of its runs.
    pub spec: RunSpec,
    /// [`RunSpec::config_hash`] of `spec`.
    pub config_hash: String,
    /// Why it is not run, where it is not.
    pub excluded: Option<String>,
}

/// One cell with one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// Which repeat, from 0; the same repeat has the same seed in every arm.
    pub repeat: u32,
    /// Seed of everything random in the run.
    pub seed: u64,
}

impl Run {
    /// Key of a run: equal identities give equal numbers wherever a strategy is deterministic.
    /// SHA-256 over configuration, seed and surroundings, in hexadecimal.
    pub fn identity(&self, cell: &Cell, surroundings: &Provenance) -> String {
        let parts = [
            cell.config_hash.as_str(),
            &self.seed.to_string(),
            &surroundings.data,
            &surroundings.worker,
            &surroundings.hardware,
        ];
        hex(&Sha256::digest(parts.join("\n")))
    }
}

family! {
    /// The order in which runs are started.
    pub enum RunOrder {
        Interleave = "interleave": "One repeat of every cell, then the next; each repeat begins with the next arm. Drift of \
            the machine touches all arms alike.",
        Block = "block": "All repeats of a cell, then the next cell.",
        Shuffle = "shuffle": "An order drawn from the first seed.",
    }
}

/// How a sweep is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// A run that takes longer, by the wall, is stopped.
    pub run_timeout: Option<Duration>,
    /// Attempts after the first, for faults of the infrastructure.
    pub retries: u32,
    /// `run` refuses a larger plan without `--yes`.
    pub max_runs: u32,
}

family! {
    /// Hosts, users or paths that a published page leaves out.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Redaction {
        Hosts = "hosts": "Names of machines.",
        Users = "users": "Names of users.",
        Paths = "paths": "Paths of files.",
    }
}

/// How a sweep is reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportSettings {
    /// The smallest ratio that matters: 0.05 for "5%".
    pub min_effect: f64,
    /// The smallest difference of a final accuracy that matters: 0.01 for "1%", one percentage point. Plans stored before the
    /// key existed have its default.
    #[serde(default = "one_point")]
    pub min_quality: f64,
    /// Of the intervals: 0.95.
    pub confidence: f64,
    /// Names that published pages do not show.
    pub redact: Vec<Redaction>,
    /// Prices of the machines.
    #[serde(default, skip_serializing_if = "Prices::is_none")]
    pub prices: Prices,
}

/// Prices of machines: no part of a run's identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Currency of the prices, as the recipe writes it; may be empty.
    pub currency: String,
    /// Of each cell of the plan what an hour of its machines costs, all together; `None` where one of them has no price. Empty where no
    /// cell has one.
    pub cells: Vec<Option<f64>>,
}

impl Prices {
    /// Price of an hour of the machines of a cell.
    pub fn of(&self, cell: usize) -> Option<f64> {
        self.cells.get(cell).copied().flatten()
    }

    /// Whether no machine has a price.
    pub fn is_none(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
}

fn one_point() -> f64 {
    0.01
}
