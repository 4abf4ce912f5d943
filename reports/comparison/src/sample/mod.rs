//! Made-up sweeps for tests and for looking at a page: a pure function of their description.
//!
//! The numbers are like real ones (accuracy saturates, steps jitter, one rank is sometimes late) and consistent: phases add
//! up to steps, links to bytes.

mod attempt;
mod grid;
mod host;
mod noise;
mod straggler;

pub use grid::{GridAxis, on_grid};
pub use straggler::Straggler;

use attempt::Maker;
pub use noise::Noise;
use recipe::{
    Arm, Averaging, AxisValue, Cell, Extent, LayeredModel, Limits, Metric, MixOrder, Model, ModelKind, Plan,
    ReduceOrder, ReportSettings, Run, RunSpec, Shape, Source, Strategy, Target, Topology,
};
use record::Rank;
use store::{Commit, NodeRow, RunRow, RunState, SweepRows};

/// The arms of a sweep with one condition, under `conditions` conditions; each run is a copy of the cell's first one.
pub fn under_conditions(rows: &SweepRows, conditions: usize) -> SweepRows {
    let mut many = rows.clone();
    many.plan.cells.clear();
    many.plan.runs.clear();
    many.runs.clear();
    for condition in 0..conditions {
        for (arm, cell) in rows.plan.cells.iter().enumerate() {
            let Some(run) = rows.runs.iter().find(|run| run.cell == arm) else { continue };
            let index = many.runs.len();
            many.plan.cells.push(Cell { condition: format!("lr={condition}"), ..cell.clone() });
            many.plan.runs.push(Run { cell: index, repeat: 0, seed: run.seed });
            many.runs.push(RunRow { index, cell: index, id: format!("{index:026}"), ..run.clone() });
        }
    }
    many
}

/// Weights of the made-up model.
const PARAMETERS: u64 = 648_010;

/// Training samples of the made-up data.
const SAMPLES: u64 = 12_000;
/// Samples of a step of all workers.
const BATCH: u64 = 100;
/// When all of it began, in seconds since 1970.
const STARTED: i64 = 1_795_180_500;
/// Seconds from the start of one run to that of the next.
const APART: i64 = 9;

/// An arm of a made-up sweep.
#[derive(Clone, Debug)]
pub struct SampleArm {
    /// As in a plan: unique among the arms.
    pub name: String,
    /// Strategy that the plan records for the arm.
    pub strategy: Strategy,
    /// Milliseconds that a worker computes in a step.
    pub compute: f64,
    /// Milliseconds that a worker communicates and waits in a step.
    pub communicate: f64,
    /// Accuracy that training approaches, as a share of one.
    pub ceiling: f64,
}

/// Settings that the rows of a made-up sweep are made from.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Question that the recipe asks.
    pub question: String,
    /// The arms; the first is the baseline.
    pub arms: Vec<SampleArm>,
    /// Workers of each condition.
    pub workers: Vec<u32>,
    /// Runs of each cell.
    pub repeats: u32,
    /// Numbers of repeats after which it is looked at, if it runs until it is decided.
    pub looks: Vec<u32>,
    /// Epochs, and evaluations in each.
    pub epochs: (u64, u64),
    /// Target of the runs, as a share of one; `None` where they have a fixed length.
    pub target: Option<f64>,
    /// The worker that holds the others up.
    pub straggler: Straggler,
}

impl Sample {
    /// A parameter server against an all-reduce, five repeats on four workers.
    pub fn duel() -> Self {
        Self {
            question: "Is an all-reduce faster than a parameter server on one host?".to_owned(),
            arms: vec![
                SampleArm {
                    name: "ps-sync".to_owned(),
                    strategy: Strategy::PsSync,
                    compute: 6.1,
                    communicate: 5.4,
                    ceiling: 0.981,
                },
                SampleArm {
                    name: "d-sync".to_owned(),
                    strategy: Strategy::DSync,
                    compute: 6.1,
                    communicate: 2.6,
                    ceiling: 0.9812,
                },
            ],
            workers: vec![4],
            repeats: 5,
            looks: Vec::new(),
            epochs: (4, 5),
            target: Some(0.97),
            straggler: Straggler::NONE,
        }
    }

    /// An all-reduce, gossip in step and gossip at each worker's own pace, with one worker that computes ten times as
    /// long as the others.
    pub fn held_up() -> Self {
        let arm = |name: &str, strategy, communicate, ceiling| SampleArm {
            name: name.to_owned(),
            strategy,
            compute: 6.1,
            communicate,
            ceiling,
        };
        let topology = Topology::Ring;
        Self {
            question: "Who suffers when one worker is ten times as slow as the others?".to_owned(),
            arms: vec![
                arm("d-sync", Strategy::DSync, 2.6, 0.9812),
                arm("d-psgd", Strategy::DPsgd { topology, order: MixOrder::MixThenStep }, 1.1, 0.981),
                arm("ad-psgd", Strategy::AdPsgd { topology, averaging: Averaging::EachStep }, 0.4, 0.98),
            ],
            straggler: Straggler { rank: Rank(3), compute: 10.0, link: 1.0 },
            ..Self::duel()
        }
    }

