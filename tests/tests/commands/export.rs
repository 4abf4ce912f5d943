//! Exports for other programs: a run that is repeated from its exported files alone, and a trace that opens.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::Desk;
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Images of the training file; no multiple of the batch, so that each epoch ends with a short one.
const TRAINING: usize = 65;
const PIXELS: usize = 28 * 28;
const HIDDEN: usize = 12;
const CLASSES: usize = 10;

/// Three workers share ten samples unevenly; momentum, decay and a rate that changes.
const RECIPE: &str = r#"
schema = 1
name = "replay"

[model]
kind = "sequential"
layers = [{ kind = "flatten" }, { kind = "linear", outputs = 12 }, { kind = "relu" }, { kind = "linear", outputs = 10 }]

[dataset]
kind = "mnist"
path = "digits"
validation = 0.1

[train]
global-batch = 10
epochs = 5
optimizer = { kind = "sgd", lr = 0.1, momentum = 0.9, weight-decay = 0.01 }
lr-schedule = { kind = "step", every = "2 epochs", factor = 0.5 }

[nodes]
use = ["local*3"]

[[strategy]]
kind = "ps-sync"
[[strategy]]
kind = "d-sync"

[repeats]
count = 1

[measure]
samples = true
trace = { first-steps = 4, every = 10 }
"#;

/// A data set of the MNIST kind, as it lies in files, with nothing of the project's own readers.
struct Digits {
    images: Vec<u8>,
    labels: Vec<u8>,
}

impl Digits {
    /// Noise in which a bright row tells the class.
    fn draw(count: usize, seed: u64) -> Self {
        let mut state = seed;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let labels: Vec<u8> = (0..count).map(|_| byte() % 10).collect();
        let images = labels.iter().flat_map(|label| {
            let bright = usize::from(*label) * 2 + 3;
            (0..PIXELS).map(|place| if place / 28 == bright { 255 } else { byte() / 4 }).collect::<Vec<_>>()
        });
        Self { images: images.collect(), labels }
    }

    fn write(&self, folder: &Path, stem: &str) {
        let head =
            |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>();
        let count = self.labels.len() as u32;
        let images = [head(&[2051, count, 28, 28]), self.images.clone()].concat();
        fs::write(folder.join(format!("{stem}-images-idx3-ubyte")), images).unwrap();
        fs::write(
            folder.join(format!("{stem}-labels-idx1-ubyte")),
            [head(&[2049, count]), self.labels.clone()].concat(),
        )
        .unwrap();
    }

    /// The inputs of a network: x / 255, minus the mean, by the population deviation of the whole file.
    fn inputs(&self) -> Vec<Vec<f64>> {
        let values: Vec<f64> = self.images.iter().map(|pixel| f64::from(*pixel) / 255.0).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        values
            .chunks(PIXELS)
            .map(|image| image.iter().map(|value| (value - mean) / variance.sqrt()).collect())
            .collect()
    }
}

/// The weights of 784-12-10, in 64 bits.
#[derive(Clone, Debug)]
struct Network {
    tensors: BTreeMap<String, Vec<f64>>,
}

const SHAPES: [(&str, &[usize]); 4] = [
    ("linear1.weight", &[HIDDEN, PIXELS]),
    ("linear1.bias", &[HIDDEN]),
    ("linear2.weight", &[CLASSES, HIDDEN]),
    ("linear2.bias", &[CLASSES]),
];

