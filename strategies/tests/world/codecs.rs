//! Every codec under every strategy and all-reduce that it may go with: the same bits everywhere, and what it saves.

use crate::coded_sums::reduced;
use crate::scene::{Scene, common_digests, digests};
use recipe::{Codec, CodedSum, Collective as Chosen, Compression, Extent, Serve, Strategy};
use record::{Event, LaneId, Rank};
use std::sync::Arc;
use strategies::Learner;
use strategies::collective::{
    AllGather, CollectiveAlgorithm, HalvingDoubling, Hierarchical, PipelinedRing, RankOrder,
    RecursiveDoubling, Ring, Star, Tree,
};
use strategies::compress::Quantize8;

/// Whether an all-reduce codes what it adds at most once on its way, and once more when it is complete.
const ONCE: [&str; 3] = ["rank order", "star", "all gather"];

fn may(codec: Codec, collective: &str) -> bool {
    codec.route() != CodedSum::Once || ONCE.contains(&collective)
}

/// Whether error feedback stays bounded.
fn remembers(codec: Codec) -> bool {
    codec.variance().is_none_or(|variance| variance < 1.0)
}

fn by_route(route: CodedSum) -> impl Iterator<Item = Codec> {
    Codec::ALL.into_iter().filter(move |codec| codec.route() == route)
}

pub(crate) fn collectives() -> Vec<(&'static str, Arc<dyn CollectiveAlgorithm>)> {
    vec![
        ("ring", Arc::new(Ring)),
        ("rank order", Arc::new(RankOrder)),
        ("star", Arc::new(Star)),
        ("all gather", Arc::new(AllGather)),
    ]
}

pub(crate) fn all_collectives() -> Vec<(&'static str, Arc<dyn CollectiveAlgorithm>)> {
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
        for codec in Codec::ALL.into_iter().filter(|codec| may(*codec, name)) {
            for (workers, error_feedback) in [(2, false), (3, true), (4, false), (5, true), (8, true)] {
                let scene = Scene::new(Strategy::DSync, workers)
                    .coded(codec, error_feedback && remembers(codec))
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
        for (segments, error_feedback) in [(1, false), (3, remembers(codec))] {
            if segments > 1 && matches!(codec, Codec::Powersgd { .. }) {
                continue;
            }
            let strategy = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(10), segments };
            let scene = Scene::new(strategy, 4).coded(codec, error_feedback).change(|spec| {
                spec.train.length = Extent::Steps(100);
                if codec.route() == CodedSum::Once {
                    spec.communication.collective = Chosen::AllGather;
                }
            });
            assert!(common_digests(&scene.run()).len() > 100, "{codec:?}, {segments} segments");
        }
    }
}

#[test]
fn averaged_models_are_coded_on_purpose_only_and_equal_in_the_end() {
    for codec in by_route(CodedSum::EveryHop) {
        let run = |parameters| {
            let scene = Scene::new(Strategy::LocalSgd { period: 4 }, 3).change(|spec| {
                spec.train.length = Extent::Steps(20);
                spec.compression = Compression::Coded { codec, parameters, error_feedback: false };
            });
            scene.run().ranks.iter().map(|rank| rank.model().sha256()).collect::<Vec<_>>()
        };
        let coded = run(true);
        let exact = run(false);
        assert!(coded.iter().all(|digest| *digest == coded[0] && *digest != exact[0]), "{codec:?}");
    }
}

#[test]
fn asynchronous_servers_take_coded_gradients_and_answer_with_coded_weights_on_purpose() {
    for strategy in [
        Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None },
        Strategy::AsyncMsgd { momentum: 0.5, serve: Serve::One, staleness_bound: Some(2) },
        Strategy::HogwildSgd { staleness_bound: None },
    ] {
        for codec in by_route(CodedSum::EveryHop) {
            let saved = |parameters| {
                let scene = Scene::new(strategy.clone(), 3).change(|spec| {
                    spec.train.length = Extent::Steps(30);
                    spec.compression = Compression::Coded { codec, parameters, error_feedback: true };
                });
                let (bytes, raw, _) = coding(&scene.run()).unwrap();
                raw as f64 / bytes as f64
            };
            let gradients = saved(false);
            let both = saved(true);
            assert!(1.2 < gradients && gradients < both && both > 1.7, "{strategy:?}: {gradients}, {both}");
        }
    }
}

#[test]
fn servers_take_gradients_that_are_coded_once() {
    for strategy in [
        Strategy::PsSync,
        Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None },
        Strategy::AsyncMsgd { momentum: 0.5, serve: Serve::One, staleness_bound: Some(2) },
        Strategy::HogwildSgd { staleness_bound: None },
    ] {
        for codec in by_route(CodedSum::Once) {
            let scene = Scene::new(strategy.clone(), 3).coded(codec, remembers(codec)).change(|spec| {
                spec.train.length = Extent::Steps(30);
            });
            let (bytes, raw, _) = coding(&scene.run()).unwrap();
            // Weights come back as they are: at best half is saved.
            let saved = raw as f64 / bytes as f64;
            assert!(1.2 < saved && saved < 2.0, "{strategy:?}, {codec:?}: {saved}");
        }
    }
}

