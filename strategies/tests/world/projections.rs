//! Projections in front of all-reduces: what they leave, what they remember, and what travels.

use crate::scene::Scene;
use recipe::{Codec, Collective, Compression, Extent, Strategy};
use record::{Event, LaneId, Rank};
use strategies::collective::CollectiveAlgorithm as _;
use strategies::rng::mix;
use strategies::{Loss, Roles, StepError, Vector, WorkerContext};

/// Rows and columns of the one matrix of these tests.
const ROWS: usize = 12;
const COLUMNS: usize = 9;

/// The weights become the mean over all ranks of each rank's own vector: in every step, or in the first one and of
/// zeros from then on.
struct Means {
    own: Vec<f32>,
    always: bool,
}

impl strategies::Trainer for Means {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let mut x = Vector::from(self.own.clone());
        if !self.always && ctx.t() > 1 {
            x.fill(0.0);
        }
        let group = ctx.trainers().clone();
        *ctx.weights_mut() = ctx.all_reduce_mean_over(&group, x)?;
        Ok(Loss(0.0))
    }
}

/// Mean over the ranks after each step, after a check that all ranks have the same bits.
fn means(x: &[Vec<f32>], codec: Codec, error_feedback: bool, always: bool, steps: u64) -> Vec<Vec<f32>> {
    let scene = Scene::new(Strategy::DSync, x.len() as u32).widths(&[COLUMNS - 1, ROWS]).change(|spec| {
        spec.train.length = Extent::Steps(steps);
        spec.compression = Compression::Coded { codec, parameters: false, error_feedback };
        spec.communication.collective = Collective::HalvingDoubling;
    });
    let roles = |rank: Rank, _: &dyn strategies::Runtime, _: &strategies::CommQueue| Roles {
        trainer: Some(Box::new(Means { own: x[rank.index()].clone(), always })),
        services: vec![],
        ..Roles::default()
    };
    let outcome = scene.world.run_roles(&scene.blueprint(), |_| Box::new(scene.learner()), roles).unwrap();
    let of = |rank: usize| (1..=steps).map(|t| outcome.ranks[rank].weights[&t].to_vec()).collect::<Vec<_>>();
    let bits = |rank| of(rank).iter().flatten().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!((0..x.len()).all(|rank| bits(rank) == bits(0)), "ranks differ");
    of(0)
}

/// One vector for each rank, of whole numbers from -1000 to 1000.
fn whole(ranks: u64) -> Vec<Vec<f32>> {
    let of = |rank| (0..ROWS * COLUMNS).map(|i| (mix(rank, i as u64) % 2001) as f32 - 1000.0).collect();
    (0..ranks).map(of).collect()
}

fn mean(x: &[Vec<f32>]) -> Vec<f64> {
    let of = |i: usize| x.iter().map(|x| f64::from(x[i])).sum::<f64>() / x.len() as f64;
    (0..x[0].len()).map(of).collect()
}

fn squared(x: impl IntoIterator<Item = f64>) -> f64 {
    x.into_iter().map(|value| value * value).sum()
}

/// How far a vector is from what it should be, as a share of the length of that.
fn apart(x: &[f32], due: &[f64]) -> f64 {
    let difference = x.iter().zip(due).map(|(x, due)| f64::from(*x) - due);
    (squared(difference) / squared(due.iter().copied())).sqrt()
}

#[test]
fn of_random_positions_the_mean_arrives_scaled_and_of_the_others_nothing() {
    let x = whole(4);
    let due = mean(&x);
    let steps = means(&x, Codec::RandomK { ratio: 0.25 }, false, true, 30);
    let mut visited = vec![false; due.len()];
    for came in &steps {
        assert_eq!(came.iter().filter(|value| **value != 0.0).count(), 27);
        for (i, value) in came.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            assert!((f64::from(*value) - 4.0 * due[i]).abs() < 1e-3);
            visited[i] = true;
        }
    }
    assert!(steps.windows(2).all(|two| two[0] != two[1]), "the same positions twice");
    assert!(visited.iter().filter(|visited| **visited).count() > 100);
}

