//! Groupings and their time lines. All numbers are whole, so that every sum is exact and every comparison is of equal bits.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]
#![expect(clippy::float_cmp, reason = "whole numbers make every sum exact")]

use predict::linear::{Linear, LinearError};
use predict::schedule::{
    Grouping, GroupingError, LayerTime, ProfileError, SectionCosts, StepProfile, TimeLine, fixed, merged,
    merged_exact, per_layer, single,
};
use proptest::prelude::*;

fn cost(a: f64, b: f64) -> Linear {
    Linear::new(a, b).unwrap()
}

/// Backward times and bytes.
fn profile(forward: f64, layers: &[[u32; 2]]) -> StepProfile {
    let time =
        |[backward, bytes]: &[u32; 2]| LayerTime { backward: f64::from(*backward), bytes: u64::from(*bytes) };
    StepProfile::new(forward, &layers.iter().map(time).collect::<Vec<_>>()).unwrap()
}

fn iteration(profile: &StepProfile, cost: Linear, grouping: &Grouping) -> f64 {
    TimeLine::of(profile, cost, grouping).unwrap().iteration
}

/// The grouping whose groups end after the layers with a bit; the last layer always ends one.
fn of_bits(layers: usize, bits: u32) -> Grouping {
    let ends = (1..=layers).filter(|end| *end == layers || bits >> (end - 1) & 1 == 1);
    Grouping::new(ends.collect(), layers).unwrap()
}

/// The least iteration time of all groupings.
fn brute_force(profile: &StepProfile, cost: Linear) -> f64 {
    let all = 0..1_u32 << (profile.layers() - 1);
    all.map(|bits| iteration(profile, cost, &of_bits(profile.layers(), bits))).fold(f64::INFINITY, f64::min)
}

/// Algorithm 1 line by line, with the paper's numbers of layers, arrays from 1, and the two mends; only for layers that all
/// have weights.
fn algorithm_1(forward: f64, layers: &[[u32; 2]], a: f64, b: f64) -> Vec<usize> {
    let count = layers.len();
    let of = |l: usize| layers[count - l];
    let mut p: Vec<f64> = (0..=count).map(|l| if l == 0 { 0.0 } else { f64::from(of(l)[1]) }).collect();
    let tb: Vec<f64> = (0..=count).map(|l| if l == 0 { 0.0 } else { f64::from(of(l)[0]) }).collect();
    let mut tc: Vec<f64> = p.iter().map(|p| a + b * p).collect();
    let mut tau_b = vec![0.0; count + 1];
    tau_b[count] = forward;
    for l in (0..count).rev() {
        tau_b[l] = tau_b[l + 1] + tb[l + 1];
    }
    let starts = |tc: &[f64]| {
        let mut tau_c = vec![0.0; count + 1];
        tau_c[count] = tau_b[count] + tb[count];
        for l in (1..count).rev() {
            tau_c[l] = f64::max(tau_c[l + 1] + tc[l + 1], tau_b[l] + tb[l]);
        }
        tau_c
    };
    let mut tau_c = starts(&tc);
    let mut unmerged = Vec::new();
    for l in (2..=count).rev() {
        if tau_b[l - 2] - tau_c[l] < a {
            tc[l] = 0.0;
            p[l - 1] += p[l];
            tc[l - 1] = a + b * p[l - 1];
            tau_c = starts(&tc);
        } else {
            unmerged.push(count - l + 1);
        }
    }
    unmerged.push(count);
    unmerged
}

