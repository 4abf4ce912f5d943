//! A server without locks: no update is lost, and reads are torn.

use crate::asynchronous::{scene, updates};
use recipe::{Extent, Serve, Strategy};
use record::{Nanos, Rank};
use std::collections::BTreeSet;
use strategies::sim::{Costs, World, WorldOutcome};
use strategies::{Batch, Block, Blueprint, Layout, Learner, Loss, StepError, Vector};

/// More than two grains of a server's work, so that lanes come between the pieces of each other's updates.
const WEIGHTS: usize = 10_000;

/// A gradient that does not depend on the weights: of worker k it is k + 1 everywhere. It remembers the weights that
/// it was shown.
struct Steady {
    layout: Layout,
    gradient: f32,
    /// Where the gradient is not zero.
    support: std::ops::Range<usize>,
    torn: std::sync::Arc<std::sync::Mutex<BTreeSet<Vec<u32>>>>,
}

impl Learner for Steady {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn initial(&self) -> Vector {
        Vector::zeros(WEIGHTS)
    }
    fn load(&mut self, _: &Batch) -> Result<(), StepError> {
        Ok(())
    }
    fn forward(&mut self, weights: &Vector, _: usize) -> Result<(), StepError> {
        let seen: BTreeSet<u32> = weights.iter().map(|w| w.to_bits()).collect();
        self.torn.lock().unwrap().insert(seen.into_iter().collect());
        Ok(())
    }
    fn loss(&mut self, _: &Batch) -> Result<Loss, StepError> {
        Ok(Loss(0.0))
    }
    fn backward(&mut self, _: &Vector, _: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        gradient.fill(0.0);
        gradient[self.support.clone()].fill(self.gradient);
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

/// The run, and whether a worker ever saw weights of different moments.
fn steady(strategy: Strategy, seed: u64) -> (WorldOutcome, bool) {
    steady_on(strategy, seed, |rank| (rank.0 as f32 + 1.0, 0..WEIGHTS))
}

/// The same with other gradients.
fn steady_on(
    strategy: Strategy,
    seed: u64,
    of: fn(Rank) -> (f32, std::ops::Range<usize>),
) -> (WorldOutcome, bool) {
    let mut scene = scene(strategy, 4, 1, seed).change(|spec| {
        spec.train.optimizer.weight_decay = 0.0;
        spec.train.optimizer.lr = 0.25;
        spec.train.schedule.shape = recipe::LrShape::Constant;
        spec.train.length = Extent::Steps(10);
    });
    scene.world = World {
        jitter: 1.0,
        costs: Costs { forward: vec![Nanos(30_000)], update: 4.0, code: 0.1, ..Costs::default() },
        ..World::new(seed)
    };
    let torn = std::sync::Arc::default();
    let learner = |rank: Rank| {
        let layout = Layout::new([("steady".to_owned(), WEIGHTS)]);
        let (gradient, support) = of(rank);
        Box::new(Steady { layout, gradient, support, torn: std::sync::Arc::clone(&torn) }) as Box<dyn Learner>
    };
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), WEIGHTS);
    let outcome = scene.world.run(&blueprint, learner).unwrap();
    let torn = torn.lock().unwrap().iter().any(|values| values.len() > 1);
    (outcome, torn)
}

/// Eighths add exactly, in any order: the weights are minus the rate times the sum of all gradients.
#[test]
fn what_was_applied_is_conserved_under_any_interleaving() {
    let mut orders = BTreeSet::new();
    let mut tears = 0;
    for seed in 0..30 {
        let (outcome, torn) = steady(Strategy::HogwildSgd { staleness_bound: None }, seed);
        let updates = updates(&outcome, 4);
        let sum: f32 = updates.iter().map(|update| update.worker.0 as f32 + 1.0).sum();
        assert!(
            outcome.ranks[4].model().iter().all(|w| w.to_bits() == (-0.25 * sum).to_bits()),
            "seed {seed}"
        );
        orders.insert(updates.iter().map(|update| update.worker).collect::<Vec<_>>());
        tears += u32::from(torn);
    }
    assert!(orders.len() > 20, "only {} orders were tried", orders.len());
    assert!(tears > 20, "only {tears} runs had readings of no single moment");
}

/// Each worker's gradient lies in a part of its own: whatever the order of the workers, each part is what that worker
/// alone makes of it, to the bit, though no addition is exact.
#[test]
fn disjoint_gradients_are_sequential_sums() {
    fn of(rank: Rank) -> (f32, std::ops::Range<usize>) {
        (0.1 * (rank.0 + 1) as f32, strategies::vector::piece(WEIGHTS, 4, rank.index()))
    }
    for seed in 0..10 {
        let (outcome, torn) = steady_on(Strategy::HogwildSgd { staleness_bound: None }, seed, of);
        let updates = updates(&outcome, 4);
        for rank in (0..4).map(Rank) {
            let (gradient, support) = of(rank);
            let own = updates.iter().filter(|update| update.worker == rank);
            let expected = own.fold(0.0_f32, |w, _| w - 0.25 * gradient);
            let same = |w: &f32| w.to_bits() == expected.to_bits();
            assert!(outcome.ranks[4].model()[support].iter().all(same), "seed {seed}, worker {rank}");
        }
        assert!(torn, "seed {seed}: no other lane came between");
    }
}

/// The same with a lock: no reading is torn, or the test above could not tell.
#[test]
fn a_lock_shows_weights_of_one_moment() {
    for seed in 0..10 {
        let (outcome, torn) = steady(Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None }, seed);
        let sum: f32 = updates(&outcome, 4).iter().map(|update| update.worker.0 as f32 + 1.0).sum();
        assert!(
            !torn && outcome.ranks[4].model().iter().all(|w| w.to_bits() == (-0.25 * sum).to_bits()),
            "seed {seed}"
        );
    }
}

/// Without a lock updates of several workers take place at once, so that the run is shorter.
#[test]
fn updates_without_a_lock_overlap() {
    let time = |strategy| steady(strategy, 3).0.time;
    let locked = time(Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None });
    assert!(time(Strategy::HogwildSgd { staleness_bound: None }) < locked);
}
