//! The contract of [`strategies::Transport`], as tests for any transport, also one of another project:
//! [`world_tests!`] makes those that every transport passes, [`member_tests!`] those of a transport whose ranks are threads that
//! wait by the wall's clock, leave, crash and are stopped.
//!
//! A function of this crate panics where the transport breaks the contract, as a test does.
#![expect(clippy::unwrap_used, reason = "what fails here is a test of a transport")]

mod crew;
pub mod sums;
pub mod traffic;
pub mod trouble;

pub use crew::{Crew, NarrowCrew, TestMember};
use record::Rank;
use std::time::Duration;
use strategies::Transport;

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Where a test of the contract takes place.
pub trait TestWorld {
    /// Runs `body` once for each lane of each rank, all at the same time, each with a handle of its own; returns
    /// when all have returned. A panic in a body is a panic of `run`.
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static);
}

/// Which lane of which rank a body plays.
#[derive(Clone, Copy, Debug)]
pub struct LanePosition {
    /// The rank, from 0.
    pub rank: Rank,
    /// The lane of the rank, from 0.
    pub lane: u32,
    /// The number of ranks.
    pub ranks: u32,
}

impl LanePosition {
    /// All ranks but this one, in ascending order.
    pub fn peers(self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).map(Rank).filter(move |peer| *peer != self.rank)
    }

    fn after(self, steps: u32) -> Rank {
        Rank((self.rank.0 + steps) % self.ranks)
    }
}

/// The tests that every [`TestWorld`] passes: order, sizes, credits, lanes, kinds and tags of messages, and sums of vectors.
#[macro_export]
macro_rules! world_tests {
    ($world:ty) => {
        #[test]
        fn messages_keep_their_order() {
            for ranks in [1, 2, 3, 4, 8] {
                $crate::traffic::order::<$world>(ranks);
            }
        }
        #[test]
        fn all_sizes_arrive() {
            $crate::traffic::sizes::<$world>(&[
                0, 1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 4_095, 4_096, 65_535, 65_536, 65_537, 1_048_575,
                1_048_576, 1_048_577, 3_000_001, 0, 8_388_608, 1,
            ]);
        }
        #[test]
        fn large_messages_arrive() {
            $crate::traffic::sizes::<$world>(&[64 << 20, 64 << 20, (64 << 20) + 1, 100 << 20, 0, 1]);
        }
        #[test]
        fn a_ring_in_which_all_send_first_does_not_block() {
            for (ranks, rounds) in [(1, 3), (2, 5), (3, 3), (4, 3), (8, 1)] {
                $crate::traffic::ring::<$world>(ranks, 8 << 20, rounds);
            }
        }
        #[test]
        fn a_ring_may_send_more_than_all_credits_first() {
            $crate::traffic::ring::<$world>(2, 80 << 20, 2);
        }
        #[test]
        fn empty_messages_are_messages() {
            $crate::traffic::ring::<$world>(4, 0, 20);
        }
        #[test]
        fn lanes_do_not_wait_for_each_other() {
            $crate::traffic::kinds::<$world>();
        }
        #[test]
        fn the_inbox_is_sorted_by_kind() {
            $crate::traffic::sorted_by_kind::<$world>();
        }
        #[test]
        fn anyone_may_be_first() {
            $crate::traffic::from_anyone::<$world>(4);
        }
        #[test]
        fn another_tag_is_an_error() {
            $crate::traffic::unexpected::<$world>();
        }
        #[test]
        fn vectors_of_any_length_are_summed_by_any_number_of_ranks() {
            for ranks in [1, 2, 3, 4, 8] {
                $crate::sums::all_lengths::<$world>(ranks);
            }
        }
    };
}

/// Bytes that may be on their way to one peer where there is little room: less than almost any message.
pub const LITTLE: u64 = 1 << 10;

/// The tests of a transport whose ranks are [`TestMember`]s: deadlines, bounds of what a sender holds, stops, crashes and departures.
#[macro_export]
macro_rules! member_tests {
    ($member:ty) => {
        #[test]
        fn silence_names_rank_peer_message_and_time() {
            $crate::trouble::silence::<$member>();
        }
        #[test]
        fn what_others_send_does_not_prolong_a_wait() {
            $crate::trouble::noise_of_others::<$member>();
        }
        #[test]
        fn a_receiver_that_does_not_read_bounds_what_its_sender_holds() {
            $crate::trouble::unread::<$member>();
        }
        #[test]
        fn empty_messages_need_credits_too() {
            $crate::trouble::unread_empty::<$member>();
        }
        #[test]
        fn a_sender_goes_on_as_soon_as_there_is_room() {
            $crate::trouble::room_again::<$member>();
        }
        #[test]
        fn with_little_room_vectors_are_summed_too() {
            for ranks in [2, 3, 4, 8] {
                $crate::sums::all_lengths::<$crate::NarrowCrew<$member>>(ranks);
            }
        }
        #[test]
        fn what_has_room_does_not_wait() {
            $crate::trouble::room::<$member>();
        }
        #[test]
        fn stop_wakes_everybody_who_waits() {
            $crate::trouble::stopped::<$member>();
        }
        #[test]
        fn a_crash_is_noticed_at_once_but_what_came_before_it_counts() {
            $crate::trouble::crash::<$member>();
        }
        #[test]
        fn who_leaves_early_loses_nothing_and_disturbs_no_other() {
            $crate::trouble::goodbye::<$member>();
        }
        #[test]
        fn waiting_for_anyone_ends_with_the_last_who_leaves() {
            $crate::trouble::last_goodbye::<$member>();
        }
        #[test]
        fn there_is_no_rank_beyond_the_last() {
            $crate::trouble::no_such_rank::<$member>();
        }
        #[test]
        fn a_gibibyte_arrives() {
            $crate::traffic::gibibyte::<$crate::Crew<$member>>();
        }
    };
}
