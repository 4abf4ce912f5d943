//! `quantize8` in one range for a whole gradient: no partial sum clips, all ranks agree, and nothing is lost for good.

use crate::codecs::{all_collectives, coding};
use crate::coded_sums::ring;
use crate::scene::{Scene, common_digests};
use recipe::{Codec, Extent, Strategy};
use record::Rank;
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, Ring};
use strategies::rng::mix;
use strategies::{Loss, Roles, StepError, Vector, WorkerContext};

/// The weights become the mean over all ranks of each rank's vector of the step.
struct Means {
    /// Of the first step, the second, ...
    own: Vec<Vec<f32>>,
}

impl strategies::Trainer for Means {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let x = Vector::from(self.own[ctx.t() as usize - 1].clone());
        let group = ctx.trainers().clone();
        *ctx.weights_mut() = ctx.all_reduce_mean_over(&group, x)?;
        Ok(Loss(0.0))
    }
}

/// Means over the ranks of `x[step][rank]`, one for each step, after a check that all ranks have the same bits.
fn means(
    x: &[Vec<Vec<f32>>],
    collective: &Arc<dyn CollectiveAlgorithm>,
    error_feedback: bool,
) -> Vec<Vec<f32>> {
    let steps = x.len() as u64;
    let ranks = x[0].len();
    let scene = Scene::new(Strategy::DSync, ranks as u32)
        .widths(&[1, 1])
        .coded(Codec::Quantize8Gradient, error_feedback)
        .change(|spec| spec.train.length = Extent::Steps(steps));
    let blueprint = scene.blueprint().with_collective(collective.clone());
    let roles = |rank: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| {
        let own = x.iter().map(|step| step[rank.index()].clone()).collect();
        Roles { trainer: Some(Box::new(Means { own })), ..Roles::default() }
    };
    let outcome = scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap();
    let of = |rank: usize| (1..=steps).map(|t| outcome.ranks[rank].weights[&t].to_vec()).collect::<Vec<_>>();
    let bits = |rank| of(rank).iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!((0..ranks).all(|rank| bits(rank) == bits(0)), "ranks differ");
    of(0)
}

/// The sum of the ranks' largest magnitudes.
fn reach(x: &[Vec<f32>]) -> f64 {
    x.iter().map(|x| f64::from(x.iter().fold(0.0_f32, |most, value| most.max(value.abs())))).sum()
}

fn sum(x: &[Vec<f32>], i: usize) -> f64 {
    x.iter().map(|x| f64::from(x[i])).sum()
}

/// Vectors whose sums use all of the range, and whose roundings go beyond it.
fn adversaries(p: usize) -> Vec<(&'static str, Vec<Vec<f32>>)> {
    let n = 60;
    let each = |f: &dyn Fn(usize, usize) -> f32| (0..p).map(|k| (0..n).map(|i| f(k, i)).collect()).collect();
    // A scale of one, up to its rounding.
    let largest = (127 - p) as f32 / p as f32;
    let random = |k: usize, i: usize| (mix(k as u64, i as u64) % 1001) as f32 / 1000.0;
    vec![
        ("all alike", each(&|_, _| 1.0)),
        ("all negative", each(&|_, _| -largest)),
        // Rounded up on every hop.
        ("upwards", each(&|_, i| if i == 0 { largest } else { (largest - 1.0).floor() + 0.51 })),
        ("downwards", each(&|_, i| if i == 0 { -largest } else { 0.49 - (largest - 1.0).floor() })),
        ("near the largest", each(&|k, i| if i == k { 1.0 } else { 0.9 + 0.1 * random(k, i) })),
        ("of both signs", each(&|k, i| if k % 2 == 0 { 1.0 } else { -1.0 } * random(k, i))),
        ("one of all", each(&|k, i| if k == p - 1 { 3.0e30 * random(k, i) } else { random(k, i) })),
        ("tiny", each(&|k, i| 1.0e-35 * random(k, i))),
        ("zeros but for one", each(&|k, i| if (k, i) == (0, 7) { 5.0 } else { 0.0 })),
    ]
}

/// Half a step for each rounding: at most 2 p - 1 of them, the last one included. A clipped value would be no number.
fn check_range((name, collective): &(&str, Arc<dyn CollectiveAlgorithm>), p: usize) {
    // Worlds of many workers take their time.
    for (which, x) in adversaries(p).into_iter().take(if p > 9 { 3 } else { 9 }) {
        let step = reach(&x) / (127 - p) as f64;
        let most = (p as f64 - 0.5) * step * 1.001 + 1e-37;
        for (i, came) in means(std::slice::from_ref(&x), collective, false)[0].iter().enumerate() {
            let error = f64::from(*came) * p as f64 - sum(&x, i);
            assert!(error.abs() <= most, "{name}, {p} places, {which}: {error} of steps of {step}");
        }
    }
}