impl Network {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), SHAPES.len());
        let tensor = |(name, shape): (&str, &[usize])| {
            let tensor = file.tensor(name).unwrap();
            assert_eq!(tensor.shape(), shape, "{name}");
            let values =
                tensor.data().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
            (name.to_owned(), values.map(f64::from).collect())
        };
        Self { tensors: SHAPES.into_iter().map(tensor).collect() }
    }

    fn zeros() -> Self {
        let zeros = |(name, shape): (&str, &[usize])| (name.to_owned(), vec![0.0; shape.iter().product()]);
        Self { tensors: SHAPES.into_iter().map(zeros).collect() }
    }

    fn at(&self, name: &str) -> &[f64] {
        &self.tensors[name]
    }

    /// The largest difference of two weights.
    fn distance(&self, other: &Self) -> f64 {
        let pairs = SHAPES.iter().flat_map(|(name, _)| self.at(name).iter().zip(other.at(name)));
        pairs.map(|(one, two)| (one - two).abs()).fold(0.0, f64::max)
    }

    /// Adds the gradient of one sample's cross-entropy, times `weight`.
    fn add_gradient(&self, input: &[f64], label: usize, weight: f64, gradient: &mut Self) {
        let dense = |weights: &[f64], bias: &[f64], input: &[f64]| -> Vec<f64> {
            let rows = weights.chunks(input.len()).zip(bias);
            rows.map(|(row, bias)| bias + row.iter().zip(input).map(|(w, x)| w * x).sum::<f64>()).collect()
        };
        let before = dense(self.at("linear1.weight"), self.at("linear1.bias"), input);
        let hidden: Vec<f64> = before.iter().map(|value| value.max(0.0)).collect();
        let scores = dense(self.at("linear2.weight"), self.at("linear2.bias"), &hidden);
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let error: Vec<f64> = (0..CLASSES)
            .map(|class| {
                weight * ((scores[class] - most).exp() / total - f64::from(u8::from(class == label)))
            })
            .collect();
        let back: Vec<f64> = (0..HIDDEN)
            .map(|unit| {
                let sum: f64 = (0..CLASSES)
                    .map(|class| error[class] * self.at("linear2.weight")[class * HIDDEN + unit])
                    .sum();
                if before[unit] > 0.0 { sum } else { 0.0 }
            })
            .collect();
        for (weights, bias, error, input) in [
            ("linear2.weight", "linear2.bias", &error, hidden.as_slice()),
            ("linear1.weight", "linear1.bias", &back, input),
        ] {
            for (row, error) in error.iter().enumerate() {
                gradient.tensors.get_mut(bias).unwrap()[row] += error;
                let row = row * input.len()..(row + 1) * input.len();
                let gradient = &mut gradient.tensors.get_mut(weights).unwrap()[row];
                gradient.iter_mut().zip(input).for_each(|(sum, value)| *sum += error * value);
            }
        }
    }
}

/// The samples of all ranks in one step, and its rate.
struct Step {
    samples: Vec<usize>,
    rate: f64,
}

/// The steps of a run, from its exported tables.
fn steps(folder: &Path) -> Vec<Step> {
    let table = |name: &str, head: &str| -> Vec<Vec<f64>> {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(head));
        lines.map(|line| line.split(',').map(|field| field.parse().unwrap()).collect()).collect()
    };
    let mut samples: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for row in table("samples.csv", "step,rank,position,sample_id") {
        samples.entry(row[0] as usize).or_default().push(row[3] as usize);
    }
    let rates = table("rates.csv", "step,rank,samples,rate,drain");
    let rates: Vec<_> = rates.into_iter().filter(|row| row[1] == 0.0 && row[4] == 0.0).collect();
    assert!(rates.iter().enumerate().all(|(place, row)| row[0] as usize == place + 1));
    assert_eq!(samples.keys().copied().collect::<Vec<_>>(), (1..=rates.len()).collect::<Vec<_>>());
    samples.into_values().zip(rates).map(|(samples, row)| Step { samples, rate: row[3] }).collect()
}

/// Plain SGD in 64 bits: v <- mu v + g + lambda w; w <- w - rate v.
fn replay(mut weights: Network, steps: &[Step], digits: &Digits, mu: f64, lambda: f64) -> Network {
    let inputs = digits.inputs();
    let mut velocity = Network::zeros();
    for Step { samples, rate } in steps {
        let mut gradient = Network::zeros();
        for sample in samples {
            let label = usize::from(digits.labels[*sample]);
            weights.add_gradient(&inputs[*sample], label, 1.0 / samples.len() as f64, &mut gradient);
        }
        for (name, weights) in &mut weights.tensors {
            let velocity = velocity.tensors.get_mut(name).unwrap();
            let gradient = &gradient.tensors[name];
            for ((w, v), g) in weights.iter_mut().zip(velocity).zip(gradient) {
                *v = mu * *v + g + lambda * *w;
                *w -= rate * *v;
            }
        }
    }
    weights
}

fn trained() -> (Desk, Digits) {
    let desk = Desk::new().unwrap();
    let digits = Digits::draw(TRAINING, 7);
    fs::create_dir(desk.at("digits")).unwrap();
    digits.write(&desk.at("digits"), "train");
    Digits::draw(20, 8).write(&desk.at("digits"), "t10k");
    desk.write("replay.toml", RECIPE).unwrap();
    desk.run(["run", "replay.toml"]).unwrap().with_code(0).unwrap();
    (desk, digits)
}

/// The folders of the exported runs, by arm.
fn exported(desk: &Desk) -> BTreeMap<String, PathBuf> {
    desk.run(["export", "last", "--format", "safetensors", "-o", "out"]).unwrap().with_code(0).unwrap();
    let folders = fs::read_dir(desk.at("out")).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|folder| (about(&folder)["arm"].as_str().unwrap().to_owned(), folder)).collect()
}

