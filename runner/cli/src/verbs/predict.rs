//! `bakeoff predict`: what a step of each arm would take, by the models of the papers.

use crate::args::{RecipeArgs, TableFormat};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, STRONG, paint};
use crate::output::table::{Cell as TableCell, Sheet};
use crate::output::{self, human};
use crate::planning;
use crate::reuse::short;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use predict::network::{LinkRates, NamedNetwork};
use recipe::{Cell, Model, Plan, RunSpec};
use record::Nanos;
use reports::{Computing, Forecast, Measured, NoModel, PassTimes, Passes, forecast, measured};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use store::Store;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff predict recipe.toml      with the network and the times it emulates
  bakeoff predict recipe.toml --network 10gbe --compute 20ms
  bakeoff predict recipe.toml --network fdr --compute 20ms \\
    --set 'nodes.use=[\"local*16\"]' --sweep nodes.workers=2,4,8,16
  bakeoff predict recipe.toml --from 4F7K2Q9M      with what a run measured

Nothing is run. Networks are those of You, Buluc and Demmel, SC 2017, Table 2.
Below the table stand the equations of each arm. All-reduces cost what
MG-WFBP's Table II says, but a ring with chunks above 512 KiB passes parts of
them on before the rest has come; stars, hierarchies and servers, which are not
in the table, follow the same model of a link. Layers take time in proportion
to their arithmetic. Adding received vectors takes no time.

  sending    from when a message leaves until its reply is there, with what
             others do meanwhile: the update of servers, of a centre
  exposed    the part of the step in which a worker does not compute
  speed-up   beside one worker that computes as long per step and makes the
             whole update; servers that share the update can make it larger
             than the number of workers

--from takes what the recipe does not state from a run: how long a worker
computes, and, of a run with the schedule `merged` or `merged-exact`, what each
layer and each message took. Its messages fit arms with the same collective
best.";

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The network; without it the one that the recipe emulates.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(NamedNetwork::ALL.map(NamedNetwork::name)).try_map(named))]
    network: Option<NamedNetwork>,
    /// Compute time of a worker per step, as in `20ms`; without it the recipe's `compute.step-time`.
    #[arg(long, value_name = "TIME", value_parser = length)]
    compute: Option<Duration>,
    /// Take what the recipe does not state from this run: `last`, or the beginning or the end of its id.
    #[arg(long, value_name = "RUN")]
    from: Option<String>,
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

/// Prints a prediction for each cell; settings that are searched over share one.
pub(crate) fn execute(args: &PredictArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let plan = planning::plan_of_no_runs(&args.recipe, context.console)?;
    let source = args.from.as_deref().map(|run| super::wait(Source::of(run, context))).transpose()?;
    let request = Request { args, source };
    let mut rows = Vec::new();
    // A setting that is searched over changes no time.
    let mut seen = BTreeSet::new();
    let searched = plan.search.is_some();
    for (number, cell) in plan.cells.iter().enumerate().take(plan.number_of_points()) {
        let again = searched && !seen.insert((cell.arm, plan.compared_under(number)));
        if cell.excluded.is_some() || again {
            continue;
        }
        rows.push(Row { cell, forecast: request.forecast(cell)? });
    }
    match args.format {
        TableFormat::Table => output::data(&table(&plan, &rows, &request))?,
        TableFormat::Json => output::json(&document(&plan, &rows, &request))?,
    }
    Ok(Exit::Done)
}

/// A run whose measurements stand in for what the recipe does not state.
struct Source {
    /// The end of its id.
    name: String,
    spec: RunSpec,
    measured: Measured,
}

impl Source {
    async fn of(run: &str, context: &Context<'_>) -> Result<Self, Failure> {
        let store = Store::open_existing(&context.global.store).await?;
        let detail = store.show(run).await?;
        store.close().await;
        let name = short(&detail.line.id).to_owned();
        let spec = detail.line.spec.clone();
        let found = detail.run.attempt.as_ref().and_then(|attempt| measured(&spec, attempt));
        let measured = found.ok_or_else(|| {
            Failure::new(Exit::Empty, format!("run {name} has no steady steps, so it measured nothing"))
                .cure("take a run that is done: `bakeoff list` shows them")
        })?;
        Ok(Self { name, spec, measured })
    }

