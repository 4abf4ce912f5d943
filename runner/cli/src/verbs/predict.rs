//! `bakeoff predict`: what a step of each arm would take, by the models of the papers.

use crate::args::{RecipeArgs, TableFormat};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, STRONG, paint};
use crate::output::table::{Cell as TableCell, Sheet};
use crate::output::{self, human};
use crate::planning;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use predict::network::{LinkRates, NamedNetwork};
use recipe::{Cell, Plan};
use record::Nanos;
use reports::{Forecast, NoModel, forecast};
use serde_json::{Value, json};
use std::time::Duration;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff predict recipe.toml      with the network and the times it emulates
  bakeoff predict recipe.toml --network 10gbe --compute 20ms
  bakeoff predict recipe.toml --network fdr --compute 20ms \\
    --sweep nodes.workers=2,4,8,16

Nothing is run. Networks are those of You, Buluc and Demmel, SC 2017, Table 2;
all-reduces cost what MG-WFBP's Table II says, steps what Pipe-SGD's equations
2, 4 and 6 and, with a schedule of layers, MG-WFBP's 6 to 8 and 19 to 21 say.
Layers take time in the proportion of their arithmetic; arithmetic on what is
received is free.";

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The network; without it the one that the recipe emulates.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(NamedNetwork::ALL.map(NamedNetwork::name)).try_map(named))]
    network: Option<NamedNetwork>,
    /// What a worker computes per step, as in `20ms`; without it the recipe's `compute.step-time`.
    #[arg(long, value_name = "TIME", value_parser = length)]
    compute: Option<Duration>,
    /// A table for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: TableFormat,
}

fn named(name: String) -> Result<NamedNetwork, String> {
    let found = NamedNetwork::ALL.into_iter().find(|network| network.name() == name);
    found.ok_or_else(|| format!("there is no network `{name}`"))
}

fn length(text: &str) -> Result<Duration, String> {
    let time = recipe::parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "write a time with its unit that is above zero, as in `20ms`".to_owned())
}

/// One cell and its prediction.
struct Row<'a> {
    cell: &'a Cell,
    forecast: Result<Forecast, NoModel>,
}

/// Longer tables are cut; `--format json` is for the whole.
const MOST_ROWS: usize = 60;

/// Shows the predictions.
pub(crate) fn execute(args: &PredictArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let plan = planning::plan(&args.recipe, context.console)?;
    let mut rows = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_none()) {
        let (rates, compute) = (rates_of(cell, args)?, compute_of(cell, args)?);
        rows.push(Row { cell, forecast: forecast(&cell.spec, rates, compute.as_secs_f64()) });
    }
    match args.format {
        TableFormat::Table => output::data(&table(&plan, &rows, args))?,
        TableFormat::Json => output::json(&document(&plan, &rows, args))?,
    }
    Ok(Exit::Done)
}

fn rates_of(cell: &Cell, args: &PredictArgs) -> Result<LinkRates, Failure> {
    if let Some(network) = args.network {
        return Ok(network.rates());
    }
    let Some(network) = cell.spec.emulation.network else {
        return Err(Failure::new(Exit::Usage, format!("{} emulates no network", cell.label))
            .cure("name one: `--network fdr`, `qdr` or `10gbe`"));
    };
    let rates = LinkRates::new(network.latency.as_secs_f64(), 1.0 / network.bandwidth as f64, 0.0);
    rates.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", cell.label)))
}

fn compute_of(cell: &Cell, args: &PredictArgs) -> Result<Duration, Failure> {
    let stated = args.compute.or_else(|| cell.spec.emulation.compute.map(|compute| compute.step_time));
    stated.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{} states no time for the computing of a step", cell.label))
            .cure("give it: `--compute 20ms`; `bakeoff show RUN` has it of a run")
    })
}

/// Where the network is from, in words.
fn network_words(args: &PredictArgs) -> String {
    let Some(network) = args.network else { return "as the recipe emulates it".to_owned() };
    let rates = network.rates();
    format!(
        "{}: {:.1} µs and {:.1} ns per byte (SC17 Table 2)",
        network.words(),
        rates.alpha() * 1e6,
        rates.beta() * 1e9
    )
}

