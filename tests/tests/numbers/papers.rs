//! The recipes of `recipes/papers` and of the straggler in the simulator, where work takes exactly the time that the recipe states, and coding
//! and sums take none: step times are what the papers' formulas say, and a step is as long as every other.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use predict::linear::Linear;
use predict::schedule::{self, LayerTime, StepProfile, TimeLine};
use recipe::{Codec, Compression, ComputeSplit, Extent, Plan, RunSpec, Schedule};
use record::LaneId;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, PipelinedRing, Rates, Ring};
use strategies::sim::{World, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Blueprint, Layout, SamplePartition, TrainingPlan};

/// The specifications of a recipe's arms, by name.
fn arms(recipe: &str) -> BTreeMap<String, RunSpec> {
    let plan = plan(&format!("papers/{recipe}"));
    plan.cells.iter().map(|cell| (plan.arms[cell.arm].name.clone(), cell.spec.clone())).collect()
}

fn plan(recipe: &str) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(recipe);
    e2e::plan_file(&path).unwrap()
}

/// A run of `steps` steps of all workers.
fn run(spec: &RunSpec, steps: u64) -> WorldOutcome {
    let mut spec = spec.clone();
    spec.train.length = Extent::Steps(steps);
    let n = spec.model.parameter_count();
    let layers = spec.model.weighted_layers().len();
    // Whole batches, each as long as every other.
    let samples = (0..10 * spec.train.global_batch).collect();
    let course = Arc::new(TrainingPlan::new(&spec, SamplePartition::shared_by(1, samples)));
    let blueprint = Blueprint::new(&spec, course, n);
    let world = World::new(1).emulating(&spec, 1, layers, n);
    let sizes = spec.model.weighted_layers().into_iter().map(|layer| (layer.name.to_owned(), layer.size()));
    let layout = Layout::new(sizes);
    let learner = |_| {
        Box::new(Quadratic::of_layers(0.01, vec![1.0; n], layout.clone())) as Box<dyn strategies::Learner>
    };
    world.run(&blueprint, learner).unwrap()
}

/// Milliseconds of one step of rank 0, when the first ones are over.
fn step_time(spec: &RunSpec) -> f64 {
    let outcome = run(spec, 7);
    let steps = outcome.ranks[0].steps(LaneId::Compute);
    let before = steps[3];
    let after = steps[5];
    let both = after.begin + after.length - before.begin - before.length;
    both.seconds() * 1e3 / 2.0
}

/// Milliseconds for the bytes of one vector that is not coded, and of a message without bytes.
fn vector_and_latency(spec: &RunSpec) -> (f64, f64) {
    let network = spec.emulation.network.unwrap();
    let bytes = 4 * spec.model.parameter_count();
    (1e3 * bytes as f64 / network.bandwidth as f64, network.latency.as_secs_f64() * 1e3)
}

/// Milliseconds of computing, and of a ring under the arm's codec.
fn computing_and_ring(spec: &RunSpec) -> (f64, f64) {
    let n = spec.model.parameter_count();
    let p = spec.cluster.workers() as usize;
    let (vector, latency) = vector_and_latency(spec);
    let rates = |bytes: f64| Rates { latency, per_element: bytes / 4.0 * vector / n as f64, per_sum: 0.0 };
    let ring = match spec.compression {
        Compression::None => Ring.time(n, p, rates(4.0)),
        // Whole chunks.
        Compression::Coded { codec: Codec::Quantize8, .. } => PipelinedRing::new(1).time(n, p, rates(1.0)),
        Compression::Coded { .. } => PipelinedRing::new(1).time(n, p, rates(2.0)),
    };
    (spec.emulation.compute.unwrap().step_time.as_secs_f64() * 1e3, ring)
}

fn assert_close(what: &str, measured: f64, expected: f64) {
    // A gradient that 4 does not divide, and the scale of a quantized chunk.
    assert!((measured / expected - 1.0).abs() < 2e-4, "{what}: {measured} ms instead of {expected} ms");
}

