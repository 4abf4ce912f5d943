//! Emulated networks and step times in real processes: nothing is earlier than the model says, and delays are
//! reported. Upper bounds would be bounds on the machine; `cargo xtask bench network` measures these.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Trained, train};
use record::{
    Category, Emulated, EmulationRecord, Event, LaneId, Nanos, Phase, Rank, SpanRecord, StepRecord,
};

fn recipe(strategy: &str, workers: u32, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "emulation"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 500
test = 100
[train]
global-batch = 40
steps = 12
optimizer = {{ kind = "sgd", lr = 0.05 }}
evaluate = "100 steps"
[[strategy]]
kind = "{strategy}"
[communication]
reduce-order = "rank"
[repeats]
count = 1
[measure]
trace = {{ first-steps = 100, every = 0 }}
weight-hash = "step"
{more}
[nodes]
use = ["local*{workers}"]
"#
    )
}

fn run(strategy: &str, workers: u32, more: &str) -> Trained {
    train(&recipe(strategy, workers, more)).unwrap().done().unwrap()
}

fn spans(trained: &Trained, phase: Phase) -> Vec<&SpanRecord> {
    let spans = trained.events.iter().filter_map(|event| match event {
        Event::Span(span) if span.phase == phase && span.bytes > 0 => Some(span),
        _ => None,
    });
    spans.collect()
}

fn kept(trained: &Trained, what: Emulated) -> Vec<&EmulationRecord> {
    let kept = trained.events.iter().filter_map(|event| match event {
        Event::Emulation(kept) if kept.what == what => Some(kept),
        _ => None,
    });
    kept.collect()
}

fn steps(trained: &Trained, rank: u32) -> Vec<&StepRecord> {
    let own = |step: &&StepRecord| step.rank == Rank(rank) && step.lane == LaneId::Compute && !step.drain;
    trained.steps().filter(own).collect()
}

/// Compares each message's arrival with the moment at which it was handed to its card; returns how many could be.
fn none_was_early(trained: &Trained, latency: u64, nanos_per_byte: impl Fn(Rank) -> u64) -> usize {
    let sent = spans(trained, Phase::Send);
    let received = spans(trained, Phase::Transfer);
    let mut compared = 0;
    for from in (0..3).map(Rank) {
        for to in (0..3).map(Rank) {
            for step in 1..=12 {
                let out: Vec<_> =
                    sent.iter().filter(|s| (s.rank, s.peer, s.step) == (from, Some(to), step)).collect();
                let into: Vec<_> =
                    received.iter().filter(|s| (s.rank, s.peer, s.step) == (to, Some(from), step)).collect();
                // A transfer that was over before the rank asked for it has no length, and no span.
                if out.len() != into.len() {
                    continue;
                }
                for (out, into) in out.into_iter().zip(into) {
                    assert_eq!(out.bytes, into.bytes);
                    let length = nanos_per_byte(from).max(nanos_per_byte(to)) * out.bytes;
                    let due = out.begin + Nanos(latency + length);
                    let came = into.begin + into.length;
                    assert!(came >= due, "step {step}, {from} to {to}: {came} is before {due}");
                    compared += 1;
                }
            }
        }
    }
    compared
}

#[test]
fn no_message_arrives_before_its_emulated_time_and_the_weights_do_not_change() {
    let network = "[network]\nbandwidth = \"10Mbit/s\"\nlatency = \"2ms\"";
    for strategy in ["d-sync", "ps-sync"] {
        let emulated = run(strategy, 2, network);
        assert!(none_was_early(&emulated, 2_000_000, |_| 800) > 0, "{strategy}: no message was compared");
        let own = run(strategy, 2, "");
        assert_eq!(emulated.common_digests().unwrap(), own.common_digests().unwrap(), "{strategy}");
        // A card costs the same whatever carries the bytes behind it.
        let shared = "reduce-order = \"rank\"\ntransport = \"shared-memory\"";
        let text = recipe(strategy, 2, network).replace("reduce-order = \"rank\"", shared);
        let shared = train(&text).unwrap().done().unwrap();
        assert!(
            none_was_early(&shared, 2_000_000, |_| 800) > 0,
            "{strategy}: no shared message was compared"
        );
        assert_eq!(shared.common_digests().unwrap(), own.common_digests().unwrap(), "{strategy}, shared");
        assert_eq!(kept(&own, Emulated::Network), [] as [&EmulationRecord; 0]);
        let kept = kept(&emulated, Emulated::Network);
        assert_eq!(kept.len() as u64, if strategy == "d-sync" { 2 } else { 3 });
        assert!(kept.iter().all(|kept| kept.count >= 12 && kept.p50 <= kept.p95 && kept.p95 <= kept.max));
    }
}

#[test]
fn a_slow_link_is_slow_in_both_directions() {
    let network = "[network]\nbandwidth = \"100Mbit/s\"";
    let slow = "[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, link = 8.0 }]";
    let text = recipe("ps-sync", 2, network).replace("[nodes]\nuse = [\"local*2\"]", slow);
    let trained = train(&text).unwrap().done().unwrap();
    let nanos_per_byte = |rank| if rank == Rank(1) { 640 } else { 80 };
    assert!(none_was_early(&trained, 0, nanos_per_byte) > 0);
}

