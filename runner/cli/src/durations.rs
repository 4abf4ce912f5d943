//! How long runs take: measured in this sweep, in earlier ones of the same configuration, or predicted.

use crate::output::human;
use predict::network::LinkRates;
use recipe::{Cell, Extent, Plan};
use reports::{Computing, forecast};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{EarlierRun, Store, StoreError};

/// Durations of the runs of a plan's cells: measured, of earlier sweeps, and predicted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    /// Number and sum of a cell's runs in this sweep.
    own: BTreeMap<usize, (u32, Duration)>,
    earlier: BTreeMap<usize, Duration>,
    predicted: BTreeMap<usize, Duration>,
    /// Number of a cell's runs whose results were there.
    reused: BTreeMap<usize, u32>,
}

/// Where a duration comes from, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Basis {
    /// Runs of the cell in this sweep.
    Own,
    /// Runs of the same configuration in earlier sweeps.
    Earlier,
    /// The models of the papers, for an emulated network and a stated computing time.
    Prediction,
    /// Durations of other cells.
    Others,
}

impl Basis {
    fn words(self) -> &'static str {
        match self {
            Self::Own => "runs so far",
            Self::Earlier => "earlier runs",
            Self::Prediction => "prediction",
            Self::Others => "other cells",
        }
    }
}

/// How long several runs take together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) length: Duration,
    pub(crate) bases: BTreeSet<Basis>,
}

impl Estimate {
    /// The same where `runs` of them are under way at once.
    pub(crate) fn at_once(self, runs: usize) -> Self {
        Self { length: self.length / u32::try_from(runs.max(1)).unwrap_or(u32::MAX), ..self }
    }

    /// `by runs so far and prediction`.
    pub(crate) fn by(&self) -> String {
        let words: Vec<&str> = self.bases.iter().map(|basis| basis.words()).collect();
        match words.split_last() {
            Some((last, before)) if !before.is_empty() => format!("by {} and {last}", before.join(", ")),
            _ => format!("by {}", words.join("")),
        }
    }

    /// `about 12 min, by earlier runs`.
    pub(crate) fn words(&self) -> String {
        format!("about {}, {}", human::whole(self.length), self.by())
    }
}

impl Durations {
    /// The durations that are known before the first run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn of(plan: &Plan, store: Option<&Store>) -> Result<Self, StoreError> {
        let earlier = match store {
            Some(store) => store.earlier_runs(&plan.name).await?,
            None => Vec::new(),
        };
        let cells = || plan.cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none());
        let took = |cell: &Cell| {
            mean(earlier.iter().filter(|run| is_of(run, plan, cell)).filter_map(|run| run.took))
        };
        Ok(Self {
            own: BTreeMap::new(),
            reused: BTreeMap::new(),
            earlier: cells().filter_map(|(place, cell)| Some((place, took(cell)?))).collect(),
            predicted: cells().filter_map(|(place, cell)| Some((place, predicted(cell)?))).collect(),
        })
    }

    /// A run of a cell took this long.
    pub(crate) fn add(&mut self, cell: usize, took: Duration) {
        let (count, sum) = self.own.entry(cell).or_default();
        (*count, *sum) = (*count + 1, *sum + took);
    }

    /// A run of a cell is reused.
    pub(crate) fn reused(&mut self, cell: usize) {
        *self.reused.entry(cell).or_default() += 1;
    }

    /// Number of a cell's runs that the sweep has.
    pub(crate) fn made(&self, cell: usize) -> u32 {
        self.own.get(&cell).map_or(0, |(count, _)| *count) + self.reused.get(&cell).copied().unwrap_or(0)
    }

    /// Whether a cell, or one like it, has been run.
    pub(crate) fn knows(&self, cell: usize) -> bool {
        self.own.contains_key(&cell) || self.earlier.contains_key(&cell)
    }

    /// Expected duration of a run of a cell, by the surest basis; `None` where nothing is known of any cell.
    pub(crate) fn expected(&self, cell: usize) -> Option<(Duration, Basis)> {
        let own = self.own.get(&cell).and_then(|(count, sum)| sum.checked_div(*count));
        own.map(|own| (own, Basis::Own))
            .or_else(|| self.earlier.get(&cell).map(|took| (*took, Basis::Earlier)))
            .or_else(|| self.predicted.get(&cell).map(|took| (*took, Basis::Prediction)))
            .or_else(|| self.of_any().map(|took| (took, Basis::Others)))
    }

    /// Expected duration of a run of a cell, as far as it was measured; `None` if there is only a prediction: to refuse a
    /// run by it would keep the run from ever being measured.
    pub(crate) fn measured(&self, cell: usize) -> Option<Duration> {
        let (took, basis) = self.expected(cell)?;
        match basis {
            Basis::Own | Basis::Earlier => Some(took),
            Basis::Others if !self.own.is_empty() => Some(took),
            Basis::Prediction | Basis::Others => None,
        }
    }

    /// Expected duration of these runs together, each given by its cell; `None` for no runs, or if nothing is known.
    pub(crate) fn together(&self, cells: impl Iterator<Item = usize>) -> Option<Estimate> {
        let mut sum = Estimate { length: Duration::ZERO, bases: BTreeSet::new() };
        for cell in cells {
            let (took, basis) = self.expected(cell)?;
            sum.length += took;
            sum.bases.insert(basis);
        }
        (!sum.bases.is_empty()).then_some(sum)
    }

    /// The mean over the runs of this sweep, else over the cells that ran earlier.
    fn of_any(&self) -> Option<Duration> {
        let (count, sum) =
            self.own.values().fold((0, Duration::ZERO), |(count, sum), own| (count + own.0, sum + own.1));
        sum.checked_div(count).or_else(|| mean(self.earlier.values().copied()))
    }
}

