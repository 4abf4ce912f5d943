//! Sums under codecs, against a few lines of plain code.

use crate::codecs::{all_collectives, coding, collectives};
use crate::scene::{Scene, common_digests};
use recipe::{Codec, Collective as Chosen, Extent, Strategy};
use record::Rank;
use std::sync::Arc;
use strategies::collective::{AllGather, CollectiveAlgorithm};
use strategies::compress::{Compressor, ErrorFeedback, Quantize8, Sign, TopK, Truncate16};
use strategies::rng::mix;
use strategies::vector::piece;
use strategies::{Kind, Learner, Loss, Roles, StepError, Vector, WorkerContext};

/// D-Sync on one process: `pass` is what becomes of the gradients of all ranks.
fn trajectory(scene: &Scene, steps: u64, mut pass: impl FnMut(Vec<Vector>) -> Vector) -> Vector {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let mut w = learner.initial();
    for t in 1..=steps {
        let gradients = (0..plan.workers()).map(|k| {
            learner.load(&plan.sampler.batch(t, k)).unwrap();
            let layers = learner.layout().layers().len();
            (0..layers).for_each(|l| learner.forward(&w, l).unwrap());
            learner.loss(&plan.sampler.batch(t, k)).unwrap();
            let mut g = Vector::zeros(w.len());
            for l in (0..layers).rev() {
                let span = learner.layout().layers()[l].span.clone();
                learner.backward(&w, l, &mut g[span]).unwrap();
            }
            g.scale(plan.sampler.weight(t, k));
            g
        });
        let gradients = gradients.collect();
        let sum = pass(gradients);
        for (w, g) in w.iter_mut().zip(sum.iter()) {
            *w +=
                g * (1.0 / plan.workers() as f32) * -plan.learning_rate.at(plan.budget.samples_after(t - 1));
        }
    }
    w
}

/// The definition of `quantize8`, in and out.
fn quantized(x: &[f32]) -> Vec<f32> {
    let scale = x.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / 127.0;
    x.iter().map(|value| if scale > 0.0 { (value / scale).round_ties_even() * scale } else { 0.0 }).collect()
}

/// The definition of `truncate16`, in and out.
fn truncated(x: &[f32]) -> Vec<f32> {
    x.iter().map(|value| f32::from_bits(value.to_bits() & 0xffff_0000)).collect()
}

fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Sum by a ring with a codec: chunk c begins on rank c, is coded on every hop, and once more when it is complete.
pub(crate) fn ring(x: &[Vec<f32>], code: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    let p = x.len();
    let chunk = |c: usize| {
        let at = piece(x[0].len(), p, c);
        let complete = (1..p).fold(x[c][at.clone()].to_vec(), |partial, hop| {
            add(&x[(c + hop) % p][at.clone()], &code(&partial))
        });
        code(&complete)
    };
    (0..p).flat_map(chunk).collect()
}

#[test]
fn a_coded_ring_is_ten_lines_of_plain_code() {
    for p in 2..7_u64 {
        for n in [1, 5, 64, 131] {
            let x: Vec<Vec<f32>> = (0..p)
                .map(|rank| (0..n).map(|i| (mix(rank, i) % 2001) as f32 / 7.0 - 140.0).collect())
                .collect();
            let ranks = reduced(&x, &collectives()[0].1, || Box::new(Quantize8));
            assert!(
                ranks.iter().all(|sum| *sum == ring(&x, quantized)),
                "quantize8, {p} places, {n} elements"
            );
            let ranks = reduced(&x, &collectives()[0].1, || Box::new(Truncate16::default()));
            assert!(
                ranks.iter().all(|sum| *sum == ring(&x, truncated)),
                "truncate16, {p} places, {n} elements"
            );
        }
    }
}

#[test]
fn scales_of_a_thousand_to_one_are_added_as_what_they_mean() {
    let x = vec![vec![1.0, -0.5], vec![1000.0, 250.0]];
    for (name, collective) in collectives() {
        let sum = reduced(&x, &collective, || Box::new(Quantize8));
        // Of both parts and of the sum half a step each.
        assert!(
            (sum[0][0] - 1001.0).abs() < 12.0 && (sum[0][1] - 249.5).abs() < 12.0,
            "{name}: {:?}",
            sum[0]
        );
    }
}

#[test]
fn a_server_receives_coded_gradients_and_sends_exact_weights() {
    let scene = Scene::new(Strategy::PsSync, 3).coded(Codec::Quantize8, false).change(|spec| {
        spec.train.length = Extent::Steps(20);
    });
    let expected = trajectory(&scene, 20, |gradients| {
        let zero = vec![0.0; gradients[0].len()];
        gradients.iter().fold(zero, |sum, g| add(&sum, &quantized(g))).into()
    });
    for rank in &scene.run().ranks {
        assert_eq!(rank.model().sha256(), expected.sha256());
    }
}

