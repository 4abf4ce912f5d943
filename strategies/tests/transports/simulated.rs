//! The simulator, as far as the contract applies: it has no wall's clock, and credits without end unless a world says
//! otherwise. The tests of faults show what becomes of its ranks when others die.

use record::{LaneId, Rank};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use strategies::sim;
use strategies::{LaneBody, StepError, Transport, panic_text};
use transport_contract::{LanePosition, TestWorld};

struct Simulated;

impl TestWorld for Simulated {
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static) {
        Bounded::<{ u64::MAX }>::run(ranks, lanes, body);
    }
}

/// A bounded number of bytes may be on their way to one peer.
struct Bounded<const WINDOW: u64>;

impl<const WINDOW: u64> TestWorld for Bounded<WINDOW> {
    fn run(ranks: u32, lanes: u32, body: impl Fn(LanePosition, Box<dyn Transport>) + Send + Sync + 'static) {
        let body = Arc::new(body);
        let mut world = sim::World::new(7);
        world.link.nanos_per_byte = 1.0;
        world.window = Some(WINDOW).filter(|window| *window < u64::MAX);
        let places = (0..ranks).flat_map(|rank| (0..lanes).map(move |lane| (Rank(rank), lane)));
        let ran = world.run_lanes(ranks as usize, |runtime| {
            let bodies = places.map(|(rank, lane)| {
                let body = body.clone();
                let transport = runtime.transport(rank);
                let run = move || {
                    let run = AssertUnwindSafe(|| body(LanePosition { rank, lane, ranks }, transport));
                    catch_unwind(run).map_err(|cause| StepError::Panicked(panic_text(cause.as_ref())))
                };
                let lane = if lane == 0 { LaneId::Compute } else { LaneId::Client(lane as u16 - 1) };
                LaneBody { rank, lane, run: Box::new(run) }
            });
            Ok(bodies.collect())
        });
        ran.unwrap();
    }
}

transport_contract::world_tests!(Simulated);

#[test]
fn with_little_room_vectors_are_summed_too() {
    for ranks in [2, 3, 4, 8] {
        transport_contract::sums::all_lengths::<Bounded<{ transport_contract::LITTLE }>>(ranks);
    }
}

#[test]
fn with_little_room_a_ring_in_which_all_send_first_does_not_block() {
    transport_contract::traffic::ring::<Bounded<{ transport_contract::LITTLE }>>(4, 80 << 10, 3);
}
