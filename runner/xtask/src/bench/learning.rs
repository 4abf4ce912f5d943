//! Which loss a small transformer reaches here, and in PyTorch on the same text.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::peers::Peers;
use super::table::Table;
use crate::child::Child;
use crate::workspace::Workspace;

/// Of the text: the beginning of this project's own sources.
const BYTES: usize = 1_000_000;
/// Steps of training, as in `tests/peers/gpt.toml`.
const STEPS: &str = "1500";

/// Trains both on one text, three seeds each.
pub(super) fn measure(workspace: &Workspace, peers: &Peers) -> Result<Table> {
    let text = peers.folder().join("learning.txt");
    write_text(workspace, &text)?;
    eprintln!("learning: three runs of gpt");
    let ours = own(workspace, peers.folder(), &text)?;
    let theirs = match peers.python() {
        Some(python) => {
            eprintln!("learning: three runs in PyTorch");
            peer(workspace, python, &text)?
        }
        None => Vec::new(),
    };
    let title = "Test loss of gpt after 1,500 steps of AdamW on a megabyte of this project's sources: means of three seeds";
    let mut table = Table::new(title, &["model", "here", "PyTorch", "difference"]);
    let difference = match (mean(&ours), mean(&theirs)) {
        (Some(ours), Some(theirs)) => format!("{:+.2} %", 100.0 * (ours / theirs - 1.0)),
        _ => String::new(),
    };
    table.push(vec!["gpt".into(), losses(&ours), losses(&theirs), difference]);
    Ok(table)
}

fn write_text(workspace: &Workspace, path: &Path) -> Result<()> {
    let listed = workspace.child("git").arguments(&["ls-files", "*.rs", "*.md"]).read()?;
    let mut text = Vec::new();
    for name in listed.lines() {
        let file = workspace.root().join(name);
        text.extend(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
        if text.len() >= BYTES {
            break;
        }
    }
    ensure!(text.len() >= BYTES, "the sources of this project have {} bytes, fewer than {BYTES}", text.len());
    text.truncate(BYTES);
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn own(workspace: &Workspace, folder: &Path, text: &Path) -> Result<Vec<f64>> {
    let program = workspace.target_folder()?.join("release/bakeoff").to_string_lossy().into_owned();
    let recipe = workspace.root().join("tests/peers/gpt.toml");
    let store = folder.join("store");
    let run = Child::new(&program).argument("run").argument(recipe).arguments(&["--yes", "--fresh"]);
    let run = run.argument("--set").argument(format!("dataset.path={}", text.display()));
    run.argument("--store").argument(&store).read()?;
    let export = ["export", "last", "--format", "csv", "--what", "metrics"];
    let metrics = Child::new(&program).arguments(&export).argument("--store").argument(&store).read()?;
    last_losses(&metrics).context("the runs have no test loss at their end")
}

/// The judged test losses at the last step.
fn last_losses(csv: &str) -> Option<Vec<f64>> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next()?.split(',').collect();
    let column = |name: &str| head.iter().position(|own| *own == name);
    let [metric, step, value, judged] = ["metric", "step", "value", "judged"].map(column);
    let metric = metric?;
    let step = step?;
    let value = value?;
    let judged = judged?;
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let of_end = rows.filter(|row| {
        row.len() == head.len() && row[metric] == "test-loss" && row[judged] == "1" && row[step] == STEPS
    });
    let losses: Vec<f64> = of_end.filter_map(|row| row[value].parse().ok()).collect();
    (!losses.is_empty()).then_some(losses)
}

fn peer(workspace: &Workspace, python: &Path, text: &Path) -> Result<Vec<f64>> {
    let program = workspace.root().join("runner/worker/tests/worker/gpt.py");
    let child = Child::new(&python.to_string_lossy()).argument(program).argument(text);
    let said = child.arguments(&[STEPS]).read()?;
    let loss = |line: &str| line.split_once("test loss ")?.1.split_whitespace().next()?.parse().ok();
    Ok(said.lines().filter_map(loss).collect())
}

fn mean(losses: &[f64]) -> Option<f64> {
    (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64)
}

/// The mean, and each.
fn losses(losses: &[f64]) -> String {
    let each: Vec<String> = losses.iter().map(|loss| format!("{loss:.3}")).collect();
    mean(losses).map_or_else(|| "-".to_owned(), |mean| format!("{mean:.4} ({})", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_losses_at_the_end_count() {
        let csv = "run,metric,step,value,judged\na,test-loss,0,5.5,1\na,test-loss,1500,1.5,1\na,test-accuracy,1500,0.5,1\n\
                   b,test-loss,1500,1.75,1\nb,test-loss,1500,9.0,0\n";
        assert_eq!(last_losses(csv), Some(vec![1.5, 1.75]));
        assert_eq!(losses(&[1.5, 1.75]), "1.6250 (1.500, 1.750)");
        assert_eq!((last_losses("run,metric\n"), losses(&[])), (None, "-".to_owned()));
    }
}
