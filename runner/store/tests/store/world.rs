//! A small plan, and what its runs would report.

use recipe::{
    Arm, AxisValue, Cell, Extent, KeyValue, Layer, LayeredModel, Limits, Metric, Model, ModelKind, Node,
    OptimizerSettings, Parameter, PlacedLayer, Plan, ReportSettings, Run, RunSpec, Shape, SharedBy, Strategy,
    Target,
};
use record::{
    AveragedRecord, Event, HostRecord, LaneId, LinkRecord, MetricRecord, Nanos, Overhead, Phase, PhaseTimes,
    Prepared, Rank, RankEnd, RankEnded, SnapshotRecord, SpanRecord, Standing, StepRecord, UpdateRecord,
    UsageRecord, WeightHash,
};
use std::path::Path;
use store::{
    AttemptEnd, AttemptId, Commit, Driver, LostRow, NewAttempt, NewSweep, NodeRow, RunId, RunState, Store,
    SweepId,
};

/// Two arms on one and two workers, each with two repeats; `ps-sync` on one worker is left out.
pub(crate) fn plan() -> Plan {
    let arms = ["d-sync", "ps-sync"];
    let cells: Vec<Cell> = (0..4).map(|place| cell(place / 2, 1 + place as u32 % 2)).collect();
    let runs = (0..2)
        .flat_map(|repeat| [0, 1, 3].map(|cell| Run { cell, repeat, seed: u64::MAX - u64::from(repeat) }));
    Plan {
        name: "small".to_owned(),
        question: "Which is faster?".to_owned(),
        source: "name = \"small\"".to_owned(),
        expanded: "name = \"small\"\nrepeats = 2".to_owned(),
        arms: arms
            .map(|kind| Arm {
                name: format!("{kind} plain"),
                kind: kind.to_owned(),
                baseline: kind == "d-sync",
            })
            .to_vec(),
        cells,
        values: values(),
        runs: runs.collect(),
        looks: vec![1, 2],
        search: None,
        limits: Limits { run_timeout: None, retries: 1, max_runs: 100 },
        hosts: recipe::HostSettings::default(),
        report: ReportSettings {
            min_effect: 0.05,
            min_quality: 0.01,
            confidence: 0.95,
            redact: Vec::new(),
            prices: recipe::Prices { currency: "EUR".to_owned(), cells: vec![Some(2.5), None] },
        },
        warnings: Vec::new(),
    }
}

/// Of some keys: a value that all cells share, one that an arm has in its place, and one that a cell has in place of both.
fn values() -> Vec<KeyValue> {
    let value = |path: &str, text: &str, number: Option<f64>, of: SharedBy| KeyValue {
        path: path.to_owned(),
        text: text.to_owned(),
        number,
        of,
    };
    vec![
        value("train.optimizer.lr", "1e-1", Some(0.1), SharedBy::Plan),
        value("train.lr-schedule", "constant", None, SharedBy::Plan),
        value("train.lr-schedule", "step", None, SharedBy::Arm(1)),
        value("train.evaluate", "10 steps", Some(10.0), SharedBy::Plan),
        value("train.evaluate", "12 steps", Some(12.0), SharedBy::Cell(3)),
        value("communication.collective", "ring", None, SharedBy::Arm(0)),
        value("network.bandwidth", "1Gbit/s", Some(1.25e8), SharedBy::Cell(3)),
    ]
}

fn cell(arm: usize, workers: u32) -> Cell {
    let strategy = [Strategy::DSync, Strategy::PsSync][arm].clone();
    let spec = spec(strategy, workers);
    let collective = AxisValue {
        path: "strategy.d-sync plain.communication.collective".to_owned(),
        text: "ring".to_owned(),
        number: None,
    };
    Cell {
        arm,
        condition: format!("workers={workers}"),
        label: format!("{arm} workers={workers}"),
        axes: (arm == 0)
            .then_some(collective)
            .into_iter()
            .chain([
                AxisValue {
                    path: "nodes.workers".to_owned(),
                    text: workers.to_string(),
                    number: Some(f64::from(workers)),
                },
                AxisValue {
                    path: "train.lr-schedule.kind".to_owned(),
                    text: "constant".to_owned(),
                    number: None,
                },
            ])
            .collect(),
        config_hash: spec.config_hash(),
        spec,
        excluded: (arm == 1 && workers == 1).then(|| "one worker needs no server".to_owned()),
    }
}

