//! Deadlocks and panics are found and told.

use super::{run, trains};
use crate::scene::Scene;
use recipe::Strategy as Kinds;
use record::{LaneId, Rank};
use strategies::sim::WorldError;
use strategies::*;

#[test]
fn a_ring_that_only_asks_is_reported_as_a_deadlock_with_its_cycle() {
    struct Asks;
    impl Trainer for Asks {
        fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
            let tag = ctx.tag(Kind::Exchange);
            let group = ctx.trainers().clone();
            ctx.wire().recv_packet(group.after(group.size() - 1), tag)?;
            ctx.wire().send(group.after(1), tag, 0, &[1.0])?;
            Ok(Loss(0.0))
        }
    }
    /// On rank 0, for a peer that never asks.
    struct Listens;
    impl Service for Listens {
        fn lane(&self) -> LaneId {
            LaneId::Clients
        }
        fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
            ctx.wire().recv_any(Kind::Ask)?;
            Ok(ServiceStep::Finished)
        }
    }
    let scene = Scene::new(Kinds::DSync, 3);
    let roles = |rank: Rank, _: &dyn Runtime, _: &CommQueue| {
        let listens: Box<dyn Service> = Box::new(Listens);
        trains(Asks, if rank == Rank(0) { vec![listens] } else { Vec::new() })
    };
    let WorldError::Deadlock(blocked) = run(&scene, || Box::new(scene.learner()), roles).unwrap_err() else {
        panic!("no deadlock was found")
    };
    assert_eq!(blocked.len(), 4);
    assert!(blocked[..3].iter().all(|lane| lane.on_cycle && lane.lane == LaneId::Compute));
    // It waits on a rank of the cycle, and for no rank of it.
    assert!(!blocked[3].on_cycle && (blocked[3].rank, blocked[3].lane) == (Rank(0), LaneId::Clients));
    assert!(
        blocked[0]
            .to_string()
            .starts_with("rank 0 compute waits for Exchange of step 1, call 1, part 0 from rank 2")
    );
}

#[test]
fn a_panic_is_an_error_of_its_lane() {
    struct Breaks;
    impl Trainer for Breaks {
        fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
            assert!(ctx.rank() != Rank(1) || ctx.t() != 2, "rank 1 breaks in step 2");
            let (loss, g) = ctx.gradient()?;
            let g = ctx.all_reduce_mean(g)?;
            ctx.apply_gradient(g);
            Ok(loss)
        }
    }
    let scene = Scene::new(Kinds::DSync, 3);
    let roles = |_: Rank, _: &dyn Runtime, _: &CommQueue| trains(Breaks, vec![]);
    let WorldError::Failed { rank, lane, source } =
        run(&scene, || Box::new(scene.learner()), roles).unwrap_err()
    else {
        panic!("the panic was lost")
    };
    assert_eq!((rank, lane), (Rank(1), LaneId::Compute));
    assert_eq!(source, StepError::Panicked("rank 1 breaks in step 2".into()));
}
