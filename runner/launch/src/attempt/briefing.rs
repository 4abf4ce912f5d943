//! What each member of an attempt needs to know.

use super::Shell;
use crate::launcher::{Artifacts, Launcher, NodeIndex};
use crate::local::environment;
use mesh::{Briefing, Member, PROTOCOL};
use recipe::{Access, Role};
use std::collections::BTreeMap;

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
                let seat = self.attempt.spec.cluster.seats.get(rank.index());
                seat.map_or(NodeIndex::DRIVER, |seat| NodeIndex(seat.node))
            }
            Member::Evaluator => NodeIndex::DRIVER,
        }
    }

    /// The variables that the inventory gives workers of this machine.
    pub(super) fn environment_here(&self) -> BTreeMap<String, String> {
        let mut nodes = self.attempt.spec.cluster.nodes.iter();
        nodes.find(|node| node.access == Access::Local).map(environment::of_node).unwrap_or_default()
    }

    /// Threads that a member computes with.
    pub(super) fn threads(&self, member: Member) -> u32 {
        let threads = self.attempt.spec.threads;
        match member {
            Member::Rank(rank) => {
                let seat = self.attempt.spec.cluster.seats.get(rank.index());
                threads.of(seat.map_or(Role::Worker, |seat| seat.role))
            }
            Member::Evaluator => threads.evaluator,
        }
    }
}
