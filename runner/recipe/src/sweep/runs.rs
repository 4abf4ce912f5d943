//! Seeds of the repeats, when they are looked at, and the order in which runs are started.

use crate::keys::lookup::{KeyId, id};
use crate::text::finding::Finding;
use crate::values::leaf::{Seeds, Typed};
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Cell, Run, RunOrder};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ops::Range;

const COUNT: Defaulted<u64> = Defaulted::whole("repeats.count");
const AT_MOST: Optional<u64> = Optional::whole("repeats.at-most");
const SEEDS: KeyId = id("repeats.seeds");
const ORDER: Defaulted<RunOrder> = Defaulted::choice("repeats.order");

/// After which numbers of repeats a sweep that runs until it is decided is looked at; empty where the number is fixed.
pub(crate) fn looks(settings: &Settings, findings: &mut Vec<Finding>) -> Vec<u32> {
    let count = COUNT.of(settings);
    let Some(most) = AT_MOST.of(settings) else { return Vec::new() };
    if most <= count {
        findings.push(
            Finding::new("R199", format!("at most {most} repeats leave nothing to add to {count}"))
                .at_option(settings.span(AT_MOST), "no more than `repeats.count`")
                .at_option(settings.span(COUNT), format!("{count} repeats at first"))
                .cure(format!(
                    "raise it, to {} for example, or leave it out for a fixed number of repeats",
                    8 * count
                )),
        );
        return Vec::new();
    }
    if count == 1 {
        findings.push(
            Finding::new("R199", "one repeat of each cell decides nothing")
                .at_option(settings.span(COUNT).or(settings.span(AT_MOST)), "looked at first")
                .cure("begin with `repeats.count = 3`"),
        );
        return Vec::new();
    }
    // Each look costs a part of the level: one just before the last is not worth it.
    let doubled = std::iter::successors(Some(count * 2), |look| Some(look * 2));
    let between = doubled.take_while(|look| look * 3 <= most * 2);
    std::iter::once(count).chain(between).chain([most]).map(|look| look as u32).collect()
}

/// Of a recipe with one arm that is to run until it is decided.
pub(crate) fn nothing_to_decide(settings: &Settings) -> Finding {
    Finding::new("R213", "one strategy is compared with nothing, so that its first repeats are all")
        .at_option(settings.span(AT_MOST), "never reached")
        .cure("add a strategy, or set `repeats.count` to the number that you want")
}

/// The seed of each repeat, those included that may not be needed.
pub(crate) fn seeds(settings: &Settings, findings: &mut Vec<Finding>) -> Vec<u64> {
    let count = COUNT.of(settings).max(AT_MOST.of(settings).unwrap_or(0)) as usize;
    let seeds = match settings.get(SEEDS).map(|leaf| &leaf.typed) {
        Some(Typed::Seeds(Seeds::List(list))) => list.clone(),
        Some(Typed::Seeds(Seeds::From(first))) => (0..count as u64).map(|k| first.wrapping_add(k)).collect(),
        _ => Vec::new(),
    };
    if seeds.len() < count {
        findings.push(
            Finding::new("R106", format!("{} seeds are not enough for {count} repeats", seeds.len()))
                .at_option(settings.span(SEEDS), format!("{} seeds", seeds.len()))
                .at_option(settings.span(AT_MOST).or(settings.span(COUNT)), format!("{count} repeats"))
                .cure("list more seeds, or count up with `seeds = { from = 42 }`"),
        );
    }
    let repeated = seeds.iter().enumerate().find(|(index, seed)| seeds[..*index].contains(seed));
    if let Some((_, seed)) = repeated {
        findings.push(
            Finding::new("R106", format!("the seed {seed} is listed twice"))
                .at_option(settings.span(SEEDS), "equal seeds give equal runs"),
        );
    }
    seeds.into_iter().take(count).collect()
}

/// The cells of a plan, with the condition that each is compared under.
pub(crate) struct Points<'a> {
    pub(crate) cells: &'a [Cell],
    pub(crate) compared: &'a [&'a str],
}

/// The runs of all cells that are not excluded, in the order in which they are started: those up to each look together.
pub(crate) fn order(settings: &Settings, points: &Points<'_>, seeds: &[u64], looks: &[u32]) -> Vec<Run> {
    let ends =
        if looks.is_empty() { vec![seeds.len()] } else { looks.iter().map(|look| *look as usize).collect() };
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let rounds = starts.zip(&ends).map(|(start, end)| start..(*end).min(seeds.len()));
    rounds.flat_map(|round| in_order(settings, points, seeds, round)).collect()
}

fn in_order(settings: &Settings, points: &Points<'_>, seeds: &[u64], repeats: Range<usize>) -> Vec<Run> {
    let cells = points.cells;
    let included = || (0..cells.len()).filter(|cell| cells[*cell].excluded.is_none());
    let run = |cell: usize, repeat: usize| Run { cell, repeat: repeat as u32, seed: seeds[repeat] };
    match ORDER.of(settings) {
        RunOrder::Block => {
            included().flat_map(|cell| repeats.clone().map(move |repeat| run(cell, repeat))).collect()
        }
        RunOrder::Shuffle => {
            let mut runs: Vec<Run> =
                included().flat_map(|cell| repeats.clone().map(move |repeat| run(cell, repeat))).collect();
            runs.sort_by_cached_key(|run| {
                Sha256::digest(format!("order {} {} {}", seeds[0], run.repeat, cells[run.cell].label))
            });
            runs
        }
        RunOrder::Interleave => {
            repeats.flat_map(|repeat| rotated(points, repeat).map(move |cell| run(cell, repeat))).collect()
        }
    }
}

/// The included cells of one repeat. Under each condition the repeat with number r begins with arm r: a cyclic Latin square
/// of arms and repeats, so that no arm always follows a pause or always runs last. Settings of which an arm chooses one stay together.
fn rotated(points: &Points<'_>, repeat: usize) -> impl Iterator<Item = usize> + use<> {
    let Points { cells, compared } = points;
    let mut conditions: Vec<Vec<Vec<usize>>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none()) {
        let place = *places.entry(compared[index]).or_insert_with(|| {
            conditions.push(Vec::new());
            conditions.len() - 1
        });
        let arms = &mut conditions[place];
        match arms.iter_mut().find(|arm| cells[arm[0]].arm == cell.arm) {
            Some(arm) => arm.push(index),
            None => arms.push(vec![index]),
        }
    }
    for arms in &mut conditions {
        let first = repeat % arms.len();
        arms.rotate_left(first);
    }
    conditions.into_iter().flatten().flatten()
}
