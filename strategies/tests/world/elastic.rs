//! Elastic averaging, one worker at a time: tables, conservation, and replays by a few lines of plain code.

use crate::asynchronous::{scene, updates};
use crate::reference::gradient;
use crate::scene::{Scene, lanes};
use recipe::{Extent, LrShape, MovingRate, Serve, Strategy};
use record::{LaneId, Nanos, Phase, Rank};
use strategies::sim::{Costs, World, WorldOutcome};
use strategies::{Batch, Block, Blueprint, Layout, Learner, Loss, StepError, Vector};

pub(crate) fn fixed(a: f32) -> MovingRate {
    MovingRate::Fixed(a)
}

fn original(moving_rate: MovingRate) -> Strategy {
    Strategy::EasgdOriginal { moving_rate, overlap: true }
}

fn locked(moving_rate: MovingRate) -> Strategy {
    Strategy::EasgdAsync { moving_rate, period: 1, serve: Serve::One }
}

fn hogwild(moving_rate: MovingRate) -> Strategy {
    Strategy::EasgdHogwild { moving_rate, period: 1 }
}

fn at_once(moving_rate: MovingRate) -> Strategy {
    Strategy::EasgdAsync { moving_rate, period: 1, serve: Serve::All }
}

fn with_momentum(moving_rate: MovingRate) -> Strategy {
    Strategy::MeasgdAsync { moving_rate, momentum: 0.5, period: 1, serve: Serve::One }
}

fn eamsgd(look_ahead: bool, period: u64) -> Strategy {
    Strategy::Eamsgd { moving_rate: fixed(0.25), momentum: 0.5, period, serve: Serve::One, look_ahead }
}

/// All weights begin at 2; the first gradient takes them, at rate 1, to `target`, and those after it are `curvature`
/// times the weights.
pub(crate) struct Nudge {
    layout: Layout,
    target: f32,
    curvature: f32,
    batches: u32,
}

impl Nudge {
    pub(crate) fn new(weights: usize, target: f32, curvature: f32) -> Self {
        let layout = Layout::new([("nudge".to_owned(), weights)]);
        Self { layout, target, curvature, batches: 0 }
    }
}

impl Learner for Nudge {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn initial(&self) -> Vector {
        vec![2.0; self.layout.size()].into()
    }
    fn load(&mut self, _: &Batch) -> Result<(), StepError> {
        self.batches += 1;
        Ok(())
    }
    fn forward(&mut self, _: &Vector, _: usize) -> Result<(), StepError> {
        Ok(())
    }
    fn loss(&mut self, _: &Batch) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }
    fn backward(&mut self, weights: &Vector, _: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        for (g, w) in gradient.iter_mut().zip(weights.iter()) {
            *g = if self.batches == 1 { w - self.target } else { self.curvature * w };
        }
        Ok(())
    }
    fn take_activations(&mut self) -> Result<Block, StepError> {
        Ok(Block::default())
    }
    fn put_activations(&mut self, _: Block) -> Result<(), StepError> {
        Ok(())
    }
    fn set_examples(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }

    fn shard_layer(&mut self, _: usize, _: usize, _: usize) -> Result<(), StepError> {
        Err(StepError::Learner("has no outputs to cut".into()))
    }
}

/// Where the workers of the worked example are after their first step; the centre is at 2.
pub(crate) const TARGETS: [f32; 4] = [0.0, 4.0, 8.0, 20.0];

/// The size of a run.
pub(crate) struct Size {
    /// Steps of each worker.
    pub(crate) steps: u64,
    /// Weights of the model.
    pub(crate) weights: usize,
}

/// A run of `targets.len()` workers for `steps` steps each, at rate 1.
pub(crate) fn nudged(
    strategy: Strategy,
    targets: &[f32],
    curvature: f32,
    size: Size,
    world: World,
) -> WorldOutcome {
    let Size { steps, weights } = size;
    let mut scene = Scene::new(strategy, targets.len() as u32).change(|spec| {
        spec.train.optimizer.lr = 1.0;
        spec.train.length = Extent::Steps(steps);
    });
    scene.world = world;
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), weights);
    let learner =
        |rank: Rank| Box::new(Nudge::new(weights, targets[rank.index()], curvature)) as Box<dyn Learner>;
    scene.world.run(&blueprint, learner).unwrap()
}

