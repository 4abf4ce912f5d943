//! Every all-reduce against a direct sum, its stated cost against counted traffic, and all places against each
//! other, with and without a lossy codec.

use crate::scene::{Scene, common_digests};
use predict::all_reduce::RING_SEGMENT;
use recipe::Strategy;
use record::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use strategies::collective::{
    AllGather, CollectiveAlgorithm, Cost, HalvingDoubling, Hierarchical, PipelinedRing, RankOrder,
    RecursiveDoubling, Ring, Star, Tree,
};
use strategies::compress::{Compressor, Guarantee, Identity, Slot};
use strategies::rng::mix;
use strategies::sim::{World, WorldError};
use strategies::{Blueprint, Loss, Packet, Roles, StepError, Vector, WorkerContext};

/// Elements of the longest segment of a ring.
pub(crate) const SEGMENT: usize = RING_SEGMENT / size_of::<f32>();

/// Machines of the first 16 ranks: groups of 5, 1, 7 and 3 that are not neighbours.
pub(crate) const MACHINES: [u32; 16] = [2, 2, 0, 1, 1, 2, 1, 2, 1, 3, 1, 3, 1, 2, 3, 1];

pub(crate) fn collectives() -> Vec<(&'static str, Arc<dyn CollectiveAlgorithm>)> {
    vec![
        ("ring", Arc::new(Ring)),
        ("rank order", Arc::new(RankOrder)),
        ("star", Arc::new(Star)),
        ("all gather", Arc::new(AllGather)),
        ("pipelined ring, 1 segment", Arc::new(PipelinedRing::new(1))),
        ("pipelined ring, 3 segments", Arc::new(PipelinedRing::new(3))),
        ("tree", Arc::new(Tree)),
        ("recursive doubling", Arc::new(RecursiveDoubling)),
        ("halving and doubling", Arc::new(HalvingDoubling)),
        ("groups of 1", Arc::new(Hierarchical::of_neighbours(1))),
        ("groups of 2", Arc::new(Hierarchical::of_neighbours(2))),
        ("groups of 3", Arc::new(Hierarchical::of_neighbours(3))),
        ("groups of 20", Arc::new(Hierarchical::of_neighbours(20))),
        ("groups by machine", Arc::new(Hierarchical::of_machines(MACHINES))),
    ]
}

/// Numbers of places: all small ones, and a larger power of two.
pub(crate) fn numbers_of_places() -> impl Iterator<Item = usize> {
    (1..=9).chain([16])
}

/// Replaces the weights by the sum of every place's own vector.
#[derive(Clone)]
pub(crate) struct Sums {
    elements: usize,
    collective: Arc<dyn CollectiveAlgorithm>,
    own: fn(Rank, usize) -> Vector,
}

/// Eighths below 2^8: they add exactly, in any order.
pub(crate) fn own(rank: Rank, elements: usize) -> Vector {
    let values: Vec<f32> =
        (0..elements).map(|i| (mix(u64::from(rank.0), i as u64) % 2001) as f32 / 8.0 - 125.0).collect();
    values.into()
}

impl strategies::Trainer for Sums {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let mut x = (self.own)(ctx.rank(), self.elements);
        let tag = ctx.tag(strategies::Kind::Reduce);
        let group = ctx.trainers().clone();
        self.collective.all_reduce_sum(&mut x, tag, &mut ctx.wire_over(&group))?;
        *ctx.weights_mut() = x;
        Ok(Loss(0.0))
    }
}

pub(crate) fn run(
    workers: usize,
    elements: usize,
    collective: &Arc<dyn CollectiveAlgorithm>,
    codec: fn() -> Box<dyn Compressor>,
) -> strategies::sim::WorldOutcome {
    run_in(&World::new(1), workers, &all_in(elements, collective, own), codec)
}

/// The vectors that all places add, `own` of each rank, and the collective that adds them.
pub(crate) fn all_in(
    elements: usize,
    collective: &Arc<dyn CollectiveAlgorithm>,
    own: fn(Rank, usize) -> Vector,
) -> Sums {
    Sums { elements, collective: collective.clone(), own }
}

pub(crate) fn run_in(
    world: &World,
    workers: usize,
    sums: &Sums,
    codec: fn() -> Box<dyn Compressor>,
) -> strategies::sim::WorldOutcome {
    try_in(world, workers, sums, codec).unwrap()
}

