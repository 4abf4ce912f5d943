//! Pipe-SGD against a plain re-implementation, closed forms of its trajectory and of its time.

use crate::reference::{Sgd, mean_gradient};
use crate::scene::{Scene, common_digests};
use recipe::{Codec, Extent, LrShape, Strategy};
use record::{Event, LaneId, Nanos, Phase, Rank, StepRecord};
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, HalvingDoubling, PipelinedRing, RankOrder, Ring, Tree};
use strategies::rng::mix;
use strategies::sim::{Costs, Link, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Batch, Blueprint, Layout, Learner, Loss, StepError, Vector};

fn pipe(depth: u32, warmup: u64, segments: u32) -> Strategy {
    Strategy::PipeSgd { depth, warmup: Extent::Steps(warmup), segments }
}

/// A pipe that changes its rate every third step, with momentum and decay, on unequal shares.
fn scene(strategy: Strategy, workers: u32) -> Scene {
    Scene::new(strategy, workers).rank_order().change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(12);
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(3), factor: 0.5 };
    })
}

/// Algorithm 1 with one loop: the weights after each step, and after the drain.
fn reference(scene: &Scene, depth: usize, warmup: u64) -> Vec<Vector> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let mut w = learner.initial();
    let mut sgd = Sgd::new(scene, w.len());
    let mut pipe = Vec::<Vec<f32>>::new();
    let mut trajectory = vec![w.clone()];
    let rate = |t: u64| plan.learning_rate.at(plan.budget.samples_after(t - 1));
    for t in 1..=plan.budget.steps() {
        if t <= warmup {
            let g = mean_gradient(&mut learner, &plan, &w, t);
            sgd.step(&mut w, &g, rate(t));
        } else {
            if pipe.len() == depth {
                sgd.step(&mut w, &pipe.remove(0), rate(t));
            }
            pipe.push(mean_gradient(&mut learner, &plan, &w, t));
        }
        trajectory.push(w.clone());
    }
    for g in pipe {
        sgd.step(&mut w, &g, rate(plan.budget.steps() + 1));
    }
    trajectory.pop();
    trajectory.push(w);
    trajectory
}

fn check(scene: &Scene, expected: &[Vector], what: &str) {
    let outcome = scene.run();
    for (rank, outcome) in outcome.ranks.iter().enumerate() {
        for (t, w) in expected.iter().enumerate() {
            assert_eq!(outcome.weights[&(t as u64)].sha256(), w.sha256(), "{what}, rank {rank}, step {t}");
        }
    }
}

#[test]
fn the_pipe_is_its_reference_bit_for_bit() {
    for workers in 1..=4 {
        for depth in 1..=4 {
            for warmup in [0, 1, 5, 11] {
                let scene = scene(pipe(depth, warmup, 1), workers);
                let expected = reference(&scene, depth as usize, warmup);
                check(&scene, &expected, &format!("p = {workers}, K = {depth}, warm-up {warmup}"));
            }
        }
    }
}

#[test]
fn segments_change_no_bit() {
    let expected = reference(&scene(pipe(2, 3, 1), 3), 2, 3);
    // The model has 92 weights in layers of 56 and 36: segments that are layers, parts of them, or cut across.
    for segments in [2, 3, 4, 7, 91, 92, 200] {
        check(&scene(pipe(2, 3, segments), 3), &expected, &format!("{segments} segments"));
    }
}

#[test]
fn a_depth_of_1_is_d_sync_one_step_late() {
    for ranks in 1..=4 {
        // At a constant rate: that of an update is the one of its own time.
        let run = |strategy| {
            scene(strategy, ranks).change(|spec| spec.train.schedule.shape = LrShape::Constant).run()
        };
        let late = run(pipe(1, 0, 1));
        let on_time = run(Strategy::DSync);
        let late = &late.ranks[0].weights;
        let on_time = &on_time.ranks[0].weights;
        for t in 1..12 {
            assert_eq!(late[&t].sha256(), on_time[&(t - 1)].sha256(), "{ranks} ranks, step {t}");
        }
        // The last gradient is drained.
        assert_eq!(late[&12].sha256(), on_time[&12].sha256());
    }
}