fn of(outcome: &WorldOutcome, rank: usize) -> f32 {
    outcome.ranks[rank].model()[0]
}

/// Halves add exactly for as many exchanges as there are: whatever the order, nothing is lost between the workers and
/// the centre.
#[test]
fn workers_and_centre_conserve_their_sum_under_any_interleaving() {
    for kind in
        [original, locked, at_once, hogwild, |a| Strategy::EasgdOriginal { moving_rate: a, overlap: false }]
    {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let costs = Costs { forward: vec![Nanos(30_000)], update: 4.0, code: 0.1, ..Costs::default() };
            let world = World { jitter: 1.0, costs, ..World::new(seed) };
            let outcome =
                nudged(kind(fixed(0.5)), &TARGETS[1..], 0.0, Size { steps: 4, weights: 10_000 }, world);
            for i in [0, 5_000, 9_999] {
                let sum: f32 = outcome.ranks.iter().map(|rank| rank.model()[i]).sum();
                assert_eq!(
                    sum.to_bits(),
                    34.0_f32.to_bits(),
                    "{:?}, seed {seed}, weight {i}",
                    kind(fixed(0.5))
                );
            }
            seen.insert(updates(&outcome, 3).iter().map(|update| update.worker).collect::<Vec<_>>());
        }
        let free = !matches!(kind(fixed(0.5)), Strategy::EasgdOriginal { .. });
        assert!(seen.len() > 5 || !free, "only {} orders were tried", seen.len());
    }
}

#[test]
fn at_moving_rate_1_one_worker_and_the_centre_swap() {
    for kind in [original, locked, at_once, hogwild, with_momentum] {
        for (steps, expected) in [(1, (8.0, 2.0)), (2, (2.0, 8.0)), (3, (8.0, 2.0))] {
            // With momentum the worker would roll on: it is nudged by nothing.
            let target = if kind(fixed(1.0)) == with_momentum(fixed(1.0)) { 2.0 } else { 8.0 };
            let outcome = nudged(kind(fixed(1.0)), &[target], 0.0, Size { steps, weights: 3 }, World::new(1));
            let expected = if target.to_bits() == 2.0_f32.to_bits() { (2.0, 2.0) } else { expected };
            assert_eq!((of(&outcome, 0), of(&outcome, 1)), expected, "{:?}, {steps} steps", kind(fixed(1.0)));
        }
    }
}

/// Six steps by hand on h x^2 / 2 with rate * h = 1/2, momentum 1/2 and moving rate 1/4, from x = c = 1.
fn table(strategy: Strategy, expected: [(f32, f32); 6]) {
    for (steps, expected) in (1..).zip(expected) {
        let scene = Scene::new(strategy.clone(), 1).change(|spec| {
            spec.train.optimizer.lr = 0.5;
            spec.train.length = Extent::Steps(steps);
        });
        let blueprint = Blueprint::new(&scene.spec, scene.plan(), 1);
        let learner = |_| Box::new(strategies::toy::Quadratic::new(1.0, vec![1.0], 1)) as Box<dyn Learner>;
        let outcome = scene.world.run(&blueprint, learner).unwrap();
        assert_eq!((of(&outcome, 0), of(&outcome, 1)), expected, "{strategy:?}, step {steps}");
    }
}

#[test]
fn the_pull_is_no_part_of_the_velocity() {
    let expected = TABLE;
    table(with_momentum(fixed(0.25)), expected);
    table(eamsgd(false, 1), expected);
}

#[test]
fn a_gradient_ahead_is_another_table() {
    table(eamsgd(true, 1), AHEAD);
}

const TABLE: [(f32, f32); 6] = [
    (1.0 / 2.0, 1.0),
    (1.0 / 8.0, 7.0 / 8.0),
    (0.0 / 1.0, 11.0 / 16.0),
    (1.0 / 64.0, 33.0 / 64.0),
    (7.0 / 128.0, 25.0 / 64.0),
    (35.0 / 512.0, 157.0 / 512.0),
];
const AHEAD: [(f32, f32); 6] = [
    (1.0 / 2.0, 1.0),
    (1.0 / 4.0, 7.0 / 8.0),
    (3.0 / 16.0, 23.0 / 32.0),
    (11.0 / 64.0, 75.0 / 128.0),
    (39.0 / 256.0, 247.0 / 512.0),
    (131.0 / 1024.0, 819.0 / 2048.0),
];