    /// The computing of a cell: forward and backward pass in proportion to the samples of a worker.
    fn computing(&self, spec: &RunSpec) -> Result<Computing, NoModel> {
        if !is_same_network(&spec.model, &self.spec.model) {
            return Err(NoModel(format!("run {} trained another model", self.name)));
        }
        let same = [
            (spec.threads.worker == self.spec.threads.worker, "its workers had another number of threads"),
            (spec.train.accumulate == self.spec.train.accumulate, "its batches had another number of pieces"),
        ];
        if let Some((_, reason)) = same.into_iter().find(|(same, _)| !same) {
            return Err(NoModel(format!("run {} tells no computing: {reason}", self.name)));
        }
        let batch =
            |spec: &RunSpec| f64::from(spec.train.global_batch) / f64::from(spec.cluster.workers().max(1));
        let name = &self.name;
        let Computing { step, passes } = self
            .measured
            .computing
            .clone()
            .map_err(|NoModel(reason)| NoModel(format!("run {name} tells no computing: {reason}")))?;
        let ratio = batch(spec) / batch(&self.spec);
        let Some(passes) = passes else { return Ok(Computing { step: step * ratio, passes }) };
        // The update is of the weights, however many samples there were.
        let passes = Passes { forward: passes.forward * ratio, backward: passes.backward * ratio, ..passes };
        let step = passes.forward + passes.backward + passes.update;
        Ok(Computing { step, passes: Some(passes) })
    }
}

/// Whether two models compute the same, whatever they begin with.
fn is_same_network(one: &Model, other: &Model) -> bool {
    match (one, other) {
        (Model::Layers(one), Model::Layers(other)) => one.input == other.input && one.layers == other.layers,
        (Model::Layers(_), Model::File(_)) | (Model::File(_), Model::Layers(_) | Model::File(_)) => {
            one == other
        }
    }
}

/// The arguments of a prediction, with the run that they name.
struct Request<'a> {
    args: &'a PredictArgs,
    source: Option<Source>,
}

impl Request<'_> {
    fn forecast(&self, cell: &Cell) -> Result<Result<Forecast, NoModel>, Failure> {
        let computing = match self.computing(cell)? {
            Ok(computing) => computing,
            Err(reason) => return Ok(Err(reason)),
        };
        Ok(forecast(&cell.spec, self.rates(cell)?, &computing))
    }

    /// Of the network that is named, that the recipe emulates, or that the run measured.
    fn rates(&self, cell: &Cell) -> Result<LinkRates, Failure> {
        if let Some(network) = self.args.network {
            return Ok(network.rates());
        }
        let usage =
            |reason: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {reason}", cell.label));
        if let Some(network) = cell.spec.emulation.network {
            let rates = LinkRates::new(network.latency.as_secs_f64(), 1.0 / network.bandwidth as f64, 0.0);
            return rates.map_err(|error| usage(&error));
        }
        match &self.source {
            Some(Source { measured: Measured { rates: Ok(rates), .. }, .. }) => Ok(*rates),
            Some(Source { name, measured: Measured { rates: Err(NoModel(reason)), .. }, .. }) => {
                Err(usage(&format_args!("no network is emulated, and run {name} does not tell: {reason}"))
                    .cure("name a network: `--network fdr`, `qdr` or `10gbe`"))
            }
            None => Err(usage(&"no network is emulated").cure(
                "name one: `--network fdr`, `qdr` or `10gbe`; or a run that measured its messages: `--from RUN`",
            )),
        }
    }

    /// As it is stated on the command line, in the recipe, or as the run measured it.
    fn computing(&self, cell: &Cell) -> Result<Result<Computing, NoModel>, Failure> {
        let recipe = cell.spec.emulation.compute.map(|compute| compute.step_time);
        if let Some(time) = self.args.compute.or(recipe) {
            let step = time.as_secs_f64();
            // How long is said, how it is divided need not be.
            let source = self.source.as_ref().filter(|_| recipe.is_none());
            let passes =
                source.and_then(|source| source.computing(&cell.spec).ok()).and_then(|own| own.passes);
            return Ok(Ok(Computing { step, passes }));
        }
        match &self.source {
            Some(source) => Ok(source.computing(&cell.spec)),
            None => Err(Failure::new(
                Exit::Usage,
                format!("{} states no time for the computing of a step", cell.label),
            )
            .cure("give it: `--compute 20ms`; or take it from a run: `--from RUN`")),
        }
    }

    /// Where the network is from, in words.
    fn network_words(&self) -> String {
        let rates_words = |rates: LinkRates| {
            format!("{:.1} µs and {:.3} ns per byte", rates.alpha() * 1e6, rates.beta() * 1e9)
        };
        if let Some(network) = self.args.network {
            return format!("{}: {} (SC17 Table 2)", network.words(), rates_words(network.rates()));
        }
        match &self.source {
            Some(Source { name, measured: Measured { rates: Ok(rates), .. }, .. }) => {
                format!("as the recipe emulates it; else as run {name} measured it: {}", rates_words(*rates))
            }
            Some(_) | None => "as the recipe emulates it".to_owned(),
        }
    }

    /// Where the computing time is from, in words.
    fn compute_words(&self) -> String {
        if let Some(time) = self.args.compute {
            let layers = self
                .source
                .as_ref()
                .map_or(String::new(), |source| format!(", divided as run {} measured it", source.name));
            return format!("{} per step of each worker (--compute){layers}", seconds(time.as_secs_f64()));
        }
        let Some(Source { name, spec, measured }) = &self.source else {
            return "as the recipe states it".to_owned();
        };
        let Ok(computing) = &measured.computing else { return "as the recipe states it".to_owned() };
        let layers = computing.passes.as_ref().is_some_and(|passes| !passes.layers.is_empty());
        format!(
            "as the recipe states it; else in proportion to run {name}: {} per step of each of {}{}",
            seconds(computing.step),
            human::count(spec.cluster.workers() as usize, "worker"),
            if layers { ", its layers as measured" } else { "" }
        )
    }
}

