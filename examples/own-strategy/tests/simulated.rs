// Lazy SGD in the simulator: seeds and stragglers change nothing, and a period of 1 is D-Sync to the bit.

use own_strategy::registry;
use recipe::{Extent, Strategy};
use std::sync::Arc;
use strategies::sim::{Outcome, World, sample_spec_of};
use strategies::toy::Perceptron;
use strategies::{Blueprint, Learner, SamplePartition, TrainingPlan};

const WORKERS: u32 = 4;

fn lazy(period: f64) -> Strategy {
    Strategy::Custom { name: "lazy-sgd".into(), settings: [("period".to_owned(), period)].into() }
}

fn run(strategy: Strategy, seed: u64) -> Outcome {
    let mut spec = sample_spec_of(strategy, WORKERS);
    spec.train.length = Extent::Steps(12);
    let plan = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..1000).collect()));
    let learner = Perceptron::new(&[6, 8, 4]);
    let blueprint = Blueprint::new(&spec, Arc::new(plan), learner.layout().size()).with_registry(registry());
    let mut world = World::new(seed);
    world.jitter = 1.0;
    world.run(&blueprint, |_| Box::new(learner.clone())).expect("the run ends")
}

fn models(outcome: &Outcome) -> Vec<Vec<u32>> {
    let bits = |model: &[f32]| model.iter().map(|weight| weight.to_bits()).collect();
    outcome.ranks.iter().map(|rank| bits(rank.model())).collect()
}

#[test]
fn a_period_of_one_is_d_sync_to_the_bit() {
    assert_eq!(models(&run(lazy(1.0), 1)), models(&run(Strategy::DSync, 1)));
}

#[test]
fn all_workers_end_with_the_same_weights_whatever_the_interleaving() {
    let first = models(&run(lazy(5.0), 1));
    assert!(first.iter().all(|model| *model == first[0]));
    assert!((2..6).all(|seed| models(&run(lazy(5.0), seed)) == first));
    assert_ne!(first, models(&run(lazy(1.0), 1)));
}

#[test]
fn a_missing_setting_and_an_unknown_name_are_errors_that_say_so() {
    let fails = |name: &str| {
        let strategy = Strategy::Custom { name: name.into(), settings: [].into() };
        let spec = sample_spec_of(strategy, WORKERS);
        let plan = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..100).collect()));
        let learner = Perceptron::new(&[6, 4]);
        let blueprint =
            Blueprint::new(&spec, Arc::new(plan), learner.layout().size()).with_registry(registry());
        let ran = World::new(1).run(&blueprint, |_| Box::new(learner.clone()));
        ran.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(fails("lazy-sgd").contains("`period`"));
    assert!(fails("eager-sgd").contains("lazy-sgd"));
}
