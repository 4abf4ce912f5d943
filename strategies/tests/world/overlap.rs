//! Hidden and exposed communication against the spans of all lanes.

use crate::scene::Scene;
use recipe::{Compute, ComputeSplit, Extent, Network, Serve, Strategy};
use record::{Category, Event, LaneId, Nanos, Phase, SpanRecord};
use std::time::Duration;
use strategies::Learner;
use strategies::sim::{RankOutcome, World};

/// A pipe whose gradients take `bytes_per_second` to travel, every step with its spans.
fn pipe(depth: u32, segments: u32, bandwidth: u64) -> Scene {
    let strategy = Strategy::PipeSgd { depth, warmup: Extent::Steps(2), segments };
    let split = ComputeSplit::Given { forward: 0.25, backward: 0.5, update: 0.25 };
    let mut scene = Scene::new(strategy, 3).widths(&[20, 30, 10]).change(|spec| {
        spec.train.global_batch = 12;
        spec.train.length = Extent::Steps(30);
        spec.emulation.compute = Some(Compute { step_time: Duration::from_millis(1), split });
        spec.emulation.network = Some(Network { bandwidth, latency: Duration::from_micros(10) });
        spec.measure.trace_every = 1;
    });
    let layers = scene.learner().layout().layers().len();
    let size = scene.learner().layout().size();
    scene.world = World::new(1).emulating(&scene.spec, 1, layers, size);
    scene
}

/// Where the spans that fit begin and end.
fn stretches(rank: &RankOutcome, fits: impl Fn(&SpanRecord) -> bool) -> Vec<(u64, u64)> {
    let spans = rank.events.iter().filter_map(|event| match event {
        Event::Span(span) if fits(span) => Some((span.begin.0, span.begin.0 + span.length.0)),
        _ => None,
    });
    spans.collect()
}

/// Nanoseconds, counted between all edges, in which something of each list is under way.
fn together(lists: &[&[(u64, u64)]]) -> u64 {
    let mut edges: Vec<u64> =
        lists.iter().flat_map(|list| list.iter().flat_map(|(from, to)| [*from, *to])).collect();
    edges.sort_unstable();
    edges.dedup();
    let covers = |list: &[(u64, u64)], from: u64| list.iter().any(|span| span.0 <= from && from < span.1);
    let pieces = edges.windows(2).filter(|piece| lists.iter().all(|list| covers(list, piece[0])));
    pieces.map(|piece| piece[1] - piece[0]).sum()
}

fn travels(span: &SpanRecord) -> bool {
    span.phase.category() == Category::Communication || span.phase == Phase::WaitPeer
}

#[test]
fn hidden_and_exposed_communication_are_the_time_for_which_it_is_open() {
    for (depth, segments, bandwidth) in
        [(1, 4, 8_000_000), (2, 1, 8_000_000), (2, 3, 4_000_000), (3, 2, 2_000_000)]
    {
        let what = format!("K = {depth}, L = {segments}, {bandwidth} bytes/s");
        for rank in pipe(depth, segments, bandwidth).run().ranks {
            let steps = rank.steps(LaneId::Compute);
            let sum = |of: fn(&record::StepRecord) -> Nanos| steps.iter().map(|step| of(step).0).sum::<u64>();
            let hidden = sum(|step| step.hidden);
            let exposed = sum(|step| step.phases.exposed());
            let own = stretches(&rank, |span| span.lane == LaneId::Compute && travels(span));
            let beside = stretches(&rank, |span| span.lane != LaneId::Compute && travels(span));
            let busy = |category| !matches!(category, Category::Communication | Category::Waiting);
            let works = stretches(&rank, |span| span.lane == LaneId::Compute && busy(span.phase.category()));
            let open = together(&[&[own, beside.clone()].concat()]);
            assert_eq!(hidden, together(&[&beside, &works]), "{what}");
            assert_eq!(hidden + exposed, open, "{what}");
            assert!(hidden > 0 && exposed > 0, "{what}: {hidden} {exposed}");
            assert!(steps.iter().all(|step| step.hidden + step.phases.exposed() <= step.length), "{what}");
        }
    }
}

#[test]
fn who_has_one_lane_hides_nothing() {
    for strategy in
        [Strategy::DSync, Strategy::PsSync, Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None }]
    {
        for rank in Scene::new(strategy, 3).run().ranks {
            let steps = rank.events.iter().filter_map(|event| match event {
                Event::Step(step) => Some(step.hidden),
                _ => None,
            });
            assert!(steps.into_iter().all(|hidden| hidden == Nanos(0)));
        }
    }
}
