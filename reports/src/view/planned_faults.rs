//! The mark of the first screen that says what the recipe lets go wrong, and whether the times show it.

use super::trust_mark::TrustMark;
use crate::findings::Findings;
use recipe::{FaultAction, PlannedFault};
use store::RunRow;

/// Mark of the faults that the recipe plans; `None` if it plans none.
pub(crate) fn mark(findings: &Findings) -> Option<TrustMark> {
    let rows = findings.rows();
    let faults = rows.plan.faults();
    if faults.is_empty() {
        return None;
    }
    let said = format!("by the recipe: {}", faults.join("; "));
    let unseen = rows.runs.iter().any(|run| {
        let cell = rows.plan.cells.get(run.cell);
        cell.is_some_and(|cell| {
            // Steps of workers that step by themselves are counted by each of them.
            let untimed = cell.spec.train.target.is_none() && !cell.spec.strategy.is_asynchronous();
            untimed && cell.spec.faults.iter().any(|fault| is_over_before_the_steady_steps(*fault, run))
        })
    });
    if !unseen {
        return Some(TrustMark::supports("faults", said));
    }
    let warning = "step times show nothing of those that are over before the steady steps, which begin after a tenth: let them happen \
                   later, or set a target";
    Some(TrustMark::warns("faults", format!("{said}; {warning}")))
}

/// Steady steps are the last ones of a rank.
fn is_over_before_the_steady_steps(fault: PlannedFault, run: &RunRow) -> bool {
    let Some(attempt) = &run.attempt else { return false };
    let Some(rank) = attempt.ranks.iter().find(|rank| rank.rank.0 == fault.rank) else { return false };
    if rank.steady.steps == 0 {
        return false;
    }
    let last_unsteady = attempt.steps.saturating_sub(rank.steady.steps);
    match fault.action {
        FaultAction::Kill
        | FaultAction::Pause { length: None }
        | FaultAction::Slow { until: None, .. }
        | FaultAction::DropLink { .. } => false,
        FaultAction::Pause { length: Some(_) } => fault.step <= last_unsteady,
        FaultAction::Slow { until: Some(until), .. } => until <= last_unsteady + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;
    use std::time::Duration;

    #[test]
    fn a_pause_that_no_step_time_counts_is_said_to_be() {
        // The sample's ranks have five unsteady steps.
        let unsteady = 5;
        let mark = |step: u64, has_target: bool| {
            let mut rows = Sample::duel().rows();
            let action = FaultAction::Pause { length: Some(Duration::from_secs(1)) };
            for cell in &mut rows.plan.cells {
                cell.spec.faults = vec![PlannedFault { rank: 1, step, action }];
                cell.spec.train.target = cell.spec.train.target.filter(|_| has_target);
            }
            mark(&Findings::of(&rows, &Options::default()).unwrap()).unwrap()
        };
        let early = mark(unsteady, false);
        assert!(!early.good && early.text.contains("before the steady steps"), "{}", early.text);
        assert!(mark(unsteady + 1, false).good && mark(unsteady, true).good);
        assert!(mark(unsteady + 1, false).text.contains("by the recipe: rank 1"));
    }
}