#[test]
fn a_stated_step_time_is_never_undercut() {
    let compute = "[compute]\nstep-time = \"15ms\"\nsplit = { kind = \"given\", forward = 0.2, backward = 0.7, \
                   update = 0.1 }";
    let trained = run("d-sync", 1, compute);
    let steps = steps(&trained, 0);
    assert_eq!(steps.len(), 12);
    for (number, step) in (1..).zip(&steps) {
        // Each of four pieces of work is rounded down.
        let since_start = step.begin + step.length - steps[0].begin;
        assert!(since_start.0 >= number * (15_000_000 - 4), "{number} steps took {since_start}");
    }
    let kept = kept(&trained, Emulated::Compute);
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].count, kept[0].steps), (12 * 3, 12));
}

#[test]
fn a_measured_split_adds_up_to_the_step_and_a_straggler_takes_its_factor() {
    let compute = "[compute]\nstep-time = \"5ms\"";
    let slow = "[nodes]\nuse = [\"local*3\"]\nslow = [{ rank = 2, compute = 4.0 }]";
    let text = recipe("d-sync", 3, compute).replace("[nodes]\nuse = [\"local*3\"]", slow);
    let trained = train(&text).unwrap().done().unwrap();
    trained.common_digests().unwrap();
    for (rank, least) in [(0, 5_000_000), (1, 5_000_000), (2, 20_000_000)] {
        let steps = steps(&trained, rank);
        let computing: u64 = steps
            .iter()
            .flat_map(|step| {
                let phases = [Phase::Data, Phase::Forward, Phase::Backward, Phase::Update];
                phases.map(|phase| step.phases[phase].0)
            })
            .sum();
        // A delay that a rank made good later is forgiven while it waits for the others anyway.
        let behind: u64 =
            steps.iter().map(|step| step.phases[Phase::WaitPeer].0 + step.phases[Phase::Transfer].0).sum();
        assert!(computing + behind >= 12 * (least - 10), "rank {rank} computed for {computing} ns");
    }
    let straggler: u64 = steps(&trained, 2).iter().map(|step| step.length.0).sum();
    assert!(straggler >= 12 * (20_000_000 - 10), "{straggler}");
}

/// Nanoseconds, counted between all edges, for which `holds` of the numbers of spans under way, one for each list.
fn measured(lists: [&[(u64, u64)]; 3], holds: impl Fn([usize; 3]) -> bool) -> u64 {
    let mut edges: Vec<u64> = lists.iter().flat_map(|list| list.iter().flat_map(|at| [at.0, at.1])).collect();
    edges.sort_unstable();
    edges.dedup();
    let under_way =
        |from: u64| lists.map(|list| list.iter().filter(|at| at.0 <= from && from < at.1).count());
    let pieces = edges.windows(2).filter(|piece| holds(under_way(piece[0])));
    pieces.map(|piece| piece[1] - piece[0]).sum()
}

#[test]
fn what_a_pipeline_hides_is_what_its_spans_say_to_the_nanosecond() {
    let trained = run("pipe-sgd", 3, "[network]\nbandwidth = \"20Mbit/s\"\nlatency = \"1ms\"");
    for rank in (0..3).map(Rank) {
        let stretches = |fits: &dyn Fn(&SpanRecord) -> bool| -> Vec<(u64, u64)> {
            let spans = trained.events.iter().filter_map(|event| match event {
                Event::Span(span) if span.rank == rank && fits(span) => {
                    Some((span.begin.0, span.begin.0 + span.length.0))
                }
                _ => None,
            });
            spans.collect()
        };
        let travels = |span: &SpanRecord| {
            span.phase.category() == Category::Communication || span.phase == Phase::WaitPeer
        };
        let own = stretches(&|span| {
            span.lane == LaneId::Compute && (travels(span) || span.phase == Phase::WaitLane)
        });
        let works = stretches(&|span| {
            span.lane == LaneId::Compute && !travels(span) && span.phase != Phase::WaitLane
        });
        let beside = stretches(&|span| span.lane != LaneId::Compute && travels(span));
        let lists = [&own[..], &works[..], &beside[..]];
        let steps = || trained.steps().filter(|step| step.rank == rank && step.lane == LaneId::Compute);
        let hidden: u64 = steps().map(|step| step.hidden.0).sum();
        let exposed: u64 = steps().map(|step| step.phases.exposed().0).sum();
        assert_eq!(hidden, measured(lists, |[_, works, beside]| works > 0 && beside > 0), "{rank}");
        // While one lane wakes the other, the compute lane waits for work that is over already.
        let open = measured(lists, |[.., beside]| beside > 0);
        let woken = measured(lists, |[own, _, beside]| own > 0 && beside == 0);
        assert_eq!(hidden + exposed, open + woken, "{rank}");
        assert!(hidden > 0 && exposed > 0, "{rank}: {hidden} {exposed}");
    }
}