#[test]
fn a_warm_up_is_d_sync_and_its_last_gradient_is_applied() {
    let piped = scene(pipe(2, 4, 1), 3).run();
    let on_time = scene(Strategy::DSync, 3).run();
    let piped = &piped.ranks[0].weights;
    let on_time = &on_time.ranks[0].weights;
    for t in 0..=4 {
        assert_eq!(piped[&t].sha256(), on_time[&t].sha256(), "step {t}");
    }
    // The pipe starts empty: two steps compute at the weights that the warm-up ended with.
    assert_eq!(piped[&5].sha256(), on_time[&4].sha256());
    assert_eq!(piped[&6].sha256(), on_time[&4].sha256());
    assert_ne!(piped[&7].sha256(), on_time[&4].sha256());
}

/// The loss h w^2 / 2 with rate eta, on two workers.
fn quadratic(depth: u32, eta_h: f32, steps: u64) -> WorldOutcome {
    let scene = Scene::new(pipe(depth, 0, 1), 2).change(|spec| {
        spec.train.optimizer.lr = eta_h;
        spec.train.length = Extent::Steps(steps);
    });
    let learner = || Quadratic::new(1.0, vec![1.0; 5], 1);
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), learner().layout().size());
    scene.world.run(&blueprint, |_| Box::new(learner())).unwrap()
}

#[test]
fn a_depth_of_2_has_period_6_at_its_limit() {
    let expected: [(u32, &[f32]); 3] = [
        (1, &[1.0, 0.0, 0.0, 0.0]),
        (2, &[1.0, 1.0, 0.0, -1.0, -1.0, 0.0, 1.0, 1.0, 0.0, -1.0, -1.0, 0.0, 1.0]),
        (3, &[1.0, 1.0, 1.0, 0.0, -1.0, -2.0, -2.0, -1.0, 1.0, 3.0, 4.0, 3.0]),
    ];
    for (depth, iterates) in expected {
        let outcome = quadratic(depth, 1.0, iterates.len() as u64 + 1);
        let seen: Vec<f32> = (1..=iterates.len() as u64).map(|t| outcome.ranks[1].weights[&t][0]).collect();
        assert_eq!(seen, iterates, "depth {depth}");
    }
}

#[test]
fn a_depth_of_2_is_stable_below_1_and_d_sync_below_2() {
    for (depth, limit) in [(1, 2.0), (2, 1.0)] {
        let end = |eta_h: f32| quadratic(depth, eta_h, 600).ranks[0].model()[0].abs();
        assert!(end(limit * 0.97) < 1e-3, "K = {depth}: {}", end(limit * 0.97));
        assert!(end(limit * 1.03) > 1e3, "K = {depth}: {}", end(limit * 1.03));
    }
}

