//! The shapes of this crate carry what they were made for: merged layer-wise schedules, lock-free
//! servers, gossip with active and passive lanes, and model parallelism. Each method here is small and only
//! shows that nothing in the core has to move for it; deadlocks and panics are shown to be found.

mod failures;
mod gossip;
mod layer_wise;
mod lock_free;

use crate::scene::Scene;
use record::Rank;
use strategies::sim::{WorldError, WorldOutcome};
use strategies::*;

fn run(
    scene: &Scene,
    learner: impl Fn() -> Box<dyn Learner>,
    roles: impl Fn(Rank, &dyn Runtime, &CommQueue) -> Roles,
) -> Result<WorldOutcome, WorldError> {
    let size = learner().layout().size();
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), size);
    scene.world.run_roles(&blueprint, |_| learner(), roles)
}

fn trains(strategy: impl Trainer + 'static, services: Vec<Box<dyn Service>>) -> Roles {
    Roles { trainer: Some(Box::new(strategy)), services, ..Roles::default() }
}

fn comm_lane(scene: &Scene, comm: &CommQueue) -> Box<dyn Service> {
    Box::new(CommLane::new(comm.clone(), scene.blueprint().all_reduce()))
}