#[test]
fn training_with_a_coded_ring_and_error_feedback_is_plain_code_too() {
    let scene = Scene::new(Strategy::DSync, 2).coded(Codec::Truncate16, true).change(|spec| {
        spec.train.length = Extent::Steps(20);
    });
    // Of two places each rounds half of its own gradient, and half of the sum.
    let mut parts = Vec::<f32>::new();
    let mut sums = Vec::<f32>::new();
    let expected = trajectory(&scene, 20, |g| {
        let half = piece(g[0].len(), 2, 0).end;
        let remembered = |memory: &mut Vec<f32>, x: Vec<f32>| -> Vec<f32> {
            memory.resize(x.len(), 0.0);
            let due = add(&x, memory);
            let sent = truncated(&due);
            *memory = due.iter().zip(&sent).map(|(due, sent)| due - sent).collect();
            sent
        };
        let sent = remembered(&mut parts, [&g[0][..half], &g[1][half..]].concat());
        let sum = [add(&g[1][..half], &sent[..half]), add(&g[0][half..], &sent[half..])].concat();
        remembered(&mut sums, sum).into()
    });
    assert_eq!(common_digests(&scene.run())[20].1, expected.sha256());
}

/// The definition of `sign`, in and out.
fn signed(x: &[f32]) -> Vec<f32> {
    let mean = (x.iter().map(|value| f64::from(value.abs())).sum::<f64>() / x.len() as f64) as f32;
    x.iter().map(|value| if *value < 0.0 { -mean } else { mean }).collect()
}

/// The definition of `top-k` with a tenth of the elements, in and out.
fn largest(x: &[f32]) -> Vec<f32> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*b].abs().total_cmp(&x[*a].abs()));
    let mut y = vec![0.0; x.len()];
    order[..x.len().div_ceil(10)].iter().for_each(|i| y[*i] = x[*i]);
    y
}

/// Each rank's gradient is coded once, with a memory of its own, and every rank adds what was decoded.
#[test]
fn training_with_what_is_gathered_is_plain_code_too() {
    for (codec, code) in
        [(Codec::Sign, signed as fn(&[f32]) -> Vec<f32>), (Codec::TopK { ratio: 0.1 }, largest)]
    {
        let scene = Scene::new(Strategy::DSync, 3).coded(codec, true).change(|spec| {
            spec.train.length = Extent::Steps(20);
            spec.communication.collective = Chosen::AllGather;
        });
        let mut memories = vec![Vec::<f32>::new(); 3];
        let expected = trajectory(&scene, 20, |gradients| {
            let zero = vec![0.0; gradients[0].len()];
            let sum = gradients.iter().zip(&mut memories).fold(zero, |sum, (g, memory)| {
                memory.resize(g.len(), 0.0);
                let due = add(g, memory);
                let sent = code(&due);
                *memory = due.iter().zip(&sent).map(|(due, sent)| due - sent).collect();
                add(&sum, &sent)
            });
            sum.into()
        });
        let got = &common_digests(&scene.run())[20].1;
        assert_eq!(*got, expected.sha256(), "{codec:?}");
    }
}

/// Sums fresh Gaussian vectors in every step.
struct Noise {
    collective: Arc<dyn CollectiveAlgorithm>,
}

const NOISE: usize = 2000;

/// A standard normal vector: of each pair of uniform numbers one, by Box and Muller.
fn gaussian(rank: u64, step: u64) -> Vec<f32> {
    let uniform = |i: u64| (mix(mix(rank + 1, step), i) >> 11) as f64 / (1_u64 << 53) as f64;
    let normal = |i: u64| {
        (-2.0 * (1.0 - uniform(2 * i)).ln()).sqrt() * (std::f64::consts::TAU * uniform(2 * i + 1)).cos()
    };
    (0..NOISE as u64).map(|i| normal(i) as f32).collect()
}

impl strategies::Trainer for Noise {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let mut x = Vector::from(gaussian(u64::from(ctx.rank().0), ctx.t()));
        let tag = ctx.tag(Kind::Reduce);
        let group = ctx.trainers().clone();
        self.collective.all_reduce_sum(&mut x, tag, &mut ctx.wire_over(&group))?;
        Ok(Loss(0.0))
    }
}

