//! `[search]`: the cells of successive halving beside those that train to the end.

use crate::resolve::{lr_schedule, period, training};
use crate::spec::search::{Search, Trial, is_searched};
use crate::sweep::expand::Draft;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{AxisValue, Cell, Extent, Run, RunSpec};
use std::collections::BTreeMap;

const RUNGS: Defaulted<u64> = Defaulted::whole("search.rungs");
const FACTOR: Defaulted<u64> = Defaulted::whole("search.factor");

/// Whether the recipe has a `[search]`.
pub(crate) fn is_asked_for(settings: &Settings) -> bool {
    settings.given(RUNGS).or(settings.given(FACTOR)).is_some()
}

/// Condition under which a cell is compared, and the values that it tries there.
pub(crate) struct Divided {
    pub(crate) condition: String,
    setting: Vec<AxisValue>,
}

/// The condition of each draft without the values that are searched over: each arm has its own there.
pub(crate) fn divided(drafts: &[Draft]) -> Vec<Divided> {
    let divided = |draft: &Draft| {
        let setting: Vec<AxisValue> =
            draft.axes.iter().filter(|axis| is_searched(&axis.path)).cloned().collect();
        let mut condition = format!(" {} ", draft.condition);
        for axis in &setting {
            // Two axes with the same short name are labelled by their paths.
            for name in [axis.short(), &axis.path] {
                condition = condition.replacen(&format!(" {name}={} ", axis.text), " ", 1);
            }
        }
        Divided { condition: condition.trim().to_owned(), setting }
    };
    drafts.iter().map(divided).collect()
}

/// The search over `cells`, with the cells of its rungs added to them; `None` where it cannot be.
pub(crate) fn search(
    settings: &Settings,
    divided: Vec<Divided>,
    cells: &mut Vec<Cell>,
    findings: &mut Vec<Finding>,
) -> Option<Search> {
    let rungs = RUNGS.of(settings) as u32;
    let factor = FACTOR.of(settings) as u32;
    let trials = divided.into_iter().enumerate().filter(|(cell, _)| cells[*cell].excluded.is_none());
    let trials = trials.map(|(cell, Divided { condition, setting })| Trial {
        cell,
        rungs: Vec::new(),
        setting,
        condition,
    });
    let mut search = Search { rungs, factor, trials: trials.collect() };
    let wrong = refused(settings, &search, cells);
    if !wrong.is_empty() {
        findings.extend(wrong);
        return None;
    }
    findings.extend(crowded(settings, &search, cells));
    let parts = search.parts();
    for trial in &mut search.trials {
        for (rung, part) in (0..rungs).zip(&parts) {
            trial.rungs.push(cells.len());
            let cell = shortened(&cells[trial.cell], rung, *part);
            cells.push(cell);
        }
    }
    Some(search)
}

/// The cell of a rung, which trains for a part of the time. Milestones later than that do not happen; a cosine falls over the rung's length.
fn shortened(cell: &Cell, rung: u32, part: u64) -> Cell {
    let mut spec = cell.spec.clone();
    spec.train.length = part_of(spec.train.length, part);
    let in_rung = |words: &str| format!("{words} rung={}", rung + 1);
    Cell {
        condition: in_rung(&cell.condition),
        label: in_rung(&cell.label),
        config_hash: spec.config_hash(),
        spec,
        ..cell.clone()
    }
}

fn part_of(length: Extent, part: u64) -> Extent {
    match length {
        Extent::Epochs(epochs) => Extent::Epochs(epochs / part as f64),
        Extent::Steps(steps) => Extent::Steps(steps / part),
    }
}

/// Problems of settings that come too late for the shortest rung: it would choose by trainings without their effect.
pub(crate) fn too_late(recipe: &Settings, settings: &Settings, spec: &RunSpec) -> Vec<Finding> {
    if !is_asked_for(recipe) {
        return Vec::new();
    }
    let rungs = RUNGS.of(recipe) as u32;
    let factor = FACTOR.of(recipe);
    let part = factor.saturating_pow(rungs);
    let lengths: Vec<Extent> =
        (1..=rungs).rev().map(|before| part_of(spec.train.length, factor.saturating_pow(before))).collect();
    let unreached = lr_schedule::unreached(settings, &spec.train, &spec.dataset, &lengths);
    let mut short = spec.clone();
    short.train.length = part_of(short.train.length, part);
    let steps = training::steps(settings, &short);
    // Of the training to the end the same was found already.
    let whole = period::long_period(settings, &spec.strategy, training::steps(settings, spec));
    let period = period::long_period(settings, &spec.strategy, steps)
        .filter(|found| found.is_error() && whole.is_none());
    let warm_up = lr_schedule::long_warm_up(settings, &short.train, &short.dataset);
    let in_rung = |found: Finding| {
        found.note(format!("in the shortest rung of [search], which trains for 1/{part} of the length"))
    };
    period.into_iter().chain(warm_up).map(in_rung).chain(unreached).collect()
}

