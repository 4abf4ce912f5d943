//! The files of an attempt: models on their way to the evaluator, and checkpoints.

use super::Shell;
use crate::Update;
use crate::checkpoints::CheckpointCollector;
use crate::launcher::{Artifact, Artifacts, Launcher};
use crate::supervise::Input;
use mesh::{Member, ToDriver, ToMember};
use recipe::KeptModels;
use record::{CheckpointRecord, Event, Rank, SnapshotRecord};
use std::time::Duration;
use std::{fs, io};

/// The recorder writes what it has within milliseconds.
const RECORDED: Duration = Duration::from_secs(2);

/// Outcome of fetching files from a node.
pub(super) enum Fetched {
    /// The snapshots that a message to the evaluator names, of which `file` is the first.
    Snapshots { message: ToMember, file: String, outcome: io::Result<()> },
    /// A rank's part of a checkpoint.
    State { record: CheckpointRecord, outcome: io::Result<()> },
    /// A snapshot that the evaluator does not need yet; then it is fetched again.
    Early(io::Result<()>),
}

impl<L: Launcher + Artifacts> Shell<'_, L> {
    /// Sends a message to the evaluator when the snapshots that it names are on the evaluator's node.
    pub(super) fn send_with_snapshots(&mut self, message: ToMember) {
        let snapshots = message.snapshots();
        let Some(first) = snapshots.first() else { return self.send(Member::Evaluator, message) };
        let file = first.file.clone();
        let artifacts: Vec<Artifact> = snapshots.iter().map(|snapshot| self.artifact(snapshot)).collect();
        let fetches: Vec<_> = artifacts.into_iter().map(|one| self.launcher.fetch(one)).collect();
        self.fetching.spawn(async move {
            for fetch in fetches {
                if let Err(error) = fetch.await {
                    return Fetched::Snapshots { message, file, outcome: Err(error) };
                }
            }
            Fetched::Snapshots { message, file, outcome: Ok(()) }
        });
    }

    pub(super) fn take_fetched(&mut self, fetched: Fetched) -> Input {
        match fetched {
            Fetched::Snapshots { message, outcome: Ok(()), .. } => self.send(Member::Evaluator, message),
            Fetched::Snapshots { file, outcome: Err(error), .. } => {
                let failure = Some(format!("it cannot be fetched: {error}"));
                return Input::Message(Member::Evaluator, ToDriver::Evaluated { file, failure });
            }
            Fetched::State { record, outcome: Ok(()) } => {
                self.launcher.release(&self.state(&record, ""));
                self.checkpoints.add(&record);
            }
            Fetched::State { record, outcome: Err(error) } => {
                self.no_checkpoint(&record, &format!("it cannot be fetched: {error}"));
            }
            Fetched::Early(Ok(())) => {}
            Fetched::Early(Err(error)) => tracing::debug!(%error, "a model was not fetched early"),
        }
        Input::Tick
    }

    /// Brings what a continued run needs from the nodes that have directories of their own, as soon as it is there: they may
    /// not live as long as the driver.
    pub(super) fn bring_files(&mut self, message: &ToDriver) {
        let ToDriver::Events(events) = message else { return };
        if self.attempt.spec.train.checkpoint.is_none() {
            return;
        }
        for event in events {
            match event {
                Event::Checkpoint(record) => self.bring_state(record),
                Event::Snapshot(snapshot) if self.is_away(snapshot.rank) => {
                    let fetch = self.launcher.fetch(self.artifact(snapshot));
                    self.fetching.spawn(async move { Fetched::Early(fetch.await) });
                }
                _ => {}
            }
        }
    }

    fn bring_state(&mut self, record: &CheckpointRecord) {
        match &record.file {
            Ok(sha256) if self.is_away(record.rank) => {
                let fetch = self.launcher.fetch(self.state(record, sha256));
                let record = record.clone();
                self.fetching.spawn(async move { Fetched::State { record, outcome: fetch.await } });
            }
            Ok(_) => self.checkpoints.add(record),
            Err(reason) => self.no_checkpoint(record, reason),
        }
    }

    /// Reports the first part of a checkpoint that is missing.
    fn no_checkpoint(&mut self, record: &CheckpointRecord, reason: &str) {
        let CheckpointRecord { rank, number, .. } = record;
        if !std::mem::replace(&mut self.checkpoint_missed, true) {
            let note = format!(
                "the run cannot be continued from checkpoint {number}: that of rank {rank} is missing: {reason}; the run \
                 continues, and later ones that are missing are not reported"
            );
            self.backlog.push_back(Update::Note(note));
        }
    }

    /// Whether a rank writes into another directory than the driver's.
    fn is_away(&self, rank: Rank) -> bool {
        let member = Member::Rank(rank);
        self.launcher.place(member, self.node(member)).is_some()
    }

    fn state(&self, record: &CheckpointRecord, sha256: &str) -> Artifact {
        Artifact {
            node: self.node(Member::Rank(record.rank)),
            name: CheckpointCollector::name_of(record),
            sha256: sha256.to_owned(),
        }
    }

    fn artifact(&self, snapshot: &SnapshotRecord) -> Artifact {
        Artifact {
            node: self.node(Member::Rank(snapshot.rank)),
            name: snapshot.file.clone(),
            sha256: snapshot.sha256.clone(),
        }
    }

    /// Whether the recipe asks to keep a model that the run itself no longer needs. A part of a model is none.
    pub(super) fn keeps(&self, snapshot: &SnapshotRecord) -> bool {
        let spec = &self.attempt.spec;
        snapshot.last && spec.measure.models == KeptModels::All && spec.strategy.parts() == 1
    }

    /// Deletes the models that are kept of a run that has its result, where the recipe asks for none.
    pub(super) fn forget_unwanted_models(&mut self) {
        if self.attempt.spec.measure.models != KeptModels::None {
            return;
        }
        let folder = self.attempt.directory.join("snapshots");
        if let Err(error) = fs::remove_dir_all(&folder) {
            let note = format!("the models in {} cannot be deleted: {error}", folder.display());
            self.backlog.push_back(Update::Note(note));
        }
    }

    /// Deletes evaluated snapshots whose values are recorded by now.
    pub(super) fn discard_recorded(&mut self) {
        while self.discarded.front().is_some_and(|(since, _)| since.elapsed() >= self.recorded_after()) {
            let Some((_, snapshot)) = self.discarded.pop_front() else { return };
            self.discard(&snapshot);
        }
    }

    /// A run that is continued evaluates the models whose values were lost with the driver.
    fn recorded_after(&self) -> Duration {
        if self.attempt.spec.train.checkpoint.is_some() { RECORDED } else { Duration::ZERO }
    }

    /// Deletes an evaluated snapshot: those of a whole sweep would fill the disk.
    pub(super) fn discard(&mut self, snapshot: &SnapshotRecord) {
        let artifact = self.artifact(snapshot);
        if let Err(error) = self.launcher.discard(&artifact) {
            let path = self.attempt.directory.join(&artifact.name);
            let note = format!("the evaluated snapshot {} cannot be deleted: {error}", path.display());
            self.backlog.push_back(Update::Note(note));
        }
    }
}
