//! Where the time of arithmetic goes: every kind of work has a price of its own, so that work which is counted in a phase
//! that is not its own is seen.

use crate::scene::{Scene, lanes};
use recipe::{Averaging, Extent, Strategy, StrategyKind, Topology};
use record::{LaneId, Nanos, Phase, Rank, StepRecord};
use strategies::Learner;
use strategies::sim::{Costs, WorldOutcome};

/// Nanoseconds per element; no sum of a few of them is another.
const ENCODE: u64 = 1_009;
const DECODE: u64 = 10_007;
const REDUCE: u64 = 100_003;
const UPDATE: u64 = 1_000_003;

const WORKERS: u64 = 4;

/// A model of which four make equal parts, and its length.
fn run(strategy: Strategy) -> (WorldOutcome, u64) {
    let mut scene = Scene::new(strategy, WORKERS as u32).change(|spec| spec.train.length = Extent::Steps(6));
    scene.world.costs = Costs {
        code: ENCODE as f64,
        decode: (DECODE - ENCODE) as f64,
        reduce: REDUCE as f64,
        update: UPDATE as f64,
        ..Costs::default()
    };
    let n = scene.learner().layout().size() as u64;
    assert_eq!(n % WORKERS, 0);
    (scene.run(), n)
}

/// Elements that are encoded, decoded, added and updated in a step.
#[derive(Clone, Copy)]
struct Elements {
    encoded: u64,
    decoded: u64,
    added: u64,
    updated: u64,
}

impl Elements {
    fn check(self, step: &StepRecord, what: &str) {
        let Self { encoded, decoded, added, updated } = self;
        let phases =
            [Phase::Encode, Phase::Decode, Phase::Reduce, Phase::Update].map(|phase| step.phases[phase]);
        let expected = [encoded * ENCODE, decoded * DECODE, added * REDUCE, updated * UPDATE].map(Nanos);
        assert_eq!(phases, expected, "{what}, step {} of rank {}", step.step, step.rank);
    }
}

/// All steps of a lane but the last two: the way out, and one after which some receive nothing any more.
fn all_but_the_last(outcome: &WorldOutcome, rank: u32, lane: LaneId) -> Vec<&StepRecord> {
    let mut steps = outcome.ranks[Rank(rank).index()].steps(lane);
    steps.truncate(steps.len().saturating_sub(2));
    assert!(steps.len() >= 3, "{} steps of rank {rank}, {lane}", steps.len());
    steps
}

#[test]
fn a_ring_encodes_what_it_sends_first_and_adds_what_it_has_not() {
    let (outcome, n) = run(Strategy::DSync);
    let others = n / WORKERS * (WORKERS - 1);
    for rank in 0..WORKERS as u32 {
        for step in all_but_the_last(&outcome, rank, LaneId::Compute) {
            // The sums of the ring, and the mean.
            Elements { encoded: n, decoded: others, added: others + n, updated: n }.check(step, "d-sync");
        }
    }
}

#[test]
fn a_server_adds_and_updates_and_its_workers_only_code() {
    let (outcome, n) = run(Strategy::PsSync);
    for rank in 0..WORKERS as u32 {
        for step in all_but_the_last(&outcome, rank, LaneId::Compute) {
            Elements { encoded: n, decoded: n, added: 0, updated: 0 }.check(step, "worker");
        }
    }
    for step in all_but_the_last(&outcome, WORKERS as u32, LaneId::Clients) {
        Elements { encoded: n, decoded: 0, added: (WORKERS + 1) * n, updated: n }.check(step, "server");
    }
}

