//! Codecs inside all-reduces and on the way to servers: the same bits everywhere, against a few lines of plain code,
//! and what is lost against what is remembered.

use crate::scene::{Scene, common_digests, digests};
use recipe::{Codec, Compression, Extent, Strategy};
use record::{Event, LaneId, Rank};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use strategies::collective::{
    Collective, HalvingDoubling, Hierarchical, PipelinedRing, RankOrder, RecursiveDoubling, Ring, Star, Tree,
};
use strategies::compress::{Compressor, ErrorFeedback, Guarantee, Quantize8, Slot, Truncate16};
use strategies::draw::mix;
use strategies::vector::piece;
use strategies::{Kind, Learner, Loss, Node, Packet, Roles, StepError, Vector};

fn collectives() -> Vec<(&'static str, Arc<dyn Collective>)> {
    vec![("ring", Arc::new(Ring)), ("rank order", Arc::new(RankOrder)), ("star", Arc::new(Star))]
}

fn all_collectives() -> Vec<(&'static str, Arc<dyn Collective>)> {
    let mut all = collectives();
    all.push(("pipelined ring", Arc::new(PipelinedRing::new(3))));
    all.push(("tree", Arc::new(Tree)));
    all.push(("recursive doubling", Arc::new(RecursiveDoubling)));
    all.push(("halving doubling", Arc::new(HalvingDoubling)));
    all.push(("hierarchical", Arc::new(Hierarchical::of_neighbours(2))));
    all
}

#[test]
fn under_every_codec_all_ranks_have_the_same_weights_for_100_steps() {
    for (name, collective) in all_collectives() {
        for codec in Codec::ALL {
            for (workers, error_feedback) in [(2, false), (3, true), (4, false), (5, true), (8, true)] {
                let scene = Scene::new(Strategy::DSync, workers)
                    .coded(codec, error_feedback)
                    .change(|spec| spec.train.length = Extent::Steps(100));
                let blueprint = scene.blueprint().with_collective(collective.clone());
                let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
                let coded = common_digests(&outcome);
                assert_eq!(coded.len(), 101, "{name}, {codec:?}, {workers} workers");
                assert_ne!(coded, common_digests(&Scene::new(Strategy::DSync, workers).run()), "{codec:?}");
            }
        }
    }
}

#[test]
fn a_pipeline_keeps_all_ranks_equal_under_every_codec() {
    for codec in Codec::ALL {
        for (segments, error_feedback) in [(1, false), (3, true)] {
            let strategy = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(10), segments };
            let scene = Scene::new(strategy, 4)
                .coded(codec, error_feedback)
                .change(|spec| spec.train.length = Extent::Steps(100));
            assert!(common_digests(&scene.run()).len() > 100, "{codec:?}, {segments} segments");
        }
    }
}

#[test]
fn averaged_models_are_coded_on_purpose_only_and_equal_in_the_end() {
    for codec in Codec::ALL {
        let run = |parameters| {
            let scene = Scene::new(Strategy::LocalSgd { period: 4 }, 3).change(|spec| {
                spec.train.length = Extent::Steps(20);
                spec.compression = Compression::Coded { codec, parameters, error_feedback: false };
            });
            scene.run().ranks.iter().map(|rank| rank.model().sha256()).collect::<Vec<_>>()
        };
        let (coded, exact) = (run(true), run(false));
        assert!(coded.iter().all(|digest| *digest == coded[0] && *digest != exact[0]), "{codec:?}");
    }
}

#[test]
fn asynchronous_servers_take_coded_gradients_and_answer_with_coded_weights_on_purpose() {
    for strategy in [
        Strategy::AsyncSgd { staleness_bound: None },
        Strategy::AsyncMsgd { momentum: 0.5, staleness_bound: Some(2) },
        Strategy::HogwildSgd { staleness_bound: None },
    ] {
        for codec in Codec::ALL {
            let saved = |parameters| {
                let scene = Scene::new(strategy.clone(), 3).change(|spec| {
                    spec.train.length = Extent::Steps(30);
                    spec.compression = Compression::Coded { codec, parameters, error_feedback: true };
                });
                let (bytes, raw, _) = coding(&scene.run()).unwrap();
                raw as f64 / bytes as f64
            };
            let (gradients, both) = (saved(false), saved(true));
            assert!(1.2 < gradients && gradients < both && both > 1.7, "{strategy:?}: {gradients}, {both}");
        }
    }
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit_of_what_is_coded() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let run = |seed, slow: f64| {
            let mut scene = Scene::new(strategy.clone(), 4).coded(Codec::Quantize8, true).seed(seed);
            scene.spec.train.length = Extent::Steps(20);
            scene.world.jitter = 0.5;
            scene.world.slow.insert(Rank(2), slow);
            scene.world.costs.forward = vec![record::Nanos(700)];
            common_digests(&scene.run())
        };
        let expected = run(1, 1.0);
        assert!((2..6).all(|seed| run(seed, seed as f64) == expected), "{strategy:?}");
    }
}

