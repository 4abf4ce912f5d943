//! Successive halving: each arm searches its own settings, and trains few of them for long.
//!
//! Jamieson, K. and Talwalkar, A. (2016), "Non-stochastic best arm identification and hyperparameter optimization". All settings train
//! for a short time; one of every `factor` is promoted, and trains `factor` times as long, from the start; and so on, until one is left,
//! which trains to the end. Runs of a sweep follow each other, so that the asynchronous variant would gain nothing.

use crate::{AxisValue, Plan, Run};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    fn trial_in_rung(&self, cell: usize) -> Option<&Trial> {
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

    /// The trials of each arm under each condition.
    pub fn groups(&self, plan: &Plan) -> Vec<Vec<&Trial>> {
        let mut places: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        let mut groups: Vec<Vec<&Trial>> = Vec::new();
        for trial in &self.trials {
            let Some(cell) = plan.cells.get(trial.cell) else { continue };
            let place = *places.entry((trial.condition.as_str(), cell.arm)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push(trial);
        }
        groups
    }
}

impl Plan {
    /// The condition that a cell is compared under.
    pub fn compared_under(&self, cell: usize) -> &str {
        let search = self.search.as_ref();
        let trial = search.and_then(|search| search.trial_of(cell).or_else(|| search.trial_in_rung(cell)));
        trial
            .map_or_else(|| self.cells.get(cell).map_or("", |cell| &cell.condition), |trial| &trial.condition)
    }

    /// Whether a cell is that of a rung: a short training, by which a setting is chosen.
    pub fn is_of_a_rung(&self, cell: usize) -> bool {
        self.search.as_ref().is_some_and(|search| search.rung_of(cell).is_some())
    }

    /// Whether a run is made whatever the others show: not those after the first look, which are made where something is open, nor those of
    /// settings that have to be among the best first.
    pub fn is_certain(&self, run: &Run) -> bool {
        let looked_at = self.looks.first().is_none_or(|first| run.repeat < *first);
        let first = |search: &Search| search.rung_of(run.cell) == Some(0);
        looked_at && self.search.as_ref().is_none_or(first)
    }

    /// The number of cells that train to the end, which are the first: those of the rungs of a search follow them.
    pub fn number_of_points(&self) -> usize {
        let rungs = self.search.iter().flat_map(|search| &search.trials).map(|trial| trial.rungs.len());
        self.cells.len() - rungs.sum::<usize>().min(self.cells.len())
    }

    /// The runs that are made if as many are needed as can be: of a search as many of each rung as are promoted, the first that there are.
    pub fn most_needed(&self) -> Vec<&Run> {
        let Some(search) = &self.search else { return self.runs.iter().collect() };
        let mut needed: BTreeSet<usize> = BTreeSet::new();
        for group in search.groups(self) {
            let sizes = search.sizes(group.len());
            for (rung, size) in (0..).zip(&sizes) {
                needed.extend(group.iter().take(*size).map(|trial| trial.cell_in(rung)));
            }
        }
        self.runs.iter().filter(|run| needed.contains(&run.cell)).collect()
    }

    /// The least and the greatest number of runs that the sweep may come to.
    pub fn number_of_runs(&self) -> (usize, usize) {
        let Some(search) = &self.search else {
            return (self.runs.iter().filter(|run| self.is_certain(run)).count(), self.runs.len());
        };
        let of_group = |group: Vec<&Trial>, repeats: usize| {
            let sizes = search.sizes(group.len());
            sizes[..sizes.len() - 1].iter().sum::<usize>() + sizes[sizes.len() - 1] * repeats
        };
        let all =
            |repeats: usize| search.groups(self).into_iter().map(|group| of_group(group, repeats)).sum();
        let (least, most) = self.repeats_to_the_end();
        (all(least), all(most))
    }

    /// The least and the greatest number of repeats of a cell that trains to the end.
    pub fn repeats_to_the_end(&self) -> (usize, usize) {
        let most = self.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(0);
        (self.looks.first().map_or(most, |first| *first as usize), most)
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