#[test]
fn where_communicating_takes_as_long_as_computing_a_pipeline_takes_half_the_time() {
    let arms = arms("pipe-sgd-balanced.toml");
    let (computing, ring) = computing_and_ring(&arms["d-sync"]);
    assert!((computing / ring - 1.0).abs() < 1e-3, "{computing} ms and {ring} ms are the same");
    assert_close("d-sync", step_time(&arms["d-sync"]), computing + ring);
    assert_close("pipe-sgd", step_time(&arms["pipe-sgd"]), computing.max(ring));
}

#[test]
fn at_the_papers_ratio_a_coded_pipeline_is_as_much_faster_as_the_paper_says() {
    let arms = arms("pipe-sgd.toml");
    let (computing, ring) = computing_and_ring(&arms["d-sync"]);
    assert!((ring / computing - 2.2).abs() < 0.005, "{ring} ms of {computing} ms");
    let times: BTreeMap<&str, f64> =
        arms.iter().map(|(name, spec)| (name.as_str(), step_time(spec))).collect();
    for (name, spec) in &arms {
        let (computing, ring) = computing_and_ring(spec);
        match spec.strategy {
            recipe::Strategy::DSync => assert_close(name, times[name.as_str()], computing + ring),
            recipe::Strategy::PipeSgd { .. } => assert_close(name, times[name.as_str()], computing.max(ring)),
            _ => assert!(name.starts_with("ps-sync"), "{name}"),
        }
    }
    // Four gradients and the first worker's weights, one after the other.
    let (vector, latency) = vector_and_latency(&arms["ps-sync"]);
    assert_close("ps-sync", times["ps-sync"], computing + 5.0 * vector + 2.0 * latency);
    // The paper's server takes twice as long as its ring.
    assert_close("ps-sync, 2 servers", times["ps-sync, 2 servers"], computing + 2.0 * ring);
    // The paper: 2.0 to 3.2 times as fast as D-Sync and 4.0 to 5.4 times as PS-Sync, for whatever model.
    // T still waits for a ring of half the bytes, Q computes all the time.
    for (coded, least, most) in [("pipe-sgd + T", 2.80, 2.82), ("pipe-sgd + Q", 3.19, 3.21)] {
        let (computing, coded_ring) = computing_and_ring(&arms[coded]);
        let faster = |than: &str| times[than] / times[coded];
        for (than, longer) in [("d-sync", computing + ring), ("ps-sync, 2 servers", computing + 2.0 * ring)] {
            let off = (faster(than) / (longer / computing.max(coded_ring)) - 1.0).abs();
            assert!(off < 0.001, "{coded}: {} times as fast as {than}: {times:?}", faster(than));
        }
        assert!((least..most).contains(&faster("d-sync")) && faster("ps-sync") > 4.0, "{coded}: {times:?}");
    }
}

/// Milliseconds of a step after those that a schedule measures.
fn planned_step_time(spec: &RunSpec) -> f64 {
    let outcome = run(spec, 12);
    outcome.ranks[0].steps(LaneId::Compute)[10].length.seconds() * 1e3
}

#[test]
fn merged_layers_are_as_much_faster_as_the_paper_says() {
    let arms = arms("mg-wfbp.toml");
    let times: BTreeMap<&str, f64> =
        arms.iter().map(|(name, spec)| (name.as_str(), planned_step_time(spec))).collect();
    let slower = |name: &str| times[name] / times["merged"];
    // The paper: 1.2 times as fast as WFBP and 1.36 times as all together.
    assert!((1.15..1.25).contains(&slower("per-layer")), "{times:?}");
    assert!((1.31..1.41).contains(&slower("single")), "{times:?}");
    for (name, time) in &times {
        // Messages of a ring are of whole elements.
        assert!(times["merged-exact"] <= 1.0002 * time, "{name}: {times:?}");
        // Each of up to 20 messages has parts of whole elements.
        let expected = timeline(&arms[*name]);
        assert!((time / expected - 1.0).abs() < 3e-3, "{name}: {time} ms instead of {expected} ms");
    }
}

