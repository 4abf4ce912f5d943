//! The checkpoints of an attempt: which of them are complete, and what of the attempt's records is before one.
//!
//! ```text
//! ATTEMPT/checkpoints/<number>/rank-<n>.state   written by each rank, digest at its end
//! ```
//! A checkpoint is complete when the attempt's event log says that each rank has written its file. A rank's events are in
//! their order there, so that the log then has what the rank recorded before.

mod collector;

pub(crate) use collector::CheckpointCollector;

use crate::digest;
use record::{CheckpointRecord, Event, LaneId, Nanos, Rank, SnapshotRecord, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of checkpoints in that of an attempt.
const FOLDER: &str = "checkpoints";
/// Complete checkpoints that are kept: the models before the last one may still wait for their evaluation when a run ends early.
pub(crate) const KEPT: usize = 3;

/// Checkpoint to which every rank has added its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCheckpoint {
    /// Its number, from 1.
    pub number: u64,
    /// Samples that all ranks together had consumed.
    pub samples: u64,
    /// When the last rank was saved, on the clock of the run.
    pub at: Nanos,
    /// The steps that each lane had taken.
    lanes: Vec<LaneStep>,
    /// SHA-256 of each rank's file.
    files: Vec<(Rank, String)>,
    /// Folder with the files of all ranks.
    pub(crate) directory: PathBuf,
}

/// A step that a lane of a rank had taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneStep {
    rank: Rank,
    lane: LaneId,
    step: u64,
}

/// A run that continues from a checkpoint of an earlier attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Continuation {
    /// Checkpoint from which the run continues.
    pub checkpoint: SavedCheckpoint,
    /// Events that the earlier attempt had recorded by then.
    pub events: Vec<Event>,
    /// The models that it had taken by then and not evaluated.
    pub unevaluated: Vec<SnapshotRecord>,
}

impl SavedCheckpoint {
    /// Whether the folder of an attempt has files of checkpoints.
    pub fn any(attempt: &Path) -> bool {
        attempt.join(FOLDER).is_dir()
    }

    /// Deletes all checkpoints of an attempt whose run is done; what cannot be deleted now is deleted with the attempt.
    pub fn delete_all(attempt: &Path) {
        let _ = fs::remove_dir_all(attempt.join(FOLDER));
    }

