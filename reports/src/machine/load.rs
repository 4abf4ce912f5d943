//! Load of the machine beside the runs, in sentences: quiet, or the disturbances.

use super::spread::Spread;
use crate::findings::Findings;
use crate::headline::listed;
use crate::number_format;
use comparison::study::{JudgedRun, PlacedCell};
use recipe::Role;
use record::{HostRecord, HostUse};
use std::collections::{BTreeMap, BTreeSet};
use store::AttemptRow;

/// Share of the cores' time that other processes may use. The counters behind it are good to a few percent in a run of
/// a few seconds.
pub(crate) const OTHERS: f64 = 0.05;
/// Share of the cores' time that the hypervisor may take.
pub(crate) const STEAL: f64 = 0.01;
/// Share of the time in which tasks may wait for memory.
pub(crate) const MEMORY_PRESSURE: f64 = 0.01;
/// Share by which the cores' mean frequency may differ between runs.
pub(crate) const FREQUENCY: f64 = 0.05;
/// The largest probability, over all arms and conditions together, that equal runs spread as much.
pub(crate) const SPREAD_P: f64 = 0.01;

/// The load of the machine while the judged runs were trained.
pub(crate) struct Load {
    /// Possible disturbances, a sentence each without a full stop; empty if there are none.
    pub(crate) doubts: Vec<String>,
    /// Evidence of a quiet machine, for where there are no doubts.
    pub(crate) quiet: String,
}

/// `None` without a judged run.
pub(crate) fn of(findings: &Findings) -> Option<Load> {
    let runs: Vec<&JudgedRun> = findings.study.arm_cells().flat_map(|placed| &placed.cell.runs).collect();
    if runs.is_empty() {
        return None;
    }
    let uses: Vec<Vec<HostUse>> = runs.iter().map(|judged| uses(judged.attempt)).collect();
    let known: Vec<&Vec<HostUse>> = uses.iter().filter(|machines| !machines.is_empty()).collect();
    let most = |of: fn(&HostUse) -> Option<f64>| -> Vec<f64> {
        known.iter().filter_map(|machines| machines.iter().filter_map(of).reduce(f64::max)).collect()
    };
    let others = most(|used| Some(used.others));
    let steal = most(|used| Some(used.steal));
    let mut doubts = Vec::new();
    let limited = [
        ("other processes used", "of the cores", OTHERS, &others),
        ("the hypervisor took", "of the cores", STEAL, &steal),
        ("tasks waited for memory", "of the time", MEMORY_PRESSURE, &most(|used| used.memory_pressure)),
    ];
    for (what, of_what, limit, shares) in limited {
        doubts.extend(beyond(shares, limit).map(|found| {
            format!("{what} up to {} {of_what} in {} of {}", found.most, found.count, runs_of(runs.len()))
        }));
    }
    doubts.extend(frequencies(&most(|used| used.frequency)));
    doubts.extend(governors(runs.iter().map(|judged| judged.attempt)));
    doubts.extend(kinds(findings));
    doubts.extend(apart(findings));
    doubts.extend(restless(findings));
    let unknown = runs.len() - known.len();
    if unknown > 0 {
        let of = runs_of(runs.len());
        doubts.push(format!(
            "what else the machine did is not known of {unknown} of {of}: too short, or not recorded"
        ));
    }
    let at_most = |shares: &[f64]| number_format::percent(shares.iter().copied().fold(0.0, f64::max));
    let quiet = format!(
        "quiet: other processes used at most {} of the cores, the hypervisor {}",
        at_most(&others),
        at_most(&steal)
    );
    Some(Load { doubts, quiet })
}

/// Use of each machine of an attempt while its ranks trained.
pub(crate) fn uses(attempt: &AttemptRow) -> Vec<HostUse> {
    let machines = attempt.hosts.chunk_by(|left, right| left.node == right.node);
    machines.filter_map(|readings| HostUse::between(&readings.iter().collect::<Vec<&HostRecord>>())).collect()
}

/// The arm whose runs differ most beyond what varies within them, from half of the smallest effect that matters on: with such
/// runs the interval of five pairs reaches nearly that effect to either side (2.776 * sqrt(2 / 5) standard deviations).
fn restless(findings: &Findings) -> Option<String> {
    let spread = |placed: &PlacedCell| {
        let runs: Vec<_> = placed.cell.runs.iter().map(|judged| judged.attempt.blocks.as_slice()).collect();
        Spread::of(&runs)
    };
    let each: Vec<(PlacedCell, Spread)> =
        findings.study.arm_cells().filter_map(|placed| Some((placed, spread(&placed)?))).collect();
    // Each of them may seem to differ by chance.
    let limit = SPREAD_P / each.len() as f64;
    let (placed, spread) = each
        .iter()
        .filter(|(_, spread)| spread.p < limit && spread.excess() >= findings.thresholds.min_effect / 2.0)
        .max_by(|left, right| left.1.excess().total_cmp(&right.1.excess()))?;
    Some(format!(
        "runs of {} differ by {} (standard deviation), where {} would follow from what varies within them",
        findings.label(placed),
        number_format::percent(spread.between.sqrt()),
        number_format::percent(spread.explained.sqrt()),
    ))
}