/// With the layers of the two networks of the paper's figures 7 and 8; ranks that run would take minutes.
#[test]
fn merging_the_layers_of_whole_networks_gains_what_the_paper_says() {
    for recipe in ["mg-wfbp-resnet50.toml", "mg-wfbp-googlenet.toml"] {
        let arms = arms(recipe);
        let times: BTreeMap<&str, f64> =
            arms.iter().map(|(name, spec)| (name.as_str(), timeline(spec))).collect();
        assert_eq!(times.len(), 5, "{recipe}");
        for (name, time) in &times {
            assert!(times["merged-exact"] <= *time, "{recipe}, {name}: {times:?}");
        }
        let slower = |name: &str| times[name] / times["merged"];
        assert!((1.15..1.25).contains(&slower("per-layer")), "{recipe}: {times:?}");
        assert!((1.31..1.41).contains(&slower("single")), "{recipe}: {times:?}");
    }
}

/// Milliseconds of a step by the paper's equations 6 to 8 and 19 to 21.
fn timeline(spec: &RunSpec) -> f64 {
    let (computing, _) = computing_and_ring(spec);
    let ComputeSplit::Given { forward, backward, .. } = spec.emulation.compute.unwrap().split else {
        panic!("the recipe gives the shares of the passes")
    };
    let layers = spec.model.weighted_layers();
    let flops: u64 = layers.iter().map(|layer| layer.flops).sum();
    let time = |layer: &recipe::WeightedLayer<'_>| LayerTime {
        backward: computing * backward * layer.flops as f64 / flops as f64,
        bytes: 4 * layer.size() as u64,
    };
    let times: Vec<LayerTime> = layers.iter().rev().map(time).collect();
    let profile = StepProfile::new(computing * forward, &times).unwrap();
    let (vector, latency) = vector_and_latency(spec);
    let p = f64::from(spec.cluster.workers());
    let hops = 2.0 * (p - 1.0);
    let whole = 4.0 * spec.model.parameter_count() as f64;
    let cost = Linear::new(hops * latency, hops / p * vector / whole).unwrap();
    let grouping = match spec.communication.schedule {
        Schedule::Single => schedule::single(&profile),
        Schedule::PerLayer => schedule::per_layer(&profile),
        Schedule::Fixed { bytes } => schedule::fixed(&profile, bytes),
        Schedule::Merged => schedule::merged(&profile, cost),
        Schedule::MergedExact => schedule::merged_exact(&profile, cost),
    };
    TimeLine::of(&profile, cost, &grouping).unwrap().iteration
}

/// Milliseconds that a run takes from its fourth step on, for one step of all workers.
fn time_per_batch(spec: &RunSpec) -> f64 {
    let few = 4;
    let many = 12;
    let seconds = |steps| run(spec, steps).time.seconds();
    (seconds(many) - seconds(few)) * 1e3 / (many - few) as f64
}

