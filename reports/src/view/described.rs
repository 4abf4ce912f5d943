//! Descriptions of the charts, in sentences: the first thing that a reader who cannot see them should learn.

use super::series::Series;
use crate::number_format;
use crate::phase_shares::StepShares;
use crate::verdict;
use comparison::statistics;
use comparison::study::{ArmCell, Condition, JudgedRun};
use recipe::Target;
use record::{Category, Phase};

/// Arms that a sentence names; the table names the others.
const NAMED: usize = 6;

/// Names of arms by their place in the plan.
pub(crate) type Names<'n> = &'n dyn Fn(usize) -> String;

/// One finding per arm, the best arm first.
struct Findings(Vec<(f64, String)>);

impl Findings {
    /// `rank` orders the arms: the least is first, NaN last.
    fn in_order(mut self) -> String {
        self.0.sort_by(|left, right| left.0.total_cmp(&right.0));
        let more = self.0.len().saturating_sub(NAMED);
        self.0.truncate(NAMED);
        let mut parts: Vec<String> = self.0.into_iter().map(|(_, words)| words).collect();
        if more > 0 {
            parts.push(format!("{} in the table", number_format::plural(more, "more arm")));
        }
        if parts.is_empty() { String::new() } else { format!("{}.", parts.join("; ")) }
    }
}

/// Of curves over training: when the arms reach the target, or where they end.
pub(crate) fn curves(condition: &Condition, series: Series, names: Names) -> String {
    let cells = condition.cells.iter().filter(|cell| !cell.runs.is_empty());
    let finding = |cell: &ArmCell| match series.target(condition) {
        Some(target) => reached(cell, target, &names(cell.arm)),
        None => ended(cell, series, &names(cell.arm)),
    };
    Findings(cells.map(finding).collect()).in_order()
}

/// `d-sync's median reaches 92 % after 1.3 s`.
fn reached(cell: &ArmCell, target: Target, name: &str) -> (f64, String) {
    let times: Vec<f64> = cell.runs.iter().map(JudgedRun::time_to_target).collect();
    let hits = times.iter().filter(|time| time.is_finite()).count();
    let level = verdict::threshold_words(target);
    let middle = statistics::median(&times).filter(|time| time.is_finite());
    let words = match middle {
        Some(time) => format!("{name}'s median reaches {level} after {}", number_format::seconds(time)),
        None if hits == 0 => format!("{name} does not reach {level}"),
        None => format!("{name} reaches {level} in {hits} of {}", number_format::plural(times.len(), "run")),
    };
    (middle.unwrap_or(f64::INFINITY), words)
}

/// `d-sync's median ends at 0.08 nats after 4.2 s`.
fn ended(cell: &ArmCell, series: Series, name: &str) -> (f64, String) {
    let last = || cell.runs.iter().filter_map(|judged| series.values(judged).last().copied());
    let values: Vec<f64> = last().map(|point| point.value).collect();
    let times: Vec<f64> = last().map(|point| point.seconds).collect();
    let middle = statistics::median(&values).filter(|value| value.is_finite());
    match middle.zip(statistics::median(&times)) {
        Some((value, time)) => {
            let rank = if series.higher_is_better() { -value } else { value };
            let end = series.unit().short(value);
            (rank, format!("{name}'s median ends at {end} after {}", number_format::seconds(time)))
        }
        None => (f64::INFINITY, format!("{name} ends without a finite value")),
    }
}

/// Of the runs at the target by time.
pub(crate) fn reach(condition: &Condition, names: Names) -> String {
    let cells = condition.cells.iter().filter(|cell| !cell.runs.is_empty());
    let finding = |cell: &ArmCell| {
        let mut hits: Vec<f64> =
            cell.runs.iter().map(JudgedRun::time_to_target).filter(|time| time.is_finite()).collect();
        hits.sort_by(f64::total_cmp);
        let head = format!(
            "{} of {} of {}",
            hits.len(),
            number_format::plural(cell.runs.len(), "run"),
            names(cell.arm)
        );
        match (hits.first(), hits.last()) {
            (Some(first), Some(last)) if hits.len() > 1 => {
                let [from, to] = [*first, *last].map(number_format::seconds);
                (*last, format!("{head} reach the target, the first after {from}, the last after {to}"))
            }
            (Some(only), _) => {
                (*only, format!("{head} reaches the target, after {}", number_format::seconds(*only)))
            }
            _ => (f64::INFINITY, format!("{head} reach the target")),
        }
    };
    Findings(cells.map(finding).collect()).in_order()
}

/// Of the phases of a step: `a step of d-sync takes 8.7 ms: 70 % computing, 20 % communicating, 9 % waiting`.
pub(crate) fn phases<'s>(lanes: impl Iterator<Item = (String, &'s StepShares)>) -> String {
    let finding = |(name, shares): (String, &StepShares)| {
        let share = |kind: Category| {
            let phases = shares.phases.iter().filter(|(phase, _)| phase.category() == kind);
            number_format::percent(phases.map(|(_, seconds)| seconds).sum::<f64>() / shares.length)
        };
        let [computes, communicates, waits] =
            [Category::Compute, Category::Communication, Category::Waiting].map(share);
        let length = number_format::seconds(shares.length);
        (
            shares.length,
            format!(
                "A step of {name} takes {length}: {computes} computing, {communicates} communicating, {waits} waiting"
            ),
        )
    };
    Findings(lanes.map(finding).collect()).in_order()
}