fn mean(lengths: impl Iterator<Item = Duration>) -> Option<Duration> {
    let (count, sum) = lengths.fold((0, Duration::ZERO), |(count, sum), took| (count + 1, sum + took));
    sum.checked_div(count)
}

/// Whether an earlier run did what a cell does, whatever its seed was.
fn is_of(run: &EarlierRun, plan: &Plan, cell: &Cell) -> bool {
    run.arm == plan.arms[cell.arm].name && run.condition == cell.condition && run.spec == cell.spec
}

/// Its steps by the models of the papers; starting and evaluating are in none of them. Nothing where the target may end it at any step.
fn predicted(cell: &Cell) -> Option<Duration> {
    let spec = &cell.spec;
    if spec.train.target.is_some_and(|target| target.stop) {
        return None;
    }
    let network = spec.emulation.network?;
    let step = spec.emulation.compute?.step_time.as_secs_f64();
    let rates = LinkRates::new(network.latency.as_secs_f64(), 1.0 / network.bandwidth as f64, 0.0).ok()?;
    let found = forecast(spec, rates, &Computing { step, passes: None }).ok()?;
    let steps = match spec.train.length {
        Extent::Steps(steps) => steps as f64,
        length @ Extent::Epochs(_) => {
            let batch = spec.train.global_batch;
            spec.train.steps_of(length.samples(spec.dataset.source.training_samples()?, batch))
        }
    };
    Duration::try_from_secs_f64(found.step * steps).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_run_is_expected_to_take_as_long_as_those_of_its_cell() {
        let mut durations = Durations::default();
        assert_eq!(durations.expected(0), None);
        durations.add(0, 4 * SECOND);
        assert_eq!(durations.expected(1), Some((4 * SECOND, Basis::Others)));
        durations.add(1, 9 * SECOND);
        durations.add(0, 6 * SECOND);
        let found = [0, 1].map(|cell| durations.expected(cell).unwrap());
        assert_eq!(found, [(5 * SECOND, Basis::Own), (9 * SECOND, Basis::Own)]);
    }

    #[test]
    fn what_was_measured_last_is_believed_first() {
        let mut durations = Durations {
            earlier: BTreeMap::from([(0, 10 * SECOND), (1, 20 * SECOND)]),
            predicted: BTreeMap::from([(1, SECOND), (2, 3 * SECOND)]),
            ..Durations::default()
        };
        let of = |durations: &Durations, cells: &[usize]| durations.together(cells.iter().copied()).unwrap();
        let all = of(&durations, &[0, 1, 1, 2, 3]);
        // The mean of what ran earlier stands for the cell of which nothing is known.
        assert_eq!(all.length, (10 + 20 + 20 + 3 + 15) * SECOND);
        assert_eq!(all.by(), "by earlier runs, prediction and other cells");
        durations.add(0, 30 * SECOND);
        let all = of(&durations, &[0, 3]);
        assert_eq!((all.length, all.by().as_str()), (60 * SECOND, "by runs so far and other cells"));
        assert_eq!(durations.together(std::iter::empty()), None);
        assert_eq!(
            [0, 1, 2].map(|cell| durations.measured(cell)),
            [Some(30 * SECOND), Some(20 * SECOND), None]
        );
        assert_eq!(durations.measured(3), Some(30 * SECOND));
        durations.reused(0);
        assert_eq!([0, 1].map(|cell| durations.made(cell)), [2, 0]);
        assert_eq!(Durations::default().together([0].into_iter()), None);
    }
}