/// Whatever was left out comes later, once, and nothing else comes: in whole numbers exactly.
#[test]
fn of_random_positions_nothing_is_lost_where_it_is_remembered() {
    let x = whole(4);
    let steps = means(&x, Codec::RandomK { ratio: 0.25 }, true, false, 80);
    for (i, due) in mean(&x).into_iter().enumerate() {
        let came: Vec<f32> = steps.iter().map(|step| step[i]).filter(|value| *value != 0.0).collect();
        let sum: f64 = came.iter().copied().map(f64::from).sum();
        assert!((sum - due).abs() < f64::EPSILON, "element {i}: {sum} instead of {due}");
        assert!(came.len() <= 1);
    }
}

/// The sum over r of s_r u_r v_r^T, with u_r and v_r waves, which are orthogonal.
fn of_waves(singular: &[f32]) -> Vec<f32> {
    let wave = |n: usize, r: usize, i: usize| {
        let angle = std::f64::consts::PI * (i as f64 + 0.5) * (r as f64 + 1.0) / n as f64;
        (angle.cos() * (2.0 / n as f64).sqrt()) as f32
    };
    let element = |i: usize, j: usize| -> f32 {
        singular.iter().enumerate().map(|(r, s)| s * wave(ROWS, r, i) * wave(COLUMNS, r, j)).sum()
    };
    (0..ROWS * COLUMNS).map(|at| element(at / COLUMNS, at % COLUMNS)).collect()
}

#[test]
fn a_mean_of_low_rank_arrives_whole() {
    // Ranks differ in what they have of both waves.
    let x: Vec<Vec<f32>> =
        [[3.0, 1.0], [-2.0, 5.0], [0.5, 0.0], [7.0, 7.0]].iter().map(|s| of_waves(s)).collect();
    let due = mean(&x);
    for rank in [2, 3] {
        let came = means(&x, Codec::Powersgd { rank }, false, true, 3);
        assert!(came.iter().all(|came| apart(came, &due) < 1e-5), "rank {rank}");
    }
    let came = means(&x, Codec::Powersgd { rank: 1 }, false, true, 3);
    assert!(came.iter().all(|came| apart(came, &due) > 0.1), "one column cannot hold two waves");
}

#[test]
fn what_arrives_is_a_projection_of_the_mean() {
    let x = whole(3);
    let due = mean(&x);
    for came in means(&x, Codec::Powersgd { rank: 2 }, false, true, 4) {
        // Columns of the error are orthogonal to columns of the result.
        let column = |j: usize| (0..ROWS).map(move |i| i * COLUMNS + j);
        for j in 0..COLUMNS {
            for k in 0..COLUMNS {
                let product: f64 = column(j)
                    .zip(column(k))
                    .map(|(a, b)| f64::from(came[a]) * (due[b] - f64::from(came[b])))
                    .sum();
                assert!(product.abs() < 1e-5 * squared(due.iter().copied()), "{j}, {k}: {product}");
            }
        }
        assert!(apart(&came, &due) < 1.0);
    }
}

#[test]
fn a_warm_start_ends_at_the_best_approximation() {
    let x = of_waves(&[8.0, 5.0, 2.0, 1.0, 0.5, 0.25]);
    let due = mean(std::slice::from_ref(&x));
    let steps = means(&[x.clone(), x], Codec::Powersgd { rank: 2 }, false, true, 40);
    // Of the singular values the first two.
    let best = (squared([2.0, 1.0, 0.5, 0.25]) / squared([8.0, 5.0, 2.0, 1.0, 0.5, 0.25])).sqrt();
    let first = apart(&steps[0], &due);
    let last = apart(&steps[39], &due);
    assert!(last >= best * 0.9999 && last <= best * 1.0001, "{last} instead of {best}");
    assert!(first > best * 1.01, "the first step cannot know the best: {first}");
}