#[test]
fn one_worker_trains_as_without_a_codec() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        for codec in Codec::ALL {
            let scene = |coded: bool| {
                let scene = Scene::new(strategy.clone(), 1).change(|spec| {
                    spec.train.length = Extent::Steps(20);
                });
                if coded { scene.coded(codec, true) } else { scene }
            };
            assert_eq!(common_digests(&scene(true).run()), common_digests(&scene(false).run()));
        }
    }
    for (name, collective) in collectives() {
        let x = vec![vec![1.001, -0.3, 77.7]];
        let sum = reduced(&x, &collective, || Box::new(Quantize8));
        assert_eq!(sum[0], x[0], "{name}: a group of one codes nothing");
    }
}

#[test]
fn initial_weights_and_the_weights_of_a_server_are_exact_unless_the_recipe_says_otherwise() {
    let run = |parameters| {
        let scene = Scene::new(Strategy::PsSync, 3).change(|spec| {
            spec.train.length = Extent::Steps(10);
            spec.compression =
                Compression::Coded { codec: Codec::Truncate16, parameters, error_feedback: false };
        });
        digests(&scene.run())
    };
    let (exact, coded) = (run(false), run(true));
    assert!(exact.iter().all(|rank| *rank == exact[3]), "workers hold what the server holds");
    assert_eq!(coded[..3].iter().filter(|rank| **rank == coded[0]).count(), 3, "workers hold the same");
    assert_eq!(coded[0][0], exact[0][0], "initial weights are never coded");
    assert_ne!(coded[0][1..], coded[3][1..], "a server keeps the weights that it did not send");
    assert_ne!(coded[3][5..], exact[3][5..]);
}

