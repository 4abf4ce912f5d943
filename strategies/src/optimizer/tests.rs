//! Each rule against numbers from elsewhere, and against itself in parts.

use super::*;
use crate::schedule::Buckets;
use crate::vector::piece;
use crate::{State, rng};

/// The weights of two layers: a matrix and its biases each.
const WEIGHTS: usize = 33;
const MATRICES: [Matrix; 2] = [Matrix { at: 0, rows: 4, columns: 5 }, Matrix { at: 24, rows: 2, columns: 3 }];
const ADAMW: UpdateRule = UpdateRule::Adamw { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
/// The rate of the references.
const RATE: f32 = 0.125;

fn at_rest(settings: OptimizerSettings) -> Optimizer {
    Optimizer::new(settings, MATRICES.into())
}

/// Each rule, with everything that it takes but clipping.
fn rules() -> Vec<OptimizerSettings> {
    let settings = |momentum, weight_decay, rule| OptimizerSettings {
        momentum,
        weight_decay,
        rule,
        ..OptimizerSettings::sgd(RATE)
    };
    vec![
        settings(0.5, 0.0625, UpdateRule::Sgd),
        settings(0.5, 0.0625, UpdateRule::Nesterov),
        settings(0.0, 0.0625, ADAMW),
        settings(0.0, 0.0, UpdateRule::Adamw { beta1: 0.5, beta2: 0.75, epsilon: 0.125 }),
        settings(0.5, 0.0625, UpdateRule::Lars { trust: 0.25 }),
        settings(0.0, 0.0, UpdateRule::Lars { trust: 0.25 }),
    ]
}

/// Vectors between -1/2 and 1/2, one after the other.
fn drawing() -> impl FnMut() -> Vector {
    let mut random = rng::keyed(1, "test", &[]);
    move || (0..WEIGHTS).map(|_| rng::unit(&mut random) as f32 - 0.5).collect::<Vec<_>>().into()
}

/// The rules in double precision, as their sources have them: nothing is shared with the optimizer.
struct Reference {
    settings: OptimizerSettings,
    t: i32,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Reference {
    fn step(&mut self, w: &mut [f64], g: &[f64], rate: f64) {
        self.t += 1;
        let mu = f64::from(self.settings.momentum);
        let decay = f64::from(self.settings.weight_decay);
        for i in 0..w.len() {
            match self.settings.rule {
                UpdateRule::Sgd => {
                    self.v[i] = mu * self.v[i] + g[i] + decay * w[i];
                    w[i] -= rate * self.v[i];
                }
                UpdateRule::Nesterov => {
                    let g = g[i] + decay * w[i];
                    self.v[i] = mu * self.v[i] + g;
                    w[i] -= rate * (g + mu * self.v[i]);
                }
                UpdateRule::Adamw { beta1, beta2, epsilon } => {
                    self.m[i] = beta1 * self.m[i] + (1.0 - beta1) * g[i];
                    self.v[i] = beta2 * self.v[i] + (1.0 - beta2) * g[i] * g[i];
                    let m = self.m[i] / (1.0 - beta1.powi(self.t));
                    let v = self.v[i] / (1.0 - beta2.powi(self.t));
                    w[i] -= rate * decay * w[i] + rate * m / (v.sqrt() + epsilon);
                }
                UpdateRule::Lars { .. } => {}
            }
        }
        if let UpdateRule::Lars { trust } = self.settings.rule {
            self.lars(w, g, rate, trust);
        }
    }

    fn lars(&mut self, w: &mut [f64], g: &[f64], rate: f64, trust: f64) {
        let mu = f64::from(self.settings.momentum);
        let decay = f64::from(self.settings.weight_decay);
        let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let matrices = [0..20, 24..30];
        for span in matrices.iter().cloned().chain([20..24, 30..33]) {
            let is_matrix = matrices.contains(&span);
            let w_norm = length(&w[span.clone()]);
            let g_norm = length(&g[span.clone()]);
            let local = if is_matrix { trust * w_norm / (g_norm + decay * w_norm) } else { 1.0 };
            let decay = if is_matrix { decay } else { 0.0 };
            for i in span {
                self.v[i] = mu * self.v[i] + rate * local * (g[i] + decay * w[i]);
                w[i] -= self.v[i];
            }
        }
    }
}

fn wide(vector: &[f32]) -> Vec<f64> {
    vector.iter().copied().map(f64::from).collect()
}

#[test]
fn twenty_steps_are_those_of_the_sources_in_double_precision() {
    for settings in rules() {
        let mut draw = drawing();
        let mut w = draw();
        let mut exact = wide(&w);
        let mut optimizer = at_rest(settings);
        let zeros = vec![0.0; WEIGHTS];
        let mut reference = Reference { settings, t: 0, m: zeros.clone(), v: zeros };
        for step in 1..=20 {
            let mut g = draw();
            reference.step(&mut exact, &wide(&g), f64::from(RATE));
            optimizer.apply_gradient(&mut w, &mut g, RATE);
            let longest = exact.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            for (i, (one, other)) in w.iter().zip(&exact).enumerate() {
                let apart = (f64::from(*one) - other).abs();
                assert!(apart < 1e-6 * longest, "{settings:?}, step {step}, weight {i}: {one} {other}");
            }
        }
    }
}

/// Weights after 1, 5 and 20 steps.
type Trajectory = [[f64; 5]; 3];

/// From `torch::optim::SGD` and `torch::optim::AdamW` of libtorch 2.11 in double precision.
const NESTEROV: Trajectory = [
    [0.941_406_25, -0.611_328_125, 0.317_382_812_5, 1.976_562_5, -1.552_734_375],
    [
        0.831_010_306_778_808,
        -0.663_487_019_137_847,
        0.241_687_291_350_217,
        2.037_509_503_797_992,
        -1.319_321_690_772_54,
    ],
    [
        0.588_875_071_361_938,
        -0.372_450_620_522_254,
        0.338_578_755_896_374,
        1.497_440_755_067_495,
        -1.195_159_178_165_853,
    ],
];
const FIRST_ADAMW: Trajectory = [
    [0.867_187_505, -0.621_093_748, 0.373_046_871_666_667, 1.984_375, -1.613_281_246_666_667],
    [
        0.696_058_724_096_502,
        -0.833_536_258_486_818,
        0.349_330_845_029_624,
        2.106_174_434_323_9,
        -1.521_888_801_620_096,
    ],
    [
        0.463_347_571_651_377,
        -0.809_463_994_450_707,
        0.424_719_997_529_47,
        1.970_986_358_781_257,
        -1.428_328_926_015_743,
    ],
];
const SECOND_ADAMW: Trajectory = [
    [0.916_666_666_666_667, -0.604_166_666_666_667, 0.343_75, 2.0, -1.593_75],
    [
        0.842_266_907_665_402,
        -0.727_671_298_802_902,
        0.307_168_952_790_596,
        2.149_757_440_069_746,
        -1.491_280_059_064_597,
    ],
    [
        0.794_273_914_609_894,
        -0.623_641_354_082_617,
        0.433_028_524_207_112,
        2.102_037_577_548_968,
        -1.611_591_017_225_807,
    ],
];

#[test]
fn steps_are_those_of_pytorch() {
    let rules = rules();
    for (settings, expected) in [(rules[1], NESTEROV), (rules[2], FIRST_ADAMW), (rules[3], SECOND_ADAMW)] {
        let mut optimizer = at_rest(settings);
        let mut w = [1.0_f32, -0.5, 0.25, 2.0, -1.5];
        for t in 1..=20 {
            let g = (0..5).map(|i| ((t * 7 + i * 3) % 11 - 5) as f32 / 8.0).collect::<Vec<_>>();
            optimizer.apply_gradient(&mut w, &mut g.into(), RATE);
            let Some(place) = [1, 5, 20].iter().position(|step| *step == t) else { continue };
            for (one, other) in w.iter().zip(expected[place]) {
                assert!((f64::from(*one) - other).abs() < 1e-6, "{settings:?}, step {t}: {one} {other}");
            }
        }
    }
}

/// A gradient in the parts of these buckets.
fn divided(gradient: &Vector, buckets: &Buckets) -> GradientParts {
    let part = |span: &Range<usize>| Part { at: span.start, values: gradient[span.clone()].to_vec().into() };
    buckets.spans().iter().map(part).collect()
}

/// Pieces end inside of matrices; another number of them in each step.
#[test]
fn a_gradient_in_parts_is_the_whole_one() {
    for settings in rules().into_iter().flat_map(|rule| [rule, OptimizerSettings { clip: Some(0.5), ..rule }])
    {
        let mut whole = at_rest(settings);
        let mut parts = at_rest(settings);
        let mut draw = drawing();
        let mut w = draw();
        let mut x = w.clone();
        for pieces in 1..12 {
            let g = draw();
            parts.apply_parts(&mut x, &mut divided(&g, &Buckets::pieces(WEIGHTS, pieces)), RATE);
            whole.apply_gradient(&mut w, &mut g.clone(), RATE);
            assert_eq!(w.sha256(), x.sha256(), "{settings:?}, {pieces} pieces");
        }
    }
}

/// As on a server: a layer at a time, the last one first, and now and then both at once.
#[test]
fn layers_that_arrive_one_by_one_are_the_whole_gradient() {
    for settings in rules() {
        let mut whole = at_rest(settings);
        let mut layers = at_rest(settings);
        let mut draw = drawing();
        let mut w = draw();
        let mut x = w.clone();
        for step in 0..6 {
            let g = draw();
            let ends = if step % 3 == 1 { vec![0, WEIGHTS] } else { vec![0, 24, WEIGHTS] };
            for span in ends.windows(2).rev().map(|ends| ends[0]..ends[1]) {
                let mut part = Part { at: span.start, values: g[span].to_vec().into() };
                layers.apply_part(&mut x, &mut part, RATE);
            }
            whole.apply_gradient(&mut w, &mut g.clone(), RATE);
            assert_eq!(w.sha256(), x.sha256(), "{settings:?}, step {step}");
        }
    }
}

/// The second half twice as often as the first: each half as an optimizer of its own.
#[test]
fn parts_that_are_updated_more_often_are_as_if_they_were_alone() {
    for settings in rules().into_iter().filter(|settings| !matches!(settings.rule, UpdateRule::Lars { .. })) {
        let mut together = at_rest(settings);
        let mut alone = [at_rest(settings), at_rest(settings)];
        let mut draw = drawing();
        let mut w = draw();
        let mut halves = [0, 1].map(|half| w[piece(WEIGHTS, 2, half)].to_vec());
        for half in [1, 0, 1, 1, 0, 1] {
            let span = piece(WEIGHTS, 2, half);
            let g: Vector = draw()[span.clone()].to_vec().into();
            together.apply_part(&mut w, &mut Part { at: span.start, values: g.clone() }, RATE);
            alone[half].apply_gradient(&mut halves[half], &mut g.clone(), RATE);
            assert_eq!(w.sha256(), Vector::from(halves.concat()).sha256(), "{settings:?}");
        }
    }
}

#[test]
fn an_optimizer_that_was_saved_continues_bit_for_bit() {
    for settings in rules() {
        let mut whole = at_rest(settings);
        let mut draw = drawing();
        let mut w = draw();
        for step in 0..6 {
            let state = State::save(|state| whole.state(WEIGHTS, state)).expect("nothing to fail");
            let mut loaded = at_rest(settings);
            state.clone().load(|state| loaded.state(WEIGHTS, state)).expect("it was saved so");
            let mut x = w.clone();
            let g = draw();
            loaded.apply_gradient(&mut x, &mut g.clone(), RATE);
            whole.apply_gradient(&mut w, &mut g.clone(), RATE);
            assert_eq!(w.sha256(), x.sha256(), "{settings:?}, step {step}");
            let short = at_rest(settings).state_of(state, WEIGHTS + 1);
            assert!(short.is_err() || settings.vectors() == 0 || step == 0, "{settings:?}, step {step}");
        }
    }
}

impl Optimizer {
    fn state_of(&mut self, state: State, weights: usize) -> Result<(), StateError> {
        state.load(|state| self.state(weights, state))
    }
}

/// |w| = 5 and |g| = 1: r = eta 5 / (1 + beta 5).
#[test]
fn a_matrix_moves_by_its_own_length_and_biases_by_the_gradient() {
    let lars = OptimizerSettings { rule: UpdateRule::Lars { trust: 0.125 }, ..OptimizerSettings::sgd(1.0) };
    let moved = |settings, weights: [f32; 3], gradient: [f32; 3]| {
        let matrix = Matrix { at: 0, rows: 1, columns: 2 };
        let mut w = weights;
        let mut g = Vector::from(gradient.to_vec());
        Optimizer::new(settings, [matrix].into()).apply_gradient(&mut w, &mut g, 1.0);
        w.map(f32::to_bits)
    };
    let bits = |weights: [f32; 3]| weights.map(f32::to_bits);
    // Along the first axis by 5/8, however long the gradient is.
    for length in [1.0, 1024.0, 0.25] {
        assert_eq!(moved(lars, [3.0, 4.0, 1.0], [length, 0.0, 0.5]), bits([2.375, 4.0, 0.5]));
    }
    // r = 1/8 5 / (1 + 3/5 5), and biases do not decay.
    let decayed = OptimizerSettings { weight_decay: 0.6, ..lars };
    let r = 0.625_f32 / 4.0;
    let decay = 0.6_f32;
    let expected = [3.0 - r * (1.0 + decay * 3.0), 4.0 - r * (decay * 4.0), 0.5];
    let close = moved(decayed, [3.0, 4.0, 1.0], [1.0, 0.0, 0.5]).map(f32::from_bits);
    assert!(close.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6), "{close:?}");
    assert_eq!(close[2].to_bits(), 0.5_f32.to_bits());
    // Without a length of its own, a plain step.
    assert_eq!(moved(lars, [0.0, 0.0, 1.0], [1.0, 0.5, 0.0]), bits([-1.0, -0.5, 1.0]));
    assert_eq!(moved(lars, [3.0, 4.0, 1.0], [0.0, 0.0, 0.5]), bits([3.0, 4.0, 0.5]));
}

fn optimizer(momentum: f32, weight_decay: f32) -> Optimizer {
    at_rest(OptimizerSettings { momentum, weight_decay, ..OptimizerSettings::sgd(0.25) })
}

/// Five steps by hand: momentum 1/2, rate 1/4, gradients 1, 0, 2, -1, 0.
#[test]
fn momentum_follows_the_scalar_table() {
    let mut optimizer = optimizer(0.5, 0.0);
    let mut w = [1.0_f32];
    let mut seen = Vec::new();
    for g in [1.0, 0.0, 2.0, -1.0, 0.0] {
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![g]), 0.25);
        seen.push(w[0]);
    }
    // v: 1, 1/2, 9/4, 1/8, 1/16
    assert_eq!(seen, [0.75, 0.625, 0.0625, 0.03125, 0.015_625]);
}

