//! Successive halving: which settings of each arm are promoted to the next rung, by the runs that a sweep has so far.
//!
//! Settings are ranked by the metric of the samples that are held out, at the end of the rung's run; of equal ones the first is
//! promoted. A run that did not end as planned has no value, and its setting is given up.

use crate::statistics::average;
use crate::study::is_judged;
use crate::tuned::CHOSEN_BY;
use crate::verdict::value_words;
use recipe::{Extent, Metric, Plan, Search, Trial};
use std::collections::BTreeSet;
use store::{RunRow, RunState, SweepRows};

/// What a rung has shown of all searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The cells of the next rung, or those that train to the end.
    pub needed: BTreeSet<usize>,
    /// What each arm continues with under each condition, a line each.
    pub words: Vec<String>,
}

/// What is promoted after the rung with this number, from 0. `None` if the sweep searches for nothing.
pub fn promoted(rows: &SweepRows, rung: u32) -> Option<Promotion> {
    let search = rows.plan.search.as_ref()?;
    let mut promotion = Promotion { needed: BTreeSet::new(), words: Vec::new() };
    for group in Group::all(rows, search) {
        let kept = group.survivors(rung + 1);
        let next = |trial: &&Trial| trial.rungs.get(rung as usize + 1).copied().unwrap_or(trial.cell);
        promotion.needed.extend(kept.iter().map(next));
        if !group.survivors(rung).is_empty() {
            promotion.words.push(group.words(rung, &kept));
        }
    }
    Some(promotion)
}

/// Whether a search has left no setting of any arm.
pub(crate) fn is_in_vain(rows: &SweepRows) -> bool {
    let Some(search) = &rows.plan.search else { return false };
    Group::all(rows, search).iter().all(|group| group.outcome() == Outcome::NoneLeft)
}

/// The cells that are compared: of each arm under each condition the one that trains to the end. Before it is known which that is, the
/// first stands for it. `None` if the sweep searches for nothing.
pub(crate) fn compared(rows: &SweepRows) -> Option<BTreeSet<usize>> {
    let search = rows.plan.search.as_ref()?;
    let tried: BTreeSet<usize> =
        rows.runs.iter().filter(|run| run.attempt.is_some()).map(|run| run.cell).collect();
    let of_group = |group: Vec<&Trial>| {
        let last = group.iter().find(|trial| tried.contains(&trial.cell)).or(group.first());
        last.map(|trial| trial.cell)
    };
    Some(search.groups(&rows.plan).into_iter().filter_map(of_group).collect())
}

/// A search: one arm under one condition.
pub(crate) struct Group<'a> {
    plan: &'a Plan,
    search: &'a Search,
    pub(crate) metric: Metric,
    pub(crate) trials: Vec<&'a Trial>,
    /// For each trial and rung the run's metric at the end.
    scores: Vec<Vec<Score>>,
}