fn spec(strategy: Strategy, workers: u32) -> RunSpec {
    let mut spec = RunSpec::sample_of(strategy, workers);
    spec.model = model();
    spec.train.global_batch = 10;
    spec.train.length = Extent::Steps(20);
    spec.train.optimizer = OptimizerSettings { momentum: 0.9, ..OptimizerSettings::sgd(0.1) };
    spec.train.evaluate = Extent::Steps(10);
    spec.train.target =
        Some(Target { metric: Metric::TestAccuracy, threshold: 0.8, after: None, stop: false });
    spec.cluster.nodes = vec![Node::local(4)];
    spec.measure.trace_first_steps = 3;
    spec.measure.trace_every = 5;
    spec
}

fn model() -> Model {
    Model::Layers(LayeredModel {
        kind: ModelKind::Softmax,
        input: Shape::Flat(4),
        classes: 2,
        layers: vec![PlacedLayer {
            name: "linear1".to_owned(),
            layer: Layer::Linear { outputs: 2 },
            input: Shape::Flat(4),
            output: Shape::Flat(2),
            parameters: vec![Parameter { name: "linear1.weight".to_owned(), shape: vec![2, 4] }],
            flops: 16,
            paths: recipe::Paths::default(),
        }],
        init: recipe::Init::Pytorch,
    })
}

pub(crate) fn node() -> NodeRow {
    NodeRow {
        name: "local".to_owned(),
        host: "bench".to_owned(),
        system: "Linux 6.1".to_owned(),
        processor: "Example 9000".to_owned(),
        cores: 2,
        memory: 8 << 30,
    }
}

/// Enters the plan, driven by `driver`.
pub(crate) async fn begin(store: &Store, plan: &Plan, driver: Driver) -> (SweepId, Vec<RunId>) {
    let argv = ["bakeoff".to_owned(), "run".to_owned()];
    let new = NewSweep {
        plan,
        recipe_path: "small.toml",
        argv: &argv,
        version: "0.1.0",
        commit: Some(Commit { hash: "abc".to_owned(), is_changed: true }),
        started: 1_000,
        driver,
    };
    let sweep = store.record_sweep(&new).await.unwrap();
    let runs = store.runs_of(&sweep).await.unwrap();
    (sweep, runs)
}

/// Begins an attempt at run number `place` of the plan.
pub(crate) async fn attempt(store: &Store, plan: &Plan, runs: &[RunId], place: usize) -> AttemptId {
    let cluster = &plan.cells[plan.runs[place].cell].spec.cluster;
    let nodes = [store.record_node(&node()).await.unwrap()];
    let new = NewAttempt { started: 1_001, cluster, nodes: &nodes };
    store.record_attempt(&runs[place], &new).await.unwrap()
}

/// An end in this state.
pub(crate) fn end(state: RunState) -> AttemptEnd {
    AttemptEnd {
        state,
        detail: if state == RunState::Done { String::new() } else { "rank 1 went silent".to_owned() },
        culprit: (state == RunState::Failed).then_some(Rank(1)),
        last_lines: vec!["last words".to_owned()],
        wall: Some(Nanos(9_000_000_000)),
        ended: 1_010,
        lost: if state == RunState::Degraded { vec![loss()] } else { Vec::new() },
    }
}

/// Rank 1 went, and the run without it.
pub(crate) fn loss() -> LostRow {
    LostRow { rank: Rank(1), step: 12, at: Nanos(130_000_000), reason: "rank 1 went silent".to_owned() }
}