    /// Deletes the models of an attempt that another one has continued to its end, but the one that it began with.
    pub fn delete_models(attempt: &Path) {
        for entry in fs::read_dir(attempt.join("snapshots")).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().contains("-step-0.") {
                // It is deleted with the attempt otherwise.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The complete and undamaged checkpoints of an attempt of this many ranks, the last one first; `events` are what it
    /// recorded.
    pub fn newest_first(attempt: &Path, ranks: u32, events: &[Event]) -> impl Iterator<Item = Self> {
        let mut parts: BTreeMap<u64, BTreeMap<Rank, &CheckpointRecord>> = BTreeMap::new();
        for event in events {
            if let Event::Checkpoint(record) = event
                && record.file.is_ok()
            {
                parts.entry(record.number).or_default().insert(record.rank, record);
            }
        }
        let whole = move |(number, parts): (u64, BTreeMap<Rank, &CheckpointRecord>)| {
            let directory = attempt.join(FOLDER).join(number.to_string());
            (parts.len() == ranks as usize).then(|| Self::of(number, &parts, directory))
        };
        parts.into_iter().rev().filter_map(whole).filter(Self::is_intact)
    }

    fn of(number: u64, parts: &BTreeMap<Rank, &CheckpointRecord>, directory: PathBuf) -> Self {
        let lanes = parts.iter().flat_map(|(rank, record)| {
            record.lanes.iter().map(|(lane, step)| LaneStep { rank: *rank, lane: *lane, step: *step })
        });
        Self {
            number,
            samples: parts.values().map(|record| record.samples).max().unwrap_or(0),
            at: parts.values().map(|record| record.at).max().unwrap_or_default(),
            lanes: lanes.collect(),
            files: parts
                .iter()
                .filter_map(|(rank, record)| Some((*rank, record.file.clone().ok()?)))
                .collect(),
            directory,
        }
    }

    /// Whether its files are those that the ranks wrote.
    fn is_intact(&self) -> bool {
        let file = |rank: &Rank| self.directory.join(state_file(*rank));
        self.files.iter().all(|(rank, sha256)| digest::check(&file(rank), sha256).is_ok())
    }

    /// The last step of the ranks that train.
    pub fn step(&self) -> u64 {
        self.lanes.iter().filter_map(|lane| self.last_step(lane.rank)).max().unwrap_or(0)
    }

    /// The last step of a rank: of its compute lane, because a lane beside it may count several steps for one; else of a server.
    fn last_step(&self, rank: Rank) -> Option<u64> {
        let own = || self.lanes.iter().filter(|lane| lane.rank == rank);
        let compute = own().find(|of| of.lane == LaneId::Compute);
        compute.or_else(|| own().max_by_key(|of| of.step)).map(|of| of.step)
    }

    /// The folder of the attempt that it belongs to.
    fn attempt(&self) -> Option<&Path> {
        self.directory.parent()?.parent()
    }

    /// Whether the attempt had recorded an event by then, or would have recorded it in this order.
    pub fn is_after(&self, event: &Event) -> bool {
        let of_lane = |rank: Rank, lane: LaneId, step: u64| {
            self.lanes.iter().any(|of| of.rank == rank && of.lane == lane && step <= of.step)
        };
        let of_rank = |rank: Rank, step: u64| self.last_step(rank).is_some_and(|last| step <= last);
        match event {
            Event::Step(step) => of_lane(step.rank, step.lane, step.step),
            Event::Span(span) => of_lane(span.rank, span.lane, span.step),
            Event::Samples(samples) => of_rank(samples.rank, samples.step),
            Event::WeightHash(hash) => of_rank(hash.rank, hash.step),
            Event::Snapshot(snapshot) => self.is_after_snapshot(snapshot),
            Event::Metric(metric) => metric.samples <= self.samples && metric.at <= self.at,
            Event::Schedule(schedule) => schedule.at <= self.at,
            // By its step, not by its time: a quick rank may be a step ahead while the last one is saved.
            Event::Struck(struck) => of_rank(Rank(struck.fault.rank), struck.fault.step),
            // Totals of a whole run, and what belongs to one attempt. The rest is of strategies without checkpoints.
            Event::Prepared(_)
            | Event::Link(_)
            | Event::Coding(_)
            | Event::Usage(_)
            | Event::Overhead(_)
            | Event::Emulation(_)
            | Event::Update(_)
            | Event::Lost(_)
            | Event::Ended(_)
            | Event::Gossip(_)
            | Event::Averaged(_)
            | Event::Host(_)
            | Event::Checkpoint(_) => false,
        }
    }

    fn is_after_snapshot(&self, snapshot: &SnapshotRecord) -> bool {
        !snapshot.last && snapshot.samples <= self.samples && snapshot.at <= self.at
    }

    /// Continuation from here, with those of the attempt's events that belong to the run. `None` if some of them are
    /// missing, or if a model from before was neither evaluated nor kept: its value would be missing for ever.
    pub fn continued(self, events: impl IntoIterator<Item = Event>) -> Option<Continuation> {
        let mut events: Vec<Event> = events.into_iter().filter(|event| self.is_after(event)).collect();
        // Events arrive later than a checkpoint is complete, those of each lane in their order.
        let last_steps: BTreeSet<_> = events.iter().filter_map(lane_step).collect();
        if !self.lanes.iter().all(|lane| last_steps.contains(lane)) {
            return None;
        }
        let attempt = self.attempt()?.to_owned();
        let snapshots = taken(&events);
        let mut unevaluated = Vec::new();
        for snapshot in &snapshots {
            let group = group_of(snapshot, &snapshots);
            if !group.is_empty() && !events.iter().any(|event| is_value_of_mean(event, &group)) {
                if !group.iter().all(|member| attempt.join(&member.file).exists()) {
                    return None;
                }
                events.retain(|event| !is_value_of(event, snapshot));
                unevaluated.push(snapshot.clone());
            } else if snapshot.standing != Standing::Member
                && !events.iter().any(|event| is_value_of(event, snapshot))
            {
                if !attempt.join(&snapshot.file).exists() {
                    return None;
                }
                unevaluated.push(SnapshotRecord { group: None, ..snapshot.clone() });
            }
        }
        let waits = |event: &Event| match event {
            Event::Snapshot(snapshot) => unevaluated.iter().any(|other| other.file == snapshot.file),
            _ => false,
        };
        events.retain(|event| !waits(event));
        Some(Continuation { checkpoint: self, events, unevaluated })
    }
}

fn lane_step(event: &Event) -> Option<LaneStep> {
    match event {
        Event::Step(step) => Some(LaneStep { rank: step.rank, lane: step.lane, step: step.step }),
        _ => None,
    }
}

fn taken(events: &[Event]) -> Vec<SnapshotRecord> {
    let snapshot = |event: &Event| match event {
        Event::Snapshot(snapshot) => Some(snapshot.clone()),
        _ => None,
    };
    events.iter().filter_map(snapshot).collect()
}

/// The models that are evaluated together with this one, if all of them were taken.
fn group_of<'a>(snapshot: &SnapshotRecord, all: &'a [SnapshotRecord]) -> Vec<&'a SnapshotRecord> {
    let Some(group) = snapshot.group else { return Vec::new() };
    let members: Vec<_> =
        all.iter().filter(|other| other.group.is_some() && other.mark == snapshot.mark).collect();
    if members.len() == group.size as usize { members } else { Vec::new() }
}

