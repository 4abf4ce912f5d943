//! The pull of a centre by itself: workers that begin apart and have no gradient.

use crate::elastic::fixed;
use crate::scene::{Scene, digests};
use recipe::{Extent, Serve, Strategy};
use record::{Nanos, Rank};
use std::borrow::Cow;
use strategies::sim::{Costs, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Blueprint, Learner, Loss, Progress, Roles, Runtime, StepError, Vector, WorkerContext};

/// A worker that begins with a model of its own.
struct Apart(Box<dyn strategies::Trainer>);

impl strategies::Trainer for Apart {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.0.start(ctx)?;
        let own = 64.0 * (ctx.rank().0 + 1) as f32;
        ctx.weights_mut().fill(own);
        Ok(())
    }
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        self.0.step(ctx)
    }
    fn progress(&self, ctx: &WorkerContext) -> Progress {
        self.0.progress(ctx)
    }
    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.0.finish(ctx)
    }
    fn model<'a>(&'a self, ctx: &'a WorkerContext) -> Cow<'a, Vector> {
        self.0.model(ctx)
    }
}

/// Three workers at 64, 128 and 192 around a centre at 0, four steps each, without a gradient.
fn pulled(strategy: Strategy, slow: f64) -> WorldOutcome {
    let mut scene = Scene::new(strategy, 3).change(|spec| spec.train.length = Extent::Steps(4));
    // The same times for all methods: one that looks ahead does more work, and would draw other jitter.
    scene.world.slow = [(Rank(1), slow), (Rank(2), 1.7)].into();
    scene.world.costs = Costs { forward: vec![Nanos(30_000)], ..Costs::default() };
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), 2);
    let learner = |_| Box::new(Quadratic::new(0.0, vec![0.0; 2], 1)) as Box<dyn Learner>;
    let roles = |rank: Rank, runtime: &dyn Runtime, comm: &_| {
        let Roles { trainer, services, attendants, evaluated } =
            blueprint.roles(rank, runtime, comm).unwrap();
        let trainer = trainer.map(|trainer| Box::new(Apart(trainer)) as Box<dyn strategies::Trainer>);
        Roles { trainer, services, attendants, evaluated }
    };
    scene.world.run_roles(&blueprint, learner, roles).unwrap()
}

/// The pull does not enter the velocity: one that begins at zero stays there for ever, so that a method with momentum
/// has the bits of the one without in every step.
#[test]
fn without_a_gradient_a_velocity_stays_zero() {
    let moving_rate = fixed(0.5);
    for slow in [1.3, 3.0, 0.4] {
        let plain = pulled(Strategy::EasgdAsync { moving_rate, period: 1, serve: Serve::One }, slow);
        let sum: f32 = plain.ranks.iter().map(|rank| rank.model()[0]).sum();
        assert_eq!(sum.to_bits(), 384.0_f32.to_bits(), "nothing is lost between workers and centre");
        assert_ne!(plain.ranks[0].model()[0].to_bits(), 64.0_f32.to_bits(), "there is a pull");
        let momentum = 0.5;
        for strategy in [
            Strategy::MeasgdAsync { moving_rate, momentum, period: 1, serve: Serve::One },
            Strategy::Eamsgd { moving_rate, momentum, period: 1, serve: Serve::One, look_ahead: false },
            Strategy::Eamsgd { moving_rate, momentum, period: 1, serve: Serve::One, look_ahead: true },
        ] {
            let same = digests(&pulled(strategy.clone(), slow)) == digests(&plain);
            assert!(same, "{strategy:?}, {slow}");
        }
    }
}