/// Where the computing time is from, in words.
fn compute_words(args: &PredictArgs) -> String {
    let Some(time) = args.compute else { return "as the recipe states it".to_owned() };
    format!("{} per step of each worker (--compute)", seconds(time.as_secs_f64()))
}

fn seconds(seconds: f64) -> String {
    match (seconds * 1e9).round() as u64 {
        0 => "none".to_owned(),
        nanos => human::time(Nanos(nanos)),
    }
}

/// The predictions in words and a table.
fn table(plan: &Plan, rows: &[Row<'_>], args: &PredictArgs) -> String {
    let mut out = format!("{}: predicted, not measured\n", paint(STRONG, &plan.name));
    let sources =
        [format!("network: {}", network_words(args)), format!("computing: {}", compute_words(args))];
    for line in sources.iter().flat_map(|words| output::fold(words, output::width())) {
        out.push_str(&line);
        out.push('\n');
    }
    out.push('\n');
    let conditions = rows.iter().any(|row| !row.cell.condition.is_empty());
    let mut head = vec!["arm"];
    if conditions {
        head.push("condition");
    }
    let numbers: Vec<usize> = (head.len()..head.len() + 5).collect();
    head.extend(["workers", "sending", "exposed", "step", "speed-up"]);
    let whole: Vec<usize> = numbers.iter().copied().chain([0]).collect();
    let mut sheet = Sheet::new(&head).right(&numbers).whole(&whole);
    for row in rows.iter().take(MOST_ROWS) {
        sheet.row(cells(plan, row, conditions));
    }
    out.push_str(&sheet.render(output::width()));
    for reason in reasons(rows) {
        out.push_str(&paint(FAINT, format!("-: {reason}")));
        out.push('\n');
    }
    if rows.len() > MOST_ROWS {
        let rest = human::count(rows.len() - MOST_ROWS, "row");
        out.push_str(&paint(FAINT, format!("... and {rest} more; `--format json` lists them all\n")));
    }
    out
}

fn cells(plan: &Plan, row: &Row<'_>, conditions: bool) -> Vec<TableCell> {
    let mut cells: Vec<TableCell> = vec![plan.arms[row.cell.arm].name.as_str().into()];
    if conditions {
        cells.push(row.cell.condition.as_str().into());
    }
    cells.push(row.cell.spec.cluster.workers().to_string().into());
    match &row.forecast {
        Ok(forecast) => {
            cells.extend(
                [forecast.communication, forecast.exposed(), forecast.step].map(|time| seconds(time).into()),
            );
            cells.push(format!("{:.2}", forecast.speed_up).into());
        }
        Err(_) => cells.extend(["-"; 4].map(|text| TableCell::styled(FAINT, text))),
    }
    cells
}

/// Each reason once, in the order of the rows.
fn reasons<'a>(rows: &'a [Row<'_>]) -> Vec<&'a str> {
    let mut reasons: Vec<&str> = Vec::new();
    for NoModel(reason) in rows.iter().filter_map(|row| row.forecast.as_ref().err()) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    reasons
}

/// The predictions as JSON: times in seconds.
fn document(plan: &Plan, rows: &[Row<'_>], args: &PredictArgs) -> Value {
    let rows = rows.iter().map(|row| {
        let mut value = json!({
            "arm": plan.arms[row.cell.arm].name,
            "condition": row.cell.condition,
            "workers": row.cell.spec.cluster.workers(),
        });
        match &row.forecast {
            Ok(forecast) => {
                value["compute"] = forecast.compute.into();
                value["communication"] = forecast.communication.into();
                value["exposed"] = forecast.exposed().into();
                value["step"] = forecast.step.into();
                value["speed-up"] = forecast.speed_up.into();
            }
            Err(NoModel(reason)) => value["reason"] = reason.as_str().into(),
        }
        value
    });
    json!({
        "name": plan.name,
        "network": network_words(args),
        "computing": compute_words(args),
        "cells": rows.collect::<Vec<_>>(),
    })
}
