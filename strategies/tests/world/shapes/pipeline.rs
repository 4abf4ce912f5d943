//! A pipeline: gradients that are applied some iterations later, and communication hidden behind computing.

use super::{messenger, run, trains};
use crate::scene::Scene;
use recipe::{Extent, Strategy as Kinds};
use record::{LaneId, Nanos, Rank};
use std::collections::VecDeque;
use strategies::sim::Costs;
use strategies::toy::Quadratic;
use strategies::*;

/// Gradients of iteration t - K are applied in iteration t.
struct Pipeline {
    depth: usize,
    travelling: VecDeque<Pending>,
}

impl Strategy for Pipeline {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        if self.travelling.len() == self.depth
            && let Some(pending) = self.travelling.pop_front()
        {
            let g = node.wait(pending)?;
            node.descend(g);
        }
        let (loss, g) = node.gradient()?;
        self.travelling.push_back(node.start_all_reduce_mean(g)?);
        Ok(loss)
    }
    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        while let Some(pending) = self.travelling.pop_front() {
            let g = node.wait(pending)?;
            node.descend(g);
        }
        Ok(())
    }
}

#[test]
fn a_pipeline_of_depth_2_has_period_6_on_a_quadratic() {
    let expected: [(usize, &[f32]); 3] = [
        (1, &[1.0, 0.0, 0.0, 0.0]),
        (2, &[1.0, 1.0, 0.0, -1.0, -1.0, 0.0, 1.0, 1.0, 0.0]),
        (3, &[1.0, 1.0, 1.0, 0.0, -1.0, -2.0, -2.0, -1.0, 1.0, 3.0, 4.0, 3.0]),
    ];
    for (depth, iterates) in expected {
        let scene = Scene::new(Kinds::DSync, 2).change(|spec| {
            spec.train.optimizer.lr = 1.0;
            spec.train.length = Extent::Steps(iterates.len() as u64 + 1);
        });
        let learner = || Box::new(Quadratic::new(1.0, vec![1.0; 5], 1)) as Box<dyn Learner>;
        let roles = |_: Rank, _: &dyn Host, jobs: &Shared<Jobs>| {
            trains(Pipeline { depth, travelling: VecDeque::new() }, vec![messenger(&scene, jobs)])
        };
        let outcome = run(&scene, learner, roles).unwrap();
        let seen: Vec<f32> = (1..=iterates.len() as u64).map(|t| outcome.ranks[1].weights[&t][0]).collect();
        assert_eq!(seen, iterates, "depth {depth}");
    }
}

#[test]
fn a_pipeline_hides_what_is_shorter() {
    let mut scene = Scene::new(Kinds::DSync, 2).change(|spec| spec.train.length = Extent::Steps(20));
    scene.spec.measure.hash_every_step = false;
    scene.world.costs =
        Costs { forward: vec![Nanos(40_000)], backward: vec![Nanos(60_000)], ..Costs::default() };
    let learner = || Box::new(Quadratic::new(1.0, vec![1.0; 100], 1)) as Box<dyn Learner>;
    let roles = |_: Rank, _: &dyn Host, jobs: &Shared<Jobs>| {
        trains(Pipeline { depth: 2, travelling: VecDeque::new() }, vec![messenger(&scene, jobs)])
    };
    let outcome = run(&scene, learner, roles).unwrap();
    for step in &outcome.ranks[0].steps(LaneId::Compute)[5..15] {
        assert_eq!(step.length, Nanos(100_000));
        assert_eq!(step.phases.exposed(), Nanos(0));
    }
}