#[test]
fn all_of_the_elements_are_no_compression() {
    let exact = |collective| {
        let scene = Scene::new(Strategy::DSync, 4).change(|spec| spec.communication.collective = collective);
        common_digests(&scene.run())
    };
    for codec in [Codec::TopK { ratio: 1.0 }, Codec::RandomK { ratio: 1.0 }] {
        for error_feedback in [false, true] {
            for collective in [Chosen::Star, Chosen::AllGather] {
                let scene = Scene::new(Strategy::DSync, 4)
                    .coded(codec, error_feedback)
                    .change(|spec| spec.communication.collective = collective);
                assert_eq!(common_digests(&scene.run()), exact(collective), "{codec:?}, {collective:?}");
            }
        }
    }
}

/// Same recipe, same numbers.
#[test]
fn chance_does_not_depend_on_the_interleaving() {
    for codec in
        [Codec::Terngrad { bucket: 16 }, Codec::Qsgd { levels: 3, bucket: 8 }, Codec::RandomK { ratio: 0.2 }]
    {
        let run = |world: u64| {
            let mut scene = Scene::new(Strategy::DSync, 3).coded(codec, false).seed(world);
            scene.spec.communication.collective = Chosen::AllGather;
            scene.world.jitter = 0.5;
            common_digests(&scene.run())
        };
        assert_eq!(run(1), run(2), "{codec:?}");
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
    let exact = run(false);
    let coded = run(true);
    assert!(exact.iter().all(|rank| *rank == exact[3]), "workers hold what the server holds");
    assert_eq!(coded[..3].iter().filter(|rank| **rank == coded[0]).count(), 3, "workers hold the same");
    assert_eq!(coded[0][0], exact[0][0], "initial weights are never coded");
    assert_ne!(coded[0][1..], coded[3][1..], "a server keeps the weights that it did not send");
    assert_ne!(coded[3][5..], exact[3][5..]);
}

/// Coding on all lanes of a run: bytes, bytes without it, and the relative error; `None` if no lane recorded any.
pub(crate) fn coding(outcome: &strategies::sim::WorldOutcome) -> Option<(u64, u64, f64)> {
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

/// Bytes without the codec are four for each element that travels, whatever packets travel in.
#[test]
fn what_would_have_travelled_without_a_codec_is_what_the_all_reduce_says() {
    for (name, collective) in all_collectives() {
        for codec in Codec::ALL.into_iter().filter(|codec| may(*codec, name)) {
            if codec.route() == CodedSum::Projected {
                continue;
            }
            for p in 2..=9 {
                let scene = Scene::new(Strategy::DSync, p).coded(codec, false).change(|spec| {
                    spec.train.global_batch = 9;
                });
                let n = scene.learner().layout().size();
                let blueprint = scene.blueprint().with_collective(collective.clone());
                let outcome = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
                let places = p as usize;
                let elements: usize =
                    (0..places).map(|place| collective.cost(n, places, place).elements).sum();
                let (_, raw, _) = coding(&outcome).unwrap();
                assert_eq!(raw, 5 * 4 * elements as u64, "{name}, {codec:?}, {p} places");
            }
        }
    }
}

#[test]
fn coded_bytes_are_the_stated_ones() {
    let n = Scene::new(Strategy::DSync, 4).learner().layout().size() as u64;
    for (codec, bytes) in [
        (Codec::Truncate16, 2 * n),
        (Codec::Fp16, 2 * n),
        (Codec::Bf16, 2 * n),
        (Codec::Quantize8, n + 4),
        (Codec::TopK { ratio: 0.1 }, 4 + 8 * n.div_ceil(10)),
        (Codec::Sign, 8 + n.div_ceil(8)),
        (Codec::Terngrad { bucket: 16 }, 4 + 4 * n.div_ceil(16) + n.div_ceil(5)),
        (Codec::Qsgd { levels: 7, bucket: 16 }, 4 + 4 * n.div_ceil(16) + n.div_ceil(2)),
    ] {
        let outcome = Scene::new(Strategy::PsSync, 4).coded(codec, false).run();
        let worker = outcome.ranks[0].steps(LaneId::Compute);
        assert_eq!((worker[1].bytes_out, worker[1].bytes_in), (bytes, 4 * n), "{codec:?}");
        assert_eq!(codec.packet_bytes(n as usize), Some(bytes as usize), "as a plan says: {codec:?}");
    }
}
