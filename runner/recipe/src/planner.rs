//! A recipe's file to a [`Plan`], or to everything that is wrong with it.

use crate::assign;
use crate::expand::{self, Draft, Expansion};
use crate::expanded;
use crate::expression::Expression;
use crate::files::{Files, Machine};
use crate::key::{KeyId, id};
use crate::load::Loader;
use crate::problem::{Affected, Finding, Problems, report};
use crate::recipe::{self, Exclusion, Recipe};
use crate::resolve::Resolver;
use crate::runs;
use crate::setting::Settings;
use crate::source::Span;
use crate::{Cell, Limits, Plan, ReportSettings, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// What to plan.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The recipe's file.
    pub path: &'a Path,
    /// `key=value` of each `--set`.
    pub overrides: &'a [String],
    /// `key=a,b` of each `--sweep`.
    pub sweeps: &'a [String],
    /// The condition of `--only`: other cells are excluded.
    pub only: Option<&'a str>,
    /// `--repeats`: replaces `repeats.count`.
    pub repeats: Option<u32>,
}

impl<'a> Request<'a> {
    /// A recipe as it is.
    pub fn new(path: &'a Path) -> Self {
        Self { path, overrides: &[], sweeps: &[], only: None, repeats: None }
    }
}

/// Reads, checks and expands a recipe.
///
/// # Errors
/// All problems at once, warnings included, where at least one is an error.
pub fn plan(files: &dyn Files, request: &Request<'_>, machine: &Machine) -> Result<Plan, Problems> {
    let mut loader = Loader::new(files);
    let plan = build(&mut loader, request, machine);
    let Loader { sources, findings, .. } = loader;
    let failed = findings.iter().any(Finding::is_error);
    let list = report(findings, &sources);
    match plan {
        Some(plan) if !failed => Ok(Plan { warnings: list, ..plan }),
        _ => Err(Problems { list }),
    }
}

fn build(loader: &mut Loader<'_>, request: &Request<'_>, machine: &Machine) -> Option<Plan> {
    let (source, mut table) = loader.recipe(request.path)?;
    for argument in request.overrides {
        loader.set(&mut table, argument);
    }
    if let Some(count) = request.repeats {
        loader.set(&mut table, &format!("repeats.count={count}"));
    }
    for argument in request.sweeps {
        loader.sweep(&mut table, argument);
    }
    let mut recipe = recipe::read(loader, &table);
    if let Some(only) = request.only {
        recipe.exclusions.extend(select(only, &mut loader.findings));
    }
    let seeds = runs::seeds(&recipe.settings, &mut loader.findings);
    if recipe.broken {
        return None;
    }
    let expansion = expand::expand(&recipe, machine, &mut loader.findings)?;
    let (arms, cells) = cells(&recipe, expansion, machine, (&mut loader.findings, seeds.len() as u64));
    warn_missing_data(loader, &cells);
    Some(Plan {
        name: name(&recipe.settings, request.path),
        question: recipe.settings.text(id("question")).to_owned(),
        source,
        expanded: expanded::write(&recipe, &name(&recipe.settings, request.path), machine),
        runs: runs::order(&recipe.settings, &cells, &seeds),
        arms,
        cells,
        limits: limits(&recipe.settings),
        report: report_settings(&recipe.settings),
        warnings: Vec::new(),
    })
}

fn select(only: &str, findings: &mut Vec<Finding>) -> Option<Exclusion> {
    match Expression::read(only) {
        Ok(expression) => Some(Exclusion {
            when: Expression::Not(Box::new(expression)),
            text: format!("not ({only})"),
            reason: format!("not selected by --only {only}"),
            span: None,
        }),
        Err(misread) => {
            findings.push(
                Finding::new("R040", format!("`--only` is no condition: {}", misread.reason))
                    .suggest(misread.suggestion.as_deref())
                    .note("more: bakeoff explain sweep.exclude.when"),
            );
            None
        }
    }
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
        run_timeout: settings.duration(id("limits.run-timeout")),
        retries: settings.whole(id("limits.retries")).unwrap_or(0) as u32,
        max_runs: settings.whole(id("limits.max-runs")).unwrap_or(0) as u32,
    }
}

fn report_settings(settings: &Settings) -> ReportSettings {
    ReportSettings {
        min_effect: settings.number(id("report.min-effect")).unwrap_or(0.0),
        confidence: settings.number(id("report.confidence")).unwrap_or(0.0),
        redact: settings.list(id("report.redact")).to_vec(),
    }
}

