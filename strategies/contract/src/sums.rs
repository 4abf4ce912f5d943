//! Vectors over a transport: every all-reduce, for every number of elements around the number of ranks.

use crate::TestWorld;
use record::{Clock, Nanos, PhaseClock, Rank, Trace, Work};
use std::sync::Arc;
use strategies::collective::{
    AllGather, CollectiveAlgorithm, HalvingDoubling, Hierarchical, PipelinedRing, RankOrder,
    RecursiveDoubling, Ring, Star, Tree,
};
use strategies::compress::Identity;
use strategies::{Group, Kind, Lane, Tag};

/// No time passes: these tests are about the messages that arrive.
struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        Nanos(0)
    }
    fn spend(&self, _: Work) {}
}

/// The vector of a rank: small whole numbers, whose sums are exact in any order.
fn own(rank: u32, elements: usize) -> Vec<f32> {
    (0..elements).map(|element| (rank * 7 + element as u32 % 11) as f32).collect()
}

/// No element, fewer elements than ranks, as many, and more.
pub fn all_lengths<W: TestWorld>(ranks: u32) {
    W::run(ranks, 1, |place, transport| {
        let everyone: Arc<[Rank]> = (0..place.ranks).map(Rank).collect();
        let group = Group::new(&everyone, place.rank).unwrap();
        let mut lane =
            Lane::new(transport, Box::new(Identity), PhaseClock::new(Arc::new(Still), Trace::NONE));
        let collectives: [&dyn CollectiveAlgorithm; 9] = [
            &Ring,
            &PipelinedRing::new(3),
            &RankOrder,
            &Star,
            &AllGather,
            &Tree,
            &RecursiveDoubling,
            &HalvingDoubling,
            &Hierarchical::of_neighbours(2),
        ];
        let ranks = place.ranks as usize;
        // Of the last one, up to four ranks have chunks of more than one segment of a ring.
        let lengths = [0, 1, ranks - 1, ranks, ranks + 1, 3 * ranks + 1, 600_001];
        let cases = collectives.into_iter().flat_map(|by| lengths.map(|length| (by, length)));
        for (step, (collective, length)) in (1..).zip(cases) {
            let mut vector = own(place.rank.0, length);
            let tag = Tag::new(Kind::Reduce, step);
            collective.all_reduce_sum(&mut vector, tag, &mut lane.wire(&group)).unwrap();
            let all: Vec<Vec<f32>> = (0..place.ranks).map(|rank| own(rank, length)).collect();
            let sums = (0..length).map(|element| all.iter().map(|one| one[element]).sum::<f32>());
            assert!(sums.eq(vector.iter().copied()), "{length} elements on {ranks} ranks, case {step}");
        }
    });
}