/// A server of workers at their own pace, as its samples are priced: elements that a worker updates itself, as multiples of
/// the model. `None` for strategies that are stated elsewhere.
fn updated_by_workers(kind: StrategyKind) -> Option<u64> {
    match kind {
        StrategyKind::AsyncSgd | StrategyKind::AsyncMsgd => Some(0),
        StrategyKind::EasgdAsync | StrategyKind::MeasgdAsync | StrategyKind::Eamsgd => Some(1),
        // One worker after the other, centres whose elements are added one by one, no server, or one for all workers at once.
        StrategyKind::EasgdOriginal
        | StrategyKind::HogwildSgd
        | StrategyKind::EasgdHogwild
        | StrategyKind::PsSync
        | StrategyKind::DSync
        | StrategyKind::PipeSgd
        | StrategyKind::LocalSgd
        | StrategyKind::Slowmo
        | StrategyKind::DPsgd
        | StrategyKind::AdPsgd
        | StrategyKind::Sgp
        | StrategyKind::Gmp
        | StrategyKind::EasgdSync
        | StrategyKind::Custom => None,
    }
}

#[test]
fn a_master_decodes_updates_and_encodes_for_each_worker() {
    for strategy in Strategy::samples() {
        let Some(own) = updated_by_workers(strategy.kind()).filter(|_| strategy.period() == 1) else {
            continue;
        };
        let (outcome, n) = run(strategy.clone());
        let what = format!("{strategy:?}");
        for worker in 0..WORKERS as u32 {
            for step in all_but_the_last(&outcome, worker, LaneId::Compute) {
                Elements { encoded: n, decoded: n, added: 0, updated: own * n }.check(step, &what);
            }
            for step in all_but_the_last(&outcome, WORKERS as u32, LaneId::Client(worker as u16)) {
                Elements { encoded: n, decoded: n, added: 0, updated: n }.check(step, &what);
            }
        }
    }
}

/// Each phase of a step takes a multiple of the price of its own kind of work, in every lane of every strategy.
#[test]
fn no_strategy_counts_work_in_a_phase_that_is_not_its_own() {
    for strategy in Strategy::samples() {
        let (outcome, _) = run(strategy.clone());
        for (rank, lane) in lanes(&outcome) {
            for step in outcome.ranks[rank.index()].steps(lane) {
                let prices = [
                    (Phase::Encode, ENCODE),
                    (Phase::Decode, DECODE),
                    (Phase::Reduce, REDUCE),
                    (Phase::Update, UPDATE),
                ];
                for (phase, price) in prices {
                    // Gossip in pairs reads and flushes a buffer as part of its update: see below.
                    let with_a_buffer = phase == Phase::Update && strategy.kind() == StrategyKind::AdPsgd;
                    let rest = step.phases[phase].0 % price;
                    assert!(rest == 0 || with_a_buffer, "{strategy:?}, rank {rank} {lane}, {phase}: {rest}");
                }
            }
        }
    }
}

/// Reading and flushing a buffer is part of the update there, at the price of an addition.
#[test]
fn gossip_averages_on_lanes_of_its_own() {
    let strategy = Strategy::AdPsgd { topology: Topology::Ring, averaging: Averaging::EachStep };
    let (outcome, n) = run(strategy);
    let phases = |step: &StepRecord| {
        [Phase::Encode, Phase::Decode, Phase::Reduce, Phase::Update].map(|phase| step.phases[phase].0)
    };
    for worker in 0..WORKERS as u32 {
        for step in all_but_the_last(&outcome, worker, LaneId::Compute) {
            assert_eq!(phases(step), [0, 0, 0, n * (UPDATE + 2 * REDUCE)], "compute lane of rank {worker}");
        }
        let active = worker % 2 == 0;
        let lane = if active { LaneId::Communication } else { LaneId::Client(0) };
        let mut averaging = all_but_the_last(&outcome, worker, lane);
        // A passive lane also hears how far others are; that costs nothing.
        averaging.retain(|step| active || phases(step) != [0; 4]);
        assert!(!averaging.is_empty(), "rank {worker} averages");
        for step in averaging {
            let flushed = if active { n * REDUCE } else { 0 };
            assert_eq!(
                phases(step),
                [n * ENCODE, n * DECODE, n * REDUCE, flushed],
                "rank {worker}, active: {active}"
            );
        }
    }
}
