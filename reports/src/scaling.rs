//! How an arm's speed changes with the number of its workers.

use crate::axes::Axes;
use crate::findings::Findings;
use comparison::statistics::{Amdahl, TimeOnWorkers};
use std::collections::BTreeMap;

/// The index of the axis whose values are the numbers of workers.
pub(crate) fn workers_axis(findings: &Findings, axes: &Axes) -> Option<usize> {
    let conditions = || findings.study.conditions.iter().zip(&axes.places);
    (0..axes.ordered.len()).find(|axis| {
        conditions().all(|(condition, places)| {
            let value = axes.ordered[*axis].values[places[*axis]].number;
            value.is_some_and(|number| (number - f64::from(condition.workers)).abs() < 0.5)
        })
    })
}

/// The conditions under each combination of values of the other axes.
pub(crate) fn families(axes: &Axes, own: usize) -> BTreeMap<Vec<usize>, Vec<usize>> {
    let mut found: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (condition, places) in axes.places.iter().enumerate() {
        let mut others = places.clone();
        others.remove(own);
        found.entry(others).or_default().push(condition);
    }
    found
}

/// An arm on one number of workers.
#[derive(Clone, Copy)]
pub(crate) struct OnWorkers {
    pub(crate) workers: u32,
    /// Samples of a step of all workers.
    pub(crate) batch: u32,
    /// Seconds of a step.
    pub(crate) step: f64,
}

impl OnWorkers {
    /// Seconds of a sample, whatever the batch.
    pub(crate) fn sample(&self) -> f64 {
        self.step / f64::from(self.batch)
    }
}

/// An arm on all numbers of workers.
pub(crate) struct ArmScaling {
    /// Index of the arm.
    pub(crate) arm: usize,
    /// Points in the order of their numbers of workers.
    pub(crate) points: Vec<OnWorkers>,
    /// Fit of the time of a sample; `None` for too few points.
    pub(crate) fit: Option<Amdahl>,
}

impl ArmScaling {
    /// `points` are not empty.
    pub(crate) fn new(arm: usize, mut points: Vec<OnWorkers>) -> Self {
        points.sort_by_key(|point| point.workers);
        let times: Vec<TimeOnWorkers> = points
            .iter()
            .map(|point| TimeOnWorkers { workers: f64::from(point.workers), time: point.sample() })
            .collect();
        Self { arm, points, fit: Amdahl::fitted(&times) }
    }

    /// Samples per second relative to those of the fewest workers.
    pub(crate) fn speed_up(&self, point: &OnWorkers) -> f64 {
        self.points[0].sample() / point.sample()
    }

    pub(crate) fn ideal(&self, workers: f64) -> f64 {
        workers / f64::from(self.points[0].workers)
    }

    /// Share of the ideal speed-up that is left.
    pub(crate) fn efficiency(&self, point: &OnWorkers) -> f64 {
        self.speed_up(point) / self.ideal(f64::from(point.workers))
    }
}

/// Which batch stayed the same while workers were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Strong scaling, with this batch of all workers.
    GlobalBatch(u32),
    /// Weak scaling, with this batch of each worker.
    WorkerBatch(u32),
    Neither,
}

impl Kept {
    /// `points` are not empty.
    pub(crate) fn of(points: &[OnWorkers]) -> Self {
        let first = points[0];
        let same = |batch: &dyn Fn(&OnWorkers) -> Option<u32>| {
            points.iter().all(|point| batch(point).is_some() && batch(point) == batch(&first))
        };
        let own = |point: &OnWorkers| {
            point.batch.is_multiple_of(point.workers).then_some(point.batch / point.workers)
        };
        if same(&|point| Some(point.batch)) {
            Self::GlobalBatch(first.batch)
        } else if same(&own) {
            Self::WorkerBatch(first.batch / first.workers)
        } else {
            Self::Neither
        }
    }

    pub(crate) fn words(self) -> String {
        match self {
            Self::GlobalBatch(batch) => {
                format!("Strong scaling: the global batch of {batch} samples stayed the same.")
            }
            Self::WorkerBatch(batch) => {
                format!("Weak scaling: the batch of {batch} samples of each worker stayed the same.")
            }
            Self::Neither => {
                "Neither strong nor weak scaling: the batches of all and of each worker change.".to_owned()
            }
        }
    }
}
