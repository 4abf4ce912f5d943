//! Every all-reduce against a direct sum, its stated cost against counted traffic, and all places against each
//! other, with and without a lossy codec.

use crate::scene::{Scene, common_digests};
use recipe::Strategy;
use record::Rank;
use std::sync::Arc;
use strategies::collective::{Collective, RankOrder, Ring, Star};
use strategies::compress::{Compressor, Guarantee, Identity, Slot};
use strategies::draw::mix;
use strategies::{Blueprint, Loss, Node, Packet, Roles, StepError, Vector};

fn collectives() -> Vec<(&'static str, Arc<dyn Collective>)> {
    vec![("ring", Arc::new(Ring)), ("rank order", Arc::new(RankOrder)), ("star", Arc::new(Star))]
}

/// Replaces the weights by the sum of every place's own vector.
struct Sums {
    elements: usize,
    collective: Arc<dyn Collective>,
    own: fn(Rank, usize) -> Vector,
}

fn own(rank: Rank, elements: usize) -> Vector {
    let values: Vec<f32> =
        (0..elements).map(|i| (mix(u64::from(rank.0), i as u64) % 2001) as f32 / 8.0 - 125.0).collect();
    values.into()
}

impl strategies::Strategy for Sums {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let mut x = (self.own)(node.rank(), self.elements);
        let tag = node.tag(strategies::Kind::Reduce);
        let group = node.trainers().clone();
        self.collective.all_reduce_sum(&mut x, tag, &mut node.wire_over(&group))?;
        *node.params_mut() = x;
        Ok(Loss(0.0))
    }
}

fn run(
    workers: u32,
    elements: usize,
    collective: &Arc<dyn Collective>,
    codec: fn() -> Box<dyn Compressor>,
) -> strategies::sim::Outcome {
    run_on(workers, elements, collective, codec, own)
}

fn run_on(
    workers: u32,
    elements: usize,
    collective: &Arc<dyn Collective>,
    codec: fn() -> Box<dyn Compressor>,
    own: fn(Rank, usize) -> Vector,
) -> strategies::sim::Outcome {
    let scene = Scene::new(Strategy::DSync, workers).widths(&[1, 1]).change(|spec| {
        spec.train.length = recipe::Extent::Steps(1);
    });
    let blueprint: Blueprint = scene.blueprint().with_codec(codec);
    let roles = |_: Rank, _: &dyn strategies::Host, _: &strategies::Shared<strategies::Jobs>| {
        let sums = Sums { elements, collective: collective.clone(), own };
        Roles { trainer: Some(Box::new(sums)), services: vec![], evaluated: None }
    };
    scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap()
}

#[test]
fn every_length_on_every_number_of_places_is_the_direct_sum() {
    for (name, collective) in collectives() {
        for p in 1..9_u32 {
            for n in 0..3 * p as usize {
                let outcome = run(p, n, &collective, || Box::new(Identity));
                // Eighths below 2^10 add exactly, in any order.
                let expected: Vec<f32> =
                    (0..n).map(|i| (0..p).map(|rank| own(Rank(rank), n)[i]).sum()).collect();
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
        for p in 1..9_usize {
            for n in [0, 1, p - 1, p, 3 * p + 1, 100, 65_536 * p, 65_536 * p + 1] {
                let outcome = run(p as u32, n, &collective, || Box::new(Identity));
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
                    assert_eq!(steps[0].bytes_out as usize, 4 * cost.elements);
                }
            }
        }
    }
}

/// A vector whose sums are rounded, so that their order shows.
fn rough(rank: Rank, elements: usize) -> Vector {
    let values: Vec<f32> =
        (0..elements).map(|i| 1.0 / (1 + mix(u64::from(rank.0), i as u64) % 100_003) as f32).collect();
    values.into()
}

/// More segments than are on their way at once, the last ones of unequal length.
#[test]
fn the_ring_adds_each_chunk_in_its_stated_order_however_long_it_is() {
    for (p, n) in [(2, 2 * 17 * 65_536 + 3), (3, 3 * 18 * 65_536 - 2), (5, 5 * 2 * 65_536 + 1)] {
        let outcome =
            run_on(p as u32, n, &(Arc::new(Ring) as Arc<dyn Collective>), || Box::new(Identity), rough);
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

/// Keeps 4 significant bits of the largest element: coarse, and not idempotent, so that whoever keeps what it
/// sent instead of what the others decode is found out.
struct Coarse;

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
        for p in [2, 3, 5] {
            let scene =
                Scene::new(Strategy::DSync, p).change(|spec| spec.train.length = recipe::Extent::Steps(100));
            let blueprint =
                scene.blueprint().with_codec(|| Box::new(Coarse)).with_collective(collective.clone());
            let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
            assert_eq!(common_digests(&outcome).len(), 101, "{name}, {p} places");
        }
    }
}

#[test]
fn the_rank_order_codes_every_part_once_its_own_too() {
    let outcome = run(3, 10, &(Arc::new(RankOrder) as Arc<dyn Collective>), || Box::new(Coarse));
    let through = |x: &[f32]| {
        let slot = Slot { kind: strategies::Kind::Reduce, at: 0, peer: Rank(0) };
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