/// The relative error of a codec under error feedback is the undecoded part of the sum due: the vector, and the errors
/// of those before. A part that is sent can then never be further from the whole than nothing would be.
#[test]
fn the_error_of_coding_is_that_of_what_was_due() {
    const STEPS: u64 = 60;
    let kept = NOISE.div_ceil(100);
    let scene = Scene::new(Strategy::DSync, 2).widths(&[1, 1]).change(|spec| {
        spec.train.length = Extent::Steps(STEPS);
        spec.measure.trace_every = 1;
    });
    let codec: fn() -> Box<dyn Compressor> = || Box::new(ErrorFeedback::new(TopK::new(0.01)));
    let blueprint = scene.blueprint().with_codec(codec);
    let roles = |_: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| Roles {
        trainer: Some(Box::new(Noise { collective: Arc::new(AllGather) })),
        ..Roles::default()
    };
    let outcome = scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap();
    let mut squared = 0.0;
    let mut lost = 0.0;
    for rank in 0..2 {
        let mut memory = vec![0.0_f32; NOISE];
        for step in 1..=STEPS {
            let due = add(&gaussian(rank, step), &memory);
            let mut order: Vec<usize> = (0..NOISE).collect();
            order.sort_by(|a, b| due[*b].abs().total_cmp(&due[*a].abs()));
            memory.copy_from_slice(&due);
            order[..kept].iter().for_each(|i| memory[*i] = 0.0);
            let square = |x: &[f32]| x.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            assert!(square(&memory) <= square(&due));
            squared += square(&due);
            lost += square(&memory);
        }
    }
    let expected = (lost / squared).sqrt();
    let (_, _, shown) = coding(&outcome).unwrap();
    assert!((shown - expected).abs() < 1e-9 && shown < 1.0, "{shown} instead of {expected}");
}

#[test]
fn a_nan_on_one_rank_is_the_same_nan_on_all() {
    for (name, collective) in all_collectives() {
        let codecs: [fn() -> Box<dyn Compressor>; 3] = [
            || Box::new(Quantize8),
            || Box::new(Truncate16::default()),
            || Box::new(ErrorFeedback::new(Quantize8)),
        ];
        let once: [fn() -> Box<dyn Compressor>; 2] =
            [|| Box::new(TopK::new(0.5)), || Box::new(ErrorFeedback::new(Sign))];
        let once = once.into_iter().filter(|_| ["rank order", "star", "all gather"].contains(&name));
        for codec in codecs.into_iter().chain(once) {
            let mut x = vec![vec![1.0_f32; 12]; 4];
            x[2][5] = -f32::NAN;
            x[0][11] = f32::INFINITY;
            let ranks = reduced(&x, &collective, codec);
            let bits = |sum: &Vec<f32>| sum.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert!(ranks.iter().all(|sum| bits(sum) == bits(&ranks[0])), "{name}");
            assert!(ranks[0][5].is_nan() && !ranks[0][11].is_finite(), "{name}: {:?}", ranks[0]);
        }
    }
}

#[test]
fn the_mean_is_taken_of_the_decoded_sum() {
    // Of 8 ranks one has a 1: dividing before coding and after are different arithmetic.
    let x: Vec<Vec<f32>> = (0..8).map(|rank| vec![if rank == 3 { 1.0 } else { 0.0 }; 16]).collect();
    for (name, collective) in collectives() {
        let sum = reduced(&x, &collective, || Box::new(Quantize8));
        assert_eq!(sum[7], [127.0 * (1.0 / 127.0); 16], "{name}");
    }
}

/// Replaces the weights of each rank by the sum of all ranks' vectors, once in each step.
struct Sums {
    own: Vec<f32>,
    collective: Arc<dyn CollectiveAlgorithm>,
    plan: Plan,
}

/// The vectors of each step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The same whole vectors in every step.
    Same,
    /// The vectors in step 1, then zeros, in two parts in step 2, three in step 3, ...
    ThenZerosInParts,
}

impl strategies::Trainer for Sums {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let mut x = Vector::from(self.own.clone());
        let mut parts = 1;
        if self.plan == Plan::ThenZerosInParts && ctx.t() > 1 {
            x.fill(0.0);
            parts = ctx.t() as usize;
        }
        let group = ctx.trainers().clone();
        for part in 0..parts {
            let at = piece(x.len(), parts, part);
            let tag = ctx.tag(Kind::Reduce);
            let mut wire = ctx.wire_over(&group).of_part(at.start);
            self.collective.all_reduce_sum(&mut x[at], tag, &mut wire)?;
        }
        *ctx.weights_mut() = x;
        Ok(Loss(0.0))
    }
}

/// The sums that all ranks end with.
pub(crate) fn reduced(
    x: &[Vec<f32>],
    collective: &Arc<dyn CollectiveAlgorithm>,
    codec: fn() -> Box<dyn Compressor>,
) -> Vec<Vec<f32>> {
    let outcome = sums_of(x, collective, codec, Plan::Same, 1);
    outcome.ranks.iter().map(|rank| rank.model().to_vec()).collect()
}

pub(crate) fn sums_of(
    x: &[Vec<f32>],
    collective: &Arc<dyn CollectiveAlgorithm>,
    codec: fn() -> Box<dyn Compressor>,
    plan: Plan,
    steps: u64,
) -> strategies::sim::WorldOutcome {
    let scene = Scene::new(Strategy::DSync, x.len() as u32).widths(&[1, 1]).change(|spec| {
        spec.train.length = Extent::Steps(steps);
    });
    let blueprint = scene.blueprint().with_codec(codec);
    let roles = |rank: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| {
        let sums = Sums { own: x[rank.index()].clone(), collective: collective.clone(), plan };
        Roles { trainer: Some(Box::new(sums)), ..Roles::default() }
    };
    scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap()
}