    /// The rows of the sweep, all runs done.
    pub fn rows(&self) -> SweepRows {
        let plan = self.plan();
        let runs = plan.runs.iter().enumerate().map(|(index, run)| self.run(&plan, index, run)).collect();
        SweepRows {
            id: "01JD0QUICKSTART0000000000".to_owned(),
            recipe_sha256: "5f3c1a9be04d7c2f8e6a1d0b9c8f7e6d5c4b3a29180f7e6d5c4b3a2918070615".to_owned(),
            recipe_path: "recipes/quickstart.toml".to_owned(),
            argv: ["bakeoff", "run", "recipes/quickstart.toml"].map(str::to_owned).to_vec(),
            version: "0.1.0".to_owned(),
            commit: Some(Commit { hash: "3618d28f0c1e2a4b5968".to_owned(), is_changed: false }),
            started: STARTED,
            annotations: store::Annotations::default(),
            nodes: vec![NodeRow {
                name: "local".to_owned(),
                host: "workbench".to_owned(),
                system: "Linux 6.8.0".to_owned(),
                processor: "AMD EPYC 7763".to_owned(),
                cores: 64,
                memory: 64 << 30,
            }],
            plan,
            runs,
        }
    }

    fn plan(&self) -> Plan {
        let mut cells = Vec::new();
        for workers in &self.workers {
            for (place, arm) in self.arms.iter().enumerate() {
                cells.push(self.cell(place, arm, *workers));
            }
        }
        let runs = (0..self.repeats).flat_map(|repeat| {
            (0..cells.len()).map(move |cell| Run { cell, repeat, seed: 42 + u64::from(repeat) })
        });
        Plan {
            looks: self.looks.clone(),
            search: None,
            warnings: Vec::new(),
            name: "quickstart".to_owned(),
            question: self.question.clone(),
            source: "schema = 1\nname = \"quickstart\"\n".to_owned(),
            expanded: "schema = 1\nname = \"quickstart\"\n\n[repeats]\ncount = 5\n".to_owned(),
            arms: self
                .arms
                .iter()
                .enumerate()
                .map(|(place, arm)| Arm {
                    name: arm.name.clone(),
                    kind: arm.strategy.kind().to_string(),
                    baseline: place == 0,
                })
                .collect(),
            values: Vec::new(),
            runs: runs.collect(),
            cells,
            limits: Limits { run_timeout: None, retries: 0, max_runs: 400 },
            hosts: recipe::HostSettings::default(),
            report: ReportSettings {
                min_effect: 0.05,
                min_quality: 0.01,
                confidence: 0.95,
                redact: Vec::new(),
                prices: recipe::Prices::default(),
            },
        }
    }

    fn cell(&self, place: usize, arm: &SampleArm, workers: u32) -> Cell {
        let spec = self.spec(arm, workers);
        let condition = if self.workers.len() > 1 { format!("workers={workers}") } else { String::new() };
        Cell {
            arm: place,
            label: [arm.name.as_str(), &condition].join(" ").trim().to_owned(),
            condition,
            axes: vec![AxisValue {
                path: "nodes.workers".to_owned(),
                text: workers.to_string(),
                number: Some(f64::from(workers)),
            }],
            config_hash: String::new(),
            spec,
            excluded: None,
        }
    }

    fn spec(&self, arm: &SampleArm, workers: u32) -> RunSpec {
        let mut spec = RunSpec::sample_of(arm.strategy.clone(), workers);
        spec.model = Model::Layers(LayeredModel {
            kind: ModelKind::MnistMlp,
            input: Shape::Image(1, 28, 28),
            classes: 10,
            layers: Vec::new(),
            init: recipe::Init::Pytorch,
        });
        spec.dataset.source = Source::Synthetic { train: SAMPLES as u32, test: 2_000, seed: 0 };
        spec.train.global_batch = BATCH as u32;
        spec.train.length = Extent::Epochs(self.epochs.0 as f64);
        spec.train.optimizer.lr = 0.1;
        spec.train.evaluate = Extent::Epochs(1.0 / self.epochs.1 as f64);
        spec.train.target = self.target.map(|threshold| Target {
            metric: Metric::TestAccuracy,
            threshold,
            after: None,
            stop: false,
        });
        spec.communication.reduce_order = ReduceOrder::Rank;
        spec.measure.trace_first_steps = 5;
        spec.measure.trace_every = 100;
        spec
    }

    fn run(&self, plan: &Plan, index: usize, run: &Run) -> RunRow {
        let cell = &plan.cells[run.cell];
        let maker = Maker {
            sample: self,
            arm: &self.arms[cell.arm],
            cell,
            noise: Noise(run.seed * 977 + run.cell as u64),
        };
        RunRow {
            id: format!("01JD0RUN{index:04}"),
            index,
            cell: run.cell,
            repeat: run.repeat,
            seed: run.seed,
            state: RunState::Done,
            reused: false,
            attempt: Some(maker.attempt(index, run.seed)),
        }
    }
}
