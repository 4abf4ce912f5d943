//! One search: what its runs have shown, and how far it has come.

use crate::tuned::{CHOSEN_BY, setting_words};
use crate::verdict::value_words;
use comparison::statistics::average;
use comparison::study::is_judged;
use recipe::{Extent, Metric, Plan, Search, Trial};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use store::{RunRow, RunState, SweepRows};

/// A search: one arm under one condition.
pub(crate) struct Group<'a> {
    plan: &'a Plan,
    search: &'a Search,
    pub(crate) metric: Metric,
    pub(crate) trials: Vec<&'a Trial>,
    /// The place of each trial, by its cell.
    places: BTreeMap<usize, usize>,
    /// By cell, of all searches.
    runs: Rc<BTreeMap<usize, Vec<&'a RunRow>>>,
    /// For each trial and rung the run's metric at the end.
    scores: Vec<Vec<Score>>,
}

/// Result of a run of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Score {
    /// The metric at its end.
    Value(f64),
    /// It diverged, or measured nothing.
    Nothing,
    /// It failed, for whatever its setting was.
    Failed,
    /// It is not made yet.
    Waits,
    /// The selection does not have it.
    Unknown,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome<'a> {
    /// The setting that trains to the end.
    Chosen(&'a Trial),
    /// Each setting diverged, or did not end as planned.
    NoneLeft,
    /// Runs of a rung are to be made.
    UnderWay,
    /// The page's selection leaves runs out.
    NotSelected,
}

