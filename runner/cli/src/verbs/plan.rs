//! `bakeoff plan`: what a recipe expands to, and with `--why` what `run` would do about each run.

use crate::args::RecipeArgs;
use crate::context::Context;
use crate::durations::{Durations, Estimate};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::needs::Needs;
use crate::output::paint::{FAINT, GOOD, ODD, PLAIN, paint};
use crate::output::table::{Cell as TableCell, Sheet};
use crate::output::{self, human};
use crate::planning;
use crate::queue::QueueKind;
use crate::reuse::{self, Action, Decision, Reuse};
use crate::verbs::run;
use crate::{exchanges, model_table, searches, transformed};
use clap::{Args, ValueEnum};
use recipe::{Cell, Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use store::{Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff plan recipe.toml
  bakeoff plan recipe.toml --set nodes.workers=4
  bakeoff plan recipe.toml --sweep train.optimizer.lr=0.05,0.1
  bakeoff plan recipe.toml --only \"strategy.name == 'd-sync'\"
  bakeoff plan recipe.toml --why     what would be trained or reused, and why
  bakeoff plan recipe.toml --full    the recipe as it is run, with every default
  bakeoff plan recipe.toml --format csv > runs.csv

Nothing is run and nothing is written. Jobs of a queue: `bakeoff run recipe.toml
--submit slurm --dry-run`.";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Say for each run what `run` would do about it, and why.
    #[arg(long)]
    why: bool,
    /// Write the whole recipe as it is run, every default included.
    #[arg(long)]
    full: bool,
    /// Plan runs that are jobs of this queue, with machines that it gives them later.
    #[arg(long, value_name = "QUEUE", conflicts_with = "why")]
    submit: Option<QueueKind>,
    /// A table for people, or JSON or CSV for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// How the plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One line per run.
    Csv,
}

/// Longer tables are cut; `--format csv` is for the whole.
const MOST_ROWS: usize = 60;

/// Prints the plan of a recipe in the requested format.
pub(crate) fn execute(args: &PlanArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let plan = planning::plan_for(&args.recipe, args.submit, context.console)?;
    planning::ask_the_worker(&plan, context.console)?;
    let decisions = if args.why { Some(decide(&plan, context)?) } else { None };
    let decisions = decisions.as_deref();
    let durations = durations(&plan, context)?;
    match args.format {
        Format::Table if args.full => {
            let comments =
                model_table::comments(&plan) + &exchanges::comments(&plan) + &transformed::comments(&plan);
            output::data(&(plan.expanded.clone() + &comments))?;
        }
        Format::Table => {
            let estimate = run::to_train(&plan, decisions, &durations);
            output::data(&table(&plan, decisions, estimate.as_ref(), output::width()))?;
        }
        Format::Json => output::json(&document(&plan, decisions, args.full))?,
        Format::Csv => output::data(&csv(&plan, decisions))?,
    }
    Ok(Exit::Done)
}

fn decide(plan: &Plan, context: &Context<'_>) -> Result<Vec<Decision>, Failure> {
    super::wait(async {
        let mut environment = Environment::of(plan, context).await?;
        let store = match Store::open_existing(&context.global.store).await {
            Ok(store) => Some(store),
            Err(StoreError::NoStore { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let decided = reuse::decide(plan, &mut environment, store.as_ref(), Reuse::Finished).await;
        environment.machines.close().await;
        decided
    })
}

/// The known durations of the runs. A store that cannot be read is no obstacle to a plan.
fn durations(plan: &Plan, context: &Context<'_>) -> Result<Durations, Failure> {
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await.ok();
        let known = Durations::of(plan, store.as_ref()).await;
        if let Some(store) = store {
            store.close().await;
        }
        Ok(known.unwrap_or_default())
    })
}

/// The plan in words and a table.
fn table(plan: &Plan, decisions: Option<&[Decision]>, estimate: Option<&Estimate>, width: usize) -> String {
    let mut out = planning::headline(plan);
    if let Some(estimate) = estimate {
        // Only --why looks which runs are reused.
        let whole = if decisions.is_none() { " (`--why` leaves reused runs out)" } else { "" };
        let _ = writeln!(out, "time: {}{whole}", estimate.words());
    }
    out.push('\n');
    let sheet = match decisions {
        Some(decisions) => runs(plan, decisions),
        None => searches::sheet(plan, MOST_ROWS).unwrap_or_else(|| cells(plan)),
    };
    let rows = match (&plan.search, decisions) {
        (_, Some(_)) => plan.runs.len() + planning::excluded(plan),
        (Some(search), None) => search.groups(plan).len(),
        (None, None) => plan.cells.len(),
    };
    out.push_str(&sheet.render(width));
    if rows > MOST_ROWS {
        let rest = human::thousands((rows - MOST_ROWS) as u64);
        let _ =
            writeln!(out, "{}", paint(FAINT, format!("... and {rest} more; `--format csv` lists them all")));
    }
    out
}

fn cells(plan: &Plan) -> Sheet {
    let mut repeats: BTreeMap<usize, usize> = BTreeMap::new();
    for run in plan.runs.iter().filter(|run| plan.is_certain(run)) {
        *repeats.entry(run.cell).or_default() += 1;
    }
    let number = |cell: usize| match (repeats.get(&cell).copied().unwrap_or(0), plan.looks.last()) {
        (least @ 1.., Some(most)) => format!("{least} to {most}"),
        (count, _) => count.to_string(),
    };
    let conditions = plan.cells.iter().any(|cell| !cell.condition.is_empty());
    let excluded = planning::excluded(plan) > 0;
    let head: Vec<&str> = [
        (true, "arm"),
        (conditions, "condition"),
        (true, "workers"),
        (true, "batch"),
        (true, "length"),
        (true, "runs"),
        (excluded, ""),
    ]
    .into_iter()
    .filter_map(|(shown, name)| shown.then_some(name))
    .collect();
    let numbers: Vec<usize> =
        (0..head.len()).filter(|place| matches!(head[*place], "workers" | "batch" | "runs")).collect();
    let whole: Vec<usize> = numbers.iter().copied().chain([0]).collect();
    let mut sheet = Sheet::new(&head).right(&numbers).whole(&whole);
    for (index, cell) in plan.cells.iter().enumerate().take(MOST_ROWS) {
        let style = if cell.excluded.is_some() { FAINT } else { PLAIN };
        let train = &cell.spec.train;
        let mut row = vec![TableCell::styled(style, arm_words(plan, cell))];
        if conditions {
            row.push(TableCell::styled(style, &cell.condition));
        }
        row.push(TableCell::styled(style, cell.spec.cluster.workers().to_string()));
        row.push(TableCell::styled(style, train.global_batch.to_string()));
        row.push(TableCell::styled(style, train.length.to_string()));
        row.push(TableCell::styled(style, number(index)));
        if excluded {
            let reason = cell.excluded.as_ref().map(|reason| format!("excluded: {reason}"));
            row.push(TableCell::styled(ODD, reason.unwrap_or_default()));
        }
        sheet.row(row);
    }
    sheet
}

fn arm_words(plan: &Plan, cell: &Cell) -> String {
    let arm = &plan.arms[cell.arm];
    if arm.baseline && plan.arms.len() > 1 { format!("{} (baseline)", arm.name) } else { arm.name.clone() }
}

fn runs(plan: &Plan, decisions: &[Decision]) -> Sheet {
    let mut sheet = Sheet::new(&["cell", "repeat", "seed", "action", "why"]).right(&[1, 2]).whole(&[1, 3]);
    let needs = Needs::of(plan);
    let planned = plan.runs.iter().zip(decisions).map(|(run, decision)| {
        let style = match decision.action {
            Action::Reuse(_) => GOOD,
            Action::Repeat | Action::Resume(_) => ODD,
            Action::Run => PLAIN,
        };
        vec![
            plan.cells[run.cell].label.as_str().into(),
            (run.repeat + 1).to_string().into(),
            run.seed.to_string().into(),
            TableCell::styled(style, decision.action.name()),
            needs.why(run, decision).into(),
        ]
    });
    let left_out = plan.cells.iter().filter_map(|cell| {
        let reason = cell.excluded.as_deref()?;
        let label = TableCell::styled(FAINT, &cell.label);
        Some(vec![label, "".into(), "".into(), TableCell::styled(FAINT, "excluded"), reason.into()])
    });
    for row in planned.chain(left_out).take(MOST_ROWS) {
        sheet.row(row);
    }
    sheet
}

fn document(plan: &Plan, decisions: Option<&[Decision]>, full: bool) -> Value {
    let cells = plan.cells.iter().map(|cell| {
        let mut value = json!({
            "label": cell.label,
            "arm": plan.arms[cell.arm].name,
            "condition": cell.condition,
            "axes": cell.axes,
            "workers": cell.spec.cluster.workers(),
            "threads": cell.spec.threads,
            "excluded": cell.excluded,
            "config-hash": cell.config_hash,
        });
        if full {
            value["spec"] = serde_json::to_value(&cell.spec).unwrap_or_default();
            value["exchanges"] = exchanges::document(&cell.spec);
            value["transformed"] = transformed::document(&cell.spec).unwrap_or_default();
        }
        value
    });
    let needs = Needs::of(plan);
    let runs = plan.runs.iter().enumerate().map(|(index, run)| {
        let mut value = json!({ "cell": run.cell, "repeat": run.repeat, "seed": run.seed });
        let conditions = needs.words(run);
        if !conditions.is_empty() {
            value["needed"] = conditions.into();
        }
        if let Some(decision) = decisions.and_then(|decisions| decisions.get(index)) {
            value["action"] = decision.action.name().into();
            value["why"] = needs.why(run, decision).into();
            value["identity"] = decision.identity.as_str().into();
        }
        value
    });
    let mut document = json!({
        "name": plan.name,
        "question": plan.question,
        "arms": plan.arms,
        "cells": cells.collect::<Vec<_>>(),
        "runs": runs.collect::<Vec<_>>(),
        "looks": plan.looks,
        "search": plan.search,
        "placements": plan.placements(),
        "threads": plan.threads(),
        "emulated": plan.emulated(),
        "faults": plan.faults(),
        "graphs": plan.graphs(),
        "limits": plan.limits,
        "warnings": plan.warnings,
    });
    if full {
        document["expanded"] = plan.expanded.as_str().into();
    }
    document
}

/// One line per run, and one per excluded cell; a column for each axis.
fn csv(plan: &Plan, decisions: Option<&[Decision]>) -> String {
    let mut paths: Vec<&str> = Vec::new();
    for axis in plan.cells.iter().flat_map(|cell| &cell.axes) {
        if !paths.contains(&axis.path.as_str()) {
            paths.push(&axis.path);
        }
    }
    let mut head = vec!["order", "arm", "condition"];
    head.extend(&paths);
    head.extend(["workers", "repeat", "seed", "action", "why"]);
    let mut out = output::csv_line(head);
    let needs = Needs::of(plan);
    for (index, run) in plan.runs.iter().enumerate() {
        let decision = decisions.and_then(|decisions| decisions.get(index));
        let action = decision.map_or("run", |decision| decision.action.name());
        let why = decision.map_or_else(|| needs.words(run), |decision| needs.why(run, decision));
        let counts = [index.to_string(), (run.repeat + 1).to_string(), run.seed.to_string()];
        out.push_str(&line(
            plan,
            &plan.cells[run.cell],
            &paths,
            &Fate { counts: &counts, action, why: &why },
        ));
    }
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_some()) {
        let reason = cell.excluded.as_deref().unwrap_or_default();
        out.push_str(&line(
            plan,
            cell,
            &paths,
            &Fate { counts: &Default::default(), action: "excluded", why: reason },
        ));
    }
    out
}

/// The columns of a CSV line that are about its run.
struct Fate<'a> {
    /// Number, repeat and seed of the run.
    counts: &'a [String; 3],
    action: &'a str,
    why: &'a str,
}

fn line(plan: &Plan, cell: &Cell, paths: &[&str], fate: &Fate<'_>) -> String {
    let Fate { counts, action, why } = fate;
    let workers = cell.spec.cluster.workers().to_string();
    let value =
        |path: &&str| cell.axes.iter().find(|axis| axis.path == **path).map_or("", |axis| axis.text.as_str());
    let mut fields = vec![counts[0].as_str(), plan.arms[cell.arm].name.as_str(), cell.condition.as_str()];
    fields.extend(paths.iter().map(value));
    fields.extend([workers.as_str(), &counts[1], &counts[2], action, why]);
    output::csv_line(fields)
}
