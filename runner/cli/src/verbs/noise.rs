//! `bakeoff noise`: the same arm under two names, and the smallest difference that this machine can show.

use super::run::{self, Training};
use crate::args::RecipeArgs;
use crate::context::Context;
use crate::disk::DiskFiles;
use crate::ending;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, Loudness, human};
use crate::page;
use crate::planning;
use crate::reuse::Reuse;
use crate::session::Session;
use crate::sweep::Pace;
use clap::{Args, ValueHint};
use recipe::{
    Arm, ArrayProblem, ArrayProfile, FileProblem, Files, KeyValue, LabelledTextForm, LabelledTextSize,
    ModelLayout, PictureCounts, Plan, Run, Shape, SharedBy, TextSize, TextTokens,
};
use reports::{NoiseFloor, Range};
use serde::Serialize;
use std::path::{Path, PathBuf};
use store::{Selection, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff noise                          a built-in recipe, about a minute
  bakeoff noise recipe.toml              the baseline of a recipe
  bakeoff noise recipe.toml --repeats 10
  bakeoff noise --json

It trains one arm as often under each of two names, in turn, so that every
difference is noise. From the paired differences of the logarithms of step
times it tells which difference a paired t test finds with a probability of
80 % in 3, 5 and 10 repeats. No other sweep takes numbers of these runs.";

/// Numbers of repeats that the smallest difference is stated for.
const REPEATS: [u32; 3] = [3, 5, 10];

/// The name of the built-in recipe, where a user's would have a path.
const BUILT_IN: &str = "built-in/noise.toml";

/// Arguments of `noise`.
#[derive(Debug, Args)]
pub(crate) struct NoiseArgs {
    /// The recipe whose baseline is trained, under its first condition.
    #[arg(value_name = "RECIPE", value_hint = ValueHint::FilePath)]
    recipe: Option<PathBuf>,
    /// Set a key of the recipe; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Runs under each name.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = repeats)]
    repeats: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Both names get as many runs: nothing is decided on the way.
fn repeats(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (2..=1_000).contains(number));
    number.ok_or_else(|| {
        "a whole number from 2 to 1000 such as 10: all runs are made, so that there is no range as in `bakeoff run --repeats 3..9`".to_owned()
    })
}

/// The printed JSON document.
#[derive(Serialize)]
struct Told<'a> {
    sweep: &'a str,
    arm: &'a str,
    report: &'a Path,
    #[serde(flatten)]
    floor: &'a NoiseFloor,
}

/// Trains one arm under two names, and reports how far apart their numbers are.
pub(crate) fn execute(args: &NoiseArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let console = context.console;
    let recipe = RecipeArgs {
        recipe: args.recipe.clone().unwrap_or_else(|| BUILT_IN.into()),
        overrides: args.overrides.clone(),
        sweeps: Vec::new(),
        only: None,
        repeats: Some(args.repeats.into()),
    };
    let files = Shelf { built_in: args.recipe.is_none() };
    let plan = same_arm_twice(planning::plan_from(&files, &recipe, console)?, &recipe.recipe)?;
    console.say(planning::headline(&plan).trim_end());
    super::wait(async {
        let mut environment = Environment::of(&plan, context).await?;
        let session = Session::listen(console, &context.global.store)?;
        let store = Store::open(&context.global.store).await?;
        let training = Training {
            plan: &plan,
            recipe: &recipe.recipe,
            reuse: Reuse::Apart,
            max_fail: None,
            time_budget: None,
            pace: &Pace::OneByOne,
            session: &session,
            store: &store,
        };
        let trained = run::train(&training, &mut environment, context).await;
        environment.machines.close().await;
        let id = trained?;
        let selection = Selection::sweep(&id);
        let rows = store.sweep_rows(&selection).await?;
        let file = store.folder().join("reports").join(format!("{id}.html"));
        let options = page::options();
        let content = page::Content { rows: &rows, selection: &selection, options: &options };
        page::write(&store, &content, &file, console).await?;
        store.close().await;
        let troubles = ending::troubles(&rows, output::width());
        if !troubles.is_empty() {
            console.write(&troubles);
        }
        let exit = session.interrupted().unwrap_or_else(|| ending::exit(&rows));
        let Some(floor) = reports::noise_floor(&rows, &REPEATS) else {
            console.warn("fewer than two pairs of runs ended well, so there is nothing to tell", "");
            return Ok(if exit == Exit::Done { Exit::Short } else { exit });
        };
        if args.json {
            let arm = &plan.arms[0].kind;
            output::json(&Told { sweep: id.as_str(), arm, report: &file, floor: &floor })?;
        } else if console.loudness() != Loudness::Quiet {
            output::data(&told(&floor, output::width()))?;
            output::data(&format!("\nreport: {}", file.display()))?;
        }
        Ok(exit)
    })
}