#[test]
fn decay_is_of_the_weights_that_are_updated() {
    let mut optimizer = optimizer(0.0, 0.5);
    let mut w = [4.0_f32];
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.25);
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.25);
    assert_eq!(w[0].to_bits(), 3.0625_f32.to_bits());
}

#[test]
fn a_changed_rate_acts_at_once() {
    let mut optimizer = optimizer(0.5, 0.0);
    let mut w = [0.0_f32];
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![1.0]), 0.25);
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.0);
    assert_eq!(w[0].to_bits(), (-0.25_f32).to_bits());
}

#[test]
fn descending_is_the_direction_and_an_addition() {
    let decays = [(0.0, 0.0), (0.9, 0.0), (0.0, 0.01), (0.9, 0.01)];
    let sgd = decays.map(|(momentum, decay)| OptimizerSettings {
        momentum,
        weight_decay: decay,
        ..OptimizerSettings::sgd(0.1)
    });
    for settings in rules().into_iter().chain(sgd) {
        let mut one = at_rest(settings);
        let mut two = at_rest(settings);
        let mut draw = drawing();
        let mut w = draw();
        let mut x = w.clone();
        for _ in 0..5 {
            let g = draw();
            one.apply_gradient(&mut w, &mut g.clone(), 0.1);
            let mut d = g;
            two.compute_update(&x, &mut d, 0.1);
            x.add(&d);
        }
        assert_eq!(w.sha256(), x.sha256(), "{settings:?}");
    }
}

