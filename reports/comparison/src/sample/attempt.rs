//! Data of a made-up run: its steps, curves, ranks and links.

use super::host::milliseconds;
use super::noise::Noise;
use super::straggler::Pace;
use super::{APART, BATCH, PARAMETERS, SAMPLES, STARTED, Sample, SampleArm, Straggler, host, straggler};
use recipe::{Cell, Metric, Role};
use record::{Category, LaneId, Nanos, Phase, Rank};
use store::{AttemptRow, LinkRow, LossRow, MetricRow, PaceRow, PhaseRow, RankRow, Steady, UsageRow};

/// Makes up what one run did.
pub(super) struct Maker<'a> {
    pub(super) sample: &'a Sample,
    pub(super) arm: &'a SampleArm,
    pub(super) cell: &'a Cell,
    pub(super) noise: Noise,
}

impl Maker<'_> {
    /// All that is stored of it.
    pub(super) fn attempt(mut self, index: usize, seed: u64) -> AttemptRow {
        let workers = self.cell.spec.cluster.workers();
        let batch = u64::from(self.cell.spec.train.global_batch);
        let samples = SAMPLES * self.sample.epochs.0;
        let steps = samples / batch;
        let compute = self.arm.compute * 4.0 / f64::from(workers) * (1.0 + 0.015 * self.noise.draw());
        let communicate = self.arm.communicate * (1.0 + 0.04 * self.noise.draw());
        let parts: Vec<Vec<(Phase, f64)>> = (0..self.cell.spec.cluster.ranks())
            .map(|rank| self.parts(rank, [compute, communicate]))
            .collect();
        let lengths: Vec<f64> = parts[..workers as usize].iter().map(|parts| length(parts)).collect();
        let step = if self.arm.strategy.is_asynchronous() {
            f64::from(workers) / lengths.iter().map(|length| 1.0 / length).sum::<f64>()
        } else {
            self.straggler().step([compute, communicate]) + 0.08
        };
        let ranks = (0..).zip(&parts).map(|(rank, parts)| self.rank(Rank(rank), step, steps, parts));
        let mut ranks: Vec<RankRow> = ranks.collect();
        let rounds = straggler::compare(&mut ranks, self.arm.strategy.is_asynchronous());
        let links = self.links(&ranks);
        AttemptRow {
            number: 1,
            started: STARTED + APART * index as i64,
            wall: Some(milliseconds(step * steps as f64 + 1900.0)),
            detail: String::new(),
            culprit: None,
            last_lines: Vec::new(),
            training: Some(milliseconds(step * steps as f64)),
            step_time: Some(milliseconds(step)),
            mean_step_time: Some(milliseconds(step)),
            steps,
            step_stride: 1,
            traced_steps: None,
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
            schedule: None,
            lost: vec![],
            as_ordered: false,
            staleness: vec![],
            averagings: vec![],
            hosts: host::readings(step * steps as f64 / 1e3),
            blocks: host::blocks(step, steps, Noise(seed * 31 + index as u64)),
            ranks,
        }
    }

    fn metrics(&mut self, step: f64) -> Vec<MetricRow> {
        let (epochs, often) = self.sample.epochs;
        let slope = 1.0 + 0.12 * self.noise.draw();
        let mut rows = Vec::new();
        for place in 0..=epochs * often {
            let epoch = place as f64 / often as f64;
            let samples = SAMPLES * place / often;
            let wobble = 0.0015 * self.noise.draw();
            let accuracy =
                self.arm.ceiling - (self.arm.ceiling - 0.1) * (-2.6 * slope * epoch.powf(0.62)).exp();
            let accuracy = if place == 0 { 0.0985 } else { accuracy + wobble };
            for (metric, value) in
                [(Metric::TestAccuracy, accuracy), (Metric::TestLoss, (1.0 - accuracy) * 3.1)]
            {
                rows.push(MetricRow {
                    metric,
                    model: "rank 0".to_owned(),
                    step: samples / BATCH,
                    samples,
                    epoch,
                    at: milliseconds(step * samples as f64 / BATCH as f64),
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
        let lean = 1.0 + 0.08 * self.noise.draw();
        let pace = if self.arm.strategy.is_asynchronous() { Pace::Independent } else { Pace::Together };
        let parts = self.straggler().parts(Rank(rank), pace, times, lean.min(1.0));
        if rank < self.cell.spec.cluster.workers() { parts } else { serving(&parts) }
    }

    /// A rank with these phases in a run of `steps` steps, each of `step` milliseconds.
    fn rank(&self, rank: Rank, step: f64, steps: u64, parts: &[(Phase, f64)]) -> RankRow {
        let worker = rank.0 < self.cell.spec.cluster.workers();
        let lane = if worker { LaneId::Compute } else { LaneId::Clients };
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
            replica_group: None,
            usage: worker.then(|| self.usage(own)),
            recording_share: Some(0.0021),
            phases: parts.iter().map(row).collect(),
            exposed: milliseconds(exposed * steady as f64),
            hidden: Nanos(0),
            steady: if worker {
                Steady { time: milliseconds(length * steady as f64), steps: steady }
            } else {
                Steady::default()
            },
            pace: worker.then(|| PaceRow { own: milliseconds(length - waiting), last: 0, imposed: Nanos(0) }),
            bytes_out: bytes,
            bytes_in: bytes,
        }
    }

    fn usage(&self, steps: u64) -> UsageRow {
        let held = 4 * self.cell.spec.parameters_per_worker() as u64;
        let exchanging =
            if self.arm.strategy.parts() > 1 { milliseconds(1.5 * steps as f64) } else { Nanos(0) };
        UsageRow {
            weights: held,
            gradients: held,
            optimizer: held,
            activations: 3 << 20,
            resident: Some(150 << 20),
            exchanging,
            steps,
        }
    }

    /// A ring sends 2 (p - 1) / p of the vector; a worker sends a server all of it, the server sends all to each.
    fn bytes_per_step(&self, worker: bool) -> u64 {
        let vector = PARAMETERS * 4;
        let workers = u64::from(self.cell.spec.cluster.workers());
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

/// A server's turn: what workers spend on computing, it waits.
fn serving(parts: &[(Phase, f64)]) -> Vec<(Phase, f64)> {
    let computed = [Phase::Data, Phase::Forward, Phase::Backward];
    let waited: f64 = parts.iter().filter(|(phase, _)| computed.contains(phase)).map(|(_, time)| time).sum();
    let served = parts.iter().filter(|(phase, _)| !computed.contains(phase));
    served
        .map(|(phase, time)| (*phase, if *phase == Phase::WaitPeer { time + waited } else { *time }))
        .collect()
}

/// The sum of the phases of a step.
fn length(parts: &[(Phase, f64)]) -> f64 {
    parts.iter().map(|(_, time)| time).sum()
}
