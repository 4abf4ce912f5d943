//! Weights that are divided among several servers.

use crate::scene::{Scene, digests};
use recipe::{Codec, Compression, Extent, Placement, Role, Strategy};
use record::{Event, LaneId, Nanos, Rank};
use strategies::sim::{Costs, WorldOutcome};

impl Scene {
    /// The same with `servers` servers.
    pub(crate) fn servers(self, servers: usize) -> Self {
        self.change(|spec| {
            let workers = spec.cluster.workers() as usize;
            spec.cluster.placements.truncate(workers);
            spec.cluster.placements.resize(workers + servers, Placement { role: Role::Server, node: 0 });
        })
    }
}

fn scene(workers: u32, servers: usize) -> Scene {
    Scene::new(Strategy::PsSync, workers).servers(servers).change(|spec| {
        spec.train.optimizer.momentum = 0.9;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.length = Extent::Steps(20);
        spec.train.global_batch = 10;
        spec.train.evaluate = Extent::Steps(7);
    })
}

#[test]
fn any_number_of_servers_gives_the_bits_of_one() {
    for widths in [&[6, 8, 4][..], &[1, 1]] {
        for workers in 1..=4 {
            let one = digests(&scene(workers, 1).widths(widths).run());
            for servers in 2..=5 {
                let several = digests(&scene(workers, servers).widths(widths).run());
                // The last of five servers holds no weight of a model of two.
                assert_eq!(several[..workers as usize], one[..workers as usize], "{workers} and {servers}");
                assert_eq!(several[0].len(), 21);
            }
        }
    }
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit() {
    let run = |seed, jitter, slow| {
        let mut scene = scene(3, 3).seed(seed);
        scene.world.jitter = jitter;
        scene.world.slow.insert(Rank(4), slow);
        scene.world.costs =
            Costs { forward: vec![Nanos(700), Nanos(300)], update: 5.0, reduce: 9.0, ..Costs::default() };
        digests(&scene.run())
    };
    let quiet = run(1, 0.0, 1.0);
    assert!((2..20).all(|seed| run(seed, 0.7, 8.0) == quiet));
}

/// The snapshots to evaluate: their rank, the samples before them, and whether each is the final one.
pub(crate) fn judged(outcome: &WorldOutcome) -> Vec<(Rank, String, u64, bool)> {
    let events = outcome.ranks.iter().flat_map(|rank| &rank.events);
    let judged = events.filter_map(|event| match event {
        Event::Snapshot(record) => Some((record.rank, record.model.clone(), record.samples, record.last)),
        _ => None,
    });
    judged.collect()
}

#[test]
fn one_server_is_judged_itself_and_several_by_rank_0() {
    for (servers, rank) in [(1, Rank(2)), (2, Rank(0)), (3, Rank(0))] {
        let marks = [(0, false), (70, false), (140, false), (200, true)];
        let name = if servers == 1 { "server" } else { "rank 0" };
        let expected: Vec<_> =
            marks.map(|(samples, last)| (rank, name.to_owned(), samples, last)).into_iter().collect();
        assert_eq!(judged(&scene(2, servers).run()), expected, "{servers} servers");
    }
}

#[test]
fn each_server_sends_and_gets_its_part() {
    let outcome = scene(2, 3).run();
    // 92 weights: 31, 31 and 30.
    for (server, weights) in [(2, 31), (3, 31), (4, 30)] {
        let turns = outcome.ranks[server].steps(LaneId::Clients);
        assert!(
            turns[..20]
                .iter()
                .all(|turn| turn.bytes_in == 2 * 4 * weights && turn.bytes_out == turn.bytes_in)
        );
    }
}

/// Where the model is coded on its way to the workers, the exact weights are judged, whatever the number of servers: codes
/// that look at each element by itself give several servers the bits of one.
#[test]
fn the_exact_weights_are_judged_where_the_workers_have_coded_ones() {
    for codec in [Codec::Truncate16, Codec::Fp16] {
        let run = |servers| {
            let scene = scene(2, servers).change(|spec| {
                spec.compression = Compression::Coded { codec, parameters: true, error_feedback: false };
                // Only snapshots to evaluate.
                spec.measure.hash_every_step = false;
            });
            scene.run()
        };
        let one = run(1);
        for servers in [2, 3] {
            let several = run(servers);
            let expected: Vec<_> = judged(&one);
            assert_eq!(judged(&several), expected, "{codec:?}, {servers} servers");
            let models = &several.ranks[2].weights;
            let exact = &one.ranks[2].weights;
            assert_eq!(exact.len(), 4);
            for (step, model) in models {
                assert_eq!(model.sha256(), exact[step].sha256(), "{codec:?}, {servers} servers, step {step}");
            }
            let worker = several.ranks[0].model();
            assert_ne!(worker.sha256(), several.ranks[2].model().sha256(), "nothing was lost: {codec:?}");
            if codec == Codec::Truncate16 {
                let cut = |w: &f32| w.to_bits() & 0xffff_0000;
                assert!(worker.iter().map(|w| w.to_bits()).eq(several.ranks[2].model().iter().map(cut)));
            }
        }
    }
}
