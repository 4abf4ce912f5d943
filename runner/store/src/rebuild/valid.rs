//! Which entries of a journal still hold: not the first of two ends of an attempt, and nothing that was said of a run before it
//! was removed.

use crate::journal::entries::Entry;
use std::collections::BTreeMap;

/// An attempt as journals name it: its run, and its number among that run's attempts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttemptKey {
    pub(super) run: String,
    pub(super) number: u32,
}

impl AttemptKey {
    pub(super) fn new(run: &str, number: u32) -> Self {
        Self { run: run.to_owned(), number }
    }
}

/// Keeps of each attempt only the last end: if a full disk rejects the first one, the driver writes it again.
pub(crate) fn last_ends(entries: Vec<Entry>) -> impl Iterator<Item = Entry> {
    let last: BTreeMap<AttemptKey, usize> = entries
        .iter()
        .enumerate()
        .filter_map(|(position, entry)| Some((ended_attempt(entry)?, position)))
        .collect();
    entries
        .into_iter()
        .enumerate()
        .filter(move |(position, entry)| {
            ended_attempt(entry).is_none_or(|attempt| last.get(&attempt) == Some(position))
        })
        .map(|(_, entry)| entry)
}

/// Leaves out what was said of a run before it was removed, and keeps that it was.
pub(crate) fn unpruned(entries: Vec<Entry>) -> Vec<Entry> {
    let removed: BTreeMap<String, usize> = entries
        .iter()
        .enumerate()
        .filter_map(|(position, entry)| match entry {
            Entry::Pruned { run } => Some((run.clone(), position)),
            _ => None,
        })
        .collect();
    let kept = entries.into_iter().enumerate().filter(|(position, entry)| {
        run_of(entry).and_then(|run| removed.get(run)).is_none_or(|removed| position >= removed)
    });
    kept.map(|(_, entry)| entry).collect()
}

/// The run that an entry tells of.
fn run_of(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Identity { run, .. }
        | Entry::Reused { run, .. }
        | Entry::Attempt { run, .. }
        | Entry::Note { run, .. }
        | Entry::AttemptEnd { run, .. }
        | Entry::Pruned { run } => Some(run),
        Entry::Sweep(_)
        | Entry::SweepEnd { .. }
        | Entry::Tag { .. }
        | Entry::Untag { .. }
        | Entry::SweepNote { .. }
        | Entry::Imported { .. }
        | Entry::Report { .. } => None,
    }
}

fn ended_attempt(entry: &Entry) -> Option<AttemptKey> {
    if let Entry::AttemptEnd { run, number, .. } = entry { Some(AttemptKey::new(run, *number)) } else { None }
}