fn layers(bytes: impl Strategy<Value = u32> + Clone) -> impl Strategy<Value = Vec<[u32; 2]>> {
    prop::collection::vec((0..30_u32, bytes).prop_map(|(backward, bytes)| [backward, bytes]), 1..=12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_exact_plan_is_the_best_of_all(
        forward in 0..20_u32, layers in layers(0..20_u32), a in 0..40_u32, b in 0..4_u32
    ) {
        let profile = profile(forward.into(), &layers);
        let cost = cost(a.into(), b.into());
        let best = iteration(&profile, cost, &merged_exact(&profile, cost));
        prop_assert_eq!(best, brute_force(&profile, cost));
        for other in [per_layer(&profile), single(&profile), fixed(&profile, 25), merged(&profile, cost)] {
            prop_assert!(best <= iteration(&profile, cost, &other), "{:?}", other);
        }
    }

    #[test]
    fn plans_of_sections_are_the_best_that_no_group_reaches_across(
        layers in layers(0..20_u32), walls in any::<u32>(), costs in prop::collection::vec((0..40_u32, 0..4_u32), 12)
    ) {
        let layer_count = layers.len();
        let ends: Vec<usize> = (1..layer_count).filter(|end| walls >> end & 1 == 1).collect();
        let profile = profile(3.0, &layers).in_sections(&ends);
        let costs = SectionCosts::new(costs.into_iter().map(|(a, b)| cost(a.into(), b.into()))).unwrap();
        let of = |grouping: &Grouping| TimeLine::of(&profile, &costs, grouping).unwrap().iteration;
        let within = |grouping: &Grouping| ends.iter().all(|end| grouping.ends().contains(end));
        let all = (0..1_u32 << (layer_count - 1)).map(|bits| of_bits(layer_count, bits));
        let best = all.filter(within).map(|grouping| of(&grouping)).fold(f64::INFINITY, f64::min);
        let exact = merged_exact(&profile, &costs);
        prop_assert!(within(&exact));
        prop_assert_eq!(of(&exact), best);
        let merged = merged(&profile, &costs);
        prop_assert!(within(&merged) && of(&merged) <= of(&per_layer(&profile)));
        prop_assert!(within(&fixed(&profile, 25)));
        let mut sections = ends.clone();
        sections.push(layer_count);
        let whole = single(&profile);
        prop_assert_eq!(whole.ends(), sections);
    }

    #[test]
    fn each_merge_of_the_paper_gains(
        layers in layers(0..20_u32), a in 0..40_u32, b in 0..4_u32
    ) {
        let profile = profile(3.0, &layers);
        let cost = cost(a.into(), b.into());
        let merged = iteration(&profile, cost, &merged(&profile, cost));
        prop_assert!(merged <= iteration(&profile, cost, &per_layer(&profile)));
    }

    #[test]
    fn merged_is_algorithm_1(
        layers in layers(1..20_u32), a in 0..40_u32, b in 0..4_u32
    ) {
        let groups = merged(&profile(3.0, &layers), cost(a.into(), b.into()));
        prop_assert_eq!(groups.ends(), algorithm_1(3.0, &layers, a.into(), b.into()));
    }

    /// Eq. 7 and 8 as sums: the link is idle or busy, and the exposed time follows the backward pass.
    #[test]
    fn messages_follow_each_other_and_their_layers(
        layers in layers(0..20_u32), bits in any::<u32>(), a in 0..40_u32, b in 0..4_u32
    ) {
        let profile = profile(3.0, &layers);
        let cost = cost(a.into(), b.into());
        let line = TimeLine::of(&profile, cost, &of_bits(layers.len(), bits)).unwrap();
        let mut next = 0;
        let mut free = 0.0;
        for message in &line.messages {
            prop_assert_eq!(message.layers.start, next);
            next = message.layers.end;
            let finished = 3.0 + layers[..next].iter().map(|[backward, _]| f64::from(*backward)).sum::<f64>();
            prop_assert_eq!(message.begin, f64::max(free, finished));
            let bytes: u32 = layers[message.layers.clone()].iter().map(|[_, bytes]| bytes).sum();
            prop_assert_eq!(message.bytes, u64::from(bytes));
            let takes = if bytes == 0 { 0 } else { a + b * bytes };
            prop_assert_eq!(message.end - message.begin, f64::from(takes));
            free = message.end;
        }
        prop_assert_eq!(next, layers.len());
        prop_assert_eq!(line.iteration, free);
        prop_assert_eq!(line.computed + line.exposed(), line.iteration);
    }

    #[test]
    fn buckets_hold_at_least_their_bytes(layers in layers(0..20_u32), bytes in 0..60_u64) {
        let profile = profile(3.0, &layers);
        let line = TimeLine::of(&profile, cost(1.0, 1.0), &fixed(&profile, bytes)).unwrap();
        let (last, full) = line.messages.split_last().unwrap();
        for message in full {
            prop_assert!(message.bytes >= bytes);
        }
        for message in full.iter().chain([last]) {
            let end = message.layers.end - 1;
            let without = message.bytes - u64::from(layers[end][1]);
            prop_assert!(message.layers.len() == 1 || without < bytes, "{:?}", message);
        }
    }
}

#[test]
fn the_greedy_plan_is_not_the_best() {
    let profile = profile(0.0, &[[1, 1], [1, 1], [2, 1]]);
    let cost = cost(2.0, 1.0);
    let greedy = merged(&profile, cost);
    let best = merged_exact(&profile, cost);
    assert_eq!((greedy.ends(), iteration(&profile, cost, &greedy)), (&[2, 3][..], 9.0));
    assert_eq!((best.ends(), iteration(&profile, cost, &best)), (&[1, 3][..], 8.0));
}

/// Case 1 of section III: what a layer sends is hidden by the next layer, and only the last message shows (Eq. 11).
#[test]
fn all_is_hidden_but_the_last_message() {
    let profile = profile(5.0, &[[4, 1], [4, 2], [4, 1]]);
    let cost = cost(1.0, 1.0);
    let plan = per_layer(&profile);
    assert_eq!(TimeLine::of(&profile, cost, &plan).unwrap().exposed(), 2.0);
    assert_eq!(merged(&profile, cost), plan);
    assert_eq!(merged_exact(&profile, cost), plan);
}

#[test]
fn an_expensive_start_makes_one_group() {
    let profile = profile(5.0, &[[4, 1], [4, 2], [4, 1]]);
    for plan in [merged(&profile, cost(100.0, 1.0)), merged_exact(&profile, cost(100.0, 1.0))] {
        assert_eq!(plan, single(&profile));
    }
}

#[test]
fn without_a_start_no_layer_waits() {
    let profile = profile(5.0, &[[1, 9], [1, 9], [1, 9]]);
    let cost = cost(0.0, 1.0);
    let alone = iteration(&profile, cost, &per_layer(&profile));
    assert_eq!(alone, 5.0 + 1.0 + 27.0);
    assert_eq!(iteration(&profile, cost, &merged_exact(&profile, cost)), alone);
    assert_eq!(iteration(&profile, cost, &merged(&profile, cost)), alone);
    assert_eq!(iteration(&profile, cost, &single(&profile)), 5.0 + 3.0 + 27.0);
}

#[test]
fn a_free_network_exposes_nothing() {
    let profile = profile(5.0, &[[1, 9], [2, 9]]);
    let cost = cost(0.0, 0.0);
    for plan in [per_layer(&profile), single(&profile), merged(&profile, cost), merged_exact(&profile, cost)]
    {
        assert_eq!(TimeLine::of(&profile, cost, &plan).unwrap().exposed(), 0.0);
    }
}

#[test]
fn no_layers_are_no_groups() {
    let profile = profile(5.0, &[]);
    let cost = cost(2.0, 1.0);
    let plans = [
        per_layer(&profile),
        single(&profile),
        fixed(&profile, 7),
        merged(&profile, cost),
        merged_exact(&profile, cost),
    ];
    for plan in plans {
        assert_eq!(plan.ends(), [0; 0]);
        let line = TimeLine::of(&profile, cost, &plan).unwrap();
        assert_eq!((line.messages.len(), line.iteration, line.exposed()), (0, 5.0, 0.0));
    }
}

#[test]
fn each_way_has_its_number_of_groups() {
    let profile = profile(5.0, &[[1, 3], [1, 0], [1, 2], [1, 9], [1, 1]]);
    assert_eq!(per_layer(&profile).ends(), [1, 2, 3, 4, 5]);
    assert_eq!(single(&profile).ends(), [5]);
    assert_eq!(fixed(&profile, 0), per_layer(&profile));
    assert_eq!(fixed(&profile, 5).ends(), [3, 4, 5]);
    assert_eq!(fixed(&profile, 1000), single(&profile));
}

/// Nothing is sent for such layers, so that nothing is saved by waiting for them.
#[test]
fn layers_without_weights_cost_nothing() {
    let cost = cost(3.0, 1.0);
    let with = profile(0.0, &[[1, 4], [2, 0], [2, 0]]);
    let without = profile(0.0, &[[1, 4]]);
    for plan in [per_layer(&with), merged(&with, cost), merged_exact(&with, cost)] {
        let line = TimeLine::of(&with, cost, &plan).unwrap();
        assert_eq!(line.iteration, iteration(&without, cost, &single(&without)), "{plan:?}");
    }
    assert_eq!(iteration(&with, cost, &single(&with)), 5.0 + 7.0);
    let none = profile(1.0, &[[1, 0], [2, 0]]);
    assert_eq!(iteration(&none, cost, &merged(&none, cost)), 4.0);
}

#[test]
fn what_is_no_number_is_refused() {
    let layer = |backward| LayerTime { backward, bytes: 1 };
    assert!(matches!(StepProfile::new(f64::NAN, &[]), Err(ProfileError::Forward { .. })));
    let layers = [layer(1.0), layer(f64::NAN)];
    assert!(matches!(StepProfile::new(0.0, &layers), Err(ProfileError::Backward { layer: 1, .. })));
    assert_eq!(
        StepProfile::new(0.0, &[layer(-1.0)]),
        Err(ProfileError::Backward { layer: 0, seconds: -1.0 })
    );
    let large = [layer(f64::MAX), layer(f64::MAX)];
    assert_eq!(StepProfile::new(0.0, &large), Err(ProfileError::Overflow { layer: 1 }));
    let heavy = [LayerTime { backward: 1.0, bytes: u64::MAX }, layer(1.0)];
    assert_eq!(StepProfile::new(0.0, &heavy), Err(ProfileError::Overflow { layer: 1 }));
    assert!(matches!(Linear::new(f64::NAN, 1.0), Err(LinearError::StartUp { .. })));
    assert!(matches!(Linear::new(1.0, f64::INFINITY), Err(LinearError::PerByte { .. })));
}

#[test]
fn a_grouping_holds_each_layer_once() {
    assert_eq!(Grouping::new(vec![2, 2, 3], 3), Err(GroupingError::Empty { group: 1, end: 2 }));
    assert_eq!(Grouping::new(vec![0, 3], 3), Err(GroupingError::Empty { group: 0, end: 0 }));
    assert_eq!(Grouping::new(vec![2], 3), Err(GroupingError::Layers { grouped: 2, layers: 3 }));
    assert_eq!(Grouping::new(vec![], 3), Err(GroupingError::Layers { grouped: 0, layers: 3 }));
    let groups: Vec<_> = Grouping::new(vec![2, 3], 3).unwrap().groups().collect();
    assert_eq!(groups, [0..2, 2..3]);
    let other = Grouping::new(vec![1], 1).unwrap();
    let refused = TimeLine::of(&profile(0.0, &[]), cost(0.0, 0.0), &other);
    assert_eq!(refused, Err(GroupingError::Layers { grouped: 1, layers: 0 }));
}
