//! Models larger than the credits of a peer, over real sockets: ranks that all send before they receive must not wait
//! for each other's room.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::train_on_threads;
use recipe::{Averaging, Collective, Extent, MixOrder, MovingRate, RunSpec, Strategy, SyncVariant, Topology};
use record::Event;
use strategies::Learner;
use strategies::in_process::WINDOW;
use strategies::sim::sample_spec_of;
use strategies::toy::Quadratic;

/// Two steps of two ranks, with a model that has no room beside any other message.
fn large(strategy: Strategy) {
    train(sample_spec_of(strategy, 2), WINDOW as usize / 4 + 1000);
}

/// Two steps of two ranks.
fn train(mut spec: RunSpec, weights: usize) {
    spec.train.global_batch = 4;
    spec.train.length = Extent::Steps(2);
    spec.measure.hash_every_step = false;
    let learner = |_| Box::new(Quadratic::new(0.01, vec![1.0; weights], 1)) as Box<dyn Learner>;
    let logs = train_on_threads(&spec, 100, learner).unwrap();
    for (rank, log) in logs.iter().enumerate() {
        let ended =
            log.events.iter().filter(|event| matches!(event, Event::Step(step) if !step.drain)).count();
        assert!(ended >= 2, "rank {rank} ended {ended} steps");
    }
}

#[test]
fn stochastic_gradient_push() {
    large(Strategy::Sgp);
}

#[test]
fn gossip_in_step() {
    large(Strategy::DPsgd { topology: Topology::Ring, order: MixOrder::MixThenStep });
}

#[test]
fn gossip_of_pairs() {
    large(Strategy::AdPsgd { topology: Topology::Ring, averaging: Averaging::EachStep });
}

#[test]
fn both_ways_through_the_tree_at_once() {
    large(Strategy::EasgdSync { moving_rate: MovingRate::Fixed(0.2), variant: SyncVariant::Overlapped });
}

/// Half of such a model has no room at once, in whatever segments it travels.
#[test]
fn segments_of_a_ring() {
    let mut spec = sample_spec_of(Strategy::DSync, 2);
    spec.communication.collective = Collective::PipelinedRing { segments: 4 };
    train(spec, 2 * WINDOW as usize / 4 + 1000);
}
