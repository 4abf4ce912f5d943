//! Seeds of the repeats, and the order in which runs are started.

use crate::keys::lookup::{KeyId, id};
use crate::text::finding::Finding;
use crate::values::leaf::{Seeds, Typed};
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{Cell, Run, RunOrder};
use sha2::{Digest, Sha256};

const COUNT: Defaulted<u64> = Defaulted::whole("repeats.count");
const SEEDS: KeyId = id("repeats.seeds");
const ORDER: Defaulted<RunOrder> = Defaulted::choice("repeats.order");

/// The seed of each repeat.
pub(crate) fn seeds(settings: &Settings, findings: &mut Vec<Finding>) -> Vec<u64> {
    let count = COUNT.of(settings) as usize;
    let seeds = match settings.get(SEEDS).map(|leaf| &leaf.typed) {
        Some(Typed::Seeds(Seeds::List(list))) => list.clone(),
        Some(Typed::Seeds(Seeds::From(first))) => (0..count as u64).map(|k| first.wrapping_add(k)).collect(),
        _ => Vec::new(),
    };
    if seeds.len() < count {
        findings.push(
            Finding::new("R106", format!("{} seeds are not enough for {count} repeats", seeds.len()))
                .at_option(settings.span(SEEDS), format!("{} seeds", seeds.len()))
                .at_option(settings.span(COUNT), format!("{count} repeats"))
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

/// The runs of all cells that are not excluded, in the order in which they are started.
pub(crate) fn order(settings: &Settings, cells: &[Cell], seeds: &[u64]) -> Vec<Run> {
    let included = || (0..cells.len()).filter(|cell| cells[*cell].excluded.is_none());
    let run = |cell: usize, repeat: usize| Run { cell, repeat: repeat as u32, seed: seeds[repeat] };
    let repeats = 0..seeds.len();
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
            repeats.flat_map(|repeat| rotated(cells, repeat).map(move |cell| run(cell, repeat))).collect()
        }
    }
}

/// The included cells of one repeat. Under each condition the repeat with number r begins with arm r: a cyclic Latin square
/// of arms and repeats, so that no arm always follows a pause or always runs last.
fn rotated(cells: &[Cell], repeat: usize) -> impl Iterator<Item = usize> {
    let included: Vec<usize> = (0..cells.len()).filter(|cell| cells[*cell].excluded.is_none()).collect();
    let mut order = Vec::with_capacity(included.len());
    for arms in included.chunk_by(|left, right| cells[*left].condition == cells[*right].condition) {
        let first = repeat % arms.len();
        order.extend_from_slice(&arms[first..]);
        order.extend_from_slice(&arms[..first]);
    }
    order.into_iter()
}
