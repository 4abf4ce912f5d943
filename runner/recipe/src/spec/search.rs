//! Successive halving: each arm searches its own settings, and trains few of them for long.
//!
//! Jamieson, K. and Talwalkar, A. (2016), "Non-stochastic best arm identification and hyperparameter optimization". All settings train
//! for a short time; one of every `factor` is promoted, and trains `factor` times as long, from the start; and so on, until one is left,
//! which trains to the end. Runs of a sweep follow each other, so that the asynchronous variant would gain nothing.

use crate::spec::axis_value::AxisValue;
use serde::{Deserialize, Serialize};

/// The settings that a search varies, by the beginning of their paths: how a step is made of a gradient, and neither model nor data.
const SEARCHED: [&str; 2] = ["train.optimizer", "train.lr-schedule"];

/// Whether an axis is a setting that arms search over, and no condition that they are compared under.
pub fn is_searched(path: &str) -> bool {
    SEARCHED
        .iter()
        .any(|key| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// A search of all arms under all conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Number of shorter trainings before the one to the end.
    pub rungs: u32,
    /// One in this many settings is promoted, and trains this many times as long.
    pub factor: u32,
    /// In the order of the cells.
    pub trials: Vec<Trial>,
}

/// A setting of an arm under a condition. All trials with one arm and one condition are a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Index of the cell that trains to the end.
    pub cell: usize,
    /// Indices of the cells that train for less, the shortest first.
    pub rungs: Vec<usize>,
    /// The values that are searched over.
    pub setting: Vec<AxisValue>,
    /// The condition that arms are compared under: that of the cell without the setting.
    pub condition: String,
}

impl Trial {
    /// The cell that trains in the rung with this number, from 0; after the last rung the one that trains to the end.
    pub fn cell_in(&self, rung: u32) -> usize {
        self.rungs.get(rung as usize).copied().unwrap_or(self.cell)
    }
}

impl Search {
    /// The number of `settings` that are promoted from the rung with this number, from 0: from the last one it is one.
    pub fn kept(&self, settings: usize, rung: u32) -> usize {
        if rung + 1 >= self.rungs { settings.min(1) } else { settings.div_ceil(self.factor as usize) }
    }

    /// How many of `settings` train in each rung, and how many to the end.
    pub fn sizes(&self, settings: usize) -> Vec<usize> {
        let mut sizes = vec![settings];
        for rung in 0..self.rungs {
            sizes.push(self.kept(sizes[sizes.len() - 1], rung));
        }
        sizes
    }

    /// The part of the length that each rung trains for is one of this many: 9, 3, and 1 for the training to the end.
    pub fn parts(&self) -> Vec<u64> {
        (0..=self.rungs).rev().map(|times| u64::from(self.factor).saturating_pow(times)).collect()
    }

    /// The trial that trains a cell to the end; `None` of a rung's cell.
    pub fn trial_of(&self, cell: usize) -> Option<&Trial> {
        let place = self.trials.binary_search_by_key(&cell, |trial| trial.cell).ok()?;
        self.trials.get(place)
    }

    /// The trial that a rung's cell is part of.
    pub(super) fn trial_in_rung(&self, cell: usize) -> Option<&Trial> {
        let place = cell.checked_sub(*self.trials.first()?.rungs.first()?)?;
        self.trials.get(place / (self.rungs as usize).max(1))
    }

    /// The rung of a cell; `None` of one that trains to the end.
    pub fn rung_of(&self, cell: usize) -> Option<u32> {
        // The cells of the rungs follow each other, trial by trial.
        let place = cell.checked_sub(*self.trials.first()?.rungs.first()?)?;
        let rungs = self.rungs as usize;
        (place < self.trials.len() * rungs).then(|| (place % rungs) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_every_few_goes_on_and_in_the_end_one() {
        let sizes = |rungs: u32, factor: u32, settings: usize| {
            Search { rungs, factor, trials: Vec::new() }.sizes(settings)
        };
        assert_eq!(sizes(2, 3, 9), [9, 3, 1]);
        assert_eq!(sizes(2, 3, 10), [10, 4, 1]);
        assert_eq!(sizes(3, 2, 8), [8, 4, 2, 1]);
        assert_eq!(sizes(1, 3, 5), [5, 1]);
        assert_eq!(sizes(2, 2, 0), [0, 0, 0]);
    }

    #[test]
    fn rates_and_schedules_are_searched_and_workloads_are_not() {
        for path in ["train.optimizer", "train.optimizer.lr", "train.lr-schedule.warmup"] {
            assert!(is_searched(path), "{path}");
        }
        for path in ["train.optimizers", "train.global-batch", "network.bandwidth", "strategy.d-sync.lr"] {
            assert!(!is_searched(path), "{path}");
        }
    }
}
