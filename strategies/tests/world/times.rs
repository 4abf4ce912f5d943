//! How long each all-reduce takes on a link of known latency and bandwidth, against the formula in its file: to the
//! nanosecond where that is exact.

use crate::collectives::{SEGMENT, all_in, collectives, own, run_in};
use record::Nanos;
use std::sync::Arc;
use strategies::collective::{
    AllGather, CollectiveAlgorithm, HalvingDoubling, Hierarchical, PipelinedRing, RankOrder, Rates,
    RecursiveDoubling, Ring, Star, Tree,
};
use strategies::compress::Identity;
use strategies::sim::{Costs, Link, World};

/// Nanoseconds per message, per byte, and per added element.
#[derive(Clone, Copy, Debug)]
struct Network {
    latency: u64,
    per_byte: u64,
    per_sum: u64,
}

const NETWORKS: [Network; 5] = [
    Network { latency: 50_000, per_byte: 2, per_sum: 0 },
    Network { latency: 50_000, per_byte: 2, per_sum: 5 },
    Network { latency: 10, per_byte: 3, per_sum: 12 },
    Network { latency: 0, per_byte: 8, per_sum: 1 },
    Network { latency: 1_000_000, per_byte: 0, per_sum: 0 },
];

fn measured(
    collective: &Arc<dyn CollectiveAlgorithm>,
    n: usize,
    p: usize,
    network: Network,
    seed: u64,
) -> f64 {
    let world = World {
        costs: Costs { reduce: network.per_sum as f64, ..Costs::default() },
        link: Link { latency: Nanos(network.latency), nanos_per_byte: network.per_byte as f64 },
        ..World::new(seed)
    };
    run_in(&world, p, &all_in(n, collective, own), || Box::new(Identity)).time.0 as f64
}

fn predicted(collective: &dyn CollectiveAlgorithm, n: usize, p: usize, network: Network) -> f64 {
    let rates = Rates {
        latency: network.latency as f64,
        per_element: 4.0 * network.per_byte as f64,
        per_sum: network.per_sum as f64,
    };
    collective.time(n, p, rates)
}

/// Where the formula is exact: for a number of places and of elements, with or without cost of sums.
fn exact(collective: impl CollectiveAlgorithm + 'static, places: &[usize], n: usize, sums: Sums) {
    let collective: Arc<dyn CollectiveAlgorithm> = Arc::new(collective);
    for p in places {
        for network in NETWORKS.into_iter().filter(|network| sums == Sums::Cost || network.per_sum == 0) {
            for seed in 1..6 {
                let measured = measured(&collective, n, *p, network, seed);
                let predicted = predicted(collective.as_ref(), n, *p, network);
                assert!(
                    (measured - predicted).abs() < 1e-6,
                    "{p} places, {n} elements, {network:?}: {measured} instead of {predicted}"
                );
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Sums {
    Free,
    Cost,
}

const POWERS: [usize; 5] = [1, 2, 4, 8, 16];
const ALL: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];
/// 1 to 9, and 16 times 4, divide it.
const ELEMENTS: usize = 20160;

#[test]
fn a_ring_takes_what_its_file_says() {
    exact(Ring, &ALL, ELEMENTS, Sums::Cost);
    // Three segments in each chunk.
    exact(Ring, &[3], 3 * 3 * SEGMENT, Sums::Cost);
}

/// A chunk is encoded p - 1 times as a partial sum, also where it only passes through, and once complete; p - 1 chunks are decoded.
#[test]
fn a_ring_counts_the_encoding_of_sums_that_pass_through() {
    let ring: Arc<dyn CollectiveAlgorithm> = Arc::new(Ring);
    let world = World {
        costs: Costs { code: 3.0, ..Costs::default() },
        link: Link { latency: Nanos(0), nanos_per_byte: 0.0 },
        ..World::new(1)
    };
    for p in ALL.into_iter().filter(|p| *p > 1) {
        let time = run_in(&world, p, &all_in(ELEMENTS, &ring, own), || Box::new(Identity)).time;
        assert_eq!(time, Nanos((3 * (2 * p - 1) * ELEMENTS / p) as u64), "{p} places");
    }
}

#[test]
fn a_pipelined_ring_takes_what_its_file_says() {
    for segments in [1, 2, 4] {
        exact(PipelinedRing::new(segments), &ALL, ELEMENTS, Sums::Cost);
    }
}

#[test]
fn a_tree_takes_what_its_file_says() {
    exact(Tree, &POWERS, 1001, Sums::Cost);
}

#[test]
fn recursive_doubling_takes_what_its_file_says() {
    exact(RecursiveDoubling, &POWERS, 1001, Sums::Cost);
}

#[test]
fn halving_and_doubling_takes_what_its_file_says() {
    exact(HalvingDoubling, &POWERS, ELEMENTS, Sums::Cost);
}

#[test]
fn groups_take_what_their_file_says() {
    for size in [1, 2, 4, 8, 16] {
        let places: Vec<usize> = POWERS.into_iter().filter(|p| *p >= size).collect();
        exact(Hierarchical::of_neighbours(size), &places, 1001, Sums::Cost);
    }
}

#[test]
fn stars_and_the_rank_order_take_what_their_files_say() {
    exact(Star, &ALL, 1001, Sums::Free);
    exact(AllGather, &ALL, 1001, Sums::Free);
    exact(RankOrder, &ALL, ELEMENTS, Sums::Free);
}

/// Nanoseconds beyond its formula that a collective's file allows, where the formula is not exact.
fn slack(name: &str, n: usize, p: usize, network: Network) -> f64 {
    let per_element = 4.0 * network.per_byte as f64;
    let per_sum = network.per_sum as f64;
    match name {
        "recursive doubling" | "halving and doubling" => n as f64 * per_element,
        "star" | "all gather" => ((p - 1) * n) as f64 * per_sum,
        "rank order" => ((p - 1) * n.div_ceil(p)) as f64 * per_sum,
        _ => 0.0,
    }
}

#[test]
fn no_number_of_places_takes_longer_than_stated() {
    for (name, collective) in collectives() {
        for p in ALL {
            for n in [0, 1, p - 1, 1001] {
                for (network, seed) in NETWORKS.into_iter().zip(1..) {
                    let most = predicted(collective.as_ref(), n, p, network) + slack(name, n, p, network);
                    let measured = measured(&collective, n, p, network, seed);
                    assert!(
                        measured <= most,
                        "{name}, {p} places, {n} elements, {network:?}: {measured}, stated {most}"
                    );
                }
            }
        }
    }
}