pub(crate) fn try_in(
    world: &World,
    workers: usize,
    sums: &Sums,
    codec: fn() -> Box<dyn Compressor>,
) -> Result<strategies::sim::WorldOutcome, WorldError> {
    let scene = Scene::new(Strategy::DSync, workers as u32).widths(&[1, 1]).change(|spec| {
        spec.train.global_batch = workers as u32;
        spec.train.length = recipe::Extent::Steps(1);
    });
    let blueprint: Blueprint = scene.blueprint().with_codec(codec);
    let roles = |_: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| Roles {
        trainer: Some(Box::new(sums.clone())),
        services: vec![],
        ..Roles::default()
    };
    world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles)
}

#[test]
fn every_length_on_every_number_of_places_is_the_direct_sum() {
    for (name, collective) in collectives() {
        for p in numbers_of_places() {
            for n in (0..3 * p).chain([1001]) {
                let outcome = run(p, n, &collective, || Box::new(Identity));
                let all: Vec<Vector> = (0..p).map(|rank| own(Rank(rank as u32), n)).collect();
                let expected: Vec<f32> = (0..n).map(|i| all.iter().map(|own| own[i]).sum()).collect();
                for rank in &outcome.ranks {
                    assert_eq!(rank.model().to_vec(), expected, "{name}, {p} places, {n} elements");
                }
            }
        }
    }
}

#[test]
fn the_stated_cost_is_what_is_sent() {
    for (name, collective) in collectives() {
        for p in numbers_of_places() {
            let long = if name == "ring" { vec![SEGMENT * p, SEGMENT * p + 1] } else { vec![1001] };
            for n in [0, 1, p - 1, p, 3 * p + 1, 100].into_iter().chain(long) {
                let outcome = run(p, n, &collective, || Box::new(Identity));
                let broadcast = (p - 1, 2 * (p - 1));
                let costs: Vec<_> = (0..p).map(|place| collective.cost(n, p, place)).collect();
                let messages: usize = costs.iter().map(|cost| cost.messages).sum();
                let elements: usize = costs.iter().map(|cost| cost.elements).sum();
                assert_eq!(
                    outcome.messages as usize,
                    messages + broadcast.0,
                    "{name}, {p} places, {n} elements"
                );
                assert_eq!(
                    outcome.bytes as usize,
                    4 * (elements + broadcast.1),
                    "{name}, {p} places, {n} elements"
                );
                for (place, cost) in costs.iter().enumerate() {
                    let steps = outcome.ranks[place].steps(record::LaneId::Compute);
                    assert_eq!(
                        steps[0].bytes_out as usize,
                        4 * cost.elements,
                        "{name}, {p} places, {n} elements, place {place}"
                    );
                }
            }
        }
    }
}

/// A vector whose sums are rounded, so that their order shows.
pub(crate) fn rough(rank: Rank, elements: usize) -> Vector {
    let values: Vec<f32> =
        (0..elements).map(|i| 1.0 / (1 + mix(u64::from(rank.0), i as u64) % 100_003) as f32).collect();
    values.into()
}

/// More segments than are on their way at once, the last ones of unequal length.
#[test]
fn the_ring_adds_each_chunk_in_its_stated_order_however_long_it_is() {
    for (p, n) in [(2, 2 * 5 * SEGMENT + 3), (3, 3 * 6 * SEGMENT - 2), (5, 5 * 2 * SEGMENT + 1)] {
        let sums = all_in(n, &(Arc::new(Ring) as Arc<dyn CollectiveAlgorithm>), rough);
        let outcome = run_in(&World::new(1), p, &sums, || Box::new(Identity));
        let vectors: Vec<Vector> = (0..p as u32).map(|rank| rough(Rank(rank), n)).collect();
        let mut expected = vec![0.0; n];
        for c in 0..p {
            for i in strategies::vector::piece(n, p, c) {
                expected[i] = (1..p).fold(vectors[c][i], |sum, turn| vectors[(c + turn) % p][i] + sum);
            }
        }
        for rank in &outcome.ranks {
            let same = rank.model().iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{p} places, {n} elements");
        }
    }
}

/// Keeps 4 significant bits of the largest element: coarse, and not idempotent, so that a place that keeps what it
/// sent instead of what the others decode is found out.
pub(crate) struct Coarse;