/// D-Sync on one process: `pass` is what becomes of the gradients of all ranks.
fn trajectory(scene: &Scene, steps: u64, mut pass: impl FnMut(Vec<Vector>) -> Vector) -> Vector {
    let (course, mut learner) = (scene.course(), scene.learner());
    let mut w = learner.initial();
    for t in 1..=steps {
        let gradients = (0..course.workers()).map(|k| {
            learner.load(&course.batch(t, k)).unwrap();
            let layers = learner.layout().layers().len();
            (0..layers).for_each(|l| learner.forward(&w, l).unwrap());
            learner.loss(&course.batch(t, k)).unwrap();
            let mut g = Vector::zeros(w.len());
            for l in (0..layers).rev() {
                let span = learner.layout().layers()[l].span.clone();
                learner.backward(&w, l, &mut g[span]).unwrap();
            }
            g.scale(course.weight(t, k));
            g
        });
        let gradients = gradients.collect();
        let sum = pass(gradients);
        for (w, g) in w.iter_mut().zip(sum.iter()) {
            *w += g * (1.0 / course.workers() as f32) * -course.rate(course.samples_after(t - 1));
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

/// What a ring does to vectors: chunk c begins on rank c, is coded on every hop, and once more when it is complete.
fn ring(x: &[Vec<f32>], code: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
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
    let (mut parts, mut sums) = (Vec::<f32>::new(), Vec::<f32>::new());
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

#[test]
fn a_nan_on_one_rank_is_the_same_nan_on_all() {
    for (name, collective) in all_collectives() {
        let codecs: [fn() -> Box<dyn Compressor>; 3] = [
            || Box::new(Quantize8),
            || Box::new(Truncate16::default()),
            || Box::new(ErrorFeedback::new(Quantize8)),
        ];
        for codec in codecs {
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
    collective: Arc<dyn Collective>,
    plan: Plan,
}

/// What is summed in which step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The vectors, whole.
    Same,
    /// The vectors once, then zeros in parts: two, three, ...
    ThenZerosInParts,
}

impl strategies::Strategy for Sums {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let mut x = Vector::from(self.own.clone());
        let mut parts = 1;
        if self.plan == Plan::ThenZerosInParts && node.t() > 1 {
            x.fill(0.0);
            parts = node.t() as usize;
        }
        let group = node.trainers().clone();
        for part in 0..parts {
            let (at, tag) = (piece(x.len(), parts, part), node.tag(Kind::Reduce));
            let mut wire = node.wire_over(&group).of_part(at.start);
            self.collective.all_reduce_sum(&mut x[at], tag, &mut wire)?;
        }
        *node.params_mut() = x;
        Ok(Loss(0.0))
    }
}

/// The sums that all ranks end with.
fn reduced(
    x: &[Vec<f32>],
    collective: &Arc<dyn Collective>,
    codec: fn() -> Box<dyn Compressor>,
) -> Vec<Vec<f32>> {
    let outcome = sums_of(x, collective, codec, (Plan::Same, 1));
    outcome.ranks.iter().map(|rank| rank.model().to_vec()).collect()
}

fn sums_of(
    x: &[Vec<f32>],
    collective: &Arc<dyn Collective>,
    codec: fn() -> Box<dyn Compressor>,
    (plan, steps): (Plan, u64),
) -> strategies::sim::Outcome {
    let scene = Scene::new(Strategy::DSync, x.len() as u32).widths(&[1, 1]).change(|spec| {
        spec.train.length = Extent::Steps(steps);
    });
    let blueprint = scene.blueprint().with_codec(codec);
    let roles = |rank: Rank, _: &dyn strategies::Host, _: &strategies::Shared<strategies::Jobs>| {
        let sums = Sums { own: x[rank.index()].clone(), collective: collective.clone(), plan };
        Roles { trainer: Some(Box::new(sums)), services: vec![], evaluated: None }
    };
    scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap()
}

/// What all codecs of a test remember together, position by position: by the number of the codec, the purpose and
/// the receiver.
type Memories = BTreeMap<(usize, Kind, Rank), Vec<f32>>;

static MEMORIES: Mutex<(usize, Memories)> = Mutex::new((0, BTreeMap::new()));

/// Shows what error feedback remembers.
struct Shown {
    number: usize,
    codec: ErrorFeedback<Truncate16>,
}

impl Shown {
    fn boxed() -> Box<dyn Compressor> {
        let mut memories = MEMORIES.lock().unwrap();
        memories.0 += 1;
        Box::new(Self { number: memories.0, codec: ErrorFeedback::new(Truncate16::default()) })
    }
}

impl Compressor for Shown {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let packet = self.codec.encode(slot, x);
        let memory = self.codec.memory(slot.kind, slot.peer).to_vec();
        MEMORIES.lock().unwrap().1.insert((self.number, slot.kind, slot.peer), memory);
        packet
    }
    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.codec.decode(packet, into)
    }
    fn guarantee(&self) -> Guarantee {
        self.codec.guarantee()
    }
    fn linear(&self) -> bool {
        self.codec.linear()
    }
}

/// Whatever an all-reduce rounds, and wherever: what came out is missing nothing but what is remembered now.
#[test]
fn what_all_ranks_remember_is_what_the_sums_are_short_of() {
    for (name, collective) in collectives() {
        for p in [2, 3, 5_u64] {
            for n in [1, 7, 40] {
                // Integers below 2^16: no addition rounds.
                let x: Vec<Vec<f32>> = (0..p)
                    .map(|rank| (0..n).map(|i| (mix(rank, i) % 20_001) as f32 - 10_000.0).collect())
                    .collect();
                for steps in 1..=4 {
                    *MEMORIES.lock().unwrap() = (0, BTreeMap::new());
                    let outcome = sums_of(&x, &collective, Shown::boxed, (Plan::Same, steps));
                    let weights = |t| outcome.ranks[0].weights[&t].to_vec();
                    let remembered = MEMORIES.lock().unwrap().1.clone();
                    for i in 0..n as usize {
                        let due: f32 = steps as f32 * x.iter().map(|x| x[i]).sum::<f32>();
                        let came: f32 = (1..=steps).map(|t| weights(t)[i]).sum();
                        let lost: f32 = remembered.values().filter_map(|memory| memory.get(i)).sum();
                        // Whole numbers.
                        assert_eq!(
                            (came + lost) as i64,
                            due as i64,
                            "{name}, {p} places, {n} elements, {steps} steps"
                        );
                    }
                }
            }
        }
    }
}

/// Chunks, their owners and what travels together change from step to step; still everything arrives.
#[test]
fn another_plan_loses_nothing_of_what_is_remembered() {
    let codec: fn() -> Box<dyn Compressor> = || Box::new(ErrorFeedback::new(Truncate16::default()));
    for (name, collective) in collectives() {
        for p in [2, 3, 5_u64] {
            let x: Vec<Vec<f32>> = (0..p)
                .map(|rank| (0..40).map(|i| (mix(rank, i) % 20_001) as f32 - 10_000.0).collect())
                .collect();
            let outcome = sums_of(&x, &collective, codec, (Plan::ThenZerosInParts, 9));
            let weights = &outcome.ranks[0].weights;
            for i in 0..40 {
                let due: f32 = x.iter().map(|x| x[i]).sum();
                let came: f32 = (1..=9).map(|t| weights[&t][i]).sum();
                // Whole numbers.
                assert_eq!(came as i64, due as i64, "{name}, {p} places, element {i}");
            }
            assert!(weights[&2].iter().any(|late| late.abs() > 0.5), "{name}: nothing was rounded at first");
        }
    }
}

/// What coding saved and lost on the lanes of a run: bytes, bytes without it, and the relative error.
fn coding(outcome: &strategies::sim::Outcome) -> Option<(u64, u64, f64)> {
    let records = outcome.ranks.iter().flat_map(|rank| &rank.events).filter_map(|event| match event {
        Event::Coding(record) => Some((record.bytes, record.raw_bytes, record.squared, record.squared_error)),
        _ => None,
    });
    let add = |a: (u64, u64, f64, f64), b: (u64, u64, f64, f64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2, a.3 + b.3);
    records.reduce(add).map(|(bytes, raw, squared, error)| (bytes, raw, (error / squared).sqrt()))
}

#[test]
fn a_run_knows_what_coding_saved_and_lost() {
    let n = Scene::new(Strategy::DSync, 4).learner().layout().size() as u64;
    let run = |codec, traced| {
        let scene = Scene::new(Strategy::DSync, 4).coded(codec, false).change(|spec| {
            spec.measure.trace_first_steps = traced;
        });
        scene.run()
    };
    // 5 steps on 4 ranks of a ring: n elements leave each rank 6 / 4 times, in 6 packets.
    let raw = 5 * 4 * 4 * n * 6 / 4;
    for (codec, bytes, most) in [
        (Codec::Truncate16, raw / 2, 1.0 / 128.0),
        (Codec::Bf16, raw / 2, 1.0 / 256.0),
        (Codec::Fp16, raw / 2, 1.0 / 2048.0),
        (Codec::Quantize8, raw / 4 + 5 * 4 * 6 * 4, 0.02),
    ] {
        let (sent, unsent, error) = coding(&run(codec, 5)).unwrap();
        assert_eq!((sent, unsent), (bytes, raw), "{codec:?}");
        assert!(error > most / 16.0 && error <= most, "{codec:?}: {error}");
        assert!(coding(&run(codec, 0)).unwrap().2.is_nan(), "no step was looked at");
    }
    assert_eq!(coding(&Scene::new(Strategy::DSync, 4).run()), None);
    assert_eq!(coding(&Scene::new(Strategy::DSync, 1).coded(Codec::Fp16, true).run()), None);
}

#[test]
fn coded_bytes_are_the_stated_ones() {
    let n = Scene::new(Strategy::DSync, 4).learner().layout().size() as u64;
    for (codec, bytes) in
        [(Codec::Truncate16, 2 * n), (Codec::Fp16, 2 * n), (Codec::Bf16, 2 * n), (Codec::Quantize8, n + 4)]
    {
        let outcome = Scene::new(Strategy::PsSync, 4).coded(codec, false).run();
        let worker = outcome.ranks[0].steps(LaneId::Compute);
        assert_eq!((worker[1].bytes_out, worker[1].bytes_in), (bytes, 4 * n), "{codec:?}");
    }
}