fn clipped(gradient: &[f32], longest: f32) -> Vec<f32> {
    let sgd = OptimizerSettings { clip: Some(longest), ..OptimizerSettings::sgd(1.0) };
    let mut weights = vec![0.0; gradient.len()];
    at_rest(sgd).apply_gradient(&mut weights, &mut Vector::from(gradient.to_vec()), -1.0);
    weights
}

#[test]
fn a_long_gradient_keeps_its_direction() {
    assert_eq!(clipped(&[3.0, 4.0], 2.5), [1.5, 2.0]);
    assert_eq!(clipped(&[3.0, 4.0], 5.0), [3.0, 4.0]);
    assert_eq!(clipped(&[-1.0, 0.5], 8.0), [-1.0, 0.5]);
    // The squares would overflow in single precision.
    assert_eq!(clipped(&[3e30, 4e30], 5.0), [3.0, 4.0]);
}

#[test]
fn a_diverged_gradient_is_not_hidden() {
    assert!(clipped(&[f32::INFINITY, 1.0], 1.0)[0].is_infinite());
    assert!(clipped(&[f32::NAN, 1.0], 1.0)[0].is_nan());
}

/// The bound is on the gradient, not on what decay adds to it, nor on the velocity.
#[test]
fn clipping_comes_first() {
    let momentum = 0.5;
    let weight_decay = 0.25;
    let clip = Some(1.0);
    let sgd = OptimizerSettings { momentum, weight_decay, clip, ..OptimizerSettings::sgd(1.0) };
    let mut optimizer = at_rest(sgd);
    let mut w = [4.0_f32];
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![8.0]), 1.0);
    assert_eq!(w[0].to_bits(), 2.0_f32.to_bits());
    // g = 1 + 2/4, v = 2/2 + 3/2
    optimizer.apply_gradient(&mut w, &mut Vector::from(vec![8.0]), 1.0);
    assert_eq!(w[0].to_bits(), (-0.5_f32).to_bits());
}

#[test]
fn no_rule_hides_a_diverged_gradient() {
    for settings in rules() {
        for value in [f32::INFINITY, f32::NAN] {
            let mut w = Vector::from(vec![1.0; WEIGHTS]);
            let mut g = Vector::from(vec![0.5; WEIGHTS]);
            g[2] = value;
            at_rest(settings).apply_gradient(&mut w, &mut g, RATE);
            assert!(!w[2].is_finite(), "{settings:?}");
        }
    }
}
