//! A recipe's file to a [`Plan`], or to everything that is wrong with it.

use crate::Redaction;
use crate::files::{Files, Machine};
use crate::keys::lookup::id;
use crate::query::condition::{self, Condition};
use crate::repeat_count::RepeatCount;
use crate::resolve::assign;
use crate::resolve::inventory::{Known, Machines};
use crate::resolve::prices;
use crate::spec::family::Family;
use crate::spec::problem::Problems;
use crate::sweep::anyway;
use crate::sweep::cells::CellBuilder;
use crate::sweep::described;
use crate::sweep::expand;
use crate::sweep::expanded;
use crate::sweep::halving;
use crate::sweep::key_values;
use crate::sweep::recipe::{self, Exclusion, Recipe};
use crate::sweep::runs::{self, Points};
use crate::text::finding::{Finding, report};
use crate::text::load::Loader;
use crate::text::turning;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Cell, Limits, Plan, Prices, ReportSettings};
use std::path::Path;
use std::time::Duration;

const RUN_TIMEOUT: Optional<Duration> = Optional::duration("limits.run-timeout");
const RETRIES: Defaulted<u64> = Defaulted::whole("limits.retries");
const MAX_RUNS: Defaulted<u64> = Defaulted::whole("limits.max-runs");
const MIN_EFFECT: Defaulted<f64> = Defaulted::number("report.min-effect");
const MIN_QUALITY: Defaulted<f64> = Defaulted::number("report.min-quality");
const CONFIDENCE: Defaulted<f64> = Defaulted::number("report.confidence");

/// A recipe's file, with the command line's changes to it.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The recipe's file.
    pub path: &'a Path,
    /// `key=value` of each `--set`.
    pub overrides: &'a [String],
    /// `key=a,b` of each `--sweep`.
    pub sweeps: &'a [String],
    /// The condition of `--only`: other cells are excluded.
    pub only: Option<&'a str>,
    /// `--repeats`: replaces `repeats.count` and `repeats.at-most`.
    pub repeats: Option<RepeatCount>,
}

impl<'a> PlanRequest<'a> {
    /// A recipe as it is.
    pub fn new(path: &'a Path) -> Self {
        Self { path, overrides: &[], sweeps: &[], only: None, repeats: None }
    }
}

/// Reads, checks and expands a recipe.
///
/// # Errors
/// All problems at once, warnings included, where at least one is an error.
pub fn plan(files: &dyn Files, request: &PlanRequest<'_>, machine: &Machine) -> Result<Plan, Problems> {
    let mut loader = Loader::new(files);
    let machines = Machines::new(files, machine);
    let known = Known { cores: machine.cores, machines: &machines, files };
    let plan = build(&mut loader, request, known);
    let Loader { sources, findings, .. } = loader;
    let failed = findings.iter().any(Finding::is_error);
    let list = report(findings, &sources);
    match plan {
        Some(plan) if !failed => Ok(Plan { warnings: list, ..plan }),
        _ => Err(Problems { list }),
    }
}