#[test]
fn what_still_travels_is_drained_and_marked() {
    for depth in 1..=4 {
        let outcome = scene(pipe(depth, 0, 1), 2).run();
        let steps = outcome.ranks[1].steps(LaneId::Compute);
        assert_eq!(steps.len(), 13);
        let (drain, steps) = steps.split_last().unwrap();
        assert!(steps.iter().all(|step| !step.drain && step.loss.is_some() && step.own_samples == 5));
        assert!(drain.drain && drain.loss.is_none() && drain.own_samples == 0 && drain.samples == 120);
    }
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit() {
    let run = |seed, jitter, slow| {
        let mut scene = scene(pipe(3, 2, 3), 4).seed(seed);
        scene.world.jitter = jitter;
        scene.world.slow.insert(Rank(2), slow);
        scene.world.costs = Costs {
            forward: vec![Nanos(700), Nanos(300)],
            backward: vec![Nanos(900), Nanos(500)],
            update: 1.0,
            reduce: 2.0,
            ..Costs::default()
        };
        common_digests(&scene.run())
    };
    let quiet = run(1, 0.0, 1.0);
    assert!((2..20).all(|seed| run(seed, 0.7, 8.0) == quiet));
}

/// Two workers, 100 weights in two equal layers; forward 40 us, backward 60 us, update 10 us.
fn timed(strategy: Strategy, nanos_per_byte: f64) -> Vec<StepRecord> {
    let mut scene = Scene::new(strategy, 2).change(|spec| spec.train.length = Extent::Steps(60));
    scene.spec.measure.hash_every_step = false;
    scene.world.link = Link { latency: Nanos(1_000), nanos_per_byte };
    scene.world.costs = Costs {
        forward: vec![Nanos(20_000); 2],
        backward: vec![Nanos(30_000); 2],
        update: 100.0,
        ..Costs::default()
    };
    let learner = || Quadratic::new(1.0, vec![1.0; 100], 2);
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), 100);
    let outcome = scene.world.run(&blueprint, |_| Box::new(learner())).unwrap();
    outcome.ranks[0].steps(LaneId::Compute).into_iter().skip(40).take(10).cloned().collect()
}

const COMPUTE: u64 = 100_000;
const UPDATE: u64 = 10_000;

/// Two rounds of a ring of two; a chunk of 200 bytes leaves one card while it enters the other.
fn ring(chunk_bytes: u64, nanos_per_byte: u64) -> u64 {
    2 * (1_000 + chunk_bytes * nanos_per_byte)
}

#[test]
fn a_step_takes_the_longer_of_computing_and_communicating_and_of_d_sync_both() {
    for nanos_per_byte in [10, 100, 250, 270, 300, 400, 1_000] {
        let communicate = ring(200, nanos_per_byte);
        for depth in 2..=4 {
            for step in timed(pipe(depth, 0, 1), nanos_per_byte as f64) {
                let expected = communicate.max(COMPUTE + UPDATE);
                assert_eq!(step.length, Nanos(expected), "K = {depth}, {nanos_per_byte} ns per byte");
                // The exposed time is waiting for the other lane, and nothing else.
                assert_eq!(step.phases.exposed(), step.phases[Phase::WaitLane]);
                assert_eq!(step.phases.exposed(), Nanos(expected - COMPUTE - UPDATE));
            }
        }
        for strategy in [Strategy::DSync, pipe(1, 0, 1)] {
            for step in timed(strategy.clone(), nanos_per_byte as f64) {
                assert_eq!(step.length, Nanos(COMPUTE + UPDATE + communicate), "{strategy:?}");
            }
        }
    }
}

/// Equation 6 at K = 1, where nothing else overlaps: the first of two segments leaves after half of the backward
/// pass, and both pay the latency.
#[test]
fn segments_leave_while_the_backward_pass_goes_on() {
    for nanos_per_byte in [10, 140, 145, 500] {
        let half = ring(100, nanos_per_byte);
        let expected = 40_000 + 30_000 + half.max(30_000) + half + UPDATE;
        for step in timed(pipe(1, 0, 2), nanos_per_byte as f64) {
            assert_eq!(step.length, Nanos(expected), "{nanos_per_byte} ns per byte");
        }
    }
    // A pipe that communicates all the time only pays for the latency: Equation 5 is less than Equation 6.
    let one = timed(pipe(2, 0, 1), 1_000.0);
    let five = timed(pipe(2, 0, 5), 1_000.0);
    assert_eq!(five[5].length - one[5].length, Nanos(4 * 2 * 1_000));
}

#[test]
fn the_communication_lane_is_in_the_books() {
    let outcome = scene(pipe(2, 2, 1), 2).run();
    let turns = outcome.ranks[0].steps(LaneId::Communication);
    let turns: Vec<_> = turns.iter().filter(|turn| !turn.drain).collect();
    assert_eq!(turns.len(), 12, "one all-reduce for each step, and for those of the warm-up");
    assert!(turns.iter().all(|turn| turn.bytes_out == 4 * 92));
    let sends = |event: &Event| matches!(event, Event::Step(step) if step.lane == LaneId::Compute && step.bytes_out > 0);
    assert!(!outcome.ranks[0].events.iter().any(sends), "one lane sends, so that one codec remembers");
}