impl Compressor for Coarse {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let top = x.iter().fold(0.0_f32, |top, value| top.max(value.abs())) / 7.3;
        let mut y = vec![top];
        y.extend(x.iter().map(|value| if top > 0.0 { (value / top).round() } else { 0.0 }));
        Identity.encode(slot, &y)
    }
    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let mut y = vec![0.0; into.len() + 1];
        Identity.decode(packet, &mut y)?;
        into.iter_mut().zip(&y[1..]).for_each(|(value, steps)| *value = steps * y[0]);
        Ok(())
    }
    fn guarantee(&self) -> Guarantee {
        Guarantee::Contraction { delta: 0.5 }
    }
    fn linear(&self) -> bool {
        false
    }
}

#[test]
fn a_lossy_codec_leaves_all_places_with_the_same_bits() {
    for (name, collective) in collectives() {
        for p in [2, 3, 5, 7, 8] {
            let scene =
                Scene::new(Strategy::DSync, p).change(|spec| spec.train.length = recipe::Extent::Steps(100));
            let blueprint =
                scene.blueprint().with_codec(|| Box::new(Coarse)).with_collective(collective.clone());
            let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
            assert_eq!(common_digests(&outcome).len(), 101, "{name}, {p} places");
        }
    }
}

/// A codec rounds a chunk as one, so that no result depends on segments.
#[test]
fn a_ring_gives_a_codec_whole_chunks() {
    let ring: Arc<dyn CollectiveAlgorithm> = Arc::new(Ring);
    for p in [2, 3] {
        let messages = |codec: fn() -> Box<dyn Compressor>| {
            let broadcast = p as u64 - 1;
            run(p, 3 * SEGMENT * p, &ring, codec).messages - broadcast
        };
        let chunks = 2 * (p * (p - 1)) as u64;
        assert_eq!(messages(|| Box::new(Coarse)), chunks, "{p} places");
        assert_eq!(messages(|| Box::new(Identity)), 3 * chunks, "{p} places");
    }
}

#[test]
fn the_rank_order_codes_every_part_once_its_own_too() {
    let outcome = run(3, 10, &(Arc::new(RankOrder) as Arc<dyn CollectiveAlgorithm>), || Box::new(Coarse));
    let through = |x: &[f32]| {
        let slot = Slot { kind: strategies::Kind::Reduce, at: 0, step: 1, peer: Rank(0) };
        let mut y = vec![0.0; x.len()];
        Coarse.decode(&Coarse.encode(slot, x), &mut y).unwrap();
        y
    };
    let mut expected = Vec::new();
    for owner in 0..3 {
        let chunk = strategies::vector::piece(10, 3, owner);
        let mut sum = vec![0.0; chunk.len()];
        for rank in 0..3 {
            strategies::vector::add(&mut sum, &through(&own(Rank(rank), 10)[chunk.clone()]));
        }
        expected.extend(through(&sum));
    }
    for rank in &outcome.ranks {
        assert_eq!(rank.model().to_vec(), expected);
    }
}

/// Adds to a vector the error of the same place before, in whatever step that was.
#[derive(Default)]
struct Remembering {
    lost: BTreeMap<(strategies::Kind, usize, Rank), Vec<f32>>,
    /// Whether a place that comes again is a mistake.
    once: bool,
}

/// How often a memory was found again with something in it.
static FOUND: AtomicU64 = AtomicU64::new(0);

impl Compressor for Remembering {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let place = (slot.kind, slot.at, slot.peer);
        let lost = self.lost.remove(&place);
        assert!(!self.once || lost.is_none() || x.is_empty(), "{slot:?} is used twice in one call");
        if lost.iter().flatten().any(|lost| lost.to_bits() << 1 != 0) {
            FOUND.fetch_add(1, Ordering::Relaxed);
        }
        let mut due = lost.unwrap_or_else(|| vec![0.0; x.len()]);
        strategies::vector::add(&mut due, x);
        let packet = Coarse.encode(slot, &due);
        let mut sent = vec![0.0; x.len()];
        Coarse.decode(&packet, &mut sent).unwrap();
        due.iter_mut().zip(sent).for_each(|(due, sent)| *due -= sent);
        self.lost.insert(place, due);
        packet
    }
    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        Coarse.decode(packet, into)
    }
    fn guarantee(&self) -> Guarantee {
        Coarse.guarantee()
    }
    fn linear(&self) -> bool {
        false
    }
}

