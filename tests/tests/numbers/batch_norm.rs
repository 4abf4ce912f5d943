//! The rule of batch norm in every strategy, in real processes: a worker normalises its own batch, nothing of that is kept or sent, and a
//! model is evaluated with the moments of training samples under its own weights. Both against the definitions, in 64 bits.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Trained, plan, train, train_planned};
use launch::Deadlines;
use recipe::{Metric, Plan, StrategyKind};
use std::fs;
use std::ops::Range;
use std::path::Path;
use strategies::{SamplePartition, TrainingPlan};

const SAMPLES: usize = 40;
const INPUTS: usize = 12;
const HIDDEN: usize = 6;
const CLASSES: usize = 4;

/// Values that are drawn, from -1 to 1.
fn drawn(count: usize, number: u32) -> Vec<f64> {
    (0..count as u32)
        .map(|place| place.wrapping_mul(2_654_435_761).wrapping_add(number.wrapping_mul(40_503)))
        .map(|bits| f64::from((bits ^ (bits >> 15)).wrapping_mul(2_246_822_519) >> 8) / 8_388_608.0 - 1.0)
        .map(|value| f64::from(value as f32))
        .collect()
}

fn label(sample: usize) -> usize {
    sample * 7 % CLASSES
}

/// As NumPy stores them.
fn write_samples(folder: &Path) {
    let array = |element: &str, shape: &str, elements: Vec<u8>| {
        let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
        let header = format!("{header:<117}\n");
        [b"\x93NUMPY\x01\x00", &118_u16.to_le_bytes()[..], header.as_bytes(), &elements].concat()
    };
    for (half, number) in [("train", 1), ("test", 2)] {
        let values = drawn(SAMPLES * INPUTS, number);
        let values = values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
        let labels = (0..SAMPLES).map(|sample| label(sample) as u8).collect();
        let shape = format!("({SAMPLES}, {INPUTS})");
        fs::write(folder.join(format!("{half}_x.npy")), array("<f4", &shape, values)).unwrap();
        fs::write(folder.join(format!("{half}_y.npy")), array("|u1", &format!("({SAMPLES},)"), labels))
            .unwrap();
    }
}

fn rows(number: u32, samples: impl IntoIterator<Item = usize>) -> Vec<Vec<f64>> {
    let values = drawn(SAMPLES * INPUTS, number);
    samples.into_iter().map(|sample| values[sample * INPUTS..(sample + 1) * INPUTS].to_vec()).collect()
}

/// A linear layer: each row of weights with its input, and the bias.
fn linear(x: &[Vec<f64>], weights: &[f64], outputs: usize) -> Vec<Vec<f64>> {
    let (matrix, bias) = weights.split_at(weights.len() - outputs);
    let inputs = matrix.len() / outputs;
    let of_row = |x: &Vec<f64>, output: usize| -> f64 {
        let weights = &matrix[output * inputs..(output + 1) * inputs];
        bias[output] + weights.iter().zip(x).map(|(weight, value)| weight * value).sum::<f64>()
    };
    x.iter().map(|x| (0..outputs).map(|output| of_row(x, output)).collect()).collect()
}

/// The mean and the population variance of each column.
fn moments(x: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let count = x.len() as f64;
    (0..x[0].len())
        .map(|column| {
            let mean = x.iter().map(|row| row[column]).sum::<f64>() / count;
            (mean, x.iter().map(|row| (row[column] - mean).powi(2)).sum::<f64>() / count)
        })
        .collect()
}

/// The flat vector: a linear layer, the scales and shifts of a batch norm, and a linear layer.
const FIRST: Range<usize> = 0..HIDDEN * (INPUTS + 1);
const SCALE: Range<usize> = FIRST.end..FIRST.end + HIDDEN;
const SHIFT: Range<usize> = SCALE.end..SCALE.end + HIDDEN;
const LAST: Range<usize> = SHIFT.end..SHIFT.end + CLASSES * (HIDDEN + 1);

/// The mean loss of rows, normalised by the moments of others; without others, by their own.
fn loss(weights: &[f64], x: &[Vec<f64>], labels: &[usize], others: Option<&[Vec<f64>]>) -> f64 {
    let hidden = |x: &[Vec<f64>]| linear(x, &weights[FIRST], HIDDEN);
    let x = hidden(x);
    let moments = moments(&others.map_or_else(|| x.clone(), hidden));
    let normalised: Vec<Vec<f64>> = x
        .iter()
        .map(|row| {
            row.iter()
                .enumerate()
                .map(|(column, value)| {
                    let (mean, variance) = moments[column];
                    let value = (value - mean) / (variance + 1e-5).sqrt();
                    (value * weights[SCALE][column] + weights[SHIFT][column]).max(0.0)
                })
                .collect()
        })
        .collect();
    let scores = linear(&normalised, &weights[LAST], CLASSES);
    let of_row = |(scores, label): (&Vec<f64>, &usize)| {
        scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[*label]
    };
    scores.iter().zip(labels).map(of_row).sum::<f64>() / labels.len() as f64
}

