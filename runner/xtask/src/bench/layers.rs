//! The layers of a model in one process with one thread, beside PyTorch's, and all of them beside PyTorch's backward pass
//! through the model as one graph.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::TURNS;
use super::line::{Line, lines};
use super::peers::Peers;
use super::table::{Table, beside, times};
use super::training::random_images;
use super::turns::Turns;
use crate::child::Child;
use crate::workspace::Workspace;

/// The models, the number of timed steps, and the title of the table.
const MODELS: [(&str, &str, &str); 3] = [
    ("mnist-mlp", "200", "mnist-mlp, 50 samples"),
    ("lenet", "100", "lenet, 50 samples"),
    ("vgg-like", "10", "VGG-like net, 32 samples"),
];

/// The passes through a layer, as the programs name them.
const PASSES: [&str; 2] = ["forward", "backward"];

/// PyTorch's formats of the model as one graph, and the names of their rows; models that take no images have the first alone.
const GRAPHS: [(&str, &str); 2] =
    [("contiguous", "all, PyTorch's as one graph"), ("channels-last", "the same with channels last")];

/// Times of a layer in one direction, one per turn.
type Found = BTreeMap<(u64, &'static str), Vec<f64>>;

/// PyTorch's times of the model as one graph, by format and direction, one per turn.
type Graphs = BTreeMap<(&'static str, &'static str), Vec<f64>>;

/// Gives both their turns and lays the layers of each model side by side.
pub(super) fn measure(workspace: &Workspace, peers: &Peers, turns: &mut Turns) -> Result<Vec<Table>> {
    random_images(&peers.folder().join("cifar-10"))?;
    MODELS.iter().map(|(model, steps, title)| table(workspace, peers, turns, [model, steps, title])).collect()
}

fn table(
    workspace: &Workspace,
    peers: &Peers,
    turns: &mut Turns,
    [model, steps, title]: [&str; 3],
) -> Result<Table> {
    let mut ours = Found::new();
    let mut theirs = Found::new();
    let mut graphs = Graphs::new();
    let mut names = BTreeMap::new();
    for turn in 1..=TURNS {
        eprintln!("layers: turn {turn} of {TURNS}, {model}");
        let said = turns.turn(turn, || own(workspace, peers.folder(), model, steps))?;
        names.extend(said.iter().filter_map(|line| Some((line.value("number")? as u64, name(line)))));
        note(&mut ours, &said);
        if let Some(python) = peers.python() {
            let said = turns.turn(turn, || peer(workspace, python, model, steps))?;
            note(&mut theirs, &said);
            note_graphs(&mut graphs, &said);
        }
    }
    let mut table = Table::new(
        &format!(
            "{title}: one thread, from each layer with weights to the next (how many times as fast we are)"
        ),
        &["layer", "forward", "PyTorch", "backward", "PyTorch"],
    );
    for (number, name) in names {
        table.push(row(name, |pass| [&ours, &theirs].map(|found| of(found, number, pass))));
    }
    table.push(row("all".to_owned(), |pass| [&ours, &theirs].map(|found| whole(found, pass))));
    for (format, title) in GRAPHS.into_iter().filter(|(format, _)| graphs.contains_key(&(*format, PASSES[0])))
    {
        table.push(row(title.to_owned(), |pass| [whole(&ours, pass), graphs[&(format, pass)].clone()]));
    }
    Ok(table)
}

/// A row of the table; `both` gives our times and theirs.
fn row(name: String, both: impl Fn(&'static str) -> [Vec<f64>; 2]) -> Vec<String> {
    let mut row = vec![name];
    for pass in PASSES {
        let [ours, theirs] = both(pass);
        row.extend([times(&ours), beside(&theirs, &ours)]);
    }
    row
}

fn of(found: &Found, number: u64, pass: &'static str) -> Vec<f64> {
    found.get(&(number, pass)).cloned().unwrap_or_default()
}

/// The sum over the layers in each turn.
fn whole(found: &Found, pass: &'static str) -> Vec<f64> {
    let layers: Vec<&Vec<f64>> =
        found.iter().filter(|((_, other), _)| *other == pass).map(|(_, times)| times).collect();
    let turns = layers.iter().map(|times| times.len()).min().unwrap_or(0);
    (0..turns).map(|turn| layers.iter().map(|times| times[turn]).sum()).collect()
}

fn note(found: &mut Found, said: &[Line]) {
    for line in said {
        for pass in PASSES {
            if let (Some(number), Some(time)) = (line.value("number"), line.value(pass)) {
                found.entry((number as u64, pass)).or_default().push(time);
            }
        }
    }
}

fn note_graphs(graphs: &mut Graphs, said: &[Line]) {
    for line in said {
        for (format, _) in GRAPHS {
            let of_format = line.words.iter().any(|word| word.strip_prefix("graph=") == Some(format));
            for pass in PASSES.into_iter().filter(|_| of_format) {
                graphs.entry((format, pass)).or_default().extend(line.value(pass));
            }
        }
    }
}

fn name(line: &Line) -> String {
    let name = line.words.iter().find_map(|word| word.strip_prefix("name="));
    name.unwrap_or_default().to_owned()
}

fn own(workspace: &Workspace, folder: &Path, model: &str, steps: &str) -> Result<Vec<Line>> {
    let program = workspace.target_folder()?.join("release/examples/layers");
    let recipe = workspace.root().join(format!("tests/peers/{model}.toml"));
    let mut child = Child::new(&program.to_string_lossy()).argument(recipe).argument(steps);
    if model == "vgg-like" {
        child = child.argument(format!("dataset.path={}", folder.join("cifar-10").display()));
    }
    Ok(lines(&child.read()?, "layers"))
}

fn peer(workspace: &Workspace, python: &Path, model: &str, steps: &str) -> Result<Vec<Line>> {
    let program = workspace.root().join("tests/peers/layers.py");
    let output = Child::new(&python.to_string_lossy()).argument(program).arguments(&[model, steps]).read()?;
    Ok(lines(&output, "layers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_all_turns_are_laid_side_by_side_and_summed() {
        let turn = |conv: u32, linear: u32| {
            let text = format!(
                "layers bakeoff number=0 name=conv-1 forward={conv} backward=5\n\
                 layers bakeoff number=1 name=linear-1 forward={linear} backward=7\n"
            );
            lines(&text, "layers")
        };
        let mut found = Found::new();
        note(&mut found, &turn(1, 2));
        note(&mut found, &turn(3, 4));
        assert_eq!(of(&found, 0, "forward"), [1.0, 3.0]);
        assert_eq!(whole(&found, "forward"), [3.0, 7.0]);
        assert_eq!(whole(&found, "backward"), [12.0, 12.0]);
        assert_eq!(name(&turn(1, 1)[1]), "linear-1");
    }

    #[test]
    fn a_graph_is_read_by_its_format_and_is_no_layer() {
        let text = "layers torch number=0 forward=1 backward=2\n\
                    layers torch graph=contiguous forward=3 backward=4\n\
                    layers torch graph=channels-last forward=5 backward=6\n";
        let said = lines(text, "layers");
        let mut found = Found::new();
        let mut graphs = Graphs::new();
        note(&mut found, &said);
        note_graphs(&mut graphs, &said);
        assert_eq!(whole(&found, "backward"), [2.0]);
        assert_eq!(graphs[&("contiguous", "forward")], [3.0]);
        assert_eq!(graphs[&("channels-last", "backward")], [6.0]);
    }
}
