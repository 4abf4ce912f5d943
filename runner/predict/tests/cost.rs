//! Costs of messages and all-reduces against their papers.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]
#![expect(clippy::float_cmp, reason = "whole numbers make every sum exact")]

use predict::all_reduce::{binary_tree, halving_doubling, recursive_doubling, ring};
use predict::elastic;
use predict::linear::{Fit, FitError, Held, Linear, Probe};
use predict::network::{LinkRates, NamedNetwork};
use predict::pipe_sgd::{RingExchange, Stages};
use proptest::prelude::*;
use std::num::NonZeroU32;

fn workers(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn probes(times: &[[f64; 2]]) -> Vec<Probe> {
    times.iter().map(|[bytes, seconds]| Probe { bytes: *bytes as u64, seconds: *seconds }).collect()
}

fn parts(line: Linear) -> [f64; 2] {
    [line.start_up(), line.per_byte()]
}

/// Powers of two, so that Table II is exact: N = 4, alpha = 16, beta = 8, gamma = 4.
#[test]
fn table_2_for_four_workers() {
    let rates = LinkRates::new(16.0, 8.0, 4.0).unwrap();
    assert_eq!(parts(binary_tree(rates, workers(4))), [64.0, 40.0]);
    assert_eq!(parts(recursive_doubling(rates, workers(4))), [32.0, 24.0]);
    // 2 * 8 - (2 * 8 + 4) / 4 + 4
    assert_eq!(parts(halving_doubling(rates, workers(4))), [64.0, 15.0]);
    assert_eq!(parts(ring(rates, workers(4))), [96.0, 15.0]);
}

#[test]
fn one_worker_reduces_nothing() {
    let rates = LinkRates::new(16.0, 8.0, 4.0).unwrap();
    for line in [binary_tree, recursive_doubling, halving_doubling, ring] {
        assert_eq!(parts(line(rates, workers(1))), [0.0, 0.0]);
    }
    assert_eq!(elastic::tree(rates, workers(1), 100), 0.0);
}

#[test]
fn logarithms_of_trees_are_rounded_up() {
    let rates = LinkRates::new(1.0, 0.0, 0.0).unwrap();
    let rounds = |count| binary_tree(rates, workers(count)).start_up();
    assert_eq!([2, 3, 4, 5, 8, 9].map(rounds), [2.0, 4.0, 4.0, 6.0, 6.0, 8.0]);
}

/// SC17 section 6.1: P against log P.
#[test]
fn a_tree_serves_the_centre_in_log_p() {
    let rates = LinkRates::new(16.0, 8.0, 4.0).unwrap();
    assert_eq!(elastic::one_by_one(rates, workers(8), 2), 8.0 * 32.0);
    assert_eq!(elastic::tree(rates, workers(8), 2), 3.0 * 32.0);
    // Two latencies, and the bytes of eight vectors and of a half; through two servers, of a whole model on the last worker's link and of
    // half of what the others' links carry before.
    assert_eq!(elastic::servers(rates, workers(8), workers(1), 0.5, 2), 32.0 + 8.5 * 16.0);
    assert_eq!(elastic::servers(rates, workers(8), workers(2), 0.5, 2), 32.0 + 4.75 * 16.0);
}

#[test]
fn table_2_of_sc17() {
    let numbers = NamedNetwork::ALL.map(|network| (network.rates().alpha(), network.rates().beta()));
    assert_eq!(numbers, [(0.7e-6, 0.2e-9), (1.2e-6, 0.3e-9), (7.2e-6, 0.9e-9)]);
    for network in NamedNetwork::ALL {
        let rates = network.rates();
        assert_eq!(LinkRates::new(rates.alpha(), rates.beta(), rates.gamma()), Ok(rates));
    }
}

#[test]
fn rates_are_checked() {
    assert!(LinkRates::new(f64::NAN, 0.0, 0.0).is_err_and(|error| error.rate == "alpha"));
    assert!(LinkRates::new(0.0, -1.0, 0.0).is_err_and(|error| error.rate == "beta"));
    assert!(LinkRates::new(0.0, 0.0, f64::INFINITY).is_err_and(|error| error.rate == "gamma"));
}

/// Pipe-SGD Eq. 2, 3, 4 and 7 for an iteration bound by communication, and for one bound by computing.
#[test]
fn stages_of_pipe_sgd() {
    let bound = Stages::new(1.0, 3.0, 8.0).unwrap();
    assert_eq!((bound.synchronous(), bound.unlimited(workers(2)), bound.pipelined()), (12.0, 6.0, 8.0));
    assert_eq!(bound.scaling_efficiency(), 0.5);
    let hidden = Stages::new(1.0, 7.0, 8.0).unwrap();
    assert_eq!((hidden.pipelined(), hidden.scaling_efficiency()), (8.0, 1.0));
    assert_eq!(Stages::new(0.0, 0.0, 0.0).unwrap().scaling_efficiency(), 1.0);
    assert!(Stages::new(0.0, f64::NAN, 0.0).is_err_and(|error| error.stage == "compute"));
}

/// Eq. 5 and 6 with p = 4, n = 2 and S = 5; the segments cost (L - 1) (2 (p - 1) alpha + S) more.
#[test]
fn segments_cost_start_ups() {
    let exchange = |segments| RingExchange {
        rates: LinkRates::new(16.0, 8.0, 4.0).unwrap(),
        workers: workers(4),
        bytes: 2,
        segments: workers(segments),
        synchronization: 5.0,
    };
    assert_eq!(exchange(1).seconds(), 96.0 + 30.0 + 5.0);
    assert_eq!(exchange(3).seconds(), 3.0 * 96.0 + 30.0 + 15.0);
}

proptest! {
    /// Whole numbers on a line with sizes symmetric about their mean: every sum is exact, and so are a and b.
    #[test]
    fn a_fit_recovers_a_line(a in 0..1000_u32, b in 0..50_u32, middle in 100..1000_u32, off in 1..100_u32) {
        let [a, b, middle, off] = [a, b, middle, off].map(f64::from);
        let at = |bytes: f64| [bytes, a + b * bytes];
        let fit = Fit::of(&probes(&[at(middle - off), at(middle), at(middle), at(middle + off)])).unwrap();
        prop_assert_eq!(parts(fit.cost), [a, b]);
        prop_assert_eq!((fit.residuals, fit.held), (vec![0.0; 4], None));
    }

    /// No allowed line beside the fitted one has a smaller sum of squares.
    #[test]
    fn a_fit_is_the_best_allowed_line(
        times in prop::collection::vec((1..100_u32, 0..100_u32), 3..10), da in -8..=8_i32, db in -8..=8_i32
    ) {
        let times: Vec<_> = times.iter().map(|(bytes, seconds)| [f64::from(*bytes), f64::from(*seconds)]).collect();
        let Ok(fit) = Fit::of(&probes(&times)) else { return Ok(()) };
        let squares = |line: Linear| times.iter().map(|[x, y]| (y - line.time(*x as u64)).powi(2)).sum::<f64>();
        let [a, b] = parts(fit.cost);
        let Ok(other) = Linear::new(a + f64::from(da) / 4.0, b + f64::from(db) / 64.0) else { return Ok(()) };
        prop_assert!(squares(fit.cost) <= squares(other) * (1.0 + 1e-12) + 1e-9);
    }
}

#[test]
fn a_fit_names_its_residuals() {
    let fit = Fit::of(&probes(&[[1.0, 3.0], [2.0, 3.0], [3.0, 7.0], [2.0, 7.0]])).unwrap();
    assert_eq!((parts(fit.cost), fit.residuals), ([1.0, 2.0], vec![0.0, -2.0, 0.0, 2.0]));
}

#[test]
fn a_line_is_held_above_zero() {
    let steep = Fit::of(&probes(&[[1.0, 0.0], [2.0, 5.0]])).unwrap();
    assert_eq!((parts(steep.cost), steep.held), ([0.0, 2.0], Some(Held::StartUp)));
    assert_eq!(steep.residuals, [-2.0, 1.0]);
    let falling = Fit::of(&probes(&[[1.0, 5.0], [2.0, 3.0]])).unwrap();
    assert_eq!((parts(falling.cost), falling.held), ([4.0, 0.0], Some(Held::PerByte)));
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    assert_eq!(Fit::of(&[]), Err(FitError::OneSize { probes: 0 }));
    assert_eq!(Fit::of(&probes(&[[4.0, 1.0]])), Err(FitError::OneSize { probes: 1 }));
    assert_eq!(Fit::of(&probes(&[[4.0, 1.0], [4.0, 2.0]])), Err(FitError::OneSize { probes: 2 }));
    assert_eq!(Fit::of(&probes(&[[4.0, 1.0], [0.0, 2.0]])), Err(FitError::Empty { index: 1 }));
    let wrong = Fit::of(&probes(&[[4.0, 1.0], [5.0, f64::NAN]]));
    assert!(matches!(wrong, Err(FitError::Time { index: 1, .. })));
    assert_eq!(Fit::of(&probes(&[[4.0, f64::MAX], [5.0, f64::MAX]])), Err(FitError::Overflow));
}

/// Sizes that differ a thousandfold, each off by the same share: among absolute residuals the longest would decide.
#[test]
fn a_relative_fit_is_as_close_to_small_messages_as_to_large_ones() {
    let truth = |bytes: u64| 1e-3 + 1e-8 * bytes as f64;
    let probes: Vec<Probe> = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
        .into_iter()
        .zip([1.02, 0.98, 1.02, 0.98, 1.02])
        .map(|(bytes, off)| Probe { bytes, seconds: off * truth(bytes) })
        .collect();
    let fit = Fit::relative(&probes).unwrap();
    assert!((fit.cost.start_up() - 1e-3).abs() < 0.03e-3, "{fit:?}");
    assert!((fit.cost.per_byte() - 1e-8).abs() < 0.03e-8, "{fit:?}");
    assert!(fit.largest_share(&probes) < 0.05 && fit.held.is_none(), "{fit:?}");
    let absolute = Fit::of(&probes).unwrap();
    assert!(
        (absolute.cost.start_up() - 1e-3).abs() > 0.05e-3,
        "the test could not tell the two apart: {absolute:?}"
    );
}

#[test]
fn a_relative_fit_stays_where_a_cost_may_lie() {
    let probes = |seconds: [f64; 3]| -> Vec<Probe> {
        [100, 200, 400].into_iter().zip(seconds).map(|(bytes, seconds)| Probe { bytes, seconds }).collect()
    };
    let falling = Fit::relative(&probes([3.0, 2.0, 1.0])).unwrap();
    assert_eq!((falling.cost.per_byte().to_bits(), falling.held), (0.0_f64.to_bits(), Some(Held::PerByte)));
    let through_zero = Fit::relative(&probes([0.5, 2.0, 8.0])).unwrap();
    assert_eq!(
        (through_zero.cost.start_up().to_bits(), through_zero.held),
        (0.0_f64.to_bits(), Some(Held::StartUp))
    );
    // No time at all is not an error: a simulated message may take none.
    let none = Fit::relative(&probes([0.0; 3])).unwrap();
    assert_eq!((none.cost.start_up().to_bits(), none.cost.per_byte().to_bits()), (0, 0));
    assert_eq!(none.largest_share(&probes([0.0; 3])).to_bits(), 0);
}