fn recipe(kind: StrategyKind, folder: &Path) -> String {
    let more = match kind {
        // Above layers that are split, batch norm is refused.
        StrategyKind::Gmp => "mp = 1",
        StrategyKind::LocalSgd | StrategyKind::Slowmo => "period = 3",
        _ => "",
    };
    format!(
        r#"
schema = 1
name = "batch-norm"
dataset = {{ kind = "npy", path = "{}" }}
nodes = {{ use = ["local*2"] }}
repeats = {{ count = 1 }}
[model]
kind = "sequential"
layers = [{{ kind = "linear", outputs = {HIDDEN} }}, "batch-norm", "relu", {{ kind = "linear", outputs = {CLASSES} }}]
[train]
global-batch = 10
steps = 12
optimizer = {{ kind = "sgd", lr = 0.05 }}
evaluate = "12 steps"
[[strategy]]
kind = "{kind}"
{more}
"#,
        folder.display()
    )
}

fn wide(weights: &[f32]) -> Vec<f64> {
    weights.iter().map(|weight| f64::from(*weight)).collect()
}

/// The loss of each worker's first step, taken from the initial weights, is that of its own batch by its own moments.
fn check_first_steps(kind: StrategyKind, plan: &Plan, trained: &Trained, initial: &[f64]) {
    let spec = &plan.cells[0].spec;
    let samples: Vec<u32> = (0..SAMPLES as u32).collect();
    let labels: Vec<u32> = (0..SAMPLES).map(|sample| label(sample) as u32).collect();
    let partition = SamplePartition::new(&spec.dataset, plan.runs[0].seed, &samples, &labels, 2);
    let sampler = TrainingPlan::new(spec, partition).sampler;
    let mut found = 0;
    let mut steps: Vec<_> = trained.steps().filter(|step| step.step == 1 && step.loss.is_some()).collect();
    steps.sort_by_key(|step| step.begin + step.length);
    // In a pair the other worker may have averaged with one that has stepped.
    let sure = if kind == StrategyKind::AdPsgd { 1 } else { 2 };
    for step in steps.into_iter().take(sure) {
        let (Some(own), worker) = (step.loss, step.rank.0 as usize) else { continue };
        let batch: Vec<usize> =
            sampler.batch(1, worker).examples.iter().map(|sample| *sample as usize).collect();
        let labels: Vec<usize> = batch.iter().map(|sample| label(*sample)).collect();
        let expected = loss(initial, &rows(1, batch), &labels, None);
        assert!((f64::from(own) - expected).abs() < 1e-5, "{kind}, worker {worker}: {own} and {expected}");
        found += 1;
    }
    assert_eq!(found, sure, "{kind}");
}

#[test]
fn a_worker_normalises_its_own_batch_and_models_are_judged_by_the_moments_of_training_samples() {
    let folder = tempfile::tempdir().unwrap();
    write_samples(folder.path());
    let labels: Vec<usize> = (0..SAMPLES).map(label).collect();
    // Steps that move no weight: all runs of a seed begin with the same ones.
    let still = recipe(StrategyKind::DSync, folder.path()).replace("lr = 0.05", "lr = 1e-30");
    let initial = wide(&train(&still).unwrap().done().unwrap().final_weights().unwrap());
    for kind in StrategyKind::ALL.iter().copied().filter(|kind| *kind != StrategyKind::Custom) {
        let plan = plan(&recipe(kind, folder.path())).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let trained =
            train_planned(&plan, &plan.runs[0], Deadlines::default(), |_| ()).unwrap().done().unwrap();
        check_first_steps(kind, &plan, &trained, &initial);
        let weights = wide(&trained.final_weights().unwrap());
        assert_eq!(weights.len(), LAST.end, "{kind}");
        assert!(
            weights[SCALE].iter().any(|scale| (scale - 1.0).abs() > 1e-4),
            "{kind}: its scales are trained"
        );
        let expected = loss(&weights, &rows(2, 0..SAMPLES), &labels, Some(&rows(1, 0..SAMPLES)));
        let own = trained.metrics().filter(|metric| metric.judged && metric.metric == Metric::TestLoss);
        let own = own.last().unwrap().value;
        assert!((own - expected).abs() < 1e-5, "{kind}: {own} and {expected}");
    }
}