/// The runs of the rungs, one of each cell, the shortest first; their seed is that of no repeat, so that no run chooses what it judges.
pub(crate) fn runs(search: &Search, seeds: &[u64]) -> Vec<Run> {
    let first = seeds.first().copied().unwrap_or_default();
    let below = (1..=seeds.len() as u64 + 1).filter_map(|below| first.checked_sub(below));
    let above = (1..=seeds.len() as u64 + 1).map(|above| first.saturating_add(above));
    let seed = below.chain(above).find(|seed| !seeds.contains(seed)).unwrap_or(first);
    // The arms at one setting follow each other, as the cells do.
    let of_rung =
        |rung: u32| search.trials.iter().map(move |trial| Run { cell: trial.cell_in(rung), repeat: 0, seed });
    (0..search.rungs).flat_map(of_rung).collect()
}

/// Why no search can be made of the recipe.
fn refused(settings: &Settings, search: &Search, cells: &[Cell]) -> Vec<Finding> {
    let place = settings.span(RUNGS).or(settings.span(FACTOR));
    let wrong =
        |title: String, cure: String| Finding::new("R185", title).at_option(place, "this search").cure(cure);
    let specs = || search.trials.iter().map(|trial| &cells[trial.cell].spec);
    if search.trials.iter().all(|trial| trial.setting.is_empty()) {
        return vec![wrong(
            "nothing is searched over".to_owned(),
            "add an axis such as `train.optimizer.lr = [0.05, 0.1, 0.2]` to [sweep.axes], or draws to [[sweep.random]]; axes under \
             `train.optimizer` and `train.lr-schedule` are searched over"
                .to_owned(),
        )];
    }
    let mut found = Vec::new();
    let fewest = fewest(search, cells);
    let most = (1..=search.rungs)
        .rev()
        .find(|rungs| leaves_a_choice(&Search { rungs: *rungs, ..search.clone() }, fewest));
    if most != Some(search.rungs) {
        let kept = Search { trials: Vec::new(), ..search.clone() }.sizes(fewest);
        let words: Vec<String> = kept.iter().map(usize::to_string).collect();
        found.push(wrong(
            match fewest {
                1 => "an arm has one setting under a condition, and nothing to choose from".to_owned(),
                _ => format!(
                    "{fewest} settings leave nothing to choose from in the last of {} rungs: {}",
                    search.rungs,
                    words.join(", ")
                ),
            },
            most.map_or_else(
                || "give each arm two settings or more under each condition".to_owned(),
                |most| match search.factor {
                    2 => format!("take `rungs = {most}`, or more settings"),
                    _ => format!("take `rungs = {most}`, a smaller `factor`, or more settings"),
                },
            ),
        ));
    }
    if specs().any(|spec| spec.dataset.validation <= 0.0) {
        found.push(wrong(
            "settings are chosen on samples that are held out, and none are".to_owned(),
            "hold some out: `validation = \"10%\"` in [dataset]".to_owned(),
        ));
    }
    if specs().any(|spec| spec.train.target.is_some_and(|target| target.stop)) {
        found.push(wrong(
            "runs that stop at the target all end alike, so that none is the best".to_owned(),
            "let them go on: `stop = false` in [train.target]".to_owned(),
        ));
    }
    let part = u64::from(search.factor).saturating_pow(search.rungs);
    let least = |spec: &RunSpec| {
        let samples = spec.dataset.source.training_samples()? - spec.dataset.held_out()?;
        let batch = spec.train.global_batch.max(1);
        Some(part_of(spec.train.length, part).samples(samples, batch) / u64::from(batch))
    };
    if specs().filter_map(least).min() == Some(0) {
        found.push(wrong(
            format!("the shortest of its trainings, 1/{part} of the length, has no step"),
            "train longer, or take fewer rungs or a smaller factor".to_owned(),
        ));
    }
    found
}

/// A last rung that leaves one of many by a single run of each.
fn crowded(settings: &Settings, search: &Search, cells: &[Cell]) -> Option<Finding> {
    let sizes = search.sizes(fewest(search, cells));
    let last = *sizes.get(search.rungs as usize - 1)?;
    let rungs = (search.rungs..8).find(|rungs| {
        let sizes = Search { rungs: *rungs, ..search.clone() }.sizes(sizes[0]);
        sizes[*rungs as usize - 1] <= search.factor as usize
    });
    (last > search.factor as usize).then(|| {
        let words: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let found = Finding::new(
            "R214",
            format!("the last rung chooses one of {last} settings by one short training of each"),
        )
        .at_option(settings.span(RUNGS).or(settings.span(FACTOR)), words.join(", "));
        match rungs {
            Some(rungs) => found.cure(format!("take `rungs = {rungs}`, or fewer settings")),
            None => found.cure("take a larger `factor`, or fewer settings"),
        }
    })
}

/// The least number of settings that an arm has under a condition.
fn fewest(search: &Search, cells: &[Cell]) -> usize {
    let mut numbers: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for trial in &search.trials {
        *numbers.entry((cells[trial.cell].arm, trial.condition.as_str())).or_default() += 1;
    }
    numbers.into_values().min().unwrap_or(0)
}

fn leaves_a_choice(search: &Search, settings: usize) -> bool {
    let sizes = search.sizes(settings);
    sizes.get(search.rungs as usize - 1).is_some_and(|last| *last > 1)
}