impl<'a> Group<'a> {
    pub(crate) fn all(rows: &'a SweepRows, search: &'a Search) -> Vec<Self> {
        let metric = metric(rows, search);
        let mut runs: BTreeMap<usize, Vec<&RunRow>> = BTreeMap::new();
        for run in &rows.runs {
            runs.entry(run.cell).or_default().push(run);
        }
        let runs = Rc::new(runs);
        let score = |cell: &usize| {
            // The cell of a rung has one run.
            let Some(run) = runs.get(cell).and_then(|runs| runs.last()) else { return Score::Unknown };
            match score(run, metric) {
                Some(value) => Score::Value(value),
                None if matches!(run.state, RunState::Pending | RunState::Running) => Score::Waits,
                None if matches!(run.state, RunState::Failed | RunState::TimedOut) => Score::Failed,
                None => Score::Nothing,
            }
        };
        let scores = |trial: &&Trial| trial.rungs.iter().map(score).collect();
        let group = |trials: Vec<&'a Trial>| Self {
            plan: &rows.plan,
            search,
            metric,
            scores: trials.iter().map(scores).collect(),
            places: trials.iter().enumerate().map(|(place, trial)| (trial.cell, place)).collect(),
            runs: runs.clone(),
            trials,
        };
        search.groups(&rows.plan).into_iter().map(group).collect()
    }

    /// The trials that train in a rung, from 0, or, after the last of the rungs, to the end; the best first, and of equal ones the one
    /// that was better in the rung before. None while a run before that is to be made.
    pub(crate) fn survivors(&self, rung: u32) -> Vec<&'a Trial> {
        self.surviving_places(rung).into_iter().map(|place| self.trials[place]).collect()
    }

    fn surviving_places(&self, rung: u32) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.trials.len()).collect();
        for past in 0..rung.min(self.search.rungs) {
            let kept = self.search.kept(places.len(), past);
            let waits =
                |place: &usize| matches!(self.scores[*place][past as usize], Score::Waits | Score::Unknown);
            if places.iter().any(waits) {
                return Vec::new();
            }
            let value = |place: &usize| self.score(*place, past);
            places.retain(|place| value(place).is_some());
            places.sort_by(|one, other| {
                let [one, other] = [value(one), value(other)].map(Option::unwrap_or_default);
                if self.metric.higher_is_better() { other.total_cmp(&one) } else { one.total_cmp(&other) }
            });
            places.truncate(kept);
        }
        places
    }

    /// How far the search has come.
    pub(crate) fn outcome(&self) -> Outcome<'a> {
        if let Some(chosen) = self.survivors(self.search.rungs).first() {
            return Outcome::Chosen(chosen);
        }
        // Of later rungs most runs are never made.
        let some = |of: fn(&Score) -> bool| {
            (0..self.search.rungs).any(|rung| {
                self.surviving_places(rung).into_iter().any(|place| of(&self.scores[place][rung as usize]))
            })
        };
        if some(|score| *score == Score::Unknown) {
            Outcome::NotSelected
        } else if some(|score| *score == Score::Waits) {
            Outcome::UnderWay
        } else {
            Outcome::NoneLeft
        }
    }

    /// Settings that were as good as the chosen one in the last rung, and others.
    pub(crate) fn ties(&self, chosen: &Trial) -> usize {
        let last = self.search.rungs.saturating_sub(1);
        let best = self.score_of(chosen, last);
        let tied = |trial: &&Trial| trial.cell != chosen.cell && self.score_of(trial, last) == best;
        self.survivors(last).iter().filter(|trial| tied(trial)).count()
    }

    /// The metric of a trial, by its place, at the end of a rung.
    fn score(&self, place: usize, rung: u32) -> Option<f64> {
        match self.scores[place].get(rung as usize) {
            Some(Score::Value(value)) => Some(*value),
            Some(Score::Nothing | Score::Failed | Score::Waits | Score::Unknown) | None => None,
        }
    }

    /// State in which a run of a trial ended without a metric: `diverged`; `None` if it has one, or has not ended.
    pub(crate) fn state_of(&self, trial: &Trial, rung: u32) -> Option<&'static str> {
        let run = self.runs_of(trial.cell_in(rung)).first()?;
        let ended = !matches!(run.state, RunState::Pending | RunState::Running | RunState::NotNeeded);
        (ended && score(run, self.metric).is_none()).then(|| run.state.name())
    }

    /// Number of rungs, without the training to the end.
    pub(crate) fn rungs(&self) -> u32 {
        self.search.rungs
    }

    /// The metric of a trial at the end of a rung.
    pub(crate) fn score_of(&self, trial: &Trial, rung: u32) -> Option<f64> {
        self.score(*self.places.get(&trial.cell)?, rung)
    }

    /// The mean of the metric over the runs of a trial that trained to the end.
    pub(crate) fn final_score(&self, trial: &Trial) -> Option<f64> {
        let runs = self.runs_of(trial.cell).iter();
        let values: Vec<f64> = runs.filter_map(|run| score(run, self.metric)).collect();
        average(&values)
    }

    /// The runs of a cell; none where the page's selection leaves them out.
    fn runs_of(&self, cell: usize) -> &[&'a RunRow] {
        self.runs.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// For how long its settings train, the shortest first.
    pub(crate) fn lengths(&self) -> Vec<String> {
        let cells = self.trials[0].rungs.iter().chain([&self.trials[0].cell]);
        cells.map(|cell| length_words(self.plan.cells[*cell].spec.train.length)).collect()
    }

    /// Of its first trial: all have the same arm and condition.
    pub(crate) fn cell(&self) -> &'a recipe::Cell {
        &self.plan.cells[self.trials[0].cell]
    }

    /// The condition that it is made under.
    pub(crate) fn condition(&self) -> &'a str {
        &self.trials[0].condition
    }

    /// `d-sync at workers=2: lr=0.2 (91.2 %), lr=0.4 (90.1 %) of 9 settings are promoted`, by the metric at the end of the rung.
    pub(super) fn words(&self, rung: u32, kept: &[&Trial]) -> String {
        let arm = self.plan.arms.get(self.cell().arm).map_or("?", |arm| &arm.name);
        let place =
            if self.condition().is_empty() { String::new() } else { format!(" at {}", self.condition()) };
        let of = self.survivors(rung).len();
        let with_value = |trial: &&Trial| match self.score_of(trial, rung) {
            Some(value) => format!("{} ({})", setting_words(&trial.setting), value_words(self.metric, value)),
            None => setting_words(&trial.setting),
        };
        let listed: Vec<String> = kept.iter().map(with_value).collect();
        let last = rung + 1 == self.search.rungs;
        let failed = self.failed(rung);
        let given_up = if failed.is_empty() {
            String::new()
        } else {
            format!("; given up, because its run failed: {}", failed.join(", "))
        };
        let words = match kept {
            [] => format!("{arm}{place}: none of {of} settings is promoted, for none ended as planned"),
            [best] if last && self.ties(best) > 0 => {
                let others = match self.ties(best) {
                    1 => "another one is".to_owned(),
                    more => format!("{more} others are"),
                };
                format!("{arm}{place}: {} trains to the end; {others} as good", listed[0])
            }
            [_] if last => format!("{arm}{place}: {} is the best of {of}, and trains to the end", listed[0]),
            [_] => format!("{arm}{place}: {} of {of} settings is promoted", listed[0]),
            _ => format!("{arm}{place}: {} of {of} settings are promoted", listed.join(", ")),
        };
        words + &given_up
    }

    /// Settings whose run of a rung failed: they were given up for no fault of theirs. One that diverged is a result.
    pub(crate) fn failed(&self, rung: u32) -> Vec<String> {
        let failed = |place: &usize| self.scores[*place].get(rung as usize) == Some(&Score::Failed);
        let places = self.surviving_places(rung).into_iter().filter(failed);
        places.map(|place| setting_words(&self.trials[place].setting)).collect()
    }
}