#[test]
fn no_partial_sum_is_beyond_the_range() {
    for collective in all_collectives() {
        for p in 2..=9 {
            check_range(&collective, p);
        }
    }
}

#[test]
fn nor_among_the_most_workers_that_a_recipe_may_have() {
    for collective in
        all_collectives().into_iter().filter(|(name, _)| ["ring", "recursive doubling"].contains(name))
    {
        check_range(&collective, 126);
    }
}

#[test]
fn a_ring_in_one_range_is_ten_lines_of_plain_code() {
    let pipelined = all_collectives().into_iter().find(|(name, _)| *name == "pipelined ring").unwrap().1;
    for p in 2..=9_usize {
        for n in [1, 5, 64, 131] {
            let x: Vec<Vec<f32>> = (0..p as u64)
                .map(|rank| (0..n).map(|i| (mix(rank, i) % 2001) as f32 / 7.0 - 140.0).collect())
                .collect();
            let largest = |x: &Vec<f32>| x.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            // One element is the first chunk, which is added in the order of the ranks.
            let scale = x.iter().map(largest).reduce(|sum, own| own + sum).unwrap() / (127 - p) as f32;
            let code = |x: &[f32]| x.iter().map(|value| (value / scale).round_ties_even() * scale).collect();
            let expected: Vec<f32> = ring(&x, code).iter().map(|sum| sum * (1.0 / p as f32)).collect();
            let ring: Arc<dyn CollectiveAlgorithm> = Arc::new(Ring);
            // Segments are coded alike.
            for collective in [&ring, &pipelined] {
                assert_eq!(
                    means(std::slice::from_ref(&x), collective, false)[0],
                    expected,
                    "{p} places, {n}"
                );
            }
        }
    }
}

/// One memory for each rank; in recursive doubling one for each partner, and one for what guests get.
fn memories(collective: &str, p: usize) -> f64 {
    let rounds = p.ilog2() as usize;
    let guests = p - (1 << rounds);
    let all = match collective {
        "recursive doubling" => (p - guests) * (rounds + usize::from(guests > 0)) + guests,
        _ => p,
    };
    all as f64
}

/// The largest sum of reaches there can be: each memory adds half a step to the next.
fn settled(collective: &str, x: &[Vec<f32>]) -> f64 {
    reach(x) / (1.0 - memories(collective, x.len()) / (2.0 * (127 - x.len()) as f64))
}

#[test]
fn all_of_a_gradient_arrives_in_the_end() {
    for (name, collective) in all_collectives() {
        for p in 2..=9 {
            for (which, x) in adversaries(p).into_iter().filter(|(which, _)| *which != "tiny") {
                let zeros = vec![vec![0.0; x[0].len()]; p];
                let mut steps = vec![zeros; 12];
                steps[0].clone_from(&x);
                let came = means(&steps, &collective, true);
                for i in 0..x[0].len() {
                    let all: f64 = came.iter().map(|came| f64::from(came[i]) * p as f64).sum();
                    let short = (all - sum(&x, i)).abs();
                    assert!(short <= 1e-5 * reach(&x), "{name}, {p} places, {which}: {short}");
                }
            }
        }
    }
}

/// The sum falls short after some steps by the memory: half a step of each memory.
fn check_memory((name, collective): &(&str, Arc<dyn CollectiveAlgorithm>), p: usize, steps: usize) {
    for (which, x) in adversaries(p).into_iter().take(if p > 9 { 3 } else { 9 }) {
        let came = means(&vec![x.clone(); steps], collective, true);
        let step = settled(name, &x) / (127 - p) as f64;
        let most = 1.001 * memories(name, p) * step / 2.0 + 1e-5 * steps as f64 * reach(&x) + 1e-36;
        for i in 0..x[0].len() {
            let all: f64 = came.iter().map(|came| f64::from(came[i]) * p as f64).sum();
            let short = (all - steps as f64 * sum(&x, i)).abs();
            assert!(short <= most, "{name}, {p} places, {which}: {short} of {most}");
        }
    }
}

#[test]
fn what_is_remembered_stays_bounded() {
    for collective in all_collectives() {
        for p in [2, 3, 6, 9] {
            check_memory(&collective, p, 40);
        }
    }
}