/// What a run of a rung came to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Score {
    /// The metric at its end.
    Value(f64),
    /// It did not end as planned, or measured nothing.
    Nothing,
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
        let score = |cell: &usize| {
            let Some(run) = rows.runs.iter().find(|run| run.cell == *cell) else { return Score::Unknown };
            match score(run, metric) {
                Some(value) => Score::Value(value),
                None if matches!(run.state, RunState::Pending | RunState::Running) => Score::Waits,
                None => Score::Nothing,
            }
        };
        let scores = |trial: &&Trial| trial.rungs.iter().map(score).collect();
        let group = |trials: Vec<&'a Trial>| Self {
            plan: &rows.plan,
            search,
            metric,
            scores: trials.iter().map(scores).collect(),
            trials,
        };
        search.groups(&rows.plan).into_iter().map(group).collect()
    }

    /// The trials that train in a rung, from 0, or, after the last of the rungs, to the end; the best first, and of equal ones the one
    /// that was better in the rung before. None while a run before that is to be made.
    pub(crate) fn survivors(&self, rung: u32) -> Vec<&'a Trial> {
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
        places.into_iter().map(|place| self.trials[place]).collect()
    }

    /// How far the search has come.
    pub(crate) fn outcome(&self) -> Outcome<'a> {
        if let Some(chosen) = self.survivors(self.search.rungs).first() {
            return Outcome::Chosen(chosen);
        }
        // Of later rungs most runs are never made.
        let all = |of: fn(&Score) -> bool| {
            (0..self.search.rungs).any(|rung| {
                let in_rung = self.survivors(rung);
                let place = |trial: &&Trial| self.trials.iter().position(|own| own.cell == trial.cell);
                in_rung.iter().filter_map(place).any(|place| of(&self.scores[place][rung as usize]))
            })
        };
        if all(|score| *score == Score::Unknown) {
            Outcome::NotSelected
        } else if all(|score| *score == Score::Waits) {
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
            Some(Score::Nothing | Score::Waits | Score::Unknown) | None => None,
        }
    }

    /// What a run of a trial came to instead of a value: `diverged`, or nothing.
    pub(crate) fn state_of(&self, rows: &SweepRows, trial: &Trial, rung: u32) -> Option<&'static str> {
        let cell = trial.rungs.get(rung as usize)?;
        let run = rows.runs.iter().find(|run| run.cell == *cell)?;
        let ended = !matches!(run.state, RunState::Pending | RunState::Running | RunState::NotNeeded);
        (ended && score(run, self.metric).is_none()).then(|| run.state.name())
    }

    /// Number of rungs.
    pub(crate) fn rungs(&self) -> u32 {
        self.search.rungs
    }

    /// The metric of a trial at the end of a rung.
    pub(crate) fn score_of(&self, trial: &Trial, rung: u32) -> Option<f64> {
        let place = self.trials.iter().position(|own| own.cell == trial.cell)?;
        self.score(place, rung)
    }

    /// The mean of the metric over the runs of a trial that trained to the end.
    pub(crate) fn final_score(&self, rows: &SweepRows, trial: &Trial) -> Option<f64> {
        let runs = rows.runs.iter().filter(|run| run.cell == trial.cell);
        let values: Vec<f64> = runs.filter_map(|run| score(run, self.metric)).collect();
        average(&values)
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
    fn words(&self, rung: u32, kept: &[&Trial]) -> String {
        let arm = self.plan.arms.get(self.cell().arm).map_or("?", |arm| &arm.name);
        let place =
            if self.condition().is_empty() { String::new() } else { format!(" at {}", self.condition()) };
        let of = self.survivors(rung).len();
        let with_value = |trial: &&Trial| match self.score_of(trial, rung) {
            Some(value) => format!("{} ({})", setting(trial), value_words(self.metric, value)),
            None => setting(trial),
        };
        let listed: Vec<String> = kept.iter().map(with_value).collect();
        let last = rung + 1 == self.search.rungs;
        match kept {
            [] => format!("{arm}{place}: none of {of} settings is promoted, for none ended as planned"),
            [best] if last && self.ties(best) > 0 => {
                format!("{arm}{place}: {} trains to the end; another one is as good", listed[0])
            }
            [_] if last => format!("{arm}{place}: {} is the best of {of}, and trains to the end", listed[0]),
            [_] => format!("{arm}{place}: {} of {of} settings is promoted", listed[0]),
            _ => format!("{arm}{place}: {} of {of} settings are promoted", listed.join(", ")),
        }
    }
}

/// A third of an epoch has many digits.
fn length_words(length: Extent) -> String {
    match length {
        Extent::Epochs(epochs) => Extent::Epochs((epochs * 100.0).round() / 100.0).to_string(),
        Extent::Steps(_) => length.to_string(),
    }
}

