//! Specifications of all cells, and their problems: each said once, with the number of runs that it affects.

use crate::files::Files;
use crate::resolve::emulation;
use crate::resolve::inventory::Known;
use crate::resolve::resolver::Resolver;
use crate::resolve::shared_keys::{DATASET_KIND, DATASET_PATH, THREADS, USED_NODES, WORKERS};
use crate::spec::dataset::usual_path;
use crate::spec::problem::Affected;
use crate::spec::threads::{Load, Ranks};
use crate::sweep::axes::Dimension;
use crate::sweep::expand::Draft;
use crate::sweep::halving;
use crate::sweep::recipe::Recipe;
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use crate::values::slow::{SlowSetting, Whose};
use crate::values::value;
use crate::{Cell, Cluster, Role, RunSpec, Threads};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Identity of a finding: code, title and place. Equal ones are kept once, with the list of their cells.
type Sameness = (&'static str, Box<str>, Option<Span>);

pub(crate) struct CellBuilder<'a> {
    recipe: &'a Recipe,
    files: &'a dyn Files,
    machine: Known<'a>,
    resolver: Resolver<'a>,
    collected: BTreeMap<Sameness, (Finding, Vec<usize>)>,
    /// Which folders there are: thousands of cells share a few.
    folders: BTreeMap<PathBuf, bool>,
    /// Of each entry of `nodes.slow` that means servers, the cells, as long as none of them has any.
    servers: BTreeMap<Span, (SlowSetting, Option<Vec<usize>>)>,
}

impl<'a> CellBuilder<'a> {
    pub(crate) fn new(recipe: &'a Recipe, files: &'a dyn Files, machine: Known<'a>) -> Self {
        let resolver = Resolver::new(machine, &recipe.sections);
        Self {
            recipe,
            files,
            machine,
            resolver,
            collected: BTreeMap::new(),
            folders: BTreeMap::new(),
            servers: BTreeMap::new(),
        }
    }

    /// The cells of all drafts; nothing is said about those that are excluded.
    pub(crate) fn build(&mut self, drafts: Vec<Draft>) -> Vec<Cell> {
        let mut resolve = |mut draft: Draft| {
            place_data(&mut draft.settings, self.files);
            let (spec, findings) = self.resolver.resolve(draft.kind, &draft.settings);
            (draft, spec, findings)
        };
        let resolved: Vec<_> = drafts.into_iter().map(&mut resolve).collect();
        let largest = largest(resolved.iter().map(|(draft, spec, _)| (draft, spec)));
        let mut cells = Vec::with_capacity(resolved.len());
        for (index, (draft, mut spec, mut findings)) in resolved.into_iter().enumerate() {
            spec.threads = self.threads(&largest, &draft, &spec);
            let kept = draft.excluded.is_none().then_some(index);
            self.note_servers(&spec, &draft.settings, kept);
            if kept.is_some() {
                findings.extend(self.busy(&spec, &draft.settings));
                findings.extend(halving::too_late(&self.recipe.settings, &draft.settings, &spec));
                findings.extend(self.missing_data(&spec, &draft.settings));
                for finding in findings {
                    self.collect(finding, index);
                }
            }
            let Draft { arm, condition, label, axes, excluded, .. } = draft;
            let config_hash = spec.config_hash();
            cells.push(Cell { arm, condition, label, axes, spec, config_hash, excluded });
        }
        self.duplicates(&cells);
        self.serverless();
        cells
    }

    /// Findings of the cells, each with the runs that it touches where these are not all.
    pub(crate) fn findings(self, cells: &[Cell], repeats: u64) -> Vec<Finding> {
        let total = cells.iter().filter(|cell| cell.excluded.is_none()).count();
        let affected = |(mut finding, touched): (Finding, Vec<usize>)| {
            if touched.len() < total {
                let runs = touched.len() as u64 * repeats;
                let of = total as u64 * repeats;
                finding = finding.affecting(Affected { runs, of, because: shared(cells, &touched) });
            }
            finding
        };
        self.collected.into_values().map(affected).collect()
    }