/// A codec keeps its residuals by slot: partners that encode one sum each must still end with the same bits.
#[test]
fn a_codec_with_a_memory_leaves_all_places_with_the_same_bits() {
    for (name, collective) in collectives() {
        for p in [3, 4, 6, 8] {
            let scene =
                Scene::new(Strategy::DSync, p).change(|spec| spec.train.length = recipe::Extent::Steps(30));
            let blueprint = scene
                .blueprint()
                .with_codec(|| Box::new(Remembering::default()))
                .with_collective(collective.clone());
            let before = FOUND.load(Ordering::Relaxed);
            let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
            assert_eq!(common_digests(&outcome).len(), 31, "{name}, {p} places");
            // From the second step on, every place finds what it lost in the step before.
            let found = FOUND.load(Ordering::Relaxed) - before;
            assert!(found >= 29, "{name}, {p} places: a memory was found {found} times in 30 steps");
        }
    }
}

#[test]
fn no_two_roundings_of_a_call_share_what_a_codec_remembers() {
    let codec = || -> Box<dyn Compressor> { Box::new(Remembering { once: true, ..Remembering::default() }) };
    // There an owner's part and its sum share a slot on purpose: what either loses is missing from the same sum.
    let summing_at_owners = ["rank order", "star"];
    for (name, collective) in collectives() {
        for p in numbers_of_places().filter(|_| !summing_at_owners.contains(&name)) {
            run(p, 101, &collective, codec);
        }
    }
}

/// Fails when it is asked for more than the start of a run.
struct Never;

impl Compressor for Never {
    fn encode(&mut self, slot: Slot, _: &[f32]) -> Packet {
        assert_eq!(slot.kind, strategies::Kind::Broadcast, "there is no rank to encode for");
        Packet::default()
    }
    fn decode(&self, _: &Packet, _: &mut [f32]) -> Result<(), StepError> {
        Ok(())
    }
    fn guarantee(&self) -> Guarantee {
        Guarantee::Unbiased
    }
    fn linear(&self) -> bool {
        false
    }
}

#[test]
fn a_single_place_codes_nothing() {
    for (name, collective) in collectives() {
        let outcome = run(1, 10, &collective, || Box::new(Never));
        assert_eq!(outcome.ranks[0].model(), &own(Rank(0), 10), "{name}");
        assert_eq!((outcome.messages, collective.cost(10, 1, 0)), (0, Cost::default()), "{name}");
    }
}

/// With a learner whose numbers add exactly, whatever the recipe asks for trains the same model.
#[test]
fn every_collective_of_a_recipe_trains_the_same_model() {
    let all = [
        recipe::Collective::Ring,
        recipe::Collective::PipelinedRing { segments: 3 },
        recipe::Collective::Tree,
        recipe::Collective::RecursiveDoubling,
        recipe::Collective::HalvingDoubling,
        recipe::Collective::Star,
        recipe::Collective::Hierarchical { group_size: Some(3) },
        recipe::Collective::Hierarchical { group_size: None },
    ];
    for workers in [1, 2, 4, 8] {
        let outcomes = all.map(|collective| {
            let scene = Scene::new(Strategy::DSync, workers).widths(&[6, 4]).change(|spec| {
                spec.train.global_batch = 64;
                spec.train.length = recipe::Extent::Steps(3);
                spec.communication.collective = collective;
                spec.cluster
                    .placements
                    .iter_mut()
                    .zip(MACHINES)
                    .for_each(|(placement, machine)| placement.node = machine);
            });
            scene.run()
        });
        let digests: Vec<_> = outcomes.iter().map(common_digests).collect();
        assert_eq!(digests[0].len(), 4);
        for (collective, digests) in all.iter().zip(&digests) {
            assert_eq!(digests, &common_digests(&outcomes[0]), "{collective:?}, {workers} workers");
        }
        // Each of these sends in a pattern of its own: none is another one by mistake.
        let sent = |outcome: &strategies::sim::WorldOutcome| -> Vec<u64> {
            outcome.ranks.iter().map(|rank| rank.steps(record::LaneId::Compute)[0].bytes_out).collect()
        };
        let patterns: BTreeSet<(u64, Vec<u64>)> =
            outcomes.iter().map(|outcome| (outcome.messages, sent(outcome))).collect();
        assert!(workers < 8 || patterns.len() == all.len(), "{patterns:?}");
    }
}
