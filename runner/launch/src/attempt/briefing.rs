//! Briefing of each member of an attempt.

use super::Shell;
use crate::launcher::{Artifacts, Launcher, NodeIndex};
use mesh::{Briefing, Member, PROTOCOL};
use recipe::Role;

impl<L: Launcher + Artifacts> Shell<'_, L> {
    pub(super) fn briefing(&self, member: Member) -> Briefing {
        let mut spec = self.attempt.spec.clone();
        let place = self.launcher.place(member, self.node(member));
        let resume = || self.attempt.resume.as_ref().map(|resume| resume.checkpoint.directory.clone());
        let here = || (self.sockets.path.clone(), self.attempt.directory.clone());
        let (sockets, directory) =
            place.map_or_else(here, |place| (place.sockets.clone(), place.directory.clone()));
        if let Some(folder) = place.and_then(|place| place.data.as_ref()) {
            spec.dataset.source = spec.dataset.source.at(folder);
        }
        Briefing {
            protocol: PROTOCOL,
            member,
            spec,
            seed: self.attempt.seed,
            secret: self.secret.clone(),
            sockets,
            directory,
            threads: self.threads(member),
            deadlines: self.attempt.deadlines,
            resume: place.and_then(|place| place.resume.clone()).or_else(resume),
        }
    }

    /// The node that a member runs on.
    pub(super) fn node(&self, member: Member) -> NodeIndex {
        match member {
            Member::Rank(rank) => {
                let placement = self.attempt.spec.cluster.placements.get(rank.index());
                placement.map_or(NodeIndex::DRIVER, |placement| NodeIndex(placement.node))
            }
            Member::Evaluator => NodeIndex::DRIVER,
        }
    }

    /// Threads that a member computes with.
    pub(super) fn threads(&self, member: Member) -> u32 {
        let threads = self.attempt.spec.threads;
        match member {
            Member::Rank(rank) => {
                let placement = self.attempt.spec.cluster.placements.get(rank.index());
                threads.of(placement.map_or(Role::Worker, |placement| placement.role))
            }
            Member::Evaluator => threads.evaluator,
        }
    }

    /// Threads that the variables of a member say. Those of the evaluator are a worker's, so that the workers' server forks it: it
    /// issues all operations from its main thread, for which it sets its own number. (An OpenBLAS, which the builds for x86-64
    /// do without, takes the variable's number all the same.)
    pub(super) fn threads_in_variables(&self, member: Member) -> u32 {
        match member {
            Member::Rank(_) => self.threads(member),
            Member::Evaluator => self.attempt.spec.threads.worker,
        }
    }
}
