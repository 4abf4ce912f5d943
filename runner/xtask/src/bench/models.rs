//! A step of each model in one process with one thread, beside PyTorch's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::TURNS;
use super::line::{Line, lines};
use super::peers::Peers;
use super::table::{Table, beside, times};
use super::training::random_images;
use super::turns::Turns;
use crate::child::Child;
use crate::workspace::Workspace;

/// Where examples come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// Built in: 28 x 28 grey.
    Drawn,
    /// Random images of CIFAR-10's form.
    Cifar,
    /// Random pictures of 224 x 224 of a thousand classes.
    Pictures,
    /// Random letters, as one text.
    Text,
    /// The labelled texts of the examples.
    Labelled,
}

/// A model, its data, the samples of a step, and the timed steps of a turn.
struct Row(&'static str, Data, u32, u32);

const ROWS: [Row; 17] = [
    Row("softmax", Data::Drawn, 50, 500),
    Row("mnist-mlp", Data::Drawn, 50, 300),
    Row("lenet", Data::Drawn, 50, 100),
    Row("cifar-cnn", Data::Cifar, 32, 60),
    Row("cifar100-cnn", Data::Cifar, 32, 60),
    Row("cifar100-convex", Data::Cifar, 32, 100),
    Row("resnet20", Data::Cifar, 32, 12),
    Row("alexnet-cifar", Data::Cifar, 16, 8),
    Row("vgg-splitbrain", Data::Cifar, 16, 8),
    Row("vgg-cifar", Data::Cifar, 16, 6),
    Row("gpt", Data::Text, 8, 40),
    Row("text-cnn", Data::Labelled, 20, 40),
    Row("resnet18", Data::Pictures, 4, 4),
    Row("alexnet", Data::Pictures, 4, 4),
    Row("googlenet", Data::Pictures, 4, 4),
    Row("resnet50", Data::Pictures, 2, 4),
    Row("vgg19", Data::Pictures, 1, 3),
];

/// Gives both their turns, model by model.
pub(super) fn measure(workspace: &Workspace, peers: &Peers, turns: &mut Turns) -> Result<Table> {
    random_images(&peers.folder().join("cifar-10"))?;
    random_pictures(&peers.folder().join("pictures"))?;
    random_text(&peers.folder().join("letters.txt"))?;
    let title = "A step of SGD in one process with one thread: forward pass, loss, backward pass, update (how many times as fast we are)";
    let mut table = Table::new(
        title,
        &[
            "model", "samples", "step", "PyTorch", "forward", "PyTorch", "backward", "PyTorch", "update",
            "PyTorch",
        ],
    );
    for row in &ROWS {
        table.push(both(workspace, peers, turns, row)?);
    }
    Ok(table)
}

/// A line of the table.
fn both(workspace: &Workspace, peers: &Peers, turns: &mut Turns, row: &Row) -> Result<Vec<String>> {
    let Row(model, _, samples, steps) = row;
    let described = peers.folder().join(format!("{model}.json"));
    let text = own(workspace, peers.folder(), row, "describe")?;
    fs::write(&described, text).with_context(|| format!("cannot write {}", described.display()))?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for turn in 1..=TURNS {
        eprintln!("models: turn {turn} of {TURNS}, {model}");
        let named = |output: String| named(lines(&output, "step"), model);
        ours.extend(
            turns.turn(turn, || Ok(named(own(workspace, peers.folder(), row, &steps.to_string())?)))?,
        );
        if let Some(python) = peers.python() {
            theirs.extend(turns.turn(turn, || Ok(named(peer(workspace, python, &described, *steps)?)))?);
        }
    }
    let mut cells = vec![(*model).to_owned(), samples.to_string()];
    for part in ["us", "forward", "backward", "update"] {
        let [ours, theirs] = [&ours, &theirs].map(|said| of(said, part));
        cells.extend([times(&ours), beside(&theirs, &ours)]);
    }
    Ok(cells)
}

fn of(said: &[Line], part: &str) -> Vec<f64> {
    said.iter().filter_map(|line| line.value(part)).collect()
}

/// The lines with the name of the model, which the programs do not know.
fn named(lines: Vec<Line>, model: &str) -> Vec<Line> {
    let with_name = |mut line: Line| {
        line.words.push(format!("model={model}"));
        line
    };
    lines.into_iter().map(with_name).collect()
}

fn own(workspace: &Workspace, folder: &Path, row: &Row, steps: &str) -> Result<String> {
    let Row(model, data, samples, _) = row;
    let program = workspace.target_folder()?.join("release/examples/step");
    let recipe = workspace.root().join("tests/peers/models.toml");
    let child = Child::new(&program.to_string_lossy()).argument(recipe).arguments(&[
        steps,
        &format!("model={model:?}"),
        &format!("train.global-batch={samples}"),
    ]);
    let dataset = match data {
        Data::Drawn => return child.read(),
        Data::Cifar => of_file("cifar10", folder.join("cifar-10"), ""),
        Data::Pictures => of_file("npy", folder.join("pictures"), ""),
        Data::Text => of_file("text-lines", folder.join("letters.txt"), ", context = 64"),
        Data::Labelled => {
            of_file("text", workspace.root().join("examples/own-texts"), ", header = true, context = 64")
        }
    };
    child.argument(dataset).read()
}

fn of_file(kind: &str, path: PathBuf, more: &str) -> String {
    format!("dataset={{ kind = {kind:?}, path = {:?}{more} }}", path.display().to_string())
}

fn peer(workspace: &Workspace, python: &Path, described: &Path, steps: u32) -> Result<String> {
    let program = workspace.root().join("tests/peers/step.py");
    let python = Child::new(&python.to_string_lossy()).argument(program).argument(described);
    python.arguments(&[&steps.to_string()]).read()
}

/// Bytes of no particular kind.
fn random(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Arrays as NumPy writes them: eight pictures to train on and as many to test with.
fn random_pictures(folder: &Path) -> Result<()> {
    const PICTURES: usize = 8;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for name in ["train", "test"] {
        let pixels = random(PICTURES * 3 * 224 * 224, 1);
        let labels: Vec<u8> =
            (0..PICTURES as i64).flat_map(|place| (999 - 100 * place).to_le_bytes()).collect();
        write_array(&folder.join(format!("{name}_x.npy")), "|u1", "(8, 3, 224, 224)", &pixels)?;
        write_array(&folder.join(format!("{name}_y.npy")), "<i8", "(8,)", &labels)?;
    }
    Ok(())
}

fn write_array(path: &Path, element: &str, shape: &str, elements: &[u8]) -> Result<()> {
    /// Offset of the elements in the file, in bytes.
    const HEAD: usize = 128;
    let mut header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    header += &" ".repeat(HEAD - 11 - header.len());
    header.push('\n');
    let all = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements]
        .concat();
    fs::write(path, all).with_context(|| format!("cannot write {}", path.display()))
}

fn random_text(path: &Path) -> Result<()> {
    let letters: Vec<u8> = random(1 << 16, 2).iter().map(|byte| b'a' + byte % 26).collect();
    fs::write(path, letters).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_the_model_and_columns_the_turns() {
        let said = named(lines("step torch us=3.5 forward=1.0 backward=2.0 update=0.5\n", "step"), "lenet");
        assert_eq!(said[0].words, ["step", "torch", "model=lenet"]);
        assert_eq!((of(&said, "us"), of(&said, "no")), (vec![3.5], vec![]));
    }
}
