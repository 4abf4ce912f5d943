//! The order in which each all-reduce adds, against a plain re-implementation of what its file says: with random
//! numbers every other order gives other bits. The same under a lossy codec, which makes every rounding visible.

use crate::collectives::{Coarse, MACHINES, all_in, collectives, numbers_of_places, run_in};
use record::{Nanos, Rank};
use std::ops::Range;
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, PipelinedRing, Ring};
use strategies::compress::{Compressor, Identity, Slot};
use strategies::rng::mix;
use strategies::sim::{Costs, World};
use strategies::vector::{add, piece};
use strategies::{Kind, Vector};

/// Anything between -1 and 1, of very different magnitudes.
fn random(rank: Rank, elements: usize) -> Vector {
    let value = |i: usize| {
        let drawn = mix(u64::from(rank.0) + 7, i as u64);
        let sign = if drawn & 1 == 0 { 1.0 } else { -1.0 };
        sign * (drawn >> 40) as f32 / (1 << 24) as f32 / (1 << (drawn % 11)) as f32
    };
    (0..elements).map(value).collect::<Vec<f32>>().into()
}

/// Effect of a codec on a vector: its values after encoding and decoding.
type Through = fn(&[f32]) -> Vec<f32>;

fn coarse(x: &[f32]) -> Vec<f32> {
    let slot = Slot { kind: Kind::Reduce, at: 0, step: 1, peer: Rank(0) };
    let mut y = vec![0.0; x.len()];
    Coarse.decode(&Coarse.encode(slot, x), &mut y).unwrap();
    y
}

fn sum(mut x: Vec<f32>, y: &[f32]) -> Vec<f32> {
    add(&mut x, y);
    x
}

/// Chunk by chunk round the ring; each chunk in some segments.
fn ring(all: &[Vec<f32>], segments: usize, through: Through) -> Vec<f32> {
    let p = all.len();
    let n = all[0].len();
    let mut total = Vec::new();
    for c in 0..p {
        let chunk = piece(n, p, c);
        for j in 0..segments.min(chunk.len()) {
            let part = piece(chunk.len(), segments.min(chunk.len()), j);
            let part = chunk.start + part.start..chunk.start + part.end;
            let of = |k: usize| all[(c + k) % p][part.clone()].to_vec();
            total.extend(through(&(1..p).fold(of(0), |so_far, k| sum(of(k), &through(&so_far)))));
        }
    }
    total
}

fn rank_order(all: &[Vec<f32>], chunks: usize, through: Through) -> Vec<f32> {
    let n = all[0].len();
    let chunk = |c| {
        let zero = vec![0.0; piece(n, chunks, c).len()];
        through(&all.iter().fold(zero, |so_far, own| sum(so_far, &through(&own[piece(n, chunks, c)]))))
    };
    (0..chunks).flat_map(chunk).collect()
}

/// The sum that place `k` has when `2^levels` places, itself first, are added up a tree.
fn subtree(all: &[Vec<f32>], k: usize, levels: u32, through: Through) -> Vec<f32> {
    let children = (0..levels).map(|i| (k + (1 << i), i)).filter(|(child, _)| *child < all.len());
    children
        .fold(all[k].clone(), |so_far, (child, i)| sum(so_far, &through(&subtree(all, child, i, through))))
}

fn tree(all: &[Vec<f32>], through: Through) -> Vec<f32> {
    subtree(all, 0, 10, through)
}

fn hierarchical(all: &[Vec<f32>], groups: &[Vec<usize>], through: Through) -> Vec<f32> {
    let inside = |group: &Vec<usize>| {
        let members: Vec<Vec<f32>> = group.iter().map(|k| all[*k].clone()).collect();
        tree(&members, through)
    };
    through(&tree(&groups.iter().map(inside).collect::<Vec<_>>(), through))
}

fn neighbours(p: usize, size: usize) -> Vec<Vec<usize>> {
    (0..p).collect::<Vec<_>>().chunks(size).map(<[usize]>::to_vec).collect()
}

fn machines(p: usize) -> Vec<Vec<usize>> {
    let on = |machine| (0..p).filter(|k| MACHINES[*k] == machine).collect::<Vec<_>>();
    // In the order in which they come first in the list.
    [2, 0, 1, 3].into_iter().map(on).filter(|group| !group.is_empty()).collect()
}

/// Pairs of hosts and guests, and those who are alone.
fn folded(all: &[Vec<f32>], through: Through) -> Vec<Vec<f32>> {
    let q = (1..=all.len()).rev().find(|q| q.is_power_of_two()).unwrap();
    let (pairs, alone) = all.split_at(2 * (all.len() - q));
    let pairs = pairs.chunks(2).map(|pair| sum(pair[0].clone(), &through(&pair[1])));
    pairs.chain(alone.iter().cloned()).collect()
}

fn recursive_doubling(all: &[Vec<f32>], through: Through) -> Vec<f32> {
    let mut sums = folded(all, through);
    let guests = sums.len() < all.len();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| sum(through(&pair[0]), &through(&pair[1]))).collect();
    }
    if guests { through(&sums[0]) } else { sums.remove(0) }
}