/// Local steps of each worker count, not those of all; and exactly the samples of the budget are computed.
#[test]
fn a_period_counts_the_workers_own_steps() {
    let moving_rate = fixed(0.25);
    for period in [1, 3, 100] {
        counts_its_own_steps(eamsgd(false, period), period);
        counts_its_own_steps(Strategy::EasgdAsync { moving_rate, period, serve: Serve::One }, period);
        counts_its_own_steps(Strategy::EasgdHogwild { moving_rate, period }, period);
        counts_its_own_steps(
            Strategy::MeasgdAsync { moving_rate, momentum: 0.5, period, serve: Serve::One },
            period,
        );
    }
}

fn counts_its_own_steps(strategy: Strategy, period: u64) {
    let outcome = scene(strategy, 3, 2, 2).run();
    let mut computed = 0;
    let mut counts = vec![];
    for k in 0..3 {
        let steps = outcome.ranks[k].steps(LaneId::Compute);
        let own: u64 = steps.iter().map(|step| u64::from(step.own_samples)).sum();
        let count = steps.iter().filter(|step| !step.drain).count() as u64;
        computed += own;
        counts.push(count);
        for server in [3, 4] {
            let met: Vec<u64> = updates(&outcome, server)
                .iter()
                .filter(|update| update.worker.index() == k)
                .map(|update| update.step)
                .collect();
            assert!(met.iter().zip((1..).step_by(period as usize)).all(|(a, b)| *a == b), "{met:?}");
            assert_eq!(met.len() as u64, count.div_ceil(period), "worker {k}, period {period}");
        }
    }
    // Worker 1 is slow. In one block for all, everybody does as much.
    assert!(counts[1] < counts[0] || period == 100, "{counts:?}");
    // 10 samples in 3 shares of 4, 3 and 3, which overshoot by less than one each.
    assert!((200..210).contains(&computed), "period {period}: {computed}");
}

#[test]
fn every_lane_is_tiled_and_its_named_phases_cover_everything() {
    for strategy in [original(fixed(0.25)), locked(fixed(0.25)), hogwild(fixed(0.25)), eamsgd(true, 2)] {
        let outcome = scene(strategy.clone(), 3, 1, 5).run();
        for (rank, lane) in lanes(&outcome) {
            let mut at = Nanos(0);
            for step in outcome.ranks[rank.index()].steps(lane) {
                assert_eq!(
                    (step.begin, step.phases[Phase::Other]),
                    (at, Nanos(0)),
                    "{strategy:?}, rank {rank}"
                );
                at += step.length;
            }
        }
    }
}

/// Without a lock exchanges of several workers take place at once, so that the run is shorter.
#[test]
fn exchanges_without_a_lock_overlap() {
    let time = |strategy| {
        let costs = Costs { forward: vec![Nanos(30_000)], update: 20.0, ..Costs::default() };
        nudged(strategy, &TARGETS, 0.0, Size { steps: 10, weights: 10_000 }, World { costs, ..World::new(3) })
            .time
    };
    // With the lock alone transfers overlap as well, and only the updates do not.
    assert!(time(hogwild(fixed(0.125))) < time(at_once(fixed(0.125))));
    assert!(time(at_once(fixed(0.125))) < time(locked(fixed(0.125))));
}

/// A constant schedule gives plain SGD where no centre draws: the centre is no part of it.
#[test]
fn without_a_pull_a_worker_is_plain_sgd() {
    for strategy in [original(fixed(0.0)), locked(fixed(0.0)), at_once(fixed(0.0)), hogwild(fixed(0.0))] {
        let scene =
            scene(strategy.clone(), 1, 1, 1).change(|spec| spec.train.schedule.shape = LrShape::Constant);
        let outcome = scene.run();
        let plan = scene.plan();
        let mut learner = scene.learner();
        let mut w = learner.initial();
        for t in 1..=20 {
            let g = gradient(&mut learner, &w, &plan.sampler.batch(t, 0));
            for (w, g) in w.iter_mut().zip(g) {
                *w += -plan.learning_rate.at(0) * (g + scene.spec.train.optimizer.weight_decay * *w);
            }
        }
        assert_eq!(outcome.ranks[0].model().sha256(), w.sha256(), "{strategy:?}");
    }
}
