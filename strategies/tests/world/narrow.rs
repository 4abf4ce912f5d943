//! Little room between ranks. However little a transport takes before something is received, nothing blocks, and no bit is
//! another one: every all-reduce and every strategy in worlds whose credits are far below what they send.

use crate::collectives::{Coarse, SEGMENT, all_in, collectives, rough, try_in};
use crate::scene::{Scene, digests};
use recipe::Strategy;
use record::{LaneId, Nanos, Phase, Rank};
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, Cost, Rates};
use strategies::compress::{Compressor, ErrorFeedback, Identity, Truncate16};
use strategies::sim::{Costs, Link, World, WorldError, WorldOutcome};
use strategies::{GroupRank, Kind, StepError, Tag, Wire};

/// Bytes of the window that a message needs beside its own.
const EXTRA: u64 = 256;

fn narrow(window: u64) -> World {
    World { window: Some(window), ..World::new(1) }
}

fn bits(outcome: &WorldOutcome) -> Vec<Vec<u32>> {
    outcome.ranks.iter().map(|rank| rank.model().iter().map(|value| value.to_bits()).collect()).collect()
}

type NewCodec = fn() -> Box<dyn Compressor>;

/// One of the world's codecs for every kind of way that vectors take: as they are, coded, and with a memory.
const CODECS: [(&str, NewCodec); 3] = [
    ("exact", || Box::new(Identity)),
    ("coarse", || Box::new(Coarse)),
    ("truncated, with a memory", || Box::new(ErrorFeedback::new(Truncate16::default()))),
];

/// Windows far below the vector, and around one, two and three segments of three in a chunk.
fn windows(n: usize, p: usize) -> Vec<u64> {
    let segment = 4 * n.div_ceil(p).div_ceil(3) as u64;
    let around = |many: u64| [many * (segment + EXTRA) - 1, many * (segment + EXTRA)];
    [1, 1 << 10].into_iter().chain((1..=3).flat_map(around)).collect()
}

#[test]
fn every_all_reduce_ends_with_the_same_bits_however_little_room_there_is() {
    for (name, collective) in collectives() {
        for p in 2..=9 {
            let n = 16_384 + p + 1;
            let sums = all_in(n, &collective, rough);
            for (codec_name, codec) in CODECS {
                let free = bits(&try_in(&World::new(1), p, &sums, codec).unwrap());
                for window in windows(n, p) {
                    let what = format!("{name}, {p} places, {codec_name}, {window} bytes");
                    let outcome = try_in(&narrow(window), p, &sums, codec)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(bits(&outcome) == free, "{what}: other bits");
                }
            }
        }
    }
}

/// A ring cuts such chunks into segments of 512 KiB, more than may be on their way at once.
#[test]
fn long_chunks_of_a_ring_need_no_room_for_their_segments() {
    let ring = collectives().remove(0);
    for (p, n) in [(2, 2 * 5 * SEGMENT + 3), (3, 3 * 6 * SEGMENT - 2)] {
        let sums = all_in(n, &ring.1, rough);
        let free = bits(&try_in(&World::new(1), p, &sums, CODECS[0].1).unwrap());
        for window in [1, 512 << 10, 1025 << 10] {
            let outcome = try_in(&narrow(window), p, &sums, CODECS[0].1).unwrap();
            assert!(bits(&outcome) == free, "{p} places, {window} bytes");
        }
    }
}

/// A faulty all-reduce: everything leaves before anything is received.
struct AllFirst;

impl CollectiveAlgorithm for AllFirst {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let right = wire.group().after(1);
        let left = wire.group().after(wire.group().size() - 1);
        (0..4).try_for_each(|part| wire.send(right, tag.part(part), 0, x))?;
        (0..4).try_for_each(|part| wire.recv_add(left, tag.part(part), x))
    }
    fn cost(&self, _: usize, _: usize, _: usize) -> Cost {
        Cost::default()
    }
    fn time(&self, _: usize, _: usize, _: Rates) -> f64 {
        0.0
    }
}