/// `lr=0.2 momentum=0.9`.
pub(crate) fn setting(trial: &Trial) -> String {
    let word = |value: &recipe::AxisValue| format!("{}={}", value.short(), value.text);
    trial.setting.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The metric that settings are chosen by: that of the target, measured on the samples that are held out, if a run of a rung has it,
/// else the first, in their fixed order, that one has.
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
    let attempt = run.attempt.as_ref().filter(|_| run.state == RunState::Done && is_judged(run))?;
    let last = attempt.metrics.iter().rev().find(|row| row.metric == metric)?;
    Some(last.value).filter(|value| value.is_finite())
}

/// The runs that are known to be needed: of a search those of its rung under way, and of those before it.
pub(crate) fn due(rows: &SweepRows) -> impl Iterator<Item = &RunRow> {
    let cells = rows.plan.search.as_ref().map(|search| {
        let groups = Group::all(rows, search);
        groups.iter().flat_map(|group| group.due(rows)).collect::<BTreeSet<usize>>()
    });
    rows.runs.iter().filter(move |run| cells.as_ref().is_none_or(|cells| cells.contains(&run.cell)))
}

impl Group<'_> {
    fn due(&self, rows: &SweepRows) -> Vec<usize> {
        let mut due = Vec::new();
        for rung in 0..=self.search.rungs {
            let cell = |trial: &&Trial| trial.rungs.get(rung as usize).copied().unwrap_or(trial.cell);
            let cells: Vec<usize> = self.survivors(rung).iter().map(cell).collect();
            let over = !cells.iter().any(|cell| waits(rows, *cell));
            due.extend(cells);
            if !over {
                break;
            }
        }
        due
    }
}

