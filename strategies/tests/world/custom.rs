//! Strategies of other crates: what a registry's strategy must give, or its run is refused at its start.

use crate::scene::Scene;
use recipe::Strategy;
use record::{LaneId, Rank};
use strategies::sim::WorldError;
use strategies::{
    CustomRank, CustomStrategy, Evaluated, Loss, Registry, Roles, Service, ServiceContext, ServiceStep,
    StepError, Trainer, WorkerContext,
};

/// A worker that trains alone.
struct Alone;

impl Trainer for Alone {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        ctx.apply_gradient(g);
        Ok(loss)
    }
}

/// A lane that does nothing.
struct Idle(LaneId);

impl Service for Idle {
    fn lane(&self) -> LaneId {
        self.0
    }

    fn step(&mut self, _: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        Ok(ServiceStep::Finished)
    }
}

/// A strategy that gives each rank the roles that the function returns.
struct Gives(fn(Rank) -> Roles);

impl CustomStrategy for Gives {
    fn roles(&self, rank: &CustomRank<'_>) -> Result<Roles, StepError> {
        Ok((self.0)(rank.rank))
    }
}

/// Why a run of this strategy on two workers failed, if it did.
fn refused(roles: fn(Rank) -> Roles) -> Option<String> {
    let scene = Scene::new(Strategy::Custom { name: "mine".into(), settings: [].into() }, 2);
    let blueprint = scene.blueprint().with_registry(Registry::default().with("mine", Gives(roles)));
    let ran = scene.world.run(&blueprint, |_| Box::new(scene.learner()));
    ran.err().map(|error: WorldError| error.to_string())
}

/// Roles of a rank that trains beside lanes of these purposes.
fn beside(rank: Rank, lanes: &[LaneId]) -> Roles {
    let services = lanes.iter().map(|lane| Box::new(Idle(*lane)) as Box<dyn Service>).collect();
    Roles { services, ..Roles::trainer(Alone, Some(Evaluated::compared(rank, 2))) }
}

#[test]
fn a_strategy_that_judges_no_model_is_refused() {
    assert_eq!(refused(|rank| Roles::trainer(Alone, Some(Evaluated::compared(rank, 2)))), None);
    assert_eq!(refused(|rank| Roles::trainer(Alone, Some(Evaluated::averaged(rank, 2)))), None);
    for roles in [
        (|_| Roles::trainer(Alone, None)) as fn(Rank) -> Roles,
        |rank| Roles::trainer(Alone, Some(Evaluated::beside(rank, 2))),
        |rank| Roles::trainer(Alone, (rank == Rank(1)).then(|| Evaluated::judged("rank 1"))),
    ] {
        let reason = refused(roles).expect("the run is refused");
        assert!(reason.contains("`mine` names no model that the run is judged by"), "{reason}");
    }
}

#[test]
fn a_rank_without_a_trainer_is_refused() {
    let reason = refused(|rank| if rank == Rank(0) { beside(rank, &[]) } else { Roles::default() });
    let reason = reason.expect("the run is refused");
    assert!(reason.contains("gives rank 1 nothing to train"), "{reason}");
}

#[test]
fn two_equal_lanes_of_a_rank_are_refused() {
    assert_eq!(refused(|rank| beside(rank, &[LaneId::Client(0), LaneId::Client(1)])), None);
    for reason in [
        refused(|rank| beside(rank, &[LaneId::Client(1), LaneId::Communication, LaneId::Client(1)])),
        refused(|rank| beside(rank, &[LaneId::Compute])),
    ] {
        let reason = reason.expect("the run is refused");
        assert!(reason.contains("rank 0 has two lanes `"), "{reason}");
    }
}
