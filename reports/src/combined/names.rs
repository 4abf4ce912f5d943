//! Names of the sweeps of a page: short, without a space, and each different.

use crate::calendar;
use std::collections::{BTreeMap, BTreeSet};
use store::SweepRows;

/// A tag that no other of the sweeps has, else the start as briefly as it tells all of them apart, else the id.
pub(super) fn names(sweeps: &[SweepRows]) -> Vec<String> {
    let starts = starts(sweeps);
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for tag in sweeps.iter().flat_map(|rows| &rows.annotations.tags) {
        *uses.entry(tag).or_default() += 1;
    }
    let name = |(rows, start): (&SweepRows, &String)| {
        // A tag may look like a date.
        let is_own = |tag: &&String| uses.get(tag.as_str()) == Some(&1) && !starts.contains(tag);
        rows.annotations.tags.iter().find(is_own).unwrap_or(start).clone()
    };
    sweeps.iter().zip(&starts).map(name).collect()
}

fn starts(sweeps: &[SweepRows]) -> Vec<String> {
    let stamps: Vec<String> = sweeps.iter().map(|rows| calendar::stamp(rows.started)).collect();
    let cut = |from: usize, to: usize| -> Vec<String> {
        stamps.iter().map(|stamp| stamp.chars().take(to).skip(from).collect()).collect()
    };
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    // `2026-11-20`, on one day `13:15` and `13:15:00`, on several `2026-11-20T13:15` and `2026-11-20T13:15:00`.
    let time = if cut(0, 10).windows(2).all(|pair| pair[0] == pair[1]) { 11 } else { 0 };
    let known = [cut(0, 10), cut(time, 16), cut(time, 19)].into_iter().find(differ);
    known.unwrap_or_else(|| sweeps.iter().map(|rows| rows.id.clone()).collect())
}