/// Whether the model of a snapshot has this value.
fn is_value_of(event: &Event, snapshot: &SnapshotRecord) -> bool {
    matches!(event, Event::Metric(metric) if metric.samples == snapshot.samples && metric.model == snapshot.model)
}

/// Whether the mean of the models of a group has this value.
fn is_value_of_mean(event: &Event, group: &[&SnapshotRecord]) -> bool {
    let samples = group.iter().map(|member| member.samples).max();
    matches!(event, Event::Metric(metric) if metric.model.starts_with("mean of ") && Some(metric.samples) == samples)
}

impl Continuation {
    /// When the last of its steps ended, on the clock of the run: a lane may have waited while it was saved.
    pub(crate) fn end(&self) -> Nanos {
        let end = |event: &Event| match event {
            Event::Step(step) => Some(step.begin + step.length),
            _ => None,
        };
        self.events.iter().filter_map(end).fold(self.checkpoint.at, Ord::max)
    }

    /// Brings the models that are kept of the part before to the folder of the attempt that continues.
    pub(crate) fn bring_models(&self, into: &Path) {
        let Some(from) = self.checkpoint.attempt() else { return };
        for snapshot in taken(&self.events).iter().chain(&self.unevaluated) {
            let old = from.join(&snapshot.file);
            let new = into.join(&snapshot.file);
            // Most were deleted when they had been evaluated.
            if old.exists() && !new.exists() && fs::hard_link(&old, &new).is_err() {
                let _ = fs::copy(&old, &new);
            }
        }
    }
}

