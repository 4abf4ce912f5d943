//! Predictions of `bakeoff predict` for synchronous strategies against the simulator, where computing and messages take
//! exactly the time that the recipe states, and coding and sums take none.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use predict::network::LinkRates;
use recipe::{
    Codec, Collective, Compression, Extent, Placement, ReduceOrder, Role, RunSpec, Schedule, Strategy,
    SyncVariant,
};
use record::{LaneId, Nanos};
use reports::{Computing, forecast};
use std::sync::Arc;
use std::time::Duration;
use strategies::sim::World;
use strategies::toy::Quadratic;
use strategies::{Blueprint, Layout, SamplePartition, TrainingPlan};

/// 79,510 weights, and computing that is about as long as a vector is on its way.
const RECIPE: &str = r#"
schema = 1
name = "predictions"

[model]
kind = "sequential"
layers = [{ kind = "flatten" }, { kind = "linear", outputs = 100 }, { kind = "relu" }, { kind = "linear", outputs = 10 }]

[dataset]
kind = "synthetic"
train = 2000
test = 100

[train]
global-batch = 1680
steps = 12
optimizer = { kind = "sgd", lr = 0.1 }

[nodes]
use = ["local*2"]

[network]
bandwidth = "80Mbit/s"
latency = "1ms"

[compute]
step-time = "30ms"
split = { kind = "given", forward = 0.3, backward = 0.6, update = 0.1 }

[[strategy]]
kind = "d-sync"
"#;

/// The same with 78,500, 10,100, 10,100, 5,050 and 510 weights in its layers.
fn of_five_layers() -> String {
    of_layers(&[100, 100, 100, 50, 10])
}

/// The same with layers of these outputs, the last of which is 10.
fn of_layers(outputs: &[u32]) -> String {
    let linear = |outputs: &u32| format!("{{ kind = \"linear\", outputs = {outputs} }}");
    let layers: Vec<String> = outputs.iter().map(linear).collect();
    let begin = RECIPE.find("layers = ").unwrap();
    let end = begin + RECIPE[begin..].find('\n').unwrap();
    let layers = format!("layers = [{{ kind = \"flatten\" }}, {}]", layers.join(", "));
    format!("{}{layers}{}", &RECIPE[..begin], &RECIPE[end..])
}

/// A run of `workers` workers and `servers` servers.
fn spec(strategy: Strategy, workers: usize, servers: usize) -> RunSpec {
    spec_of(RECIPE, strategy, workers, servers)
}

fn spec_of(recipe: &str, strategy: Strategy, workers: usize, servers: usize) -> RunSpec {
    let mut spec = e2e::plan(recipe).unwrap().cells[0].spec.clone();
    let placement = spec.cluster.placements[0].clone();
    let server = Placement { role: Role::Server, ..placement.clone() };
    spec.cluster.placements = vec![placement; workers];
    spec.cluster.placements.extend(vec![server; servers]);
    spec.strategy = strategy;
    spec.communication.reduce_order = ReduceOrder::Ring;
    spec
}

/// Seconds of a step when the first four are over; of a plan, when it is as old as the steps that it is from are twice.
fn simulated(spec: &RunSpec) -> f64 {
    let opening = 4 + 3 * spec.communication.schedule.measured_steps();
    let mut spec = spec.clone();
    // The last step of a run leaves nothing for a next one to wait for.
    spec.train.length = Extent::Steps(opening + 9);
    let layers = spec.model.weighted_layers();
    let count = layers.len();
    let n = spec.model.parameter_count();
    let samples = (0..20 * spec.train.global_batch).collect();
    let plan = Arc::new(TrainingPlan::new(&spec, SamplePartition::shared_by(1, samples)));
    let world = World::new(1).emulating(&spec, 1, count, n);
    let layout = Layout::new(layers.iter().map(|layer| (layer.name.to_owned(), layer.size())));
    let learner = |_| {
        let learner = Quadratic::of_layers(0.01, vec![1.0; n], layout.clone());
        Box::new(learner) as Box<dyn strategies::Learner>
    };
    let outcome = world.run(&Blueprint::new(&spec, plan, n), learner).unwrap();
    let end_of = |step: u64| {
        let records = outcome.ranks.iter().flat_map(|rank| rank.steps(LaneId::Compute));
        let ends: Vec<Nanos> =
            records.filter(|record| record.step == step).map(|record| record.begin + record.length).collect();
        assert_eq!(ends.len(), spec.cluster.workers() as usize);
        ends.into_iter().max().unwrap()
    };
    (end_of(opening + 8) - end_of(opening)).seconds() / 8.0
}

