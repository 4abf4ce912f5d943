//! D-Sync and PS-Sync in real processes, over real sockets, with real models.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Trained, train, train_watched};
use launch::{Deadlines, End, Member, Update};
use recipe::Metric;
use record::{Event, LaneId, Rank, RankEnd};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

fn recipe(strategy: &str, workers: u32, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "e2e"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 1000
test = 200
[train]
global-batch = 100
steps = 50
optimizer = {{ kind = "sgd", lr = 0.05, momentum = 0.5 }}
evaluate = "25 steps"
[nodes]
use = ["local*{workers}"]
[[strategy]]
kind = "{strategy}"
baseline = true
[repeats]
count = 1
{more}
"#
    )
}

fn run(strategy: &str, workers: u32, more: &str) -> Trained {
    train(&recipe(strategy, workers, more)).unwrap().done().unwrap()
}

/// A rectifier that opens in one run and stays shut in the other, for a rounding, parts them for good, sooner or later
/// by the processor's kernels: a linear model is followed to the end, one with rectifiers for fewer steps.
#[test]
fn any_number_of_workers_is_one_process_to_1e_5() {
    for (model, steps) in [("softmax", "steps = 50"), ("mnist-mlp", "steps = 20")] {
        let run = |workers| {
            let recipe =
                recipe("d-sync", workers, "").replace("mnist-mlp", model).replace("steps = 50", steps);
            train(&recipe).unwrap().done().unwrap()
        };
        let alone = run(1).final_weights().unwrap();
        assert!(alone.iter().any(|weight| weight.abs() > 1e-3));
        for workers in [2, 3, 4] {
            let trained = run(workers);
            trained.common_digests().unwrap();
            let together = trained.final_weights().unwrap();
            let apart = alone.iter().zip(&together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart <= 1e-5, "{model}: {workers} workers end {apart} away from one");
        }
    }
}

/// Without batch norm, a block is a sum over samples as every other layer is.
#[test]
fn any_number_of_workers_is_one_process_with_residual_blocks() {
    let model = r#"
layers = [
    { kind = "avg-pool", kernel = 4 },
    { kind = "residual", branch = [
        { kind = "conv", outputs = 4, kernel = 3, stride = 2, padding = 1, bias = false },
        "relu",
        { kind = "conv", outputs = 4, kernel = 3, padding = 1 },
    ], shortcut = [{ kind = "conv", outputs = 4, kernel = 1, stride = 2 }] },
    "global-avg-pool",
    { kind = "linear", outputs = 10 },
]"#;
    let run = |workers| {
        let recipe = recipe("d-sync", workers, "")
            .replace("kind = \"mnist-mlp\"", &format!("kind = \"sequential\"{model}"));
        train(&recipe.replace("steps = 50", "steps = 20")).unwrap().done().unwrap().final_weights().unwrap()
    };
    let alone = run(1);
    assert_eq!(alone.len(), 4 * 9 + 4 * 36 + 4 + 4 + 4 + 50);
    let together = run(3);
    let apart = alone.iter().zip(&together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= 1e-5, "3 workers end {apart} away from one");
}

/// Blocks of many tensors travel one by one, all at once, and through a server: the same sums, bit for bit. Each worker
/// normalises its own samples, and evaluations find their own statistics.
#[test]
fn a_residual_network_ends_with_the_same_weights_however_its_blocks_travel() {
    let run = |strategy, schedule| {
        let more = format!(
            "[communication]\nreduce-order = \"rank\"\nschedule = \"{schedule}\"\n[measure]\nweight-hash = \"step\""
        );
        let recipe =
            recipe(strategy, 2, &more).replace("mnist-mlp", "resnet20").replace("train = 1000", "train = 96");
        let recipe =
            recipe.replace("global-batch = 100", "global-batch = 16").replace("steps = 50", "steps = 4");
        train(&recipe.replace("test = 200", "test = 32")).unwrap().done().unwrap()
    };
    let whole = run("d-sync", "single");
    let digests = whole.common_digests().unwrap();
    assert_eq!(digests.len(), 5);
    assert_eq!(digests, run("d-sync", "per-layer").common_digests().unwrap());
    assert_eq!(digests, run("ps-sync", "per-layer").common_digests().unwrap());
    assert_eq!(whole.final_weights().unwrap().len(), 272_186);
    let losses: Vec<f64> = whole
        .metrics()
        .filter(|metric| metric.metric == Metric::TestLoss)
        .map(|metric| metric.value)
        .collect();
    assert_eq!(losses.len(), 2, "{losses:?}");
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
}

#[test]
fn a_parameter_server_ends_with_the_weights_of_an_all_reduce() {
    let rank_order = "[communication]\nreduce-order = \"rank\"\n[measure]\nweight-hash = \"step\"";
    let all_reduce = run("d-sync", 3, rank_order).common_digests().unwrap();
    let server = run("ps-sync", 3, rank_order).common_digests().unwrap();
    assert_eq!(all_reduce.len(), 51);
    assert_eq!(all_reduce, server);
    let again = run("d-sync", 3, rank_order).common_digests().unwrap();
    assert_eq!(all_reduce, again, "the same recipe and seed give the same weights");
}