/// Step `step` of `rank`, 1 ms long per unit of `weight`, half of it waiting.
pub(crate) fn step(rank: u32, step: u64, weight: u64) -> StepRecord {
    let half = weight * 500_000;
    let mut phases = PhaseTimes::default();
    phases[Phase::Forward] = Nanos(half);
    phases[Phase::WaitPeer] = Nanos(half);
    StepRecord {
        rank: Rank(rank),
        lane: LaneId::Compute,
        step,
        samples: step * 10,
        begin: Nanos(step * 10_000_000),
        length: Nanos(2 * half),
        phases,
        bytes_out: 100,
        bytes_in: 50,
        loss: Some(1.0 / step as f32),
        own_samples: 5,
        rate: Some(0.1),
        drain: false,
        hidden: Nanos(half / 2),
    }
}

/// An evaluation of test accuracy.
pub(crate) fn metric(step: u64, value: f64) -> MetricRecord {
    MetricRecord {
        metric: Metric::TestAccuracy,
        model: "rank 0".to_owned(),
        step,
        samples: step * 10,
        epoch: step as f64 / 100.0,
        at: Nanos(step * 10_000_000 + 5_000_000),
        value,
        judged: true,
    }
}

/// Everything a run of `steps` steps over two workers reports; rank 1 takes 2 ms a step and rank 0 takes 1 ms.
pub(crate) fn events(steps: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for rank in 0..2 {
        events.push(Event::Prepared(prepared(rank)));
    }
    for number in 1..=steps {
        for rank in 0..2 {
            events.push(Event::Step(step(rank, number, u64::from(rank) + 1)));
            if number <= 3 || number % 5 == 0 {
                events.extend(spans(rank, number));
            }
        }
        events.extend(at_their_own_pace(number));
        if number % 10 == 0 {
            events.push(Event::Metric(metric(number, 0.4 + number as f64 / 40.0)));
        }
    }
    for rank in 0..2 {
        events.push(Event::WeightHash(WeightHash {
            rank: Rank(rank),
            step: 1,
            sha256: format!("old {rank}"),
        }));
        events.push(Event::WeightHash(WeightHash {
            rank: Rank(rank),
            step: steps,
            sha256: "same".to_owned(),
        }));
        events.push(Event::Overhead(Overhead {
            rank: Rank(rank),
            recording: Nanos(5),
            wall: Nanos(1_000),
            resident_bytes: 3 << 20,
        }));
        events.push(Event::Usage(usage(rank)));
        events.push(Event::Ended(RankEnded { rank: Rank(rank), end: RankEnd::Finished }));
    }
    events.push(Event::Host(host(0)));
    events.push(Event::Host(host(steps)));
    events.push(Event::Link(LinkRecord { from: Rank(0), to: Rank(1), bytes: 7, messages: 2 }));
    events.push(Event::Snapshot(SnapshotRecord {
        rank: Rank(0),
        model: "rank 0".to_owned(),
        step: steps,
        samples: steps * 10,
        at: Nanos(1),
        file: "last.safetensors".to_owned(),
        last: true,
        mark: 1,
        standing: Standing::Judged,
        group: None,
        sha256: String::new(),
        digested: true,
    }));
    events
}

/// Steps of about 10 ms that differ from step to step, and an evaluation every 500.
pub(crate) fn long_run(ranks: u32, steps: u64) -> Vec<Event> {
    seeded_run(0, ranks, steps, 500)
}

/// The same of a run with this seed, with an evaluation every `evaluated` steps.
pub(crate) fn seeded_run(seed: u64, ranks: u32, steps: u64, evaluated: u64) -> Vec<Event> {
    let mut events: Vec<Event> = (0..ranks).map(|rank| Event::Prepared(prepared(rank))).collect();
    let mut begin = Nanos(0);
    for number in 1..=steps {
        let mut end = begin;
        for rank in 0..ranks {
            let step = noisy_step(seed, rank, number, begin);
            end = end.max(Nanos(begin.0 + step.length.0));
            events.push(Event::Step(step));
        }
        begin = Nanos(end.0 + 1_000);
        if number % evaluated == 0 {
            events.push(Event::Metric(metric(number, number as f64 / steps as f64)));
        }
    }
    events
}