fn about(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

#[test]
fn an_exported_run_is_repeated_by_another_program_and_opens_as_a_trace() {
    let (desk, digits) = trained();
    let folders = exported(&desk);
    assert_eq!(folders.keys().collect::<Vec<_>>(), ["d-sync", "ps-sync"]);
    for (arm, folder) in &folders {
        let optimizer = &about(folder)["spec"]["train"]["optimizer"];
        let of = |name: &str| optimizer[name].as_f64().unwrap();
        let mu = of("momentum");
        let lambda = of("weight_decay");
        assert!((mu - 0.9).abs() < 1e-6 && (lambda - 0.01).abs() < 1e-6, "{optimizer}");
        let steps = steps(folder);
        // Of 65 samples 6 or 7 are held out; the rest makes 6 steps an epoch, the last of them short.
        assert_eq!(steps.len(), 30);
        let lengths: Vec<usize> = steps.iter().take(6).map(|step| step.samples.len()).collect();
        assert_eq!(lengths[..5], [10; 5]);
        assert!((8..=9).contains(&lengths[5]), "{lengths:?}");
        let first = Network::read(&folder.join("initial.safetensors"));
        let last = Network::read(&folder.join("final.safetensors"));
        let moved = first.distance(&last);
        assert!(moved > 0.05, "{arm}: training moved no weight by more than {moved}");
        let repeated = replay(first.clone(), &steps, &digits, mu, lambda);
        let error = repeated.distance(&last);
        println!("{arm}: moved {moved}, error {error}");
        assert!(error < TOLERANCE, "{arm}: another program ends {error} away");
        // An error in the export would show: one wrong sample, or steps in another order.
        let mut wrong: Vec<Step> =
            steps.iter().map(|step| Step { samples: step.samples.clone(), rate: step.rate }).collect();
        wrong[3].samples[0] = (wrong[3].samples[0] + 1) % TRAINING;
        let error = replay(first.clone(), &wrong, &digits, mu, lambda).distance(&last);
        assert!(error > 30.0 * TOLERANCE, "{arm}: a wrong sample moves weights by {error} only");
        wrong[3].samples[0] = steps[3].samples[0];
        wrong.swap(0, 1);
        let error = replay(first, &wrong, &digits, mu, lambda).distance(&last);
        assert!(error > 30.0 * TOLERANCE, "{arm}: steps in another order move weights by {error} only");
    }
    opens_as_a_trace(&desk);
}

/// How far 30 steps in 32 bits are from the same in 64 bits, at most; weights are of the order of 0.1.
const TOLERANCE: f64 = 2e-6;

/// An enclosing event: where it ends, in nanoseconds, and its name.
type Open = (u64, String);

fn nanos(event: &Value, field: &str) -> u64 {
    let micros = event[field].as_f64().unwrap_or_else(|| panic!("no {field} in {event}"));
    let nanos = (micros * 1e3).round();
    assert!((nanos / 1e3 - micros).abs() < 1e-6, "{field} of {event} is no whole number of nanoseconds");
    nanos as u64
}

fn opens_as_a_trace(desk: &Desk) {
    desk.run(["export", "last", "--format", "chrome-trace", "-o", "trace.json"])
        .unwrap()
        .with_code(0)
        .unwrap();
    let trace: Value = serde_json::from_str(&fs::read_to_string(desk.at("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let names = |kind: &str| -> BTreeMap<(u64, u64), String> {
        let names = of("M").into_iter().filter(|event| event["name"] == kind);
        let key = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap_or(0));
        names.map(|event| (key(event), event["args"]["name"].as_str().unwrap().to_owned())).collect()
    };
    let processes: Vec<String> = names("process_name").into_values().collect();
    assert_eq!(processes.len(), 2, "one node in each of two runs: {processes:?}");
    assert!(processes.iter().all(|name| name.starts_with("local: ")), "{processes:?}");
    let threads = names("thread_name");
    let lanes: Vec<&str> = threads.values().map(String::as_str).collect();
    for lane in ["worker rank 0, compute", "worker rank 2, compute", "server rank 3, clients"] {
        assert!(lanes.contains(&lane), "{lanes:?}");
    }
    // Complete events of a thread are inside one another or apart, in the order in which a viewer reads them.
    let mut lanes: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for event in of("X") {
        lanes
            .entry((event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap()))
            .or_default()
            .push(event);
    }
    assert_eq!(
        lanes.keys().collect::<Vec<_>>(),
        threads.keys().collect::<Vec<_>>(),
        "every thread has its name"
    );
    for events in lanes.values_mut() {
        events.sort_by_key(|event| nanos(event, "ts"));
        let mut open: Vec<Open> = Vec::new();
        let mut inside: BTreeMap<String, u64> = BTreeMap::new();
        for event in events.iter() {
            let begin = nanos(event, "ts");
            let end = nanos(event, "ts") + nanos(event, "dur");
            let name = event["name"].as_str().unwrap().to_owned();
            open.retain(|(end, _)| *end > begin);
            if event["cat"] != "step" {
                let Some((outer, step)) = open.first() else { panic!("{name} at {begin} is in no step") };
                assert!(open.len() == 1 && end <= *outer, "{name} at {begin} leaves {step}");
                *inside.entry(step.clone()).or_default() += end - begin;
            } else if event["dur"].as_f64() > Some(0.0) {
                assert!(open.is_empty(), "{name} at {begin} begins inside {open:?}");
                open.push((end, name));
            }
        }
        // The books close: the phases of a traced step are all of it.
        let lengths = events.iter().filter(|event| event["cat"] == "step");
        let lengths: BTreeMap<&str, u64> =
            lengths.map(|event| (event["name"].as_str().unwrap(), nanos(event, "dur"))).collect();
        assert!(inside.len() >= 4, "{inside:?}");
        assert!(inside.iter().all(|(step, sum)| lengths[step.as_str()] == *sum), "{inside:?} in {lengths:?}");
    }
    assert!(of("C").iter().any(|event| event["name"] == "training loss"));
    assert!(of("i").iter().any(|event| event["name"].as_str().unwrap().starts_with("test accuracy ")));
}

/// Two strategies whose ranks are not alike at the end: one with a model of each rank, one with gradients in its pipe.
const UNLIKE: &str = r#"
schema = 1
name = "unlike"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 200
test = 50
[train]
global-batch = 30
steps = 12
optimizer = { kind = "sgd", lr = 0.5 }
lr-schedule = { kind = "step", every = "4 steps", factor = 0.5 }
evaluate = "6 steps"
[nodes]
use = ["local*3"]
[[strategy]]
kind = "d-psgd"
[[strategy]]
kind = "pipe-sgd"
[repeats]
count = 1
[measure]
models = "all"
"#;

#[test]
fn what_each_rank_told_and_ended_with_is_exported() {
    let desk = Desk::new().unwrap();
    desk.write("unlike.toml", UNLIKE).unwrap();
    desk.run(["run", "unlike.toml"]).unwrap().with_code(0).unwrap();
    let folders = exported(&desk);
    // The model that a gossiping run is judged by is the mean of those of its ranks, which differ.
    let of = |name: &str| {
        let bytes = fs::read(folders["d-psgd"].join(name)).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut names = tensors.names();
        names.sort_unstable();
        let bytes = names.iter().flat_map(|name| tensors.tensor(name).unwrap().data().to_vec());
        bytes
            .collect::<Vec<u8>>()
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
            .collect()
    };
    let mean: Vec<f32> = of("final.safetensors");
    let ranks: Vec<Vec<f32>> = (0..3).map(|rank| of(&format!("final-rank-{rank}.safetensors"))).collect();
    assert!(ranks[0] != ranks[1] && ranks[1] != ranks[2]);
    for (place, mean) in mean.iter().enumerate() {
        let sum: f64 = ranks.iter().map(|rank| f64::from(rank[place])).sum();
        assert_eq!(mean.to_bits(), ((sum / 3.0) as f32).to_bits());
    }
    assert!(!folders["pipe-sgd"].join("final-rank-1.safetensors").exists(), "its ranks end with one model");
    // Twelve steps at rates of four steps each; gradients left in the pipe are applied at the rate after them.
    let rates = fs::read_to_string(folders["pipe-sgd"].join("rates.csv")).unwrap();
    let rows: Vec<Vec<f64>> = rates
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|field| field.parse().unwrap()).collect())
        .collect();
    for rank in 0..3 {
        let own = rows.iter().filter(|row| row[1] as u32 == rank);
        let own: Vec<(f64, f64)> = own.map(|row| (row[3], row[4])).collect();
        let steps = [0.5, 0.25, 0.125].map(|rate| vec![(rate, 0.0); 4]).concat();
        assert_eq!(own, [steps, vec![(0.0625, 1.0)]].concat(), "rank {rank}");
    }
    events_are_json_lines(&desk);
}

/// Every event of the logs, with its version, its run and its name.
fn events_are_json_lines(desk: &Desk) {
    let told = desk.said(["export", "last", "--format", "jsonl", "--what", "events"]).unwrap();
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), desk.events().len());
    assert!(lines.iter().all(|line| line["version"] == record::EVENT_VERSION && line["fields"].is_object()));
    let runs: BTreeSet<&str> = lines.iter().map(|line| line["run"].as_str().unwrap()).collect();
    assert_eq!(runs.len(), 2);
    let of = |name: &str| lines.iter().filter(|line| line["event"] == name).count();
    // Three compute lanes of each run, and the lanes that communicate beside them.
    assert!(of("step") >= 2 * 3 * 13 && of("prepared") == 6 && of("ended") == 6, "{}", of("step"));
    let refused =
        desk.run(["export", "last", "--format", "csv", "--what", "events"]).unwrap().with_code(2).unwrap();
    assert!(refused.stderr.contains("--format jsonl"), "{}", refused.stderr);
}