fn predicted(spec: &RunSpec) -> f64 {
    let network = spec.emulation.network.unwrap();
    let rates = LinkRates::new(network.latency.as_secs_f64(), 1.0 / network.bandwidth as f64, 0.0).unwrap();
    let compute = spec.emulation.compute.unwrap().step_time.as_secs_f64();
    forecast(spec, rates, &Computing::of_step(compute)).unwrap().step
}

/// The same on a network whose messages take as long to start as to be sent.
fn slow_to_start(mut spec: RunSpec) -> RunSpec {
    spec.emulation.network.as_mut().unwrap().latency = Duration::from_millis(31);
    spec
}

fn coded_by(codec: Codec) -> Compression {
    Compression::Coded { codec, parameters: false, error_feedback: false }
}

/// Asserts that a prediction is off by at most a share of the simulated step; returns that share.
fn check(what: &str, spec: &RunSpec, bound: f64) -> f64 {
    let found = predicted(spec);
    let expected = simulated(spec);
    let off = (found / expected - 1.0).abs();
    assert!(off <= bound, "{what}: {found} s predicted, {expected} s simulated");
    off
}

#[test]
fn every_all_reduce_is_predicted_for_every_number_of_workers() {
    let collectives = [
        Collective::Ring,
        Collective::PipelinedRing { segments: 4 },
        Collective::Tree,
        Collective::RecursiveDoubling,
        Collective::HalvingDoubling,
        Collective::Star,
        Collective::AllGather,
        Collective::Hierarchical { group_size: Some(2) },
    ];
    for collective in collectives {
        for workers in 2..=8 {
            let mut spec = spec(Strategy::DSync, workers, 0);
            spec.communication.collective = collective;
            // Where workers are folded in, a host may get two messages at the same time, and others begin earlier.
            let folded = collective == Collective::RecursiveDoubling && !workers.is_power_of_two();
            let bounds = if folded { [0.17, 0.35] } else { [0.01, 0.01] };
            check(&format!("{collective:?}, {workers}"), &spec, bounds[0]);
            check(&format!("{collective:?}, {workers}, slow to start"), &slow_to_start(spec), bounds[1]);
        }
    }
}

#[test]
fn in_rank_order_and_in_long_chunks_a_ring_is_predicted() {
    // 3.2 MB: chunks in two to four segments.
    let long = RECIPE.replace("outputs = 100 ", "outputs = 1000 ");
    for workers in 2..=6 {
        let mut spec = spec_of(&long, Strategy::DSync, workers, 0);
        check(&format!("ring, {workers}"), &spec, 0.01);
        spec.communication.reduce_order = ReduceOrder::Rank;
        check(&format!("rank order, {workers}"), &spec, 0.01);
    }
}

/// 6.4 MB between two workers: seven segments, of which four are on their way at once.
#[test]
fn a_ring_in_several_windows_is_predicted() {
    let long = RECIPE.replace("outputs = 100 ", "outputs = 2000 ");
    let mut spec = spec_of(&long, Strategy::DSync, 2, 0);
    check("short start-ups", &spec, 0.01);
    spec.emulation.network.as_mut().unwrap().latency = Duration::from_millis(400);
    check("long start-ups", &spec, 0.01);
}

