//! The cells and runs of a plan as its search sees them: the conditions that they are compared under, and how many are
//! needed. Of a plan without a search all cells train to the end.

use crate::{Bounds, Plan, Run, Search, Trial};
use std::collections::{BTreeMap, BTreeSet};

impl Search {
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
    pub fn number_of_runs(&self) -> Bounds {
        let Some(search) = &self.search else {
            let least = self.runs.iter().filter(|run| self.is_certain(run)).count();
            return Bounds { least, most: self.runs.len() };
        };
        let all = |repeats: usize| {
            let groups = search.groups(self).into_iter();
            groups.map(|group| runs_of_group(&search.sizes(group.len()), repeats)).sum()
        };
        let repeats = self.repeats_to_the_end();
        Bounds { least: all(repeats.least), most: all(repeats.most) }
    }

    /// The least and the greatest number of repeats of a cell that trains to the end.
    pub fn repeats_to_the_end(&self) -> Bounds {
        let most = self.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(0);
        Bounds { least: self.looks.first().map_or(most, |first| *first as usize), most }
    }
}

/// Runs of a group of trials: one of each in the rungs, and of those that train to the end, the last of `sizes`, some repeats.
fn runs_of_group(sizes: &[usize], repeats: usize) -> usize {
    let (to_the_end, rungs) = sizes.split_last().unwrap_or((&0, &[]));
    rungs.iter().sum::<usize>() + to_the_end * repeats
}
