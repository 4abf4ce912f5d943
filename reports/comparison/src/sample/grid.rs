//! A sweep under all combinations of axes, in which the true time of a step is a formula of their values.

use super::Noise;
use recipe::{AxisValue, Cell, Run};
use record::Nanos;
use store::{AttemptRow, RunRow, SweepRows};

/// Largest part by which a run's time differs from the formula.
const JITTER: f64 = 0.01;

/// An axis of conditions.
#[derive(Clone, Debug)]
pub struct GridAxis {
    /// As a recipe writes it: `train.global-batch`.
    pub path: String,
    /// In the order of the plan.
    pub values: Vec<f64>,
}

impl GridAxis {
    /// An axis with these values.
    pub fn new(path: &str, values: &[f64]) -> Self {
        Self { path: path.to_owned(), values: values.to_vec() }
    }

    fn short(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }
}

/// The runs of a sweep of one condition under each combination of the values of `axes`. `seconds` is the true time of a step
/// of the arm with this index at these values; samples to the target stay as they are.
pub fn on_grid(rows: &SweepRows, axes: &[GridAxis], seconds: impl Fn(usize, &[f64]) -> f64) -> SweepRows {
    let mut many = rows.clone();
    many.plan.cells.clear();
    many.plan.runs.clear();
    many.runs.clear();
    for values in product(axes) {
        let words: Vec<String> =
            axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.short())).collect();
        let own: Vec<AxisValue> = axes
            .iter()
            .zip(&values)
            .map(|(axis, value)| AxisValue {
                path: axis.path.clone(),
                text: value.to_string(),
                number: Some(*value),
            })
            .collect();
        for (place, cell) in rows.plan.cells.iter().enumerate() {
            let index = many.plan.cells.len();
            many.plan.cells.push(Cell { condition: words.join(" "), axes: own.clone(), ..cell.clone() });
            for run in rows.runs.iter().filter(|run| run.cell == place) {
                let mut noise = Noise(run.seed * 7_919 + index as u64);
                let wanted = seconds(cell.arm, &values) * (1.0 + JITTER * noise.draw());
                let index_of_run = many.runs.len();
                many.plan.runs.push(Run { cell: index, repeat: run.repeat, seed: run.seed });
                many.runs.push(RunRow {
                    index: index_of_run,
                    cell: index,
                    id: format!("{index_of_run:026}"),
                    attempt: run.attempt.clone().map(|attempt| at_pace(attempt, wanted)),
                    ..run.clone()
                });
            }
        }
    }
    many
}

/// Every combination of one value of each axis; the last axis changes fastest.
fn product(axes: &[GridAxis]) -> Vec<Vec<f64>> {
    axes.iter().fold(vec![Vec::new()], |found, axis| {
        let with = |before: &Vec<f64>| {
            let before = before.clone();
            axis.values.iter().map(move |value| [before.as_slice(), &[*value]].concat()).collect::<Vec<_>>()
        };
        found.iter().flat_map(with).collect()
    })
}

/// The same attempt with another time per step.
fn at_pace(mut attempt: AttemptRow, seconds: f64) -> AttemptRow {
    let before = attempt.step_time.map_or(seconds, Nanos::seconds);
    let factor = seconds / before;
    let scale = |time: &mut Nanos| *time = Nanos((time.0 as f64 * factor).round() as u64);
    let times =
        [&mut attempt.wall, &mut attempt.training, &mut attempt.step_time, &mut attempt.mean_step_time];
    times.into_iter().flatten().for_each(scale);
    attempt.metrics.iter_mut().for_each(|row| scale(&mut row.at));
    attempt.losses.iter_mut().for_each(|row| scale(&mut row.at));
    for rank in &mut attempt.ranks {
        scale(&mut rank.steady.time);
        rank.phases.iter_mut().for_each(|row| scale(&mut row.total));
    }
    attempt
}
