//! A thousand ranks in one world: what grows with their number stays bounded.

use crate::scene::Scene;
use recipe::{Extent, Serve, Strategy};
use record::{LaneId, Rank};
use strategies::gossip::Rounds;

const WORKERS: u32 = 1024;
const SAMPLES: u32 = 60_000;

/// Workers at their own pace each pass through all samples in an order of their own. An order costs a pass over the samples, so
/// it is drawn once per worker and pass, never per batch.
#[test]
fn a_thousand_asynchronous_workers_draw_one_order_each() {
    const STEPS: u64 = 3;
    let mut scene = Scene::new(Strategy::AsyncSgd { serve: Serve::All, staleness_bound: Some(2) }, WORKERS)
        .widths(&[3, 2])
        .change(|spec| {
            spec.train.global_batch = 2 * WORKERS;
            spec.train.length = Extent::Steps(STEPS);
            spec.train.evaluate = Extent::Steps(STEPS);
        });
    scene.spec.measure.hash_every_step = false;
    scene.samples = SAMPLES;
    let blueprint = scene.blueprint();
    let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
    assert_eq!(blueprint.plan().sampler.partition().shuffles(), u64::from(WORKERS));
    let own = |rank: Rank| outcome.ranks[rank.index()].steps(LaneId::Compute);
    let used: u64 =
        (0..WORKERS).flat_map(|rank| own(Rank(rank))).map(|step| u64::from(step.own_samples)).sum();
    assert_eq!(used, STEPS * 2 * u64::from(WORKERS));
}

/// Batches across the ends of passes, of workers that take turns: each pass of each worker is one order.
#[test]
fn a_pass_is_drawn_once_even_where_batches_cross_its_end() {
    let mut scene = Scene::new(Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None }, 5)
        .change(|spec| spec.train.global_batch = 35);
    scene.samples = 10;
    let plan = scene.plan();
    // Ten steps of 7 samples are 7 passes over the ten.
    for step in 1..=10 {
        (0..5).for_each(|worker| assert_eq!(plan.sampler.batch(step, worker).examples.len(), 7));
    }
    assert_eq!(plan.sampler.partition().shuffles(), 5 * 7);
}

/// The exponential graphs are a formula: a rank of a million has its one receiver and its two senders, itself included.
#[test]
fn the_graph_of_a_million_ranks_is_a_formula() {
    let rounds = Rounds::exponential(1_000_000);
    assert_eq!(rounds.receivers(1, 999_999), [0]);
    assert_eq!(rounds.receivers(20, 0), [524_288]);
    assert_eq!(rounds.receivers(21, 7), [8]);
    assert_eq!(rounds.senders(20, 0), [0, 475_712]);
}
