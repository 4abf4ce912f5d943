//! Made-up sweeps for tests and for looking at a page: a pure function of their description.
//!
//! The numbers are shaped like real ones (accuracy saturates, steps jitter, one rank is late now and then), and
//! every book closes: phases add up to steps, links to bytes.

mod spans;
mod straggler;

pub use spans::timelines;
pub use straggler::Straggler;

use recipe::{
    Arm, Averaging, Cell, Cluster, Collective, Communication, Compression, Dataset, Extent, Limits, LrScale,
    LrSchedule, LrShape, Measure, Metric, MixOrder, Model, Node, Partition, Plan, ReduceOrder,
    ReportSettings, Role, Run, RunSpec, Schedule, Seat, Sgd, Shape, Source, Strategy, Target, Topology,
    Training,
};
use record::{Category, LaneId, Nanos, Phase, Rank};
use store::{
    AttemptRow, LinkRow, LossRow, MetricRow, NodeRow, PaceRow, PhaseRow, RankRow, RunRow, RunState, SweepRows,
};

/// Weights of the made-up model.
const PARAMETERS: u64 = 648_010;

/// Training samples of the made-up data.
const SAMPLES: u64 = 12_000;

/// An arm of a made-up sweep.
#[derive(Clone, Debug)]
pub struct SampleArm {
    /// Its name.
    pub name: String,
    /// What it does.
    pub strategy: Strategy,
    /// Milliseconds that a worker computes in a step.
    pub compute: f64,
    /// Milliseconds that a worker communicates and waits in a step.
    pub communicate: f64,
    /// Where its accuracy ends.
    pub ceiling: f64,
}

/// A made-up sweep.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The recipe's question.
    pub question: String,
    /// The arms; the first is the baseline.
    pub arms: Vec<SampleArm>,
    /// Workers of each condition.
    pub workers: Vec<u32>,
    /// Repeats.
    pub repeats: u32,
    /// Epochs, and evaluations in each.
    pub epochs: (u64, u64),
    /// What runs are after.
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
            epochs: (4, 5),
            target: Some(0.97),
            straggler: Straggler::NOBODY,
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
            commit: Some(("3618d28f0c1e2a4b5968".to_owned(), false)),
            started: 1_795_180_500,
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
                    kind: arm.strategy.kind().to_owned(),
                    baseline: place == 0,
                })
                .collect(),
            runs: runs.collect(),
            cells,
            limits: Limits { run_timeout: None, retries: 0, max_runs: 400 },
            report: ReportSettings { min_effect: 0.05, confidence: 0.95, redact: Vec::new() },
        }
    }

    fn cell(&self, place: usize, arm: &SampleArm, workers: u32) -> Cell {
        let spec = self.spec(arm, workers);
        let condition = if self.workers.len() > 1 { format!("workers={workers}") } else { String::new() };
        Cell {
            arm: place,
            label: [arm.name.as_str(), &condition].join(" ").trim().to_owned(),
            condition,
            axes: Vec::new(),
            config_hash: String::new(),
            spec,
            excluded: None,
        }
    }

    fn spec(&self, arm: &SampleArm, workers: u32) -> RunSpec {
        let seat = |role| Seat { role, node: 0 };
        let mut seats = vec![seat(Role::Worker); workers as usize];
        seats.resize(seats.len() + arm.strategy.servers() as usize, seat(Role::Server));
        RunSpec {
            model: Model {
                kind: "mnist-mlp".to_owned(),
                input: Shape::Image(1, 28, 28),
                classes: 10,
                layers: Vec::new(),
            },
            dataset: Dataset {
                source: Source::Synthetic { train: SAMPLES as u32, test: 2_000, seed: 0 },
                partition: Partition::Shared,
                validation: 0.0,
            },
            train: Training {
                global_batch: 100,
                length: Extent::Epochs(self.epochs.0 as f64),
                accumulate: 1,
                optimizer: Sgd { lr: 0.1, momentum: 0.0, weight_decay: 0.0, clip: None },
                schedule: LrSchedule {
                    shape: LrShape::Constant,
                    warmup: Extent::Steps(0),
                    scale: LrScale::None,
                },
                evaluate: Extent::Epochs(1.0 / self.epochs.1 as f64),
                target: self.target.map(|threshold| Target {
                    metric: Metric::TestAccuracy,
                    threshold,
                    after: None,
                    stop: false,
                }),
            },
            cluster: Cluster { nodes: vec![Node { name: "local".to_owned(), slots: workers }], seats },
            strategy: arm.strategy.clone(),
            communication: Communication {
                collective: Collective::Ring,
                schedule: Schedule::Single,
                reduce_order: ReduceOrder::Rank,
            },
            compression: Compression::None,
            measure: Measure {
                trace_first_steps: 5,
                trace_every: 100,
                hash_every_step: false,
                samples: false,
            },
            emulation: recipe::Emulation::default(),
        }
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
            attempt: Some(maker.attempt(run.seed)),
        }
    }
}

