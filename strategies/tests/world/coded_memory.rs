//! Error feedback under every all-reduce: the sums lack exactly the values that the codecs remember.

use crate::codecs::all_collectives;
use crate::coded_sums::{Plan, sums_of};
use record::Rank;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use strategies::collective::{CollectiveAlgorithm, PipelinedRing, RankOrder, Ring};
use strategies::compress::{Compressor, ErrorFeedback, Guarantee, Slot, Truncate16};
use strategies::rng::mix;
use strategies::{Kind, Packet, StepError};

/// Residuals of all codecs of a test, position by position, by the codec's number, the kind and the receiver.
type Memories = BTreeMap<(usize, Kind, Rank), Vec<f32>>;

// A simulated world is one thread; tests beside it have memories of their own.
thread_local! {
    static MEMORIES: RefCell<(usize, Memories)> = const { RefCell::new((0, BTreeMap::new())) };
}

/// Shows what error feedback remembers.
struct Shown {
    number: usize,
    codec: ErrorFeedback<Truncate16>,
}

impl Shown {
    fn boxed() -> Box<dyn Compressor> {
        let number = MEMORIES.with_borrow_mut(|memories| {
            memories.0 += 1;
            memories.0
        });
        Box::new(Self { number, codec: ErrorFeedback::new(Truncate16::default()) })
    }
}

impl Compressor for Shown {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let packet = self.codec.encode(slot, x);
        let memory = self.codec.memory(slot.kind, slot.peer).to_vec();
        MEMORIES.with_borrow_mut(|memories| memories.1.insert((self.number, slot.kind, slot.peer), memory));
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

/// Integers below 2^16 in all sums: no addition rounds.
fn integers(p: u64, n: u64) -> Vec<Vec<f32>> {
    (0..p).map(|rank| (0..n).map(|i| (mix(rank, i) % 20_001) as f32 - 10_000.0).collect()).collect()
}

/// The sums of all steps lack exactly the values that are remembered at the end; returns their absolute sum.
fn check_conservation(
    collective: &Arc<dyn CollectiveAlgorithm>,
    x: &[Vec<f32>],
    steps: u64,
    what: &str,
) -> f32 {
    MEMORIES.set((0, BTreeMap::new()));
    let outcome = sums_of(x, collective, Shown::boxed, Plan::Same, steps);
    let remembered = MEMORIES.take().1;
    let mut all = 0.0;
    for i in 0..x[0].len() {
        let due: f32 = steps as f32 * x.iter().map(|x| x[i]).sum::<f32>();
        let came: f32 = (1..=steps).map(|t| outcome.ranks[0].weights[&t][i]).sum();
        let lost: f32 = remembered.values().filter_map(|memory| memory.get(i)).sum();
        // Whole numbers.
        assert_eq!((came + lost) as i64, due as i64, "{what}, element {i}, {steps} steps");
        all += lost.abs();
    }
    all
}

/// Whatever an all-reduce rounds, and wherever. Not with recursive doubling, where several places round the same sum
/// and each remembers the whole error of it.
#[test]
fn what_all_ranks_remember_is_what_the_sums_are_short_of() {
    for (name, collective) in all_collectives().into_iter().filter(|(name, _)| *name != "recursive doubling")
    {
        for p in [2, 3, 5_u64] {
            for n in [1, 7, 40] {
                for steps in 1..=4 {
                    let what = format!("{name}, {p} places, {n} elements");
                    check_conservation(&collective, &integers(p, n), steps, &what);
                }
            }
        }
    }
}

/// Chunks that are longer than a segment of the ring (64 Ki elements), whole and in segments of the recipe's choice.
#[test]
fn nor_is_anything_lost_between_the_segments_of_long_vectors() {
    for (name, collective) in [
        ("ring", Arc::new(Ring) as Arc<dyn CollectiveAlgorithm>),
        ("pipelined ring", Arc::new(PipelinedRing::new(3))),
        ("rank order", Arc::new(RankOrder)),
    ] {
        for p in [2, 3] {
            let x = integers(p, 3 * 3 * (64 << 10) + 5);
            for steps in [1, 3] {
                let lost = check_conservation(&collective, &x, steps, &format!("{name}, {p} places"));
                assert!(lost > 0.0, "{name}: nothing was rounded");
            }
        }
    }
}

/// Chunks, their owners and what travels together change from step to step; still everything arrives.
#[test]
fn another_plan_loses_nothing_of_what_is_remembered() {
    let codec: fn() -> Box<dyn Compressor> = || Box::new(ErrorFeedback::new(Truncate16::default()));
    for (name, collective) in all_collectives() {
        for p in [2, 3, 5_u64] {
            let x: Vec<Vec<f32>> = (0..p)
                .map(|rank| (0..40).map(|i| (mix(rank, i) % 20_001) as f32 - 10_000.0).collect())
                .collect();
            let outcome = sums_of(&x, &collective, codec, Plan::ThenZerosInParts, 9);
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