/// Whatever a factor leaves out comes later: in the end all has come.
#[test]
fn of_factors_nothing_is_lost_where_it_is_remembered() {
    let x = whole(4);
    let due = mean(&x);
    let sum = |error_feedback| -> Vec<f32> {
        let steps = means(&x, Codec::Powersgd { rank: 2 }, error_feedback, false, 40);
        (0..due.len()).map(|i| steps.iter().map(|step| step[i]).sum()).collect()
    };
    assert!(apart(&sum(true), &due) < 1e-4, "{}", apart(&sum(true), &due));
    assert!(apart(&sum(false), &due) > 0.1);
}

#[test]
fn zeros_stay_zeros_and_do_not_end_it() {
    let zero = vec![vec![0.0; ROWS * COLUMNS]; 3];
    for codec in [Codec::Powersgd { rank: 2 }, Codec::RandomK { ratio: 0.1 }] {
        for came in means(&zero, codec, true, true, 3) {
            assert!(came.iter().all(|value| *value == 0.0), "{codec:?}");
        }
    }
}

#[test]
fn a_nan_is_the_same_on_all_ranks() {
    for odd in [f32::NAN, f32::INFINITY] {
        let mut x = whole(3);
        x[1][40] = odd;
        let steps = means(&x, Codec::Powersgd { rank: 2 }, true, true, 2);
        assert!(steps.iter().flatten().all(|value| value.is_nan()));
        let steps = means(&x, Codec::RandomK { ratio: 1.0 }, true, true, 1);
        assert!(!steps[0][40].is_finite() && steps[0][41].is_finite());
    }
    // The next one, without, is as if nothing had been.
    let mut x = whole(3);
    x[1][40] = f32::NAN;
    let steps = means(&x, Codec::Powersgd { rank: 2 }, true, false, 3);
    assert!(steps[2].iter().all(|value| value.is_finite()));
}

/// Both all-reduces, by the stated cost of the collective, and what would have travelled without.
#[test]
fn what_travels_is_what_is_stated() {
    let n = ROWS * COLUMNS;
    let collective = strategies::collective::Ring;
    for p in [2, 3, 5] {
        for (codec, parts) in [
            (Codec::RandomK { ratio: 0.25 }, vec![n / 4]),
            (Codec::Powersgd { rank: 2 }, vec![2 * ROWS, 2 * COLUMNS]),
            // No matrix is larger than factors of 9 columns: it travels as it is, and nothing after it.
            (Codec::Powersgd { rank: 9 }, vec![n, 0]),
        ] {
            let scene = Scene::new(Strategy::DSync, p).widths(&[COLUMNS - 1, ROWS]).coded(codec, true);
            let outcome = scene.run();
            let whole = recipe::Parameter { name: String::new(), shape: vec![ROWS, COLUMNS] };
            assert_eq!(
                codec.gradient_bytes([&whole]),
                Some(4 * parts.iter().sum::<usize>()),
                "as a plan says"
            );
            for rank in 0..p as usize {
                let step = &outcome.ranks[rank].steps(LaneId::Compute)[1];
                let cost = |elements| collective.cost(elements, p as usize, rank).elements as u64;
                let sent: u64 = parts.iter().map(|elements| 4 * cost(*elements)).sum();
                assert_eq!(step.bytes_out, sent, "{codec:?}, rank {rank} of {p}");
                let coding = outcome.ranks[rank].events.iter().find_map(|event| match event {
                    Event::Coding(record) => Some((record.bytes, record.raw_bytes)),
                    _ => None,
                });
                assert_eq!(coding, Some((5 * sent, 5 * 4 * cost(n))), "{codec:?}, rank {rank} of {p}");
            }
        }
    }
}
