//! Table II of MG-WFBP beside the times of the collectives that run: equal for a power of two of workers, vectors that
//! divide evenly and rings in one segment.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]
#![expect(clippy::float_cmp, reason = "powers of two and whole numbers make every sum exact")]

use predict::all_reduce::{binary_tree, halving_doubling, recursive_doubling, ring};
use predict::linear::Linear;
use predict::network::LinkRates;
use std::num::NonZeroU32;
use strategies::collective::{CollectiveAlgorithm, HalvingDoubling, Rates, RecursiveDoubling, Ring, Tree};

/// alpha = 64, beta = 16 and gamma = 8 per byte; a collective counts elements of four bytes.
fn check(row: fn(LinkRates, NonZeroU32) -> Linear, collective: &dyn CollectiveAlgorithm) {
    let rates = LinkRates::new(64.0, 16.0, 8.0).unwrap();
    for workers in [1, 2, 4, 8, 16, 64] {
        for elements in [64, 4096] {
            let predicted = row(rates, NonZeroU32::new(workers).unwrap()).time(4 * elements as u64);
            let runs = Rates { latency: 64.0, per_element: 64.0, per_sum: 32.0 };
            let time = collective.time(elements, workers as usize, runs);
            assert_eq!(predicted, time, "{workers} workers, {elements} elements");
        }
    }
}

#[test]
fn a_tree_takes_what_table_2_says() {
    check(binary_tree, &Tree);
}

#[test]
fn recursive_doubling_takes_what_table_2_says() {
    check(recursive_doubling, &RecursiveDoubling);
}

#[test]
fn halving_and_doubling_takes_what_table_2_says() {
    check(halving_doubling, &HalvingDoubling);
}

#[test]
fn a_ring_takes_what_table_2_says() {
    check(ring, &Ring);
}