fn noisy_step(seed: u64, rank: u32, number: u64, begin: Nanos) -> StepRecord {
    let noise = |salt: u64, scale: u64| {
        let mixed = (seed * 31 + number * 1_000_003 + u64::from(rank) * 7_919 + salt)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        scale + (mixed >> 40) % (scale / 4 + 1)
    };
    let typical = [
        (Phase::Data, 200_000),
        (Phase::Forward, 2_000_000),
        (Phase::Backward, 3_500_000),
        (Phase::Send, 150_000),
        (Phase::WaitPeer, 800_000),
        (Phase::Transfer, 1_200_000),
        (Phase::Reduce, 300_000),
        (Phase::Update, 700_000),
        (Phase::Other, 15_000),
    ];
    let mut phases = PhaseTimes::default();
    for (place, (phase, scale)) in (1..).zip(typical) {
        phases[phase] = Nanos(noise(place, scale));
    }
    StepRecord {
        begin,
        length: Nanos(phases.iter().map(|(_, time)| time.0).sum()),
        phases,
        loss: Some(2.3 / number as f32 + noise(99, 1_000) as f32 / 1e5),
        bytes_out: 2_600_000,
        bytes_in: 2_600_000,
        ..step(rank, number, 2)
    }
}

pub(crate) fn usage(rank: u32) -> UsageRecord {
    UsageRecord {
        rank: Rank(rank),
        weights: 400 + u64::from(rank),
        gradients: 800,
        optimizer: 0,
        activations: 96,
        steps: 20,
        exchanging: Nanos(5_000),
    }
}

/// Counters of the machine at the end of a step: other processes use a tenth of a core, and there is no frequency.
pub(crate) fn host(step: u64) -> HostRecord {
    let at = Nanos(step * 12_000_000);
    HostRecord {
        node: 0,
        at,
        cores: 2,
        busy: Nanos(5_000_000_000 + at.0),
        steal: Nanos(step * 10),
        own: Nanos(at.0 - at.0 / 10),
        cpu_pressure: Some(Nanos(at.0 / 4)),
        memory_pressure: None,
        load: Some(1.5),
        frequency: None,
        governor: Some("schedutil".to_owned()),
        memory_available: Some(1 << 33),
        clock_error: Some(Nanos(step)),
    }
}

/// A gradient of each rank, applied by rank 1, the one of rank 0 staler from step to step; and an averaging.
fn at_their_own_pace(number: u64) -> Vec<Event> {
    let update = |worker: u32, staleness| {
        Event::Update(UpdateRecord {
            rank: Rank(1),
            worker: Rank(worker),
            step: number,
            version: 2 * number - 1 + u64::from(worker),
            staleness,
            samples: number * 10 - 5 * u64::from(1 - worker),
            at: Nanos(number * 10_000_000),
        })
    };
    let (rank, peer) = if number.is_multiple_of(3) { (Rank(1), Rank(0)) } else { (Rank(0), Rank(1)) };
    let at = Nanos(number * 10_000_000);
    vec![update(0, number / 4), update(1, 1), Event::Averaged(AveragedRecord { rank, peer, number, at })]
}

/// Report of a rank that has its 1000 training samples and its weights.
pub(crate) fn prepared(rank: u32) -> Prepared {
    Prepared {
        rank: Rank(rank),
        pid: 7,
        threads: 2,
        training_samples: 1000,
        data_digest: "data".to_owned(),
        weights: "initial".to_owned(),
        parameters: 8,
        resident_bytes: 1 << 20,
        replica_group: None,
    }
}

/// Three spans of a rank in a step.
pub(crate) fn spans(rank: u32, number: u64) -> Vec<Event> {
    let half = (u64::from(rank) + 1) * 500_000;
    let peer = Some(Rank(1 - rank));
    [(Phase::Forward, 0, None, 0), (Phase::WaitPeer, half, peer, 0), (Phase::Transfer, 2 * half, peer, 4_096)]
        .map(|(phase, offset, peer, bytes)| {
            Event::Span(SpanRecord {
                rank: Rank(rank),
                lane: LaneId::Compute,
                step: number,
                phase,
                begin: Nanos(number * 10_000_000 + offset),
                length: Nanos(half),
                peer,
                bytes,
            })
        })
        .to_vec()
}

/// A store in a fresh folder.
pub(crate) async fn fresh(folder: &Path) -> Store {
    Store::open(&folder.join(".bakeoff")).await.unwrap()
}