/// The disk, with the built-in recipe if none was named.
struct Shelf {
    built_in: bool,
}

impl Shelf {
    fn has(&self, path: &Path) -> bool {
        self.built_in && path.ends_with(BUILT_IN)
    }
}

impl Files for Shelf {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        if self.has(path) { Ok(include_str!("noise.toml").to_owned()) } else { DiskFiles.read(path) }
    }

    fn exists(&self, path: &Path) -> bool {
        self.has(path) || DiskFiles.exists(path)
    }

    fn describe_model(&self, file: &Path, input: Shape) -> Result<ModelLayout, FileProblem> {
        DiskFiles.describe_model(file, input)
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        DiskFiles.arrays(folder)
    }

    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        DiskFiles.safetensors(folder)
    }

    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        DiskFiles.pictures(folder)
    }

    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        DiskFiles.text(path, unit)
    }

    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        DiskFiles.labelled_texts(folder, form)
    }

    fn current_directory(&self) -> PathBuf {
        DiskFiles.current_directory()
    }

    fn data_folder(&self) -> PathBuf {
        DiskFiles.data_folder()
    }
}

/// The baseline of a plan under its first condition, under two names, in turn. Without a target, so that every run is
/// equally long and step times are compared.
fn same_arm_twice(plan: Plan, recipe: &Path) -> Result<Plan, Failure> {
    let is_baseline = |arm: usize| plan.arms.get(arm).is_some_and(|arm| arm.baseline);
    let included = || plan.cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none());
    let chosen = included().find(|(_, cell)| is_baseline(cell.arm)).or_else(|| included().next());
    let Some((number, chosen)) = chosen else {
        return Err(Failure::new(Exit::Empty, format!("{} has no cell to train", recipe.display())));
    };
    let mut spec = chosen.spec.clone();
    spec.train.target = None;
    let cell = |arm: usize, name: &str| recipe::Cell {
        arm,
        condition: String::new(),
        label: name.to_owned(),
        axes: Vec::new(),
        config_hash: spec.config_hash(),
        spec: spec.clone(),
        excluded: None,
    };
    let name = plan.arms.get(chosen.arm).map_or("arm", |arm| arm.name.as_str());
    let names = ["A", "B"].map(|letter| format!("{name} {letter}"));
    let kind = plan.arms.get(chosen.arm).map(|arm| arm.kind.clone()).unwrap_or_default();
    let seeds: Vec<Run> = plan.runs.iter().filter(|run| run.cell == number).copied().collect();
    let runs = seeds.iter().flat_map(|run| {
        // Each name is first in every other repeat.
        let first = run.repeat as usize % 2;
        [first, 1 - first].map(|cell| Run { cell, ..*run })
    });
    Ok(Plan {
        name: format!("noise of {}", plan.name),
        question: "Which difference can this machine show at all?".to_owned(),
        arms: (0..2)
            .map(|arm| Arm { name: names[arm].clone(), kind: kind.clone(), baseline: arm == 0 })
            .collect(),
        cells: (0..2).map(|arm| cell(arm, &names[arm])).collect(),
        values: values_of(&plan, number),
        runs: runs.collect(),
        search: None,
        ..plan.clone()
    })
}

