// Lazy SGD in the simulator: seeds and stragglers change nothing, and a period of 1 is D-Sync to the bit. The codec rounds to the
// nearest power of two, and all workers decode the same.

use own_strategy::powers_of_two::PowersOfTwo;
use own_strategy::registry;
use recipe::{Codec, Collective, Compression, CustomCodec, Extent, RunSpec, Strategy};
use record::Rank;
use std::sync::Arc;
use strategies::compress::{Compressor, Slot};
use strategies::sim::{WorldOutcome, World, WorldError, sample_spec_of};
use strategies::toy::Perceptron;
use strategies::{Blueprint, Kind, Learner, SamplePartition, TrainingPlan};

const WORKERS: u32 = 4;

fn lazy(period: f64) -> Strategy {
    Strategy::Custom { name: "lazy-sgd".into(), settings: [("period".to_owned(), period)].into() }
}

fn run(strategy: Strategy, seed: u64) -> WorldOutcome {
    run_spec(sample_spec_of(strategy, WORKERS), seed).expect("the run ends")
}

/// D-Sync under a codec of that name and with these settings.
fn coded(name: &str, settings: &[(&str, f64)]) -> RunSpec {
    let mut spec = sample_spec_of(Strategy::DSync, WORKERS);
    spec.compression = Compression::Coded { codec: Codec::Custom, parameters: false, error_feedback: true };
    spec.custom_codec = Some(CustomCodec {
        name: name.into(),
        settings: settings.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
    });
    spec.communication.collective = Collective::AllGather;
    spec
}

fn run_spec(mut spec: RunSpec, seed: u64) -> Result<WorldOutcome, WorldError> {
    spec.train.length = Extent::Steps(12);
    let plan = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..1000).collect()));
    let learner = Perceptron::new(&[6, 8, 4]);
    let blueprint = Blueprint::new(&spec, Arc::new(plan), learner.layout().size()).with_registry(registry());
    let mut world = World::new(seed);
    world.jitter = 1.0;
    world.run(&blueprint, |_| Box::new(learner.clone()))
}

fn models(outcome: &WorldOutcome) -> Vec<Vec<u32>> {
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
        reason(sample_spec_of(strategy, WORKERS))
    };
    assert!(fails("lazy-sgd").contains("`strategy.settings` has no `period`"));
    assert!(fails("eager-sgd").contains("no strategy `eager-sgd` (it has: lazy-sgd)"));
}

fn reason(spec: RunSpec) -> String {
    run_spec(spec, 1).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn the_same_holds_for_codecs() {
    assert!(reason(coded("powers-of-two", &[])).contains("`compression.settings` has no `least`"));
    assert!(reason(coded("powers-of-two", &[("least", 0.5)])).contains("no whole number"));
    assert!(
        reason(coded("powers-of-three", &[])).contains("no codec `powers-of-three` (it has: powers-of-two)")
    );
}

#[test]
fn all_workers_decode_the_same() {
    let of = |spec, seed| models(&run_spec(spec, seed).expect("the run ends"));
    let rounded = of(coded("powers-of-two", &[("least", -40.0)]), 1);
    assert!(rounded.iter().all(|model| *model == rounded[0]));
    assert_eq!(of(coded("powers-of-two", &[("least", -40.0)]), 2), rounded);
    assert_ne!(models(&run(Strategy::DSync, 1)), rounded);
}

#[test]
fn a_value_becomes_the_nearest_power_of_two() {
    let mut codec = PowersOfTwo::new(-40);
    let slot = Slot { kind: Kind::Push, at: 0, step: 1, peer: Rank(1) };
    let tiny = 2.0_f32.powi(-42);
    let x = [0.0, 1.0, -1.49, 1.5, -3.1, 5e-4, tiny, -tiny, 1e30, f32::INFINITY, f32::NAN];
    let mut y = [9.0; 11];
    let packet = codec.encode(slot, &x);
    assert_eq!((packet.0.len(), codec.elements(&packet)), (11, 11));
    codec.decode(&packet, &mut y).expect("eleven bytes are eleven values");
    let most = 2.0_f32.powi(-40 + 126);
    assert_eq!(y[..10], [0.0, 1.0, -1.0, 2.0, -4.0, 2.0_f32.powi(-11), 0.0, 0.0, most, most]);
    assert!(y[10].is_nan());
    // Every float of the upper bits in the range is within a third.
    for bits in (0x3000_0000..0x5000_0000_u32).step_by(1 << 14) {
        let x = [f32::from_bits(bits), -f32::from_bits(bits)];
        let mut y = [0.0; 2];
        let packet = codec.encode(slot, &x);
        codec.decode(&packet, &mut y).expect("two bytes are two values");
        assert!((y[0] - x[0]).abs() <= x[0] / 3.0 && y[1].to_bits() == (-y[0]).to_bits(), "{} became {}", x[0], y[0]);
    }
    assert!(codec.decode(&packet, &mut [0.0; 10]).is_err());
}
