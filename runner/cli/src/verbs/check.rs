//! `bakeoff check`: everything that is wrong with recipes, before anything starts.

use crate::context::Context;
use crate::disk::DiskFiles;
use crate::exit::{Exit, Failure};
use crate::output::paint::{GOOD, paint};
use crate::output::{self, human};
use crate::planning;
use crate::queue::QueueKind;
use clap::{Args, ValueEnum, ValueHint};
use recipe::{Plan, PlanRequest, Problems};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff check recipe.toml
  bakeoff check recipes/*.toml
  bakeoff check recipe.toml --format json | jq .

It reads files and touches no network. Exit code 2 if a recipe has an error;
warnings alone give 0.";

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The recipes.
    #[arg(value_name = "RECIPE", required = true, value_hint = ValueHint::FilePath)]
    recipes: Vec<PathBuf>,
    /// Check runs that are jobs of this queue, with machines that it gives them later.
    #[arg(long, value_name = "QUEUE")]
    submit: Option<QueueKind>,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: Format,
}

/// How the problems are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Drawn as compilers do.
    Human,
    /// One JSON document.
    Json,
}

/// Checks all recipes, then reports on each; [`Exit::Usage`] if any has an error.
pub(crate) fn execute(args: &CheckArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let machine = planning::machine_for(args.submit);
    let check = |path: &PathBuf| {
        planning::patiently(context.console, || recipe::plan(&DiskFiles, &PlanRequest::new(path), &machine))
    };
    let checked: Vec<_> = args.recipes.iter().map(|path| (path.as_path(), check(path))).collect();
    match args.format {
        Format::Human => checked.iter().try_for_each(|(path, answer)| tell(path, answer, context))?,
        Format::Json => {
            output::json(&checked.iter().map(|(path, answer)| entry(path, answer)).collect::<Vec<_>>())?;
        }
    }
    if checked.iter().any(|(_, answer)| answer.is_err()) {
        return Ok(Exit::Usage);
    }
    checked
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok())
        .try_for_each(|plan| planning::ask_the_worker(plan, context.console))?;
    Ok(Exit::Done)
}

fn tell(path: &Path, answer: &Result<Plan, Problems>, context: &Context<'_>) -> Result<(), Failure> {
    match answer {
        Ok(plan) => {
            planning::draw(&plan.warnings, context.console);
            let excluded = plan.cells.iter().filter(|cell| cell.excluded.is_some()).count();
            let without = if excluded > 0 {
                format!(", {} excluded", human::thousands(excluded as u64))
            } else {
                String::new()
            };
            output::data(&format!(
                "{}  {}: {}, {}{without}, {}",
                paint(GOOD, "ok"),
                path.display(),
                human::count(plan.arms.len(), "arm"),
                human::count(plan.number_of_points(), "cell"),
                planning::number_of_runs(plan),
            ))?;
            output::data(planning::evidence(plan).trim_end())
        }
        Err(problems) => {
            planning::draw(&problems.list, context.console);
            context.console.write(&planning::summary(path, problems));
            Ok(())
        }
    }
}

fn entry(path: &Path, answer: &Result<Plan, Problems>) -> Value {
    let (valid, problems, size) = match answer {
        Ok(plan) => {
            let size = json!({ "arms": plan.arms.len(), "cells": plan.number_of_points(), "runs": plan.number_of_runs().most });
            (true, &plan.warnings, size)
        }
        Err(problems) => (false, &problems.list, Value::Null),
    };
    json!({ "recipe": path.display().to_string(), "valid": valid, "plan": size, "problems": problems })
}