/// Findings about cells: the same one, wherever it is found, is reported once.
type Collected = BTreeMap<(&'static str, String, Option<Span>), (Finding, Vec<usize>)>;

fn cells(
    recipe: &Recipe,
    expansion: Expansion,
    machine: &Machine,
    (findings, repeats): (&mut Vec<Finding>, u64),
) -> (Vec<crate::Arm>, Vec<Cell>) {
    let mut resolver = Resolver::new(machine, &recipe.sections);
    let mut collected = Collected::new();
    let mut cells = Vec::with_capacity(expansion.drafts.len());
    for (index, draft) in expansion.drafts.into_iter().enumerate() {
        let (spec, mut problems) = resolver.resolve(&draft.settings);
        problems.extend(busy(&spec.cluster, machine, &draft.settings));
        if draft.excluded.is_none() {
            for finding in problems {
                let key = (finding.code, finding.title.clone(), finding.spans.first().map(|(span, _)| *span));
                collected.entry(key).or_insert_with(|| (finding, Vec::new())).1.push(index);
            }
        }
        let Draft { arm, condition, label, axes, excluded, .. } = draft;
        let config_hash = spec.config_hash();
        cells.push(Cell { arm, condition, label, axes, spec, config_hash, excluded });
    }
    duplicates(recipe, &cells, &mut collected);
    let total = cells.iter().filter(|cell| cell.excluded.is_none()).count();
    for (mut finding, touched) in collected.into_values() {
        if touched.len() < total {
            let (runs, of) = (touched.len() as u64 * repeats, total as u64 * repeats);
            finding.affected = Some(Affected { runs, of, because: shared(&cells, &touched) });
        }
        findings.push(finding);
    }
    (expansion.arms, cells)
}

/// The axis values that some cells share and others have not: `nodes.workers = 8`.
fn shared(cells: &[Cell], touched: &[usize]) -> String {
    let Some(first) = touched.first() else { return String::new() };
    let values = cells[*first].axes.iter().filter(|value| {
        let same = |cell: &Cell| cell.axes.contains(value);
        touched.iter().all(|index| same(&cells[*index])) && !cells.iter().all(same)
    });
    let words: Vec<String> = values.map(|value| format!("{} = {}", value.path, value.text)).collect();
    words.join(", ")
}

fn duplicates(recipe: &Recipe, cells: &[Cell], collected: &mut Collected) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none()) {
        let Some(first) = seen.get(cell.config_hash.as_str()) else {
            seen.insert(&cell.config_hash, index);
            continue;
        };
        let other = &cells[*first];
        let key = ("R104", other.label.clone(), None);
        let entry = collected.entry(key).or_insert_with(|| {
            let title = format!("`{}` and `{}` are the same runs", other.label, cell.label);
            let axis = (cell.axes.iter()).find(|value| !other.axes.contains(value)).and_then(|value| {
                recipe.dimensions.iter().flat_map(|one| &one.axes).find(|axis| axis.path == value.path)
            });
            let strategy = recipe.sections.get("strategy").copied();
            let finding = Finding::new("R104", title)
                .at_option(axis.map(|axis| axis.span).or(strategy), "makes no difference")
                .cure("drop one of them: equal settings give equal numbers, and are run once");
            (finding, Vec::new())
        });
        entry.1.push(index);
    }
}

/// More busy ranks than cores on a node: their times would measure the scheduler.
fn busy(cluster: &crate::Cluster, machine: &Machine, settings: &Settings) -> Option<Finding> {
    let workers = cluster.workers();
    (workers > machine.cores).then(|| {
        Finding::new(
            "R201",
            format!("{workers} workers share {} cores: their times say little", machine.cores),
        )
        .at_option(settings.span(assign::WORKERS).or(settings.span(assign::USE)), "more than the cores")
        .note("each waits for a core while it could compute, and the waiting is measured as its own")
        .cure("take as many workers as cores, or use the results for accuracy only")
    })
}

const DATASET_PATH: KeyId = id("dataset.path");

fn warn_missing_data(loader: &mut Loader<'_>, cells: &[Cell]) {
    let mut missing: Vec<&Path> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.excluded.is_none()) {
        let (Source::Mnist { path } | Source::Cifar10 { path } | Source::Cifar100 { path }) =
            &cell.spec.dataset.source
        else {
            continue;
        };
        let known = missing.contains(&path.as_path());
        if !known && !path.as_os_str().is_empty() && !loader.files.exists(path) {
            missing.push(path);
        }
    }
    for path in missing {
        loader.findings.push(
            Finding::new("R203", format!("there is no data at {}", path.display()))
                .note(crate::setting::more(DATASET_PATH.key().path))
                .cure("put the data set's files there, or name their folder: --set dataset.path=FOLDER"),
        );
    }
}
