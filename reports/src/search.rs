//! Successive halving: which settings of each arm go on to the next rung, by the runs that a sweep has so far.
//!
//! Settings are ranked by the metric of the samples that are held out, at the end of the rung's run; of equal ones the first goes on. A
//! run that diverged or failed has the worst value there is, and a setting without any other does not go on.

use crate::statistics::average;
use crate::study::is_judged;
use crate::tuned::CHOSEN_BY;
use recipe::{Metric, Plan, Search, Trial};
use std::collections::BTreeSet;
use store::{RunRow, RunState, SweepRows};

/// What a rung has shown of all searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The cells of the next rung, or those that train to the end.
    pub needed: BTreeSet<usize>,
    /// What each arm goes on with under each condition, a line each.
    pub words: Vec<String>,
}

/// What goes on after the rung with this number, from 0. `None` if the sweep searches for nothing.
pub fn promoted(rows: &SweepRows, rung: u32) -> Option<Promotion> {
    let search = rows.plan.search.as_ref()?;
    let mut promotion = Promotion { needed: BTreeSet::new(), words: Vec::new() };
    for group in Group::all(rows, search) {
        let kept = group.survivors(rung + 1);
        let next = |trial: &&Trial| trial.rungs.get(rung as usize + 1).copied().unwrap_or(trial.cell);
        promotion.needed.extend(kept.iter().map(next));
        promotion.words.push(group.words(rung, &kept));
    }
    Some(promotion)
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
    /// For each trial and rung the metric at the end; `None` without a run that ended.
    scores: Vec<Vec<Option<f64>>>,
}

impl<'a> Group<'a> {
    pub(crate) fn all(rows: &'a SweepRows, search: &'a Search) -> Vec<Self> {
        let metric = metric(rows, search);
        let score =
            |cell: &usize| rows.runs.iter().find(|run| run.cell == *cell).and_then(|run| score(run, metric));
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

    /// The trials that train in a rung, from 0, or, after the last of the rungs, to the end; the best first.
    pub(crate) fn survivors(&self, rung: u32) -> Vec<&'a Trial> {
        let mut places: Vec<usize> = (0..self.trials.len()).collect();
        for past in 0..rung.min(self.search.rungs) {
            let kept = self.search.kept(places.len(), past);
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

    /// The metric of a trial, by its place, at the end of a rung.
    pub(crate) fn score(&self, place: usize, rung: u32) -> Option<f64> {
        self.scores[place].get(rung as usize).copied().flatten()
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
        cells.map(|cell| self.plan.cells[*cell].spec.train.length.to_string()).collect()
    }

    /// Of its first trial: all have the same arm and condition.
    pub(crate) fn cell(&self) -> &'a recipe::Cell {
        &self.plan.cells[self.trials[0].cell]
    }

    /// The condition that it is made under.
    pub(crate) fn condition(&self) -> &'a str {
        &self.trials[0].condition
    }

    /// `d-sync at workers=2: lr=0.2, lr=0.4 of 9 settings go on`.
    fn words(&self, rung: u32, kept: &[&Trial]) -> String {
        let cell = self.cell();
        let arm = self.plan.arms.get(cell.arm).map_or("?", |arm| &arm.name);
        let place =
            if self.condition().is_empty() { String::new() } else { format!(" at {}", self.condition()) };
        let of = self.survivors(rung).len();
        match kept {
            [] => format!("{arm}{place}: none of {of} settings goes on, for all of them diverged or failed"),
            [only] if rung + 1 == self.search.rungs => {
                format!("{arm}{place}: {} is the best of {of}, and trains to the end", setting(only))
            }
            [only] => format!("{arm}{place}: {} of {of} settings goes on", setting(only)),
            many => {
                let listed: Vec<String> = many.iter().map(|trial| setting(trial)).collect();
                format!("{arm}{place}: {} of {of} settings go on", listed.join(", "))
            }
        }
    }
}

/// `lr=0.2 momentum=0.9`.
pub(crate) fn setting(trial: &Trial) -> String {
    let word = |value: &recipe::AxisValue| format!("{}={}", value.short(), value.text);
    trial.setting.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The metric that settings are chosen by: the first, in their fixed order, that a run of a rung has.
fn metric(rows: &SweepRows, search: &Search) -> Metric {
    let rungs: BTreeSet<usize> = search.trials.iter().flat_map(|trial| trial.rungs.iter().copied()).collect();
    let runs = || rows.runs.iter().filter(|run| rungs.contains(&run.cell));
    let measured = |metric: &Metric| runs().any(|run| score(run, *metric).is_some());
    CHOSEN_BY.into_iter().find(measured).unwrap_or(CHOSEN_BY[0])
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
    /// Whether no run that is known to be needed is to be made.
    pub(crate) fn is_over(&self, rows: &SweepRows) -> bool {
        !self.due(rows).iter().any(|cell| waits(rows, *cell))
    }

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
        assert_eq!(last.words[1], "d-sync: lr=0.8 is the best of 3, and trains to the end");
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
        assert_eq!(none.words[1], "d-sync: none of 5 settings goes on, for all of them diverged or failed");
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
}