/// The name of a rank's file in the folder of a checkpoint.
pub(crate) fn state_file(rank: Rank) -> String {
    format!("rank-{rank}.state")
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::WeightHash;

    const RANKS: u32 = 2;

    fn part(number: u64, rank: u32, file: Result<String, String>) -> CheckpointRecord {
        let lanes = vec![(LaneId::Compute, 10 * number), (LaneId::Communication, 30 * number)];
        CheckpointRecord { rank: Rank(rank), number, samples: 500 * number, at: Nanos(number), file, lanes }
    }

    /// Writes the file of a rank and returns its record.
    fn write_state(attempt: &Path, number: u64, rank: u32) -> CheckpointRecord {
        let folder = attempt.join(FOLDER).join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(state_file(Rank(rank)));
        fs::write(&file, format!("state {number} {rank}")).unwrap();
        part(number, rank, Ok(digest::digest(&file).unwrap()))
    }

    fn numbers(attempt: &Path, events: &[Event]) -> Vec<u64> {
        SavedCheckpoint::newest_first(attempt, RANKS, events).map(|checkpoint| checkpoint.number).collect()
    }

    #[test]
    fn a_checkpoint_needs_all_ranks_and_three_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = folder.path();
        let mut collector = CheckpointCollector::new(attempt, RANKS);
        let mut events = Vec::new();
        for number in 1..=5 {
            for rank in 0..RANKS {
                assert!(!numbers(attempt, &events).contains(&number), "rank {rank} is missing");
                let record = write_state(attempt, number, rank);
                collector.add(&record);
                events.push(Event::Checkpoint(record));
            }
        }
        assert_eq!(numbers(attempt, &events), [5, 4, 3]);
        let file = |path: &str| attempt.join(FOLDER).join(path);
        fs::write(file("5/rank-1.state"), b"state").unwrap();
        fs::remove_file(file("3/rank-0.state")).unwrap();
        assert_eq!(numbers(attempt, &events), [4]);
        assert_eq!(numbers(attempt, &events[..7]), [0_u64; 0], "the log does not know of rank 1");
        events[7] = Event::Checkpoint(part(4, 1, Err("no space left".into())));
        assert_eq!(numbers(attempt, &events), [0_u64; 0], "rank 1 could not write");
        SavedCheckpoint::delete_all(attempt);
        assert!(!SavedCheckpoint::any(attempt));
    }

    #[test]
    fn a_checkpoint_that_a_rank_could_not_write_does_not_push_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = folder.path();
        let mut collector = CheckpointCollector::new(attempt, RANKS);
        let mut events = Vec::new();
        for number in 1..=6 {
            for rank in 0..if number == 2 || number == 5 { 1 } else { RANKS } {
                let record = write_state(attempt, number, rank);
                collector.add(&record);
                events.push(Event::Checkpoint(record));
            }
        }
        assert_eq!(numbers(attempt, &events), [6, 4, 3]);
    }

    /// A model of a rank that is evaluated alone, if it is rank 0's, and in the mean of both.
    fn copy(rank: u32) -> SnapshotRecord {
        SnapshotRecord {
            rank: Rank(rank),
            model: format!("rank {rank}"),
            step: 5,
            samples: 250,
            at: Nanos(1),
            file: format!("copy-{rank}"),
            last: false,
            mark: 1,
            standing: if rank == 0 { Standing::Beside } else { Standing::Member },
            group: Some(record::SnapshotGroup { size: RANKS, judged: true }),
            sha256: String::new(),
            digested: true,
        }
    }

    fn value_of(model: &str) -> Event {
        Event::Metric(record::MetricRecord {
            metric: recipe::Metric::TestAccuracy,
            model: model.into(),
            step: 5,
            samples: 250,
            epoch: 1.0,
            at: Nanos(1),
            value: 0.5,
            judged: true,
        })
    }

    #[test]
    fn models_whose_mean_has_no_value_are_evaluated_again_or_the_checkpoint_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<CheckpointRecord> =
            (0..RANKS).map(|rank| write_state(folder.path(), 1, rank)).collect();
        let events: Vec<Event> = records.iter().cloned().map(Event::Checkpoint).collect();
        let checkpoint = || {
            let found = SavedCheckpoint::newest_first(folder.path(), RANKS, &events).next().unwrap();
            SavedCheckpoint { lanes: Vec::new(), ..found }
        };
        let copies: Vec<Event> = (0..RANKS).map(|rank| Event::Snapshot(copy(rank))).collect();
        let continued = |values: &[&str]| {
            let values = values.iter().map(|model| value_of(model));
            let continued = checkpoint().continued(copies.iter().cloned().chain(values))?;
            Some((continued.events.len(), continued.unevaluated.len()))
        };
        let all = ["rank 0", "mean of 2 ranks"];
        assert_eq!(continued(&all), Some((4, 0)));
        assert_eq!(continued(&all[..1]), None, "no file, and no value of the mean");
        assert_eq!(continued(&all[1..]), None, "no file, and no value of rank 0");
        for rank in 0..RANKS {
            fs::write(folder.path().join(format!("copy-{rank}")), "").unwrap();
        }
        assert_eq!(continued(&all), Some((4, 0)));
        assert_eq!(continued(&all[..1]), Some((0, 2)));
        assert_eq!(continued(&all[1..]), Some((2, 1)));
        fs::remove_file(folder.path().join("copy-1")).unwrap();
        assert_eq!(continued(&all[..1]), None);
    }

    #[test]
    fn steps_are_those_of_the_lane_that_computes() {
        let folder = tempfile::tempdir().unwrap();
        let events: Vec<Event> =
            (0..RANKS).map(|rank| Event::Checkpoint(write_state(folder.path(), 1, rank))).collect();
        let checkpoint = SavedCheckpoint::newest_first(folder.path(), RANKS, &events).next().unwrap();
        assert_eq!(checkpoint.step(), 10);
        let hash = |step| Event::WeightHash(WeightHash { rank: Rank(1), step, sha256: String::new() });
        assert!(checkpoint.is_after(&hash(10)) && !checkpoint.is_after(&hash(11)));
        assert!(checkpoint.continued([hash(10)]).is_none(), "the steps of the lanes have not arrived");
    }
}