/// The values of a cell, for a plan of this cell alone, which has no target.
fn values_of(plan: &Plan, cell: usize) -> Vec<KeyValue> {
    let kept = plan.values_of(cell).into_iter().filter(|value| !value.path.starts_with("train.target."));
    kept.map(|value| KeyValue { of: SharedBy::Plan, ..value }).collect()
}

/// The result for people.
fn told(floor: &NoiseFloor, width: usize) -> String {
    let sentences = format!(
        "The same arm {} under each of two names: step times differ by {}. The standard deviation of a pair's difference \
         is {}. With a probability of {}, a comparison of two arms finds a difference of step times of at least:",
        human::count(floor.pairs, "time"),
        signed(floor.difference),
        range(floor.deviation),
        share(floor.power),
    );
    let mut sheet = Sheet::new(&["repeats", "difference", &format!("{} interval", share(floor.confidence))])
        .right(&[0, 1, 2]);
    for smallest in &floor.smallest {
        let Range { value, low, high } = smallest.difference;
        sheet.row(vec![
            Cell::from(smallest.repeats.to_string()),
            Cell::from(percent(value)),
            Cell::from(format!("{} … {}", percent(low), percent(high))),
        ]);
    }
    format!("\n{}\n\n{}", output::fold(&sentences, width).join("\n"), sheet.render(width))
}

/// `+0.30 % (-1.2 % … +1.9 %)`.
fn signed(range: Range) -> String {
    let plus = |value: f64| format!("{}{}", if value > 0.0 { "+" } else { "" }, percent(value));
    format!("{} ({} … {})", plus(range.value), plus(range.low), plus(range.high))
}

fn range(range: Range) -> String {
    format!("{} ({} … {})", percent(range.value), percent(range.low), percent(range.high))
}

/// Two digits that count.
fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = (1.0 - value.abs().max(1e-2).log10().floor()).clamp(0.0, 3.0) as usize;
    format!("{value:.decimals$} %")
}

/// A share in per cent, with at most one decimal: `95 %`.
fn share(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_one_number() {
        assert_eq!(repeats("10"), Ok(10));
        for wrong in ["3..9", "1", "1001", "many", ""] {
            assert!(repeats(wrong).unwrap_err().starts_with("a whole number from 2 to 1000"), "{wrong}");
        }
    }
    use reports::sample::Sample;

    #[test]
    fn the_baseline_is_trained_under_two_names_in_turn_and_without_a_target() {
        let rows = Sample { repeats: 3, workers: vec![2, 4], ..Sample::duel() }.rows();
        let plan = same_arm_twice(rows.plan.clone(), Path::new("duel.toml")).unwrap();
        let arms: Vec<(&str, bool)> = plan.arms.iter().map(|arm| (arm.name.as_str(), arm.baseline)).collect();
        assert_eq!(arms, [("ps-sync A", true), ("ps-sync B", false)]);
        let runs: Vec<(usize, u32)> = plan.runs.iter().map(|run| (run.cell, run.repeat)).collect();
        assert_eq!(runs, [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
        assert!(plan.runs.iter().all(|run| run.seed == 42 + u64::from(run.repeat)));
        let [one, other] = plan.cells.as_slice() else { panic!("two cells") };
        assert_eq!((&one.spec, &one.config_hash), (&other.spec, &other.config_hash));
        assert_eq!((one.spec.cluster.workers(), one.spec.train.target), (2, None));
        assert_eq!(one.config_hash, one.spec.config_hash());
        let mut none = rows.plan;
        none.cells.iter_mut().for_each(|cell| cell.excluded = Some("not today".to_owned()));
        assert!(same_arm_twice(none, Path::new("duel.toml")).is_err());
    }

    #[test]
    fn digits_follow_the_size() {
        let told = [0.0, 0.000_42, 0.003_14, 0.0314, 0.123, 1.5, -0.02].map(percent);
        assert_eq!(told, ["0.000 %", "0.042 %", "0.31 %", "3.1 %", "12 %", "150 %", "-2.0 %"]);
    }
}
