//! The conditions under which the runs of a plan are made.

use crate::reuse::Decision;
use crate::searches;
use recipe::{Plan, Run};
use std::collections::BTreeMap;

/// Of each run of a plan the conditions under which it is made.
pub(crate) struct Needs<'a> {
    plan: &'a Plan,
    /// Those of a search, by cell.
    searched: BTreeMap<usize, String>,
}

impl<'a> Needs<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Self {
        Self { plan, searched: searches::conditions(plan) }
    }

    /// The conditions for a run, joined by semicolons; empty where it is made in any case.
    pub(crate) fn words(&self, run: &Run) -> String {
        self.conditions(run).join("; ")
    }

    /// Those, and why a run is what it would be.
    pub(crate) fn why(&self, run: &Run, decision: &Decision) -> String {
        let mut parts = self.conditions(run);
        parts.push(decision.why.clone());
        parts.join("; ")
    }

    fn conditions(&self, run: &Run) -> Vec<String> {
        let before = self.plan.looks.iter().rev().find(|look| run.repeat >= **look);
        let open = before.map(|look| format!("if open after {look} repeats"));
        self.searched.get(&run.cell).cloned().into_iter().chain(open).collect()
    }
}