fn build(loader: &mut Loader<'_>, request: &PlanRequest<'_>, machine: Known<'_>) -> Option<Plan> {
    let (source, mut table) = loader.recipe(request.path)?;
    for argument in request.overrides {
        loader.set(&mut table, argument);
    }
    if let Some(repeats) = request.repeats {
        loader.repeats(&mut table, repeats);
    }
    for argument in request.sweeps {
        loader.sweep(&mut table, argument);
    }
    let mut recipe = recipe::read(loader, &table);
    turning::refuse_file(request.path, &mut loader.findings);
    if let Some(only) = request.only {
        let exclusion = select(loader, only, &recipe);
        recipe.exclusions.extend(exclusion);
    }
    let seeds = runs::seeds(&recipe.settings, &mut loader.findings);
    let looks = runs::looks(&recipe.settings, &mut loader.findings);
    if recipe.broken {
        let files = loader.files;
        loader.findings.extend(anyway::findings(&mut recipe, files, machine));
        return None;
    }
    let expansion = expand::expand(&recipe, machine, &mut loader.findings)?;
    if !looks.is_empty() && expansion.arms.len() == 1 {
        loader.findings.push(runs::nothing_to_decide(&recipe.settings));
    }
    let drafts = expansion.drafts;
    let divided = halving::is_asked_for(&recipe.settings).then(|| halving::divided(&drafts));
    let mut builder = CellBuilder::new(&recipe, loader.files, machine);
    let mut values = key_values::of(&drafts);
    let mut cells = builder.build(drafts);
    // A key that is written wrong decides nothing, and what it should have told apart looks like the same runs.
    let is_misspelt = loader.findings.iter().any(|finding| finding.code == "R012");
    let found = builder.findings(&cells, seeds.len() as u64).into_iter();
    loader.findings.extend(described::findings(&recipe, &cells));
    loader.findings.extend(found.filter(|finding| !is_misspelt || finding.code != "R104"));
    let compared: Vec<&str> = match &divided {
        Some(divided) => divided.iter().map(|own| own.condition.as_str()).collect(),
        None => cells.iter().map(|cell| cell.condition.as_str()).collect(),
    };
    let to_the_end =
        runs::order(&recipe.settings, &Points { cells: &cells, compared: &compared }, &seeds, &looks);
    let search = divided
        .and_then(|divided| halving::search(&recipe.settings, divided, &mut cells, &mut loader.findings));
    if let Some(search) = &search {
        let of_rungs = key_values::of_rungs(search, &cells, &values);
        values.extend(of_rungs);
    }
    let rungs = search.as_ref().map(|search| halving::runs(search, &seeds));
    let prices = prices::of(&recipe.settings, &cells, machine, &mut loader.findings);
    Some(Plan {
        name: name(&recipe.settings, request.path),
        question: recipe.settings.text(id("question")).to_owned(),
        source,
        expanded: expanded::write(
            &recipe,
            &name(&recipe.settings, request.path),
            &expanded::PlannedOn { files: loader.files, machine, threads: same_threads(&cells) },
        ),
        runs: rungs.into_iter().flatten().chain(to_the_end).collect(),
        looks,
        search,
        arms: expansion.arms,
        cells,
        values,
        limits: limits(&recipe.settings),
        hosts: assign::hosts(&recipe.settings),
        report: ReportSettings { prices, ..report_settings(&recipe.settings) },
        warnings: Vec::new(),
    })
}

/// `--only`: what does not meet the condition is excluded.
fn select(loader: &mut Loader<'_>, only: &str, recipe: &Recipe) -> Option<Exclusion> {
    let start = loader.argument("--only", only);
    turning::refuse_text(only, start, &mut loader.findings);
    let strategies: Vec<&str> = recipe.strategies.iter().map(|strategy| strategy.name.as_str()).collect();
    match Condition::read(only, &strategies) {
        Ok(condition) => Some(Exclusion {
            when: Condition::Not(Box::new(condition)),
            text: format!("not ({only})"),
            reason: format!("not selected by --only {only}"),
            span: None,
        }),
        Err(misread) => {
            loader.findings.push(condition::finding(misread, Some(start)));
            None
        }
    }
}

/// The threads of a worker, where they are the same in all cells.
fn same_threads(cells: &[Cell]) -> Option<u32> {
    let first = cells.first()?.spec.threads.worker;
    cells.iter().all(|cell| cell.spec.threads.worker == first).then_some(first)
}

fn name(settings: &Settings, path: &Path) -> String {
    let name = settings.text(id("name"));
    if name.trim().is_empty() {
        path.file_stem().map_or_else(|| "recipe".to_owned(), |stem| stem.to_string_lossy().into_owned())
    } else {
        name.to_owned()
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        run_timeout: RUN_TIMEOUT.of(settings),
        retries: RETRIES.of(settings) as u32,
        max_runs: MAX_RUNS.of(settings) as u32,
    }
}

fn report_settings(settings: &Settings) -> ReportSettings {
    let redact = settings.list(id("report.redact")).iter().filter_map(|name| Redaction::named(name));
    ReportSettings {
        min_effect: MIN_EFFECT.of(settings),
        min_quality: MIN_QUALITY.of(settings),
        confidence: CONFIDENCE.of(settings),
        redact: redact.collect(),
        prices: Prices::default(),
    }
}