#[test]
fn servers_are_predicted_whatever_their_number() {
    for workers in 1..=8 {
        for servers in [1, 2, 3, 4, 8] {
            let spec = spec(Strategy::PsSync, workers, servers);
            let what = format!("{workers} workers, {servers} servers");
            check(&what, &spec, 0.01);
            // A worker alone codes nothing.
            let mut coded = slow_to_start(spec);
            if workers > 1 {
                coded.compression = coded_by(Codec::Quantize8);
            }
            check(&format!("{what}, coded"), &coded, 0.01);
        }
    }
}

/// Every way to send layers.
const SCHEDULES: [Schedule; 4] =
    [Schedule::PerLayer, Schedule::Fixed { bytes: 40 << 10 }, Schedule::Merged, Schedule::MergedExact];

/// How far each prediction of layers through these numbers of servers is off, among one to eight workers, in two models, on two networks, with codes
/// and without.
fn through_servers(schedule: Schedule, servers: &[usize], bound: f64) -> Vec<f64> {
    let mut off = Vec::new();
    // The second has 78,500, 10,100, 20,200 and 2,010 weights.
    for (name, recipe) in [("five", of_five_layers()), ("four", of_layers(&[100, 100, 200, 10]))] {
        for workers in 1..=8 {
            for &servers in servers {
                let mut spec = spec_of(&recipe, Strategy::PsSync, workers, servers);
                spec.communication.schedule = schedule;
                let what = format!("{name} layers, {schedule:?}, {workers} workers, {servers} servers");
                off.push(check(&what, &spec, bound));
                let mut coded = slow_to_start(spec);
                if workers > 1 {
                    coded.compression = coded_by(Codec::Quantize8);
                }
                off.push(check(&format!("{what}, coded"), &coded, bound));
            }
        }
    }
    off
}

#[test]
fn layers_through_servers_are_predicted() {
    for schedule in [Schedule::PerLayer, Schedule::Fixed { bytes: 40 << 10 }] {
        through_servers(schedule, &[1, 2, 3, 4, 8], 0.01);
    }
}

/// Where two plans are as good for the planner, another one is made than was predicted: three times here.
#[test]
fn plans_through_servers_are_predicted() {
    let of = |schedule| through_servers(schedule, &[1, 3, 8], 0.07);
    let off = [Schedule::Merged, Schedule::MergedExact].map(of).concat();
    let far = off.iter().filter(|off| **off > 0.01).count();
    assert!(off.len() == 192 && far <= 3, "{far} of {}", off.len());
}

/// 3.2 MB in buckets whose chunks have one to four segments.
#[test]
fn layers_in_long_chunks_are_predicted() {
    for schedule in
        [Schedule::PerLayer, Schedule::Fixed { bytes: 1 << 30 }, Schedule::Merged, Schedule::MergedExact]
    {
        for workers in [2, 3, 4] {
            let mut spec = spec_of(&of_layers(&[800, 200, 10]), Strategy::DSync, workers, 0);
            spec.communication.schedule = schedule;
            check(&format!("{schedule:?}, {workers}"), &spec, 0.01);
            check(&format!("{schedule:?}, {workers}, slow to start"), &slow_to_start(spec), 0.01);
        }
    }
}

/// Layers that travel in one message follow no other model than a whole gradient does.
#[test]
fn one_bucket_is_a_whole_gradient_in_every_all_reduce() {
    for collective in [Collective::Star, Collective::Hierarchical { group_size: Some(2) }, Collective::Ring] {
        let mut spec = spec(Strategy::DSync, 6, 0);
        spec.communication.collective = collective;
        let whole = predicted(&spec);
        spec.communication.schedule = Schedule::Fixed { bytes: 1 << 30 };
        assert!((predicted(&spec) - whole).abs() < 1e-15, "{collective:?}");
    }
}

#[test]
fn layers_in_all_reduces_are_predicted() {
    for schedule in SCHEDULES {
        for workers in 2..=8 {
            let pipe = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 1 };
            for strategy in [Strategy::DSync, pipe] {
                let mut spec = spec_of(&of_five_layers(), strategy, workers, 0);
                spec.communication.schedule = schedule;
                let what = format!("{} {schedule:?}, {workers} workers", spec.strategy.kind());
                check(&what, &spec, 0.01);
                check(&format!("{what}, slow to start"), &slow_to_start(spec), 0.01);
            }
        }
    }
}