/// The server updates whole models, and the workers layer by layer; matrices and biases are those of the real model.
#[test]
fn every_optimizer_learns_and_a_server_ends_with_the_weights_of_an_all_reduce() {
    let rank_order = "[communication]\nreduce-order = \"rank\"\n[measure]\nweight-hash = \"step\"";
    let layers = rank_order.replace("[measure]", "schedule = \"per-layer\"\n[measure]");
    for optimizer in [
        "{ kind = \"sgd\", lr = 0.05, momentum = 0.5, nesterov = true }",
        "\"adamw\"",
        "{ kind = \"lars\", lr = 5.0, momentum = 0.9, weight-decay = 1e-3 }",
    ] {
        let run = |strategy, more: &str| {
            let plain = "{ kind = \"sgd\", lr = 0.05, momentum = 0.5 }";
            let text = recipe(strategy, 2, more).replace(plain, optimizer);
            assert!(text.contains(optimizer));
            train(&text).unwrap().done().unwrap()
        };
        let all_reduce = run("d-sync", &layers);
        let server = run("ps-sync", rank_order);
        let digests = all_reduce.common_digests().unwrap();
        assert_eq!(digests.len(), 51);
        assert_eq!(digests, server.common_digests().unwrap(), "{optimizer}");
        let accuracy: Vec<f64> = all_reduce
            .metrics()
            .filter(|metric| metric.metric == Metric::TestAccuracy)
            .map(|metric| metric.value)
            .collect();
        assert!(accuracy[2] > accuracy[0] + 0.2, "{optimizer}: {accuracy:?}");
    }
}

#[test]
fn what_is_reported_is_complete() {
    let trained = run("ps-sync", 2, "");
    for (rank, lane) in [(0, LaneId::Compute), (1, LaneId::Compute), (2, LaneId::Clients)] {
        let steps: Vec<u64> = trained
            .steps()
            .filter(|step| step.rank == Rank(rank) && step.lane == lane)
            .inspect(|step| assert_eq!(step.phases.total(), step.length))
            .map(|step| step.step)
            .collect();
        // The last one is the drain.
        assert_eq!(steps, (1..=51).collect::<Vec<_>>(), "rank {rank}");
    }
    let accuracy: Vec<_> = trained.metrics().filter(|metric| metric.metric == Metric::TestAccuracy).collect();
    let at: Vec<u64> = accuracy.iter().map(|metric| metric.samples).collect();
    assert_eq!(at, [0, 2500, 5000]);
    assert!(accuracy.iter().all(|metric| metric.model == "server"));
    assert!(accuracy[2].value > accuracy[0].value + 0.2, "{accuracy:?}");
}

/// Directly after an average all models are equal; between two of them they are not.
#[test]
fn models_of_local_sgd_are_together_after_each_average_and_apart_between() {
    let text = recipe("local-sgd", 3, "")
        .replace("kind = \"local-sgd\"", "kind = \"local-sgd\"\nperiod = 10")
        .replace("25 steps", "5 steps");
    let trained = train(&text).unwrap().done().unwrap();
    let apart: Vec<_> =
        trained.metrics().filter(|metric| metric.metric == Metric::ConsensusDistance).collect();
    assert_eq!(
        apart.iter().map(|metric| metric.step).collect::<Vec<_>>(),
        [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]
    );
    for metric in &apart {
        assert_eq!((metric.model.as_str(), metric.judged), ("mean of 3 ranks", false));
        assert_eq!(metric.value.to_bits() == 0, metric.step % 10 == 0, "{metric:?}");
    }
    let judged: Vec<_> = trained.metrics().filter(|metric| metric.judged).collect();
    assert!(judged.iter().all(|metric| metric.model == "rank 0"));
    assert_eq!(judged.len(), 2 * apart.len());
    let mut left: Vec<String> = std::fs::read_dir(trained.directory.path().join("snapshots"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["rank-0-step-0.f32", "rank-0-step-50.f32"], "the others went when they had served");
}

/// A peer that goes silent is found by the rank that waits for it, long before its heartbeats are missed.
#[test]
fn the_rank_that_waits_says_for_whom_and_for_how_long() {
    let deadlines =
        Deadlines { peer: Duration::from_secs(5), heartbeat: Duration::from_secs(3), ..Deadlines::default() };
    let mut victim = None;
    let trains = |event: &Event| matches!(event, Event::Step(step) if step.rank == Rank(0) && step.step > 5);
    let watch = move |update: &Update| match update {
        Update::Spawned { member: Member::Rank(Rank(1)), pid } => victim = Pid::from_raw(*pid as i32),
        Update::Events(events) if events.iter().any(trains) => {
            if let Some(pid) = victim.take() {
                kill_process(pid, Signal::STOP).unwrap();
            }
        }
        _ => {}
    };
    let text =
        recipe("d-sync", 2, "").replace("steps = 50", "steps = 20000").replace("25 steps", "20000 steps");
    let trained = train_watched(&text, deadlines, watch).unwrap();
    assert!(matches!(trained.outcome.end, End::Failed { .. }), "{:?}", trained.outcome);
    assert_eq!(trained.outcome.culprit, Some(Rank(1)), "{:?}", trained.outcome);
    let said = trained.events.iter().find_map(|event| match event {
        Event::Ended(ended) if ended.rank == Rank(0) => Some(&ended.end),
        _ => None,
    });
    let Some(RankEnd::Failed { peer, reason, step, .. }) = said else {
        panic!("rank 0 should have failed, but said {said:?}")
    };
    assert_eq!(*peer, Some(Rank(1)));
    assert!(*step > 5 && reason.contains("from rank 1"), "{reason}");
    // A piece of a message may still have come while rank 0 waited: from then on it is silence.
    let mut waited = reason.split("waited ").nth(1).unwrap().split(' ');
    let number: f64 = waited.next().unwrap().parse().unwrap();
    let seconds = if waited.next() == Some("ms") { number / 1000.0 } else { number };
    // Ten heartbeats are missed after thirty seconds.
    assert!((5.0..30.0).contains(&seconds), "{reason}");
}