#[test]
fn at_the_papers_ratio_each_way_to_average_elastically_takes_what_its_algorithm_says() {
    let arms = arms("easgd.toml");
    let spec = &arms["easgd-sync 3"];
    let (vector, latency) = vector_and_latency(spec);
    let computing = spec.emulation.compute.unwrap().step_time.as_secs_f64() * 1e3;
    let slow = arms["easgd-original"].emulation.slow[0].link;
    assert_eq!(spec.emulation.slow, [], "an arm without a master has no slow card");
    let one = latency + vector;
    let master = latency + vector * slow;
    // Table 3, ten times as slow: four messages of Sync EASGD 2, one exchange of Original EASGD.
    assert!((4.0 * one / 10.0 / 1.31 - 1.0).abs() < 0.06, "{one} ms");
    assert!((master / 10.0 / 7.05 - 1.0).abs() < 0.01, "{master} ms");
    let time: BTreeMap<&str, f64> =
        arms.iter().map(|(name, spec)| (name.as_str(), time_per_batch(spec))).collect();
    let close = |name: &str, expected: f64| {
        let off = (time[name] / expected - 1.0).abs();
        assert!(off < 0.01, "{name}: {} ms instead of {expected} ms", time[name]);
    };
    let update = |spec: &RunSpec| match spec.emulation.compute.unwrap().split {
        recipe::ComputeSplit::Given { update, .. } => update * computing,
        recipe::ComputeSplit::Measured => unreachable!(),
    };
    let own = update(spec);
    let masters = own * arms["easgd-original"].emulation.slow[0].compute;
    // Table 3: 7 % of 7.7 ms for two updates, 9 % of 8.2 ms for the master's.
    assert!((own / 10.0 / 0.27 - 1.0).abs() < 0.01 && (masters / 10.0 / 0.74 - 1.0).abs() < 0.01);
    // All but the workers' own steps is hidden.
    close("easgd-sync 3", computing);
    // The centre is on worker 0, whose second update it is; four messages of the tree, one after the other.
    close("easgd-sync 2", computing + own + 4.0 * one);
    // The sum travels to the master, and is applied, while the workers compute; then the centre comes from there.
    close("easgd-sync 1", computing.max(master + masters) + master + 4.0 * one);
    // Four turns: a transfer each way at once, both updates one after the other, and a word; or one transfer after the other,
    // the second beside the worker's update.
    close("easgd-original", 4.0 * (master + own + masters + latency));
    close("easgd-original*", 4.0 * (2.0 * master + computing - own + masters));
    // One worker at a time: a permission, weights up, the update, the centre down, and a receipt.
    close("easgd-async", 4.0 * (2.0 * master + masters + 2.0 * latency));
    // All at once: the master's card is what they wait for.
    close("easgd-hogwild", 4.0 * (master - latency));
    assert!(time["easgd-original"] / time["easgd-sync 3"] > 4.9, "{time:?}");
}

/// Figures 6 and 8 of SC17, where all cards are alike: in time Hogwild is faster than Async, which is little faster than
/// Original, and Sync 3 is beside Hogwild.
#[test]
fn where_all_cards_are_alike_hogwild_and_sync_are_fastest() {
    let arms = arms("easgd-uniform.toml");
    let spec = &arms["easgd-async"];
    assert_eq!(spec.emulation.slow, [], "all are alike");
    let (vector, latency) = vector_and_latency(spec);
    let computing = spec.emulation.compute.unwrap().step_time.as_secs_f64() * 1e3;
    let own = 0.0425 * computing;
    let time: BTreeMap<&str, f64> =
        arms.iter().map(|(name, spec)| (name.as_str(), time_per_batch(spec))).collect();
    let close = |name: &str, expected: f64| {
        let off = (time[name] / expected - 1.0).abs();
        assert!(off < 0.01, "{name}: {} ms instead of {expected} ms", time[name]);
    };
    close("easgd-original", 4.0 * (computing + own + 2.0 * latency));
    close("easgd-async", 4.0 * (2.0 * (latency + vector) + own + 2.0 * latency));
    close("easgd-hogwild", 4.0 * vector);
    // Of three vectors on the busiest card, beside what the first worker's two updates add.
    let sync = time["easgd-sync 3"];
    let tree = 3.0 * (latency + vector);
    assert!((tree..tree + 2.0 * own + 4.0 * latency).contains(&sync), "{sync} ms, {tree} ms");
    let order = ["easgd-sync 3", "easgd-hogwild", "easgd-async", "easgd-original"].map(|name| time[name]);
    assert!(order.is_sorted(), "{time:?}");
    assert!(order[1] / order[0] < 1.35 && order[2] / order[1] > 2.0 && order[3] / order[2] < 1.2, "{time:?}");
}

