//! The phase breakdown: exclusive time per step by phase.

use comparison::study::ArmCell;
use recipe::Role;
use record::{LaneId, Nanos, Phase, Rank};
use std::collections::BTreeMap;
use store::{AttemptRow, RankRow};

/// Mean seconds per steady step of a lane.
pub(crate) struct StepShares {
    /// In the order of [`Phase::ALL`]; sums to `length`.
    pub(crate) phases: Vec<(Phase, f64)>,
    /// Communication that the lane did not hide; of compute lanes only.
    pub(crate) exposed: Option<f64>,
    /// Communication of other lanes that the lane hid; of compute lanes only.
    pub(crate) hidden: Option<f64>,
    pub(crate) length: f64,
}

impl StepShares {
    /// Hidden divided by all communication; `None` without communication.
    pub(crate) fn hidden_share(&self) -> Option<f64> {
        let (exposed, hidden) = self.exposed.zip(self.hidden)?;
        (exposed + hidden > 0.0).then(|| hidden / (exposed + hidden))
    }

    /// The seconds of one phase.
    pub(crate) fn of(&self, phase: Phase) -> f64 {
        self.phases.iter().find(|(found, _)| *found == phase).map_or(0.0, |(_, seconds)| *seconds)
    }
}

/// The mean of `shares` over the judged runs that have one and did not diverge.
pub(crate) fn mean(cell: &ArmCell, shares: impl Fn(&AttemptRow) -> Option<StepShares>) -> Option<StepShares> {
    let runs: Vec<StepShares> = cell.sound_runs().filter_map(|judged| shares(judged.attempt)).collect();
    let count = runs.len() as f64;
    let mean = |value: &dyn Fn(&StepShares) -> f64| runs.iter().map(value).sum::<f64>() / count;
    let exposed = runs.first()?.exposed.is_some();
    Some(StepShares {
        phases: Phase::ALL.into_iter().map(|phase| (phase, mean(&|run| run.of(phase)))).collect(),
        exposed: exposed.then(|| mean(&|run| run.exposed.unwrap_or(0.0))),
        hidden: exposed.then(|| mean(&|run| run.hidden.unwrap_or(0.0))),
        length: mean(&|run| run.length),
    })
}

/// The workers' compute lanes of one run. Time that no phase covers is `other`.
pub(crate) fn workers(attempt: &AttemptRow) -> Option<StepShares> {
    let workers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let steps: u64 = workers().map(|rank| rank.steady.steps).sum();
    let length: f64 = workers().map(|rank| rank.steady.time.seconds()).sum();
    let exposed: f64 = workers().map(|rank| rank.exposed.seconds()).sum();
    let hidden: f64 = workers().map(|rank| rank.hidden.seconds()).sum();
    let totals = totals(workers(), |lane| lane == LaneId::Compute);
    let [exposed, hidden] = [exposed, hidden].map(|seconds| Some(seconds / steps as f64));
    per_step(totals, length, steps).map(|shares| StepShares { exposed, hidden, ..shares })
}

/// The lanes of one run's servers that serve workers. A step is one turn of a lane; the lane's most frequent phase gives
/// their number.
pub(crate) fn servers(attempt: &AttemptRow) -> Option<StepShares> {
    let servers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Server);
    let mut turns: BTreeMap<(Rank, LaneId), u64> = BTreeMap::new();
    for (rank, row) in servers().flat_map(|rank| rank.phases.iter().map(|row| (rank.rank, row))) {
        if row.lane.serves() {
            let most = turns.entry((rank, row.lane)).or_default();
            *most = row.count.max(*most);
        }
    }
    per_step(totals(servers(), LaneId::serves), 0.0, turns.values().sum())
}

fn totals<'a>(ranks: impl Iterator<Item = &'a RankRow>, lane: impl Fn(LaneId) -> bool) -> Vec<(Phase, f64)> {
    let mut totals: Vec<(Phase, f64)> = Phase::ALL.into_iter().map(|phase| (phase, 0.0)).collect();
    for row in ranks.flat_map(|rank| &rank.phases).filter(|row| lane(row.lane)) {
        totals[row.phase as usize].1 += Nanos::seconds(row.total);
    }
    totals
}

/// Divides by the steps. If the lane's length is known, `other` is the time that no phase covers.
fn per_step(mut phases: Vec<(Phase, f64)>, length: f64, steps: u64) -> Option<StepShares> {
    let named: f64 =
        phases.iter().filter(|(phase, _)| *phase != Phase::Other).map(|(_, seconds)| seconds).sum();
    let other = &mut phases[Phase::Other as usize].1;
    *other = other.max(length - named);
    let length = named + *other;
    if steps == 0 || length <= 0.0 {
        return None;
    }
    for (_, seconds) in &mut phases {
        *seconds /= steps as f64;
    }
    Some(StepShares { phases, exposed: None, hidden: None, length: length / steps as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn the_books_close_and_what_is_missing_is_other() {
        let mut rows = Sample::duel().rows();
        let attempt = rows.runs[0].attempt.as_mut().unwrap();
        let whole = workers(attempt).unwrap();
        let sum: f64 = whole.phases.iter().map(|(_, seconds)| seconds).sum();
        assert!((sum - whole.length).abs() < 1e-12);
        for rank in &mut attempt.ranks {
            rank.phases.retain(|row| row.phase != Phase::Backward);
        }
        let holed = workers(attempt).unwrap();
        assert!((holed.length - whole.length).abs() < 1e-9);
        let moved = holed.of(Phase::Other) - whole.of(Phase::Other);
        assert!((moved - whole.of(Phase::Backward)).abs() < 1e-9);
    }

    #[test]
    fn servers_are_measured_apart() {
        let rows = Sample::duel().rows();
        let attempt = |run: usize| rows.runs[run].attempt.as_ref().unwrap();
        assert!(servers(attempt(0)).is_some_and(|shares| shares.exposed.is_none()));
        assert!(servers(attempt(1)).is_none());
    }

    #[test]
    fn a_turn_is_one_of_one_lane_however_many_clients_a_server_has() {
        let mut rows = Sample::duel().rows();
        let attempt = rows.runs[0].attempt.as_mut().unwrap();
        let one = servers(attempt).unwrap().length;
        for rank in attempt.ranks.iter_mut().filter(|rank| rank.role == Role::Server) {
            // As busy for each of four clients, beside a lane that takes snapshots.
            let with = |lane, row: &store::PhaseRow| store::PhaseRow { lane, ..row.clone() };
            let first = rank.phases.clone();
            let lanes = (0..4).map(LaneId::Client).chain([LaneId::Snapshot]);
            rank.phases = lanes.flat_map(|lane| first.iter().map(move |row| with(lane, row))).collect();
        }
        assert!((servers(attempt).unwrap().length - one).abs() < 1e-12);
    }
}
