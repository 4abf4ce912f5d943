//! The checkpoints of an attempt under way: which are complete, and which are not needed any more.

use super::{FOLDER, KEPT, state_file};
use record::{CheckpointRecord, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// Follows the checkpoints of an attempt while it trains, and deletes those that are not needed any more.
#[derive(Debug)]
pub(crate) struct CheckpointCollector {
    folder: PathBuf,
    ranks: usize,
    begun: BTreeMap<u64, BTreeSet<Rank>>,
    /// Complete ones, in their order; at most those that are kept.
    complete: VecDeque<u64>,
}

impl CheckpointCollector {
    pub(crate) fn new(attempt: &Path, ranks: u32) -> Self {
        let folder = attempt.join(FOLDER);
        Self { folder, ranks: ranks as usize, begun: BTreeMap::new(), complete: VecDeque::new() }
    }

    /// The file of a rank's part, relative to the directory of the attempt.
    pub(crate) fn name_of(record: &CheckpointRecord) -> String {
        format!("{FOLDER}/{}/{}", record.number, state_file(record.rank))
    }

    /// Takes a rank's part. The last one completes the checkpoint, and older ones are deleted.
    pub(crate) fn add(&mut self, record: &CheckpointRecord) {
        let ranks = self.begun.entry(record.number).or_default();
        ranks.insert(record.rank);
        if ranks.len() < self.ranks {
            return;
        }
        self.begun.retain(|number, _| *number > record.number);
        self.complete.push_back(record.number);
        if self.complete.len() > KEPT {
            self.complete.pop_front();
            self.delete_before(self.complete[0]);
        }
    }

    /// Deletes checkpoints with lower numbers. Files that cannot be deleted now are deleted with the attempt.
    fn delete_before(&self, first: u64) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if number.is_some_and(|number| number < first) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