/// The run of an arm of a straggler's recipe, with this number of workers and this slow rank.
fn straggling(plan: &Plan, arm: &str, workers: u32, slow: Option<fn(&recipe::Slow) -> f64>) -> WorldOutcome {
    run(straggler(plan, arm, workers, slow), 40)
}

/// The cell of a straggler's recipe for that.
fn straggler<'a>(
    plan: &'a Plan,
    arm: &str,
    workers: u32,
    slow: Option<fn(&recipe::Slow) -> f64>,
) -> &'a RunSpec {
    let fits = |cell: &&recipe::Cell| {
        let meant = match (slow, &cell.spec.emulation.slow[..]) {
            (None, []) => true,
            (Some(factor), [one]) => factor(one) > 1.0,
            _ => false,
        };
        plan.arms[cell.arm].name == arm && cell.spec.cluster.workers() == workers && meant
    };
    &plan.cells.iter().find(fits).unwrap().spec
}

/// The median length of a rank's step, in milliseconds.
fn median_step(outcome: &WorldOutcome, rank: usize) -> f64 {
    let mut lengths: Vec<f64> =
        outcome.ranks[rank].steps(LaneId::Compute).iter().map(|step| step.length.seconds() * 1e3).collect();
    lengths.sort_by(f64::total_cmp);
    lengths[lengths.len() / 2]
}

#[test]
fn beside_a_straggler_only_gossip_without_waiting_keeps_its_pace() {
    let plan = plan("straggler.toml");
    let computes: fn(&recipe::Slow) -> f64 = |slow| slow.compute;
    let communicates: fn(&recipe::Slow) -> f64 = |slow| slow.link;
    for workers in [4, 8, 16] {
        let ratios = |arm, slow| {
            let even = straggling(&plan, arm, workers, None);
            let uneven = straggling(&plan, arm, workers, slow);
            let others = (0..workers as usize).filter(|rank| *rank != 1);
            others.map(|rank| median_step(&uneven, rank) / median_step(&even, rank)).collect::<Vec<f64>>()
        };
        for slow in [computes, communicates] {
            let kept = ratios("ad-psgd", Some(slow));
            assert!(kept.iter().all(|ratio| (ratio - 1.0).abs() < 1e-6), "{workers}: {kept:?}");
        }
        // Ten times as long where all computing is hidden behind; else with the ring on top, as ever.
        for (arm, least) in [("d-sync", 6.0), ("d-psgd", 9.999)] {
            let slowed = ratios(arm, Some(computes));
            assert!(slowed.iter().all(|ratio| *ratio > least), "{arm}, {workers}: {slowed:?}");
        }
        for (arm, least) in [("d-sync", 3.2), ("d-psgd", 6.6)] {
            let slowed = ratios(arm, Some(communicates));
            assert!(slowed.iter().all(|ratio| *ratio > least), "{arm}, {workers}: {slowed:?}");
        }
    }
}

/// Of n workers one of which is s times slower, n - 1 + 1 / s of n do their work: an epoch takes n / (n - 1 + 1 / s) times as
/// long if no worker waits.
#[test]
fn without_waiting_an_epoch_loses_no_more_than_the_straggler() {
    let plan = plan("straggler.toml");
    for (workers, said) in [(4, 1.29), (8, 1.13), (16, 1.06)] {
        let pace = |slow| {
            let spec = straggler(&plan, "ad-psgd", workers, slow);
            (run(spec, 640).time - run(spec, 40).time).seconds()
        };
        let longer = pace(Some(|slow| slow.compute)) / pace(None);
        let n = f64::from(workers);
        let expected = n / (n - 1.0 + 0.1);
        assert!((expected - said).abs() < 0.005, "{workers}: {expected}");
        // The run ends within one of the straggler's steps, which are ten of the 600.
        assert!((longer / expected - 1.0).abs() < 0.025, "{workers}: {longer} times as long, not {expected}");
    }
}