fn halving_doubling(all: &[Vec<f32>], through: Through) -> Vec<f32> {
    let n = all[0].len();
    let sums = folded(all, through);
    let q = sums.len();
    let span = |chunks: Range<usize>| piece(n, q, chunks.start).start..piece(n, q, chunks.end - 1).end;
    let mut total = Vec::new();
    for k in 0..q {
        // Who still counts for chunk k, what of the vector they still add, and their partial sums of it.
        let mut sums = sums.clone();
        let mut window = 0..q;
        while sums.len() > 1 {
            let d = sums.len() / 2;
            let begin = span(window.clone()).start;
            window = if k & d == 0 { window.start..window.start + d } else { window.start + d..window.end };
            let part = span(window.clone());
            let part = part.start - begin..part.end - begin;
            let (mine, theirs) = if k & d == 0 { (0, d) } else { (d, 0) };
            sums = (0..d)
                .map(|j| {
                    sum(sums[mine + j][part.clone()].to_vec(), &through(&sums[theirs + j][part.clone()]))
                })
                .collect();
        }
        total.extend(through(&sums[0]));
    }
    total
}

fn expected(name: &str, all: &[Vec<f32>], through: Through) -> Vec<f32> {
    let p = all.len();
    match name {
        _ if p == 1 => all[0].clone(),
        "ring" | "pipelined ring, 1 segment" => ring(all, 1, through),
        // As many segments as the shortest chunk has elements.
        "pipelined ring, 3 segments" => ring(all, (all[0].len() / p).clamp(1, 3), through),
        "rank order" => rank_order(all, p, through),
        "star" => rank_order(all, 1, through),
        "all gather" => all.iter().fold(vec![0.0; all[0].len()], |so_far, own| sum(so_far, &through(own))),
        "tree" => through(&tree(all, through)),
        "recursive doubling" => recursive_doubling(all, through),
        "halving and doubling" => halving_doubling(all, through),
        "groups of 1" => hierarchical(all, &neighbours(p, 1), through),
        "groups of 2" => hierarchical(all, &neighbours(p, 2), through),
        "groups of 3" => hierarchical(all, &neighbours(p, 3), through),
        "groups of 20" => hierarchical(all, &neighbours(p, 20), through),
        "groups by machine" => hierarchical(all, &machines(p), through),
        other => panic!("no plain form of {other}"),
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|value| value.to_bits()).collect()
}

fn check(codec: fn() -> Box<dyn Compressor>, through: Through) {
    for (name, collective) in collectives() {
        for p in numbers_of_places() {
            for n in [0, 1, p - 1, p, 2 * p + 1, 101] {
                let all: Vec<Vec<f32>> = (0..p).map(|k| random(Rank(k as u32), n).to_vec()).collect();
                let outcome = run_in(&World::new(1), p, &all_in(n, &collective, random), codec);
                let expected = bits(&expected(name, &all, through));
                for (place, rank) in outcome.ranks.iter().enumerate() {
                    assert_eq!(bits(rank.model()), expected, "{name}, place {place} of {p}, {n} elements");
                }
            }
        }
    }
}

#[test]
fn sums_are_added_in_the_stated_order() {
    check(|| Box::new(Identity), <[f32]>::to_vec);
}

#[test]
fn under_a_lossy_codec_each_place_ends_with_what_was_decoded_once() {
    check(|| Box::new(Coarse), coarse);
}

#[test]
fn no_interleaving_blocks_or_changes_a_bit() {
    let costs = Costs { reduce: 3.0, code: 2.0, ..Costs::default() };
    for (name, collective) in collectives() {
        for p in 2..=9 {
            let sums = all_in(37, &collective, random);
            let run = |seed, jitter: f64, slow: f64| {
                let mut world = World { costs: costs.clone(), jitter, ..World::new(seed) };
                world.slow.insert(Rank(p as u32 / 2), slow);
                world.link.latency = Nanos(20 * (seed % 5));
                let outcome = run_in(&world, p, &sums, || Box::new(Coarse));
                outcome.ranks.iter().map(|rank| bits(rank.model())).collect::<Vec<_>>()
            };
            let quiet = run(1, 0.0, 1.0);
            for seed in 2..30 {
                assert_eq!(
                    run(seed, 5.0, 1.0 + (seed % 3) as f64 * 40.0),
                    quiet,
                    "{name}, {p} places, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn segments_change_no_bit_of_an_exact_sum() {
    for p in numbers_of_places() {
        for n in [1, p, 100, 1001] {
            let run = |collective: Arc<dyn CollectiveAlgorithm>| {
                let outcome =
                    run_in(&World::new(1), p, &all_in(n, &collective, random), || Box::new(Identity));
                bits(outcome.ranks[0].model())
            };
            let ring = run(Arc::new(Ring));
            for segments in [2, 4, 64] {
                assert_eq!(run(Arc::new(PipelinedRing::new(segments))), ring, "{p} places, {n} elements");
            }
        }
    }
}