/// Collectives in which two workers who begin a latency apart stay a latency apart, and take turns with it.
#[test]
fn layers_of_two_workers_in_other_all_reduces_are_predicted() {
    for collective in [Collective::RecursiveDoubling, Collective::HalvingDoubling, Collective::AllGather] {
        for schedule in SCHEDULES {
            let mut spec = spec_of(&of_five_layers(), Strategy::DSync, 2, 0);
            spec.communication.schedule = schedule;
            spec.communication.collective = collective;
            check(&format!("{collective:?}, {schedule:?}"), &spec, 0.01);
            check(&format!("{collective:?}, {schedule:?}, slow to start"), &slow_to_start(spec), 0.01);
        }
    }
}

/// The paper's packed layers beside one message per layer.
#[test]
fn layers_through_the_tree_of_sync_easgd_are_predicted() {
    for variant in [SyncVariant::Master, SyncVariant::FirstWorker, SyncVariant::Overlapped] {
        for workers in 1..=8 {
            let strategy = Strategy::EasgdSync { moving_rate: recipe::MovingRate::Fixed(0.1), variant };
            let servers = usize::from(variant == SyncVariant::Master);
            let mut spec = spec_of(&of_five_layers(), strategy, workers, servers);
            spec.communication.schedule = Schedule::PerLayer;
            let bound = if variant == SyncVariant::Overlapped { 0.15 } else { 0.01 };
            check(&format!("{variant:?}, {workers}"), &spec, bound);
            check(&format!("{variant:?}, {workers}, slow to start"), &slow_to_start(spec), bound);
        }
    }
}

#[test]
fn each_variant_of_sync_easgd_is_predicted() {
    for variant in [SyncVariant::Master, SyncVariant::FirstWorker, SyncVariant::Overlapped] {
        for workers in 1..=8 {
            let strategy = Strategy::EasgdSync { moving_rate: recipe::MovingRate::Fixed(0.1), variant };
            let servers = usize::from(variant == SyncVariant::Master);
            let spec = spec(strategy, workers, servers);
            // In variant 3, messages of several steps meet at links.
            let bound = if variant == SyncVariant::Overlapped { 0.15 } else { 0.01 };
            check(&format!("{variant:?}, {workers}"), &spec, bound);
            check(&format!("{variant:?}, {workers}, slow to start"), &slow_to_start(spec), bound);
        }
    }
}

/// The average of weights takes a part of each step; eight steps have two.
#[test]
fn averages_now_and_then_are_predicted() {
    for workers in 2..=8 {
        let slowmo = Strategy::Slowmo { period: 4, slow_momentum: 0.5, slow_lr: 1.0 };
        for strategy in [Strategy::LocalSgd { period: 4 }, slowmo] {
            let spec = spec(strategy, workers, 0);
            check(&format!("{}, {workers}", spec.strategy.kind()), &spec, 0.01);
        }
    }
}

#[test]
fn segments_of_a_gradient_are_predicted_in_both_orders() {
    for order in [ReduceOrder::Ring, ReduceOrder::Rank] {
        for workers in [2, 4, 8] {
            let pipe = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 4 };
            let mut spec = slow_to_start(spec(pipe, workers, 0));
            spec.communication.reduce_order = order;
            check(&format!("{order:?}, {workers}"), &spec, 0.01);
        }
    }
}

#[test]
fn codes_and_pipelines_are_predicted() {
    for workers in 2..=8 {
        for compression in [Compression::None, coded_by(Codec::Truncate16), coded_by(Codec::Quantize8)] {
            let pipe = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 1 };
            for (strategy, servers) in [(Strategy::DSync, 0), (Strategy::PsSync, 1), (pipe, 0)] {
                let mut spec = spec(strategy, workers, servers);
                spec.compression = compression;
                check(&format!("{} {compression:?}, {workers}", spec.strategy.kind()), &spec, 0.01);
            }
        }
    }
}