    fn collect(&mut self, finding: Finding, cell: usize) {
        let key = (finding.code, finding.title.clone(), finding.spans.first().map(|(span, _)| *span));
        self.collected.entry(key).or_insert_with(|| (finding, Vec::new())).1.push(cell);
    }

    /// Threads that the largest run of the cell's condition leaves to each process of any of its runs.
    fn threads(&self, largest: &BTreeMap<String, Cluster>, draft: &Draft, spec: &RunSpec) -> Threads {
        let cluster = largest.get(&draft.condition).unwrap_or(&spec.cluster);
        let given = THREADS.of(&draft.settings).map(|threads| threads as u32);
        let stops = spec.train.target.is_some_and(|target| target.stop);
        if self.machine.machines.are_queued_for() {
            return Threads::of_job(cluster, stops, given);
        }
        Threads::of_cluster(cluster, self.machine.cores, stops, given)
    }

    /// More busy threads than cores: their times would measure the operating system's scheduler.
    fn busy(&self, spec: &RunSpec, settings: &Settings) -> Option<Finding> {
        if self.machine.machines.are_queued_for() {
            // A job asks for a core for each thread.
            return None;
        }
        let threads = spec.threads.worker;
        let loads = Load::of_nodes(&spec.cluster, self.machine.cores);
        let busiest = loads.iter().find(|load| load.ranks.workers.saturating_mul(threads) > load.cores)?;
        let workers = busiest.ranks.workers;
        let cores = busiest.cores;
        spec.emulation.compute.is_none().then(|| {
            let (who, cure) = match threads {
                1 => (format!("{workers} workers share"), "take as many workers as cores"),
                _ => (
                    format!("{workers} workers of {threads} threads share"),
                    "take no more threads than cores altogether",
                ),
            };
            let many = settings.span(THREADS).filter(|_| threads > 1);
            Finding::new("R201", format!("{who} {cores} cores: their times say little"))
                .at_option(
                    many.or(settings.span(WORKERS)).or(settings.span(USED_NODES)),
                    "more than the cores",
                )
                .note("each waits for a core while it could compute, and the waiting is measured as its own")
                .cure(format!(
                    "{cure}, say how long a step takes with `[compute]`, or use the results for accuracy only"
                ))
        })
    }

    /// Remembers which entries of `nodes.slow` mean servers, and whether a cell has any: one that is excluded will do,
    /// for a part of a recipe is as right as the whole.
    fn note_servers(&mut self, spec: &RunSpec, settings: &Settings, kept: Option<usize>) {
        let some = spec.cluster.placements.iter().any(|placement| placement.role == Role::Server);
        for slow in emulation::slow(settings).iter().filter(|slow| slow.whose == Whose::Servers) {
            let (_, cells) =
                self.servers.entry(slow.span).or_insert_with(|| (slow.clone(), Some(Vec::new())));
            match cells {
                Some(cells) if !some => cells.extend(kept),
                _ => *cells = None,
            }
        }
    }

    fn serverless(&mut self) {
        for (slow, cells) in std::mem::take(&mut self.servers).into_values() {
            for cell in cells.into_iter().flatten() {
                self.collect(emulation::no_servers(&slow), cell);
            }
        }
    }

    fn missing_data(&mut self, spec: &RunSpec, settings: &Settings) -> Option<Finding> {
        let source = &spec.dataset.source;
        let path = source.path()?;
        let files = self.files;
        // A source that cannot be fetched was looked at when the cell was resolved.
        let command = source.fetch_command(&files.data_folder())?;
        let exists = *self.folders.entry(path.to_owned()).or_insert_with(|| files.exists(path));
        (!exists).then(|| {
            Finding::new("R203", format!("there is no data at {}", path.display()))
                .at_option(settings.span(DATASET_PATH).or(settings.span(DATASET_KIND)), "this folder")
                .note(value::more(DATASET_PATH.key().path))
                .cure(format!("{command}, or name the files' folder: `path = \"FOLDER\"` in [dataset]"))
        })
    }