#[test]
fn what_the_most_workers_remember_stays_bounded() {
    for collective in all_collectives().into_iter().filter(|(name, _)| ["ring", "tree"].contains(name)) {
        check_memory(&collective, 84, 10);
    }
    for collective in all_collectives().into_iter().filter(|(name, _)| *name == "recursive doubling") {
        check_memory(&collective, 32, 20);
    }
}

#[test]
fn a_nan_on_one_rank_is_the_same_nan_everywhere_and_forgotten() {
    for (name, collective) in all_collectives() {
        for (p, odd) in
            [(2, f32::NAN), (3, -f32::NAN), (5, f32::INFINITY), (8, f32::NEG_INFINITY), (4, f32::MAX)]
        {
            for error_feedback in [false, true] {
                let right = vec![vec![1.0_f32; 12]; p];
                let mut wrong = right.clone();
                wrong[p / 2][5] = odd;
                if odd.is_finite() {
                    // Together too large.
                    for x in &mut wrong {
                        x[5] = odd;
                    }
                }
                let came = means(&[wrong, right], &collective, error_feedback);
                let nan = came[0][0].to_bits();
                assert!(
                    came[0].iter().all(|value| value.is_nan() && value.to_bits() == nan),
                    "{name}, {odd}"
                );
                assert!(
                    came[1].iter().all(|value| (value - 1.0).abs() < 0.1),
                    "{name}, {odd}: {:?}",
                    came[1]
                );
            }
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    for (name, collective) in all_collectives() {
        let came = means(&vec![vec![vec![0.0; 9]; 5]; 2], &collective, true);
        assert!(came.iter().flatten().all(|value| value.to_bits() == 0), "{name}");
    }
}

#[test]
fn all_ranks_train_alike_in_one_range() {
    for (name, collective) in all_collectives() {
        for (workers, error_feedback) in [(2, false), (3, true), (5, false), (8, true), (9, true)] {
            for strategy in
                [Strategy::DSync, Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(5), segments: 1 }]
            {
                let run = |codec| {
                    let scene = Scene::new(strategy.clone(), workers)
                        .coded(codec, error_feedback)
                        .change(|spec| spec.train.length = Extent::Steps(40));
                    let blueprint = scene.blueprint().with_collective(collective.clone());
                    let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
                    assert!(outcome.ranks[0].model().iter().all(|weight| weight.is_finite()), "{name}");
                    common_digests(&outcome)
                };
                let one = run(Codec::Quantize8Gradient);
                assert!(one.len() > 40, "{name}, {workers} workers");
                assert_ne!(one, run(Codec::Quantize8), "{name}, {workers} workers");
            }
        }
    }
}

/// The packets are as long as those of `quantize8`; the only addition is one float in an all-reduce for each gradient.
#[test]
fn what_is_agreed_on_travels_and_counts() {
    const STEPS: u64 = 20;
    for (name, collective) in all_collectives() {
        for workers in [2_u32, 4, 5] {
            let run = |codec| {
                let scene = Scene::new(Strategy::DSync, workers).coded(codec, true).change(|spec| {
                    spec.train.length = Extent::Steps(STEPS);
                    spec.measure.trace_every = 1;
                });
                let blueprint = scene.blueprint().with_collective(collective.clone());
                scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap()
            };
            let chunk = run(Codec::Quantize8);
            let gradient = run(Codec::Quantize8Gradient);
            let costs = (0..workers as usize).map(|place| collective.cost(1, workers as usize, place));
            let (messages, elements) =
                costs.fold((0, 0), |sum, cost| (sum.0 + cost.messages, sum.1 + cost.elements));
            let what = format!("{name}, {workers} workers");
            assert_eq!(gradient.messages - chunk.messages, STEPS * messages as u64, "{what}");
            assert_eq!(gradient.bytes - chunk.bytes, 4 * STEPS * elements as u64, "{what}");
            let (coded, raw, error) = coding(&gradient).unwrap();
            let (as_chunk, as_chunk_raw, _) = coding(&chunk).unwrap();
            assert_eq!((coded - as_chunk, raw), (4 * STEPS * elements as u64, as_chunk_raw), "{what}");
            assert!(error > 0.0 && error < 1.0, "{what}: {error}");
        }
    }
}

#[test]
fn one_worker_agrees_on_no_range() {
    let digests = |codec| common_digests(&Scene::new(Strategy::DSync, 1).coded(codec, true).run());
    assert_eq!(digests(Codec::Quantize8Gradient), digests(Codec::Quantize8));
}
