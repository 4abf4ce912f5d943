//! A sweep in which each arm chooses its learning rate by successive halving.

use super::{GridAxis, Sample, on_grid};
use crate::promoted;
use recipe::{Cell, Metric, Run, Search, Trial};
use store::{MetricRow, RunRow, RunState, SweepRows};

const LR: &str = "train.optimizer.lr";

/// Two arms that choose among `rates` in two rungs; `score` gives the validation accuracy of an arm at a rate in a rung. The runs to
/// the end are made for each rate.
pub fn searched(rates: &[f64], factor: u32, score: impl Fn(usize, f64, u32) -> f64) -> SweepRows {
    let axes = [GridAxis::new(LR, rates)];
    let mut rows =
        on_grid(&Sample { repeats: 3, ..Sample::duel() }.rows(), &axes, |arm, _| 0.01 + arm as f64 / 500.0);
    let mut trials = Vec::new();
    for cell in 0..rows.plan.cells.len() {
        let own = &mut rows.plan.cells[cell];
        own.spec.dataset.validation = 0.1;
        trials.push(Trial { cell, rungs: Vec::new(), setting: own.axes.clone(), condition: String::new() });
    }
    for trial in &mut trials {
        let rate = trial.setting[0].number.unwrap_or_default();
        for rung in 0..2 {
            let cell = rows.plan.cells.len();
            trial.rungs.push(cell);
            let of = rows.plan.cells[trial.cell].clone();
            let value = score(of.arm, rate, rung);
            rows.plan.cells.push(Cell { condition: format!("lr={rate} rung={rung}"), ..of });
            rows.plan.runs.push(Run { cell, repeat: 0, seed: 7 });
            let Some(mut run) = rows.runs.iter().find(|run| run.cell == trial.cell).cloned() else {
                continue;
            };
            if let Some(attempt) = &mut run.attempt
                && let Some(last) = attempt.metrics.last().cloned()
            {
                attempt.metrics.push(MetricRow { metric: Metric::ValidationAccuracy, value, ..last });
            }
            rows.runs.push(RunRow { index: rows.runs.len(), cell, ..run });
        }
    }
    rows.plan.search = Some(Search { rungs: 2, factor, trials });
    rows
}

/// The same with runs to the end of the chosen settings alone, as a sweep makes them.
pub fn decided(rates: &[f64], factor: u32, score: impl Fn(usize, f64, u32) -> f64) -> SweepRows {
    let mut rows = searched(rates, factor, score);
    let chosen = promoted(&rows, 1).map(|promotion| promotion.needed).unwrap_or_default();
    let rungs = rows.plan.search.clone();
    for run in &mut rows.runs {
        let is_last = rungs.as_ref().is_some_and(|search| search.rung_of(run.cell).is_none());
        if is_last && !chosen.contains(&run.cell) {
            (run.state, run.attempt) = (RunState::NotNeeded, None);
        }
    }
    rows
}