    fn duplicates(&mut self, cells: &[Cell]) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        // A setting that is refused leaves a stand-in behind, which may well be another cell's value.
        let errors = self.collected.values().filter(|(finding, _)| finding.is_error());
        let impossible: BTreeSet<usize> = errors.flat_map(|(_, cells)| cells.iter().copied()).collect();
        let possible =
            |(index, cell): &(usize, &Cell)| cell.excluded.is_none() && !impossible.contains(index);
        for (index, cell) in cells.iter().enumerate().filter(possible) {
            match seen.get(cell.config_hash.as_str()) {
                None => {
                    seen.insert(&cell.config_hash, index);
                }
                Some(first) => {
                    let finding = self.duplicate(cell, &cells[*first]);
                    self.collect(finding, index);
                }
            }
        }
    }

    /// Two cells with one label: an axis has no value twice, an inclusion may repeat one.
    fn included_again(&self, cell: &Cell) -> Finding {
        let same = |include: &&Dimension| {
            let mut values =
                include.axes.iter().filter_map(|axis| Some((&axis.path, &axis.points.first()?.text)));
            values.all(|(path, text)| cell.axes.iter().any(|own| own.path == *path && own.text == *text))
        };
        let span = self
            .recipe
            .includes
            .iter()
            .rfind(same)
            .and_then(|include| include.axes.first())
            .map(|axis| axis.span);
        Finding::new("R104", format!("the condition `{}` is there twice", cell.condition))
            .at_option(span, "a value that the axes have, or another inclusion")
            .cure("drop this [[sweep.include]]: equal settings give equal numbers, and are run once")
    }

    fn duplicate(&self, cell: &Cell, first: &Cell) -> Finding {
        if cell.label == first.label {
            return self.included_again(cell);
        }
        let mut axes = self.recipe.dimensions.iter().flat_map(|dimension| &dimension.axes);
        let differing = cell.axes.iter().find(|value| !first.axes.contains(value));
        let axis = differing.and_then(|value| axes.find(|axis| axis.path == value.path));
        let strategies = self.recipe.sections.get("strategy").copied();
        // Said once for all conditions, or all arms, that it is true of.
        let (one, other) = if first.condition == cell.condition {
            (arm(first), arm(cell))
        } else if first.arm == cell.arm {
            (first.condition.as_str(), cell.condition.as_str())
        } else {
            (first.label.as_str(), cell.label.as_str())
        };
        Finding::new("R104", format!("`{one}` and `{other}` are the same runs"))
            .at_option(axis.map(|axis| axis.span).or(strategies), "makes no difference")
            .cure("drop one of them: equal settings give equal numbers, and are run once")
    }
}

/// The run with the most ranks of each condition, which decides for all of its arms: one that is excluded, too, so that a
/// run stays the same when others come or go.
fn largest<'a>(cells: impl Iterator<Item = (&'a Draft, &'a RunSpec)>) -> BTreeMap<String, Cluster> {
    let mut largest: BTreeMap<String, Cluster> = BTreeMap::new();
    for (draft, spec) in cells {
        let most = largest.entry(draft.condition.clone()).or_insert_with(|| spec.cluster.clone());
        if Ranks::of(&spec.cluster).all() > Ranks::of(most).all() {
            *most = spec.cluster.clone();
        }
    }
    largest
}

/// Says where the data set lies, if the recipe does not.
pub(crate) fn place_data(settings: &mut Settings, files: &dyn Files) {
    if settings.given(DATASET_PATH).is_none()
        && let Some(path) = usual_path(DATASET_KIND.of(settings), &files.data_folder())
    {
        settings.put(DATASET_PATH, Leaf::path(path));
    }
}

/// The name of a cell's arm.
fn arm(cell: &Cell) -> &str {
    cell.label.strip_suffix(cell.condition.as_str()).unwrap_or(&cell.label).trim_end()
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