/// A third of an epoch has many digits.
fn length_words(length: Extent) -> String {
    match length {
        Extent::Epochs(epochs) => Extent::Epochs((epochs * 100.0).round() / 100.0).to_string(),
        Extent::Steps(_) => length.to_string(),
    }
}

/// The metric that settings are chosen by: that of the target, measured on the samples that are held out, if a run of a rung has it,
/// else the first, in their fixed order, that one has. Before any has one it is the first.
fn metric(rows: &SweepRows, search: &Search) -> Metric {
    let rungs: BTreeSet<usize> = search.trials.iter().flat_map(|trial| trial.rungs.iter().copied()).collect();
    let runs = || rows.runs.iter().filter(|run| rungs.contains(&run.cell));
    let measured = |metric: &Metric| runs().any(|run| score(run, *metric).is_some());
    let target = rows.plan.cells.iter().find_map(|cell| cell.spec.train.target);
    let of_target = target.and_then(|target| target.metric.held_out());
    of_target.into_iter().chain(CHOSEN_BY).find(measured).unwrap_or(CHOSEN_BY[0])
}

/// The metric at the end of a run that ended as planned.
fn score(run: &RunRow, metric: Metric) -> Option<f64> {
    let attempt = run
        .attempt
        .as_ref()
        .filter(|_| matches!(run.state, RunState::Done | RunState::Degraded) && is_judged(run))?;
    let last = attempt.metrics.iter().rev().find(|row| row.metric == metric)?;
    Some(last.value).filter(|value| value.is_finite())
}

impl Group<'_> {
    /// The cells that are known to be needed.
    pub(super) fn due(&self) -> Vec<usize> {
        let mut due = Vec::new();
        for rung in 0..=self.search.rungs {
            let cells: Vec<usize> = self.survivors(rung).iter().map(|trial| trial.cell_in(rung)).collect();
            let over = !cells.iter().any(|cell| self.waits(*cell));
            due.extend(cells);
            if !over {
                break;
            }
        }
        due
    }

    fn waits(&self, cell: usize) -> bool {
        self.runs_of(cell).iter().any(|run| matches!(run.state, RunState::Pending | RunState::Running))
    }
}
