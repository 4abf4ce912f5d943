//! The costs of all-reduces beside the times of the collectives that run: equal for vectors that divide evenly.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]
#![expect(clippy::float_cmp, reason = "powers of two and whole numbers make every sum exact")]

use predict::all_reduce::{
    all_gather, binary_tree, halving_doubling, in_rank_order, pipelined_ring, recursive_doubling, ring,
};
use predict::linear::Linear;
use predict::network::LinkRates;
use std::num::NonZeroU32;
use strategies::collective::{
    AllGather, CollectiveAlgorithm, HalvingDoubling, PipelinedRing, RankOrder, Rates, RecursiveDoubling,
    Ring, Tree,
};

/// alpha = 64, beta = 16 and gamma = 8 per byte; a collective counts elements of four bytes.
const RUNS: Rates = Rates { latency: 64.0, per_element: 64.0, per_sum: 32.0 };

fn rates() -> LinkRates {
    LinkRates::new(64.0, 16.0, 8.0).unwrap()
}

fn number(count: usize) -> NonZeroU32 {
    NonZeroU32::new(count as u32).unwrap()
}

/// A multiple of each number of workers makes every chunk as long as every other.
fn check(row: fn(LinkRates, NonZeroU32) -> Linear, collective: &dyn CollectiveAlgorithm) {
    for workers in [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64] {
        for elements in [64 * workers, 256 * workers] {
            let predicted = row(rates(), number(workers)).time(4 * elements as u64);
            let time = collective.time(elements, workers, RUNS);
            assert!(
                (predicted / time - 1.0).abs() < 1e-12 || predicted == time,
                "{workers} workers, {elements}: {predicted} {time}"
            );
        }
    }
}

#[test]
fn a_tree_takes_what_table_2_says() {
    check(binary_tree, &Tree);
}

#[test]
fn recursive_doubling_takes_what_table_2_says_and_the_fold() {
    check(recursive_doubling, &RecursiveDoubling);
}

#[test]
fn halving_and_doubling_takes_what_table_2_says_and_the_fold() {
    check(halving_doubling, &HalvingDoubling);
}

#[test]
fn a_ring_takes_what_table_2_says() {
    check(ring, &Ring);
}

#[test]
fn those_that_are_not_in_table_2_take_what_their_files_say() {
    check(in_rank_order, &RankOrder);
    check(all_gather, &AllGather);
}

#[test]
fn a_ring_in_segments_takes_what_its_file_says() {
    for workers in [1, 2, 3, 4, 8] {
        for segments in [1, 2, 4, 16] {
            let elements = 32 * workers * segments;
            let predicted = pipelined_ring(rates(), number(workers), number(segments), 4 * elements as u64);
            let time = PipelinedRing::new(segments).time(elements, workers, RUNS);
            assert!((predicted - time).abs() <= 1e-12 * time, "{workers} {segments}: {predicted} {time}");
        }
    }
}