/// A stream of made-up numbers: SplitMix64.
struct Noise(u64);

impl Noise {
    /// Between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// A server's turn: what workers spend on computing, it waits.
fn serving(parts: &[(Phase, f64)]) -> Vec<(Phase, f64)> {
    let computed = [Phase::Data, Phase::Forward, Phase::Backward];
    let waited: f64 = parts.iter().filter(|(phase, _)| computed.contains(phase)).map(|(_, time)| time).sum();
    let served = parts.iter().filter(|(phase, _)| !computed.contains(phase));
    served
        .map(|(phase, time)| (*phase, if *phase == Phase::WaitPeer { time + waited } else { *time }))
        .collect()
}

struct Maker<'a> {
    sample: &'a Sample,
    arm: &'a SampleArm,
    cell: &'a Cell,
    noise: Noise,
}

/// The sum of the phases of a step.
fn length(parts: &[(Phase, f64)]) -> f64 {
    parts.iter().map(|(_, time)| time).sum()
}

fn milliseconds(value: f64) -> Nanos {
    Nanos((value.max(0.0) * 1e6) as u64)
}

impl Maker<'_> {
    fn attempt(mut self, seed: u64) -> AttemptRow {
        let workers = self.cell.spec.cluster.workers();
        let batch = u64::from(self.cell.spec.train.global_batch);
        let samples = SAMPLES * self.sample.epochs.0;
        let steps = samples / batch;
        let compute = self.arm.compute * 4.0 / f64::from(workers) * (1.0 + 0.015 * self.noise.next());
        let communicate = self.arm.communicate * (1.0 + 0.04 * self.noise.next());
        let parts: Vec<Vec<(Phase, f64)>> = (0..self.cell.spec.cluster.ranks())
            .map(|rank| self.parts(rank, [compute, communicate]))
            .collect();
        let lengths: Vec<f64> = parts[..workers as usize].iter().map(|parts| length(parts)).collect();
        let step = if self.arm.strategy.is_asynchronous() {
            f64::from(workers) / lengths.iter().map(|length| 1.0 / length).sum::<f64>()
        } else {
            self.straggler().step([compute, communicate]) + 0.08
        };
        let ranks = (0..).zip(&parts).map(|(rank, parts)| self.rank(Rank(rank), (step, steps), parts));
        let mut ranks: Vec<RankRow> = ranks.collect();
        let rounds = straggler::compare(&mut ranks, self.arm.strategy.is_asynchronous());
        let links = self.links(&ranks);
        AttemptRow {
            number: 1,
            started: 1_795_180_500,
            wall: Some(milliseconds(step * steps as f64 + 1900.0)),
            detail: String::new(),
            culprit: None,
            last_lines: Vec::new(),
            training: Some(milliseconds(step * steps as f64)),
            step_time: Some(milliseconds(step)),
            steps,
            samples,
            metrics: self.metrics(step),
            losses: (1..=steps)
                .step_by(40)
                .map(|at| LossRow {
                    step: at,
                    samples: at * batch,
                    at: milliseconds(step * at as f64),
                    loss: 2.3 * (-(at as f64) / 90.0).exp() + 0.06,
                })
                .collect(),
            weights: Some(Ok(format!("{:016x}{:048x}", seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), seed))),
            transfers: self.straggler().transfers(&links),
            links,
            rounds,
            beside: vec![],
            emulation: vec![],
            coding: vec![],
            lost: vec![],
            staleness: vec![],
            averagings: vec![],
            ranks,
        }
    }

    fn metrics(&mut self, step: f64) -> Vec<MetricRow> {
        let (epochs, often) = self.sample.epochs;
        let slope = 1.0 + 0.12 * self.noise.next();
        let mut rows = Vec::new();
        for place in 0..=epochs * often {
            let epoch = place as f64 / often as f64;
            let samples = SAMPLES * place / often;
            let wobble = 0.0015 * self.noise.next();
            let accuracy =
                self.arm.ceiling - (self.arm.ceiling - 0.1) * (-2.6 * slope * epoch.powf(0.62)).exp();
            let accuracy = if place == 0 { 0.0985 } else { accuracy + wobble };
            for (metric, value) in
                [(Metric::TestAccuracy, accuracy), (Metric::TestLoss, (1.0 - accuracy) * 3.1)]
            {
                rows.push(MetricRow {
                    metric,
                    model: "rank 0".to_owned(),
                    step: samples / 100,
                    samples,
                    epoch,
                    at: milliseconds(step * samples as f64 / 100.0),
                    value,
                });
            }
        }
        rows
    }

    fn straggler(&self) -> Straggler {
        self.sample.straggler
    }

    /// The phases of a rank's mean step, in milliseconds.
    fn parts(&mut self, rank: u32, times: [f64; 2]) -> Vec<(Phase, f64)> {
        let lean = 1.0 + 0.08 * self.noise.next();
        let together = !self.arm.strategy.is_asynchronous();
        let parts = self.straggler().parts((Rank(rank), together), times, lean.min(1.0));
        if rank < self.cell.spec.cluster.workers() { parts } else { serving(&parts) }
    }

    /// A rank with these phases, where a step of all takes so long and there are so many.
    fn rank(&self, rank: Rank, (step, steps): (f64, u64), parts: &[(Phase, f64)]) -> RankRow {
        let worker = rank.0 < self.cell.spec.cluster.workers();
        let lane = if worker { LaneId::Compute } else { LaneId::Service(0) };
        let length = length(parts);
        let own = if self.arm.strategy.is_asynchronous() && worker {
            (step * steps as f64 / length) as u64
        } else {
            steps
        };
        let steady = own.saturating_sub(5);
        let time = |kind: Category| {
            parts.iter().filter(|(phase, _)| phase.category() == kind).map(|(_, time)| time).sum::<f64>()
        };
        let waiting = time(Category::Waiting);
        let exposed = time(Category::Communication) + waiting;
        let row = |(phase, time): &(Phase, f64)| PhaseRow {
            lane,
            phase: *phase,
            count: steady,
            total: milliseconds(time * steady as f64),
            p50: milliseconds(*time),
            p95: milliseconds(time * 1.2),
            max: milliseconds(time * 3.0),
        };
        let bytes = self.bytes_per_step(worker) * own;
        RankRow {
            rank,
            role: if worker { Role::Worker } else { Role::Server },
            node: 0,
            threads: 1,
            end: "finished".to_owned(),
            resident_bytes: 180 << 20,
            recording_share: Some(0.0021),
            phases: parts.iter().map(row).collect(),
            exposed: milliseconds(exposed * steady as f64),
            hidden: Nanos(0),
            steady: if worker { (milliseconds(length * steady as f64), steady) } else { (Nanos(0), 0) },
            pace: worker.then(|| PaceRow { own: milliseconds(length - waiting), last: 0, imposed: Nanos(0) }),
            bytes_out: bytes,
            bytes_in: bytes,
        }
    }

    /// A ring sends 2 (p - 1) / p of the vector; a worker sends a server all of it, the server sends all to each.
    fn bytes_per_step(&self, worker: bool) -> u64 {
        let (vector, workers) = (PARAMETERS * 4, u64::from(self.cell.spec.cluster.workers()));
        match (self.arm.strategy.servers(), worker) {
            (0, _) => 2 * vector * (workers - 1) / workers,
            (_, true) => vector,
            (_, false) => vector * workers,
        }
    }

    fn links(&self, ranks: &[RankRow]) -> Vec<LinkRow> {
        let workers = self.cell.spec.cluster.workers();
        let link = |from: u32, to: u32, bytes: u64| LinkRow {
            from: Rank(from),
            to: Rank(to),
            bytes,
            raw_bytes: bytes,
            messages: bytes / 65_536 + 1,
        };
        match self.arm.strategy.servers() {
            0 if workers < 2 => Vec::new(),
            0 => (0..workers)
                .map(|rank| link(rank, (rank + 1) % workers, ranks[rank as usize].bytes_out))
                .collect(),
            _ => (0..workers)
                .flat_map(|rank| {
                    let bytes = ranks[rank as usize].bytes_out;
                    [link(rank, workers, bytes), link(workers, rank, bytes)]
                })
                .collect(),
        }
    }
}