/// A lane's time in a phase within a window.
pub(crate) struct LanePhase {
    pub(crate) lane: String,
    pub(crate) phase: Phase,
    pub(crate) seconds: f64,
}

/// Of a window of a timeline: the phase that takes most, and the lane that waits most.
pub(crate) fn window(steps: &str, length: f64, found: &[LanePhase]) -> String {
    let lanes: std::collections::BTreeSet<&str> = found.iter().map(|part| part.lane.as_str()).collect();
    let sum = |phase: Phase| -> f64 {
        found.iter().filter(|part| part.phase == phase).map(|part| part.seconds).sum()
    };
    let whole = length * lanes.len() as f64;
    let longest = Phase::ALL.into_iter().max_by(|left, right| sum(*left).total_cmp(&sum(*right)));
    let mut words = vec![format!("{steps} take {}", number_format::seconds(length))];
    if let Some(phase) = longest.filter(|phase| sum(*phase) > 0.0) {
        let share = number_format::percent(sum(phase) / whole);
        words.push(format!("{phase} is the longest phase with {share} of the time of all lanes"));
    }
    let waited = |lane: &str| -> f64 {
        let own = found.iter().filter(|part| part.lane == lane && part.phase.category() == Category::Waiting);
        own.map(|part| part.seconds).sum()
    };
    let most = lanes.iter().copied().max_by(|left, right| waited(left).total_cmp(&waited(right)));
    if let Some(lane) = most.filter(|lane| lanes.len() > 1 && waited(lane) > 0.0) {
        words.push(format!("{lane} waits most, {}", number_format::percent(waited(lane) / length)));
    }
    format!("{}.", words.join("; "))
}

/// Of a map of what ranks pass to each other: how evenly it is spread.
pub(crate) fn passed(largest: &str, pairs: usize, ranks: usize) -> String {
    let of = ranks * ranks.saturating_sub(1);
    format!(
        "{} of {of} pairs of ranks pass anything; the most is {largest}.",
        number_format::count(pairs as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use comparison::study::Study;
    use recipe::Metric;

    fn described(sample: &Sample, series: Series, change: impl FnOnce(&mut store::SweepRows)) -> String {
        let mut rows = sample.rows();
        change(&mut rows);
        let study = Study::new(&rows, None).unwrap();
        curves(&study.conditions[0], series, &|arm| study.arm_name(arm).to_owned())
    }

    #[test]
    fn a_chart_says_when_each_arm_reaches_the_target() {
        let metric = Series::Metric(Metric::TestAccuracy);
        let times = |rows: &mut store::SweepRows| {
            for run in &mut rows.runs {
                let reached = run.cell == 1 || run.repeat == 0;
                for (place, row) in run.attempt.as_mut().unwrap().metrics.iter_mut().enumerate() {
                    row.value = if place < 3 || !reached { 0.5 } else { 0.975 };
                    row.at = record::Nanos(place as u64 * 500_000_000);
                }
            }
        };
        assert_eq!(
            described(&Sample::duel(), metric, times),
            "d-sync's median reaches 97.0\u{a0}% after 2.00\u{a0}s; ps-sync reaches 97.0\u{a0}% in 1 of 5 runs."
        );
        let without = Sample { target: None, ..Sample::duel() };
        assert_eq!(
            described(&without, metric, |rows| {
                times(rows);
                rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().metrics.truncate(5));
            }),
            "d-sync's median ends at 97.5\u{a0}% after 2.00\u{a0}s; ps-sync's median ends at 50.0\u{a0}% after 2.00\u{a0}s."
        );
    }

    #[test]
    fn a_window_says_which_phase_and_which_lane_stand_out() {
        let part = |lane: &str, phase, seconds| LanePhase { lane: lane.to_owned(), phase, seconds };
        let found = [
            part("rank 0", Phase::Forward, 0.002),
            part("rank 0", Phase::WaitPeer, 0.006),
            part("rank 1", Phase::Forward, 0.007),
            part("rank 1", Phase::WaitPeer, 0.001),
        ];
        assert_eq!(
            window("Steps 1 to 3", 0.008, &found),
            "Steps 1 to 3 take 8.00\u{a0}ms; forward is the longest phase with 56.2\u{a0}% of the time of all lanes; \
             rank 0 waits most, 75.0\u{a0}%."
        );
        assert_eq!(window("Steps 1 to 3", 0.0, &[]), "Steps 1 to 3 take 0\u{a0}s.");
    }

    #[test]
    fn many_arms_are_counted() {
        let found = Findings((0..9).rev().map(|arm| (f64::from(arm), format!("arm {arm}"))).collect());
        assert_eq!(found.in_order(), "arm 0; arm 1; arm 2; arm 3; arm 4; arm 5; 3 more arms in the table.");
    }
}