/// A gradient of integers below 2^14 for some steps, whatever the weights, and zeros after them.
struct Fading {
    layout: Layout,
    g: Vec<f32>,
    steps: u64,
}

impl Fading {
    fn new(rank: Rank, steps: u64) -> Self {
        let sizes = [17, 28].map(|size| (format!("layer of {size}"), size));
        let g = (0..45).map(|i| (mix(u64::from(rank.0), i) % 20_001) as f32 - 10_000.0).collect();
        Self { layout: Layout::new(sizes), g, steps: steps + 1 }
    }
}

impl Learner for Fading {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn initial(&self) -> Vector {
        Vector::zeros(self.g.len())
    }
    fn load(&mut self, _: &Batch) -> Result<(), StepError> {
        self.steps = self.steps.saturating_sub(1);
        Ok(())
    }
    fn forward(&mut self, _: &Vector, _: usize) -> Result<(), StepError> {
        Ok(())
    }
    fn loss(&mut self, _: &Batch) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }
    fn backward(&mut self, _: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let g = &self.g[self.layout.span(layer..layer + 1)];
        gradient.iter_mut().zip(g).for_each(|(to, g)| *to = if self.steps > 0 { *g } else { 0.0 });
        Ok(())
    }
    fn take_activations(&mut self) -> Result<strategies::vector::Block, StepError> {
        Ok(strategies::vector::Block::default())
    }
    fn put_activations(&mut self, _: strategies::vector::Block) -> Result<(), StepError> {
        Ok(())
    }
    fn set_examples(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }

    fn shard_layer(&mut self, _: usize, _: usize, _: usize) -> Result<(), StepError> {
        Err(StepError::Learner("nothing to cut".into()))
    }
}

/// The gradients end with the warm-up; what was rounded away of them arrives with the zeros that are piped.
#[test]
fn what_a_codec_remembers_of_the_warm_up_arrives_in_the_pipe() {
    const WARMUP: u64 = 3;
    let collectives: [Arc<dyn CollectiveAlgorithm>; 5] = [
        Arc::new(Ring),
        Arc::new(RankOrder),
        Arc::new(PipelinedRing::new(2)),
        Arc::new(Tree),
        Arc::new(HalvingDoubling),
    ];
    for (number, collective) in collectives.iter().enumerate() {
        // A mean over 2 or 4 ranks is exact.
        for (workers, segments) in [(2, 1), (2, 3), (4, 1), (4, 3), (4, 7)] {
            let scene = Scene::new(pipe(2, WARMUP, segments), workers).coded(Codec::Truncate16, true).change(
                |spec| {
                    spec.train.optimizer.lr = 1.0;
                    spec.train.length = Extent::Steps(WARMUP + 6);
                },
            );
            let blueprint = Blueprint::new(&scene.spec, scene.plan(), 45).with_collective(collective.clone());
            let learner = |rank| Box::new(Fading::new(rank, WARMUP)) as Box<dyn Learner>;
            let outcome = scene.world.run(&blueprint, learner).unwrap();
            let what = format!("collective {number}, {workers} workers, {segments} segments");
            let due: Vec<f32> = (0..45)
                .map(|i| {
                    let sum: f32 = (0..workers).map(|rank| Fading::new(Rank(rank), 0).g[i]).sum();
                    -(WARMUP as f32) * sum / workers as f32
                })
                .collect();
            assert_ne!(outcome.ranks[0].weights[&WARMUP].to_vec(), due, "{what}: nothing was rounded");
            assert_eq!(outcome.ranks[0].model().to_vec(), due, "{what}");
        }
    }
}