struct Beyond {
    count: usize,
    most: String,
}

fn beyond(shares: &[f64], limit: f64) -> Option<Beyond> {
    let most = shares.iter().copied().reduce(f64::max).filter(|most| *most >= limit)?;
    let count = shares.iter().filter(|share| **share >= limit).count();
    Some(Beyond { count, most: number_format::percent(most) })
}

fn frequencies(each: &[f64]) -> Option<String> {
    let least = each.iter().copied().reduce(f64::min)?;
    let most = each.iter().copied().reduce(f64::max)?;
    let gigahertz = |frequency: f64| number_format::fixed(frequency / 1e6, 2);
    (most - least >= FREQUENCY * most)
        .then(|| format!("the cores ran at {} to {}\u{a0}GHz", gigahertz(least), gigahertz(most)))
}

/// A machine whose frequency governor was changed while the sweep ran. One governor for all runs is no doubt: what it does shows in
/// the frequencies.
fn governors<'a>(attempts: impl Iterator<Item = &'a AttemptRow>) -> Option<String> {
    let mut by_node: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for reading in attempts.flat_map(|attempt| &attempt.hosts) {
        by_node.entry(reading.node).or_default().extend(reading.governor.as_deref());
    }
    let several = by_node.into_values().find(|governors| governors.len() > 1)?;
    let names: Vec<&str> = several.into_iter().collect();
    Some(format!("the cores' frequency governor was {} in turn", listed(&names)))
}

/// Runs that are compared and were made on machines of different kinds, as a queue may give them.
fn kinds(findings: &Findings) -> Option<String> {
    let study = &findings.study;
    let kind = |node: u32| {
        let row = study.rows.nodes.get(node as usize)?;
        Some(format!("{}, {}", row.processor, number_format::plural(row.cores as usize, "core")))
    };
    let mut by_condition: BTreeMap<(usize, usize), BTreeSet<Vec<String>>> = BTreeMap::new();
    for placed in study.arm_cells() {
        for judged in &placed.cell.runs {
            let workers = judged.attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
            let machines: Vec<String> = workers.filter_map(|rank| kind(rank.node)).collect();
            by_condition.entry((placed.number, machines.len())).or_default().insert(machines);
        }
    }
    let several = by_condition.into_values().find(|kinds| kinds.len() > 1)?;
    let names: BTreeSet<String> = several.into_iter().flatten().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(format!("runs that are compared were made on machines of different kinds ({})", listed(&names)))
}

/// Arms of a repeat that were made on different machines, as a queue may give them: the pairs do not cancel what differs between these.
fn apart(findings: &Findings) -> Option<String> {
    let study = &findings.study;
    let mut by_repeat: BTreeMap<(usize, u32), BTreeSet<BTreeSet<&str>>> = BTreeMap::new();
    for placed in study.arm_cells() {
        for judged in &placed.cell.runs {
            let nodes = judged.attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
            let machines =
                nodes.filter_map(|rank| Some(study.rows.nodes.get(rank.node as usize)?.host.as_str()));
            let machines: BTreeSet<&str> = machines.filter(|host| !host.is_empty()).collect();
            by_repeat.entry((placed.number, judged.run.repeat)).or_default().insert(machines);
        }
    }
    // Arms with different numbers of machines are compared by these.
    let same_number = |sets: &BTreeSet<BTreeSet<&str>>| {
        let sizes: BTreeSet<usize> = sets.iter().map(BTreeSet::len).collect();
        sets.len() > sizes.len()
    };
    let repeats = by_repeat.len();
    let mut several = by_repeat.into_values().filter(same_number);
    let names: BTreeSet<&str> = several.next()?.into_iter().flatten().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let count = several.count() + 1;
    Some(format!(
        "in {count} of {} arms were made on different machines ({}), whose difference counts as one of the arms",
        number_format::plural(repeats, "repeat"),
        listed(&names)
    ))
}

fn runs_of(count: usize) -> String {
    number_format::plural(count, "run")
}