#[test]
fn ranks_that_wait_for_each_others_room_are_reported_with_their_cycle() {
    let sums = all_in(1000, &(Arc::new(AllFirst) as Arc<dyn CollectiveAlgorithm>), rough);
    let enough = 4 * (4000 + EXTRA);
    try_in(&narrow(enough), 3, &sums, CODECS[0].1).unwrap();
    let error = try_in(&narrow(enough - 1), 3, &sums, CODECS[0].1).unwrap_err();
    let WorldError::Deadlock(blocked) = &error else { panic!("{error}") };
    assert!(blocked.len() == 3 && blocked.iter().all(|lane| lane.on_cycle), "{error}");
    let text = error.to_string();
    for word in ["room to send Reduce of step 1, call 1, part 3 to rank 1", "to rank 2", "to rank 0"] {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// The second of two messages leaves when the first is taken out, and until then its sender sends.
struct Late;

/// Elements that the receiver adds before it takes anything out; each takes a nanosecond.
const ADDED: usize = 70_000;

impl CollectiveAlgorithm for Late {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let parts = [0, 1].map(|part| tag.part(part));
        if wire.group().me() == GroupRank(0) {
            return parts.into_iter().try_for_each(|tag| wire.send(GroupRank(1), tag, 0, x));
        }
        wire.reduce(&mut vec![0.0; ADDED], &vec![0.0; ADDED]);
        parts.into_iter().try_for_each(|tag| wire.recv_into(GroupRank(0), tag, x))
    }
    fn cost(&self, _: usize, _: usize, _: usize) -> Cost {
        Cost::default()
    }
    fn time(&self, _: usize, _: usize, _: Rates) -> f64 {
        0.0
    }
}

#[test]
fn who_waits_for_room_sends() {
    let sums = all_in(1000, &(Arc::new(Late) as Arc<dyn CollectiveAlgorithm>), rough);
    let sent = |window| {
        let world = World {
            costs: Costs { reduce: 1.0, ..Costs::default() },
            link: Link { latency: Nanos(100), nanos_per_byte: 0.0 },
            ..World { window, ..World::new(1) }
        };
        let outcome = try_in(&world, 2, &sums, CODECS[0].1).unwrap();
        let phases = |rank: usize| outcome.ranks[rank].steps(LaneId::Compute)[0].phases;
        (phases(0)[Phase::Send], phases(1)[Phase::WaitPeer] + phases(1)[Phase::Transfer])
    };
    assert_eq!(sent(None), (Nanos(0), Nanos(0)));
    assert_eq!(sent(Some(2 * (4000 + EXTRA))), (Nanos(0), Nanos(0)));
    // Both begin together; the second message travels when the first one was taken out.
    assert_eq!(sent(Some(4000)), (Nanos(ADDED as u64), Nanos(100)));
}

#[test]
fn without_a_receiver_there_is_room_once() {
    let world = narrow(1 << 10);
    let ran = world.run_lanes(2, |runtime| {
        let mut transport = runtime.transport(Rank(0));
        let run = move || {
            let packet = |bytes: usize| strategies::Packet(vec![0; bytes].into());
            let tag = |step| Tag::new(Kind::Push, step);
            assert!(transport.has_room(Rank(1), 1 << 30), "alone, any size may travel");
            transport.send(Rank(1), tag(1), packet(100))?;
            // 100 + 256 are in use.
            assert!(transport.has_room(Rank(1), 1024 - 356 - 256));
            assert!(!transport.has_room(Rank(1), 1024 - 356 - 255));
            assert!(transport.has_room(Rank(0), 1 << 30), "nothing travels to oneself");
            transport.send(Rank(1), tag(2), packet(1000))
        };
        Ok(vec![strategies::LaneBody { rank: Rank(0), lane: LaneId::Compute, run: Box::new(run) }])
    });
    let error = ran.unwrap_err().to_string();
    assert!(error.contains("room to send Push of step 2"), "{error}");
}

/// A model of 66 KB.
fn scene(strategy: Strategy, workers: u32, window: Option<u64>) -> Scene {
    let mut scene = Scene::new(strategy, workers).widths(&[64, 128, 64]).change(|spec| {
        spec.train.length = recipe::Extent::Steps(6);
        spec.train.optimizer.lr = 1.0 / 1024.0;
    });
    scene.world.window = window;
    scene.world.costs = Costs { forward: vec![Nanos(900); 2], update: 0.1, ..Costs::default() };
    scene
}

#[test]
fn every_strategy_trains_in_little_room_and_those_without_chance_train_the_same() {
    for strategy in Strategy::samples() {
        let same = !strategy.kind().depends_on_arrival();
        for workers in [2, 3, 4] {
            let free = digests(&scene(strategy.clone(), workers, None).run());
            for window in [1, 1 << 10, 70_000] {
                for seed in 1..3 {
                    let scene = scene(strategy.clone(), workers, Some(window)).seed(seed);
                    let what = format!("{strategy:?}, {workers} workers, {window} bytes");
                    let run = scene.world.run(&scene.blueprint(), |_| Box::new(scene.learner()));
                    let outcome = run.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(!same || digests(&outcome) == free, "{what}: other weights");
                }
            }
        }
    }
}