fn seconds(seconds: f64) -> String {
    match (seconds * 1e9).round() as u64 {
        0 => "none".to_owned(),
        nanos => human::time(Nanos(nanos)),
    }
}

/// The predictions in words and a table.
fn table(plan: &Plan, rows: &[Row<'_>], request: &Request<'_>) -> String {
    let mut out = format!("{}: predicted, not measured\n", paint(STRONG, &plan.name));
    let sources =
        [format!("network: {}", request.network_words()), format!("computing: {}", request.compute_words())];
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
    let known = reasons(rows);
    for row in rows.iter().take(MOST_ROWS) {
        sheet.row(cells(plan, row, conditions, &known));
    }
    out.push_str(&sheet.render(output::width()));
    let reasons = reasons(rows).into_iter().enumerate();
    let reasons = reasons.map(|(number, reason)| format!("[{}] {reason}", number + 1));
    let below = reasons.chain(equations(plan, rows)).chain(notes(rows).into_iter().map(str::to_owned));
    for line in below.flat_map(|words| output::fold(&words, output::width())) {
        out.push_str(&paint(FAINT, line));
        out.push('\n');
    }
    if rows.len() > MOST_ROWS {
        let rest = human::count(rows.len() - MOST_ROWS, "row");
        out.push_str(&paint(FAINT, format!("... and {rest} more; `--format json` lists them all\n")));
    }
    out
}

/// `reasons` are those below the table.
fn cells(plan: &Plan, row: &Row<'_>, conditions: bool, reasons: &[&str]) -> Vec<TableCell> {
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
            let digits = if forecast.speed_up < 0.1 { 4 } else { 2 };
            cells.push(format!("{:.digits$}", forecast.speed_up).into());
        }
        Err(NoModel(reason)) => {
            let number = reasons.iter().position(|known| known == reason);
            let number = number.map_or_else(|| "-".to_owned(), |number| format!("[{}]", number + 1));
            cells.extend(["-"; 3].map(|text| TableCell::styled(FAINT, text)));
            cells.push(TableCell::styled(FAINT, number));
        }
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

/// The arms that each set of equations predicts.
fn equations(plan: &Plan, rows: &[Row<'_>]) -> Vec<String> {
    let mut arms: Vec<(&str, Vec<&str>)> = Vec::new();
    for (row, forecast) in rows.iter().filter_map(|row| Some((row, row.forecast.as_ref().ok()?))) {
        let name = plan.arms[row.cell.arm].name.as_str();
        match arms.iter_mut().find(|(equation, _)| *equation == forecast.equation) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => arms.push((forecast.equation, vec![name])),
        }
    }
    arms.into_iter().map(|(equation, names)| format!("by {equation}: {}", names.join(", "))).collect()
}

/// Notes about costs that the predicted numbers leave out.
fn notes(rows: &[Row<'_>]) -> Vec<&'static str> {
    let gpus = |row: &Row<'_>| row.forecast.is_ok() && row.cell.spec.cluster.with_gpus().is_some();
    let copies = "The copies between a GPU and its host are in none of the equations.";
    rows.iter().any(gpus).then_some(copies).into_iter().collect()
}

/// The predictions as JSON: times in seconds.
fn document(plan: &Plan, rows: &[Row<'_>], request: &Request<'_>) -> Value {
    let cells = rows.iter().map(|row| {
        let mut value = json!({
            "arm": plan.arms[row.cell.arm].name,
            "condition": row.cell.condition,
            "workers": row.cell.spec.cluster.workers(),
        });
        match &row.forecast {
            Ok(forecast) => {
                let PassTimes { forward, backward, update } = forecast.passes;
                value["forward"] = forward.into();
                value["backward"] = backward.into();
                value["update"] = update.into();
                value["compute"] = forecast.compute().into();
                value["communication"] = forecast.communication.into();
                value["exposed"] = forecast.exposed().into();
                value["step"] = forecast.step.into();
                value["equation"] = forecast.equation.into();
                value["speed-up"] = forecast.speed_up.into();
            }
            Err(NoModel(reason)) => value["reason"] = reason.as_str().into(),
        }
        value
    });
    json!({
        "name": plan.name,
        "network": request.network_words(),
        "computing": request.compute_words(),
        "notes": notes(rows),
        "cells": cells.collect::<Vec<_>>(),
    })
}