fn waits(rows: &SweepRows, cell: usize) -> bool {
    let mut runs = rows.runs.iter().filter(|run| run.cell == cell);
    runs.any(|run| matches!(run.state, RunState::Pending | RunState::Running))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{GridAxis, Sample, on_grid};
    use crate::study::Study;
    use recipe::{Cell, Run};
    use store::MetricRow;

    const LR: &str = "train.optimizer.lr";

    /// Two arms that choose among `rates` in two rungs; `score` gives the validation accuracy of an arm at a rate in a rung. The runs to
    /// the end are made for each rate.
    fn searched(rates: &[f64], factor: u32, score: impl Fn(usize, f64, u32) -> f64) -> SweepRows {
        let axes = [GridAxis::new(LR, rates)];
        let mut rows = on_grid(&Sample { repeats: 3, ..Sample::duel() }.rows(), &axes, |arm, _| {
            0.01 + arm as f64 / 500.0
        });
        let mut trials = Vec::new();
        for cell in 0..rows.plan.cells.len() {
            let own = &mut rows.plan.cells[cell];
            own.spec.dataset.validation = 0.1;
            trials.push(Trial {
                cell,
                rungs: Vec::new(),
                setting: own.axes.clone(),
                condition: String::new(),
            });
        }
        for trial in &mut trials {
            let rate = trial.setting[0].number.unwrap();
            for rung in 0..2 {
                let cell = rows.plan.cells.len();
                trial.rungs.push(cell);
                let of = rows.plan.cells[trial.cell].clone();
                let value = score(of.arm, rate, rung);
                rows.plan.cells.push(Cell { condition: format!("lr={rate} rung={rung}"), ..of });
                let mut run = rows.runs.iter().find(|run| run.cell == trial.cell).unwrap().clone();
                let attempt = run.attempt.as_mut().unwrap();
                let last = attempt.metrics.last().unwrap().clone();
                attempt.metrics.push(MetricRow { metric: Metric::ValidationAccuracy, value, ..last });
                rows.plan.runs.push(Run { cell, repeat: 0, seed: 7 });
                rows.runs.push(RunRow { index: rows.runs.len(), cell, ..run });
            }
        }
        rows.plan.search = Some(Search { rungs: 2, factor, trials });
        rows
    }

    fn rates(rows: &SweepRows, cells: &BTreeSet<usize>) -> Vec<(usize, f64)> {
        let trials = &rows.plan.search.as_ref().unwrap().trials;
        let trial = |cell: &usize| {
            trials.iter().find(|trial| trial.cell == *cell || trial.rungs.contains(cell)).unwrap()
        };
        cells
            .iter()
            .map(|cell| (rows.plan.cells[*cell].arm, trial(cell).setting[0].number.unwrap()))
            .collect()
    }

    /// The first arm is best at 0.2, the second at 0.8, by both rungs but for the first one's order.
    fn peaked(arm: usize, rate: f64, rung: u32) -> f64 {
        let best = if arm == 0 { 0.2_f64 } else { 0.8 };
        0.9 - (rate / best).ln().abs() / 100.0 + f64::from(rung) / 50.0
    }

    const RATES: [f64; 5] = [0.1, 0.2, 0.4, 0.8, 1.6];

    #[test]
    fn each_arm_goes_on_with_its_own_best() {
        let rows = searched(&RATES, 2, peaked);
        let first = promoted(&rows, 0).unwrap();
        let found = rates(&rows, &first.needed);
        // Three of five; of two that are equally far from the best the first one in the plan.
        let mut of_first: Vec<f64> =
            found.iter().filter(|(arm, _)| *arm == 0).map(|(_, rate)| *rate).collect();
        of_first.sort_by(f64::total_cmp);
        assert_eq!(of_first, [0.1, 0.2, 0.4]);
        let search = rows.plan.search.as_ref().unwrap();
        assert!(first.needed.iter().all(|cell| search.rung_of(*cell) == Some(1)));
        let last = promoted(&rows, 1).unwrap();
        assert_eq!(rates(&rows, &last.needed), [(0, 0.2), (1, 0.8)]);
        assert!(last.needed.iter().all(|cell| search.rung_of(*cell).is_none()));
        assert_eq!(last.words[1], "d-sync: lr=0.8 (92.0\u{a0}%) is the best of 3, and trains to the end");
    }

    /// What was given up in the first rung is not chosen, however good it would have been in the second.
    #[test]
    fn a_setting_that_was_given_up_stays_so() {
        let rows = searched(&RATES, 3, |_, rate, rung| match (rate, rung) {
            (1.6, 1) => 0.99,
            (rate, _) => 0.9 - rate / 10.0,
        });
        let last = promoted(&rows, 1).unwrap();
        assert_eq!(rates(&rows, &last.needed), [(0, 0.1), (1, 0.1)]);
    }

    #[test]
    fn what_diverged_or_failed_does_not_go_on() {
        let mut rows = searched(&RATES, 2, peaked);
        let trial = |rows: &SweepRows, arm: usize, rate: f64| {
            let trials = &rows.plan.search.as_ref().unwrap().trials;
            let own = |trial: &&Trial| {
                rows.plan.cells[trial.cell].arm == arm && trial.setting[0].number == Some(rate)
            };
            trials.iter().find(own).unwrap().clone()
        };
        for (rate, state) in [(0.2, RunState::Diverged), (0.1, RunState::Failed)] {
            let cell = trial(&rows, 0, rate).rungs[0];
            rows.runs.iter_mut().find(|run| run.cell == cell).unwrap().state = state;
        }
        let last = promoted(&rows, 1).unwrap();
        assert_eq!(rates(&rows, &last.needed), [(0, 0.4), (1, 0.8)]);
        for run in rows.runs.iter_mut().filter(|run| rows.plan.cells[run.cell].arm == 1) {
            run.state = RunState::Diverged;
        }
        let none = promoted(&rows, 0).unwrap();
        assert!(rates(&rows, &none.needed).iter().all(|(arm, _)| *arm == 0));
        assert_eq!(none.words[1], "d-sync: none of 5 settings is promoted, for none ended as planned");
    }

    #[test]
    fn arms_are_compared_at_what_they_chose() {
        let mut rows = searched(&RATES, 2, peaked);
        let chosen = promoted(&rows, 1).unwrap().needed;
        for run in rows.runs.iter_mut().filter(|run| run.cell < 10 && !chosen.contains(&run.cell)) {
            (run.state, run.attempt) = (RunState::NotNeeded, None);
        }
        let study = Study::new(&rows, None).unwrap();
        assert_eq!(study.conditions.len(), 1);
        let cells: BTreeSet<usize> = study.conditions[0].cells.iter().map(|cell| cell.index).collect();
        assert_eq!(cells, chosen);
        assert!(study.conditions[0].cells.iter().all(|cell| (cell.runs.len(), cell.planned) == (3, 3)));
    }

    #[test]
    fn runs_of_later_rungs_are_not_missing_before_their_time() {
        let mut rows = searched(&RATES, 2, peaked);
        let pending = |run: &mut RunRow| (run.state, run.attempt) = (RunState::Pending, None);
        let number = |rows: &SweepRows| due(rows).count();
        // Five, three, and three repeats of one, for each of two arms.
        assert_eq!(number(&rows), 2 * (5 + 3 + 3));
        let search = rows.plan.search.clone().unwrap();
        rows.runs.iter_mut().filter(|run| search.rung_of(run.cell) != Some(0)).for_each(pending);
        assert_eq!(number(&rows), 2 * (5 + 3));
        let first = rows.runs.iter_mut().find(|run| search.rung_of(run.cell) == Some(0));
        pending(first.unwrap());
        assert_eq!(number(&rows), 5 + 5 + 3);
    }

    #[test]
    fn nothing_is_chosen_before_its_rung_is_over() {
        let mut rows = searched(&RATES, 2, peaked);
        let outcome = |rows: &SweepRows| {
            let search = rows.plan.search.as_ref().unwrap();
            let group = Group::all(rows, search).remove(0);
            match group.outcome() {
                Outcome::Chosen(trial) => trial.setting[0].text.clone(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(outcome(&rows), "0.2");
        let search = rows.plan.search.clone().unwrap();
        let cell = |rate: f64, rung: usize| {
            search.trials.iter().find(|trial| trial.setting[0].number == Some(rate)).unwrap().rungs[rung]
        };
        let place =
            |rows: &SweepRows, cell: usize| rows.runs.iter().position(|run| run.cell == cell).unwrap();
        // A rival of the best in the last rung, then one in the first.
        for cell in [cell(0.4, 1), cell(1.6, 0)] {
            let run = place(&rows, cell);
            let before = rows.runs[run].clone();
            (rows.runs[run].state, rows.runs[run].attempt) = (RunState::Running, None);
            assert_eq!(outcome(&rows), "UnderWay");
            assert!(promoted(&rows, 1).unwrap().needed.iter().all(|cell| rows.plan.cells[*cell].arm == 1));
            rows.runs[run] = before;
        }
        let kept = rows.runs.clone();
        rows.runs.retain(|run| search.rung_of(run.cell).is_none());
        assert_eq!(outcome(&rows), "NotSelected");
        rows.runs = kept;
        for run in rows.runs.iter_mut().filter(|run| search.rung_of(run.cell) == Some(0)) {
            run.state = RunState::TimedOut;
        }
        assert_eq!(outcome(&rows), "NoneLeft");
        assert!(is_in_vain(&rows));
    }

    #[test]
    fn the_metric_is_that_of_the_target_where_it_was_measured() {
        let mut rows = searched(&RATES, 2, peaked);
        let chosen_by = |rows: &SweepRows| Group::all(rows, rows.plan.search.as_ref().unwrap())[0].metric;
        assert_eq!(chosen_by(&rows), Metric::ValidationAccuracy);
        for run in &mut rows.runs {
            let attempt = run.attempt.as_mut().unwrap();
            let last = attempt.metrics.last().unwrap().clone();
            attempt.metrics.push(MetricRow { metric: Metric::ValidationLoss, value: 0.5, ..last });
        }
        assert_eq!(chosen_by(&rows), Metric::ValidationAccuracy);
        for cell in &mut rows.plan.cells {
            cell.spec.train.target.as_mut().unwrap().metric = Metric::TestLoss;
        }
        assert_eq!(chosen_by(&rows), Metric::ValidationLoss);
    }
}
