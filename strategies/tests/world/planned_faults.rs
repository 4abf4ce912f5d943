//! Each strategy's reaction to a planned fault of a rank: the table of `strategies/README.md`, cell by cell.

use crate::asynchronous;
use crate::links;
use crate::lost_workers::{DEADLINE, all_fail, first_failures, survivors};
use crate::scene::Scene;
use recipe::{AveragedBy, Extent, FaultAction, PlannedFault, Serve, Strategy, SyncVariant};
use record::{Event, LaneId, Nanos, Rank};
use std::collections::BTreeSet;
use std::time::Duration;
use strategies::StepError;
use strategies::sim::{Aftermath, Faults, LaneEnd};

pub(crate) const WORKERS: u32 = 4;
/// Worker that the faults strike.
pub(crate) const VICTIM: Rank = Rank(1);
const STEPS: u64 = 120;
pub(crate) const AT: u64 = 10;
const UNTIL: u64 = 30;
const SLOWNESS: f64 = 4.0;
/// Some ten steps long.
const PAUSE: Duration = Duration::from_micros(100);

/// Four workers that are alike, with the servers that the strategy needs.
pub(crate) fn scene(strategy: &Strategy, faults: Vec<PlannedFault>) -> Scene {
    let servers = strategy.servers() as usize;
    let mut scene = asynchronous::scene(strategy.clone(), WORKERS, servers, 3).change(|spec| {
        spec.train.global_batch = 40;
        spec.train.length = Extent::Steps(STEPS);
        spec.train.evaluate = Extent::Steps(15);
        spec.faults = faults;
    });
    scene.world.slow.clear();
    scene.world.jitter = 0.1;
    // Servers are not what workers wait for.
    (scene.world.costs.update, scene.world.costs.code) = (0.1, 0.01);
    scene.world.link.latency = Nanos(50);
    let learner = scene.learner();
    let layout = strategies::Learner::layout(&learner);
    let layers = layout.layers().len();
    let size = layout.size();
    scene.world = scene.world.clone().emulating(&scene.spec, 1, layers, size);
    scene
}

pub(crate) fn run(strategy: &Strategy, faults: Vec<PlannedFault>) -> Aftermath {
    let scene = scene(strategy, faults);
    let none = Faults { patience: DEADLINE, faults: vec![] };
    scene.world.run_into(&none, &scene.blueprint(), |_| Box::new(scene.learner())).unwrap()
}

pub(crate) fn strike(strategy: &Strategy, rank: Rank, action: FaultAction) -> Aftermath {
    let after = run(strategy, vec![PlannedFault { rank: rank.0, step: AT, action }]);
    let struck: Vec<&Event> = after
        .outcome
        .ranks
        .iter()
        .flat_map(|rank| &rank.events)
        .filter(|event| matches!(event, Event::Struck(_)))
        .collect();
    assert_eq!(struck.len(), 1, "{strategy:?}: it strikes once");
    after
}

/// When it struck, on the run's clock.
fn moment(after: &Aftermath) -> Nanos {
    let events = after.outcome.ranks.iter().flat_map(|rank| &rank.events);
    let struck = events.filter_map(|event| match event {
        Event::Struck(struck) => Some(struck.at),
        _ => None,
    });
    struck.min().unwrap()
}

/// Steps that each other worker ended between two moments.
fn steps_between(after: &Aftermath, from: Nanos, to: Nanos) -> Vec<usize> {
    let others = (0..WORKERS).filter(|rank| *rank != VICTIM.0);
    let ended = |rank: u32| {
        let steps = after.outcome.ranks[rank as usize].steps(LaneId::Compute);
        steps.iter().filter(|step| !step.drain && (from..to).contains(&(step.begin + step.length))).count()
    };
    others.map(ended).collect()
}

fn all_finished<'a>(endings: impl Iterator<Item = &'a strategies::sim::Ending>) -> bool {
    endings.into_iter().all(|ending| ending.end == LaneEnd::Finished)
}

/// Effect on the run of losing `rank` for good, in the words of the table.
fn of_loss(strategy: &Strategy, rank: Rank, action: FaultAction) -> &'static str {
    let after = strike(strategy, rank, action);
    if all_finished(survivors(&after, rank)) {
        return "continues without it";
    }
    all_fail(&after, rank, &format!("{strategy:?}"));
    // A rank that hangs is missed by all that wait for it, and its neighbours are missed at the same moment.
    let names = |(_, error): &(Rank, &StepError)| error.peer() == Some(rank);
    assert!(
        action != FaultAction::Kill || first_failures(&after).iter().any(names),
        "{strategy:?}: {after:?}"
    );
    "fails"
}

/// Both ways of losing a rank for good come to the same.
fn of_both_losses(strategy: &Strategy, rank: Rank) -> &'static str {
    let [killed, hangs] = [FaultAction::Kill, FaultAction::Pause { length: None }]
        .map(|action| of_loss(strategy, rank, action));
    assert_eq!(killed, hangs, "{strategy:?}");
    killed
}

/// Behaviour of the other workers in the second half of the victim's pause.
fn of_pause(strategy: &Strategy) -> &'static str {
    let after = strike(strategy, VICTIM, FaultAction::Pause { length: Some(PAUSE) });
    assert!(all_finished(after.endings.iter()), "{strategy:?}: {:?}", after.endings);
    keeps_the_weights(strategy, &after);
    let begin = moment(&after);
    let length = PAUSE.as_nanos() as u64;
    let steps = steps_between(&after, begin + Nanos(length / 2), begin + Nanos(length));
    match steps.iter().min().zip(steps.iter().max()) {
        Some((0, 0)) => "all wait",
        Some((1.., _)) => "others continue",
        _ => panic!("{strategy:?}: {steps:?}"),
    }
}

/// Pace of the other workers while the victim takes its slow steps.
fn of_slowness(strategy: &Strategy) -> &'static str {
    let after = strike(strategy, VICTIM, FaultAction::Slow { compute: SLOWNESS, until: Some(UNTIL) });
    assert!(all_finished(after.endings.iter()), "{strategy:?}: {:?}", after.endings);
    keeps_the_weights(strategy, &after);
    let of_victim = after.outcome.ranks[VICTIM.index()].steps(LaneId::Compute);
    let end = of_victim.iter().find(|step| step.step == UNTIL).unwrap().begin;
    let steps = steps_between(&after, moment(&after), end);
    let slow = (UNTIL - AT) as usize;
    // In front of a rank that is waited for there are at most the steps that a pipeline holds.
    match (steps.iter().min(), steps.iter().max()) {
        (_, Some(most)) if *most <= slow + 3 => "all at its pace",
        (Some(least), _) if *least >= slow * 2 => "others at their own",
        _ => panic!("{strategy:?}: {steps:?}"),
    }
}

/// Where workers step together, time is all that a rank costs which comes back.
fn keeps_the_weights(strategy: &Strategy, after: &Aftermath) {
    if strategy.kind().depends_on_arrival() {
        return;
    }
    let undisturbed = run(strategy, vec![]);
    for (rank, other) in after.outcome.ranks.iter().zip(&undisturbed.outcome.ranks) {
        assert_eq!(rank.model(), other.model(), "{strategy:?}");
    }
}

/// The strategy as a row of the table is called.
fn label(strategy: &Strategy) -> String {
    let kind = strategy.kind();
    let with = match strategy {
        Strategy::EasgdSync { variant: SyncVariant::Master, .. } => "variant = 1",
        Strategy::Gmp { averaged_by: AveragedBy::Servers, .. } => "averaged-by = \"servers\"",
        _ if strategy.staleness_bound().is_some() => "staleness-bound",
        _ => return format!("`{kind}`"),
    };
    format!("`{kind}` with `{with}`")
}

fn row(strategy: &Strategy) -> String {
    let server = if strategy.servers() > 0 { of_both_losses(strategy, Rank(WORKERS)) } else { "–" };
    let [paused, slow] = [of_pause(strategy), of_slowness(strategy)];
    let cells = [of_both_losses(strategy, VICTIM), server, links::cell(strategy), paused, slow];
    format!("| {} | {} |", label(strategy), cells.join(" | "))
}

/// Samples of every kind, those with a bound also without it.
fn strategies() -> Vec<Strategy> {
    let mut all = Strategy::samples();
    all.push(Strategy::AsyncMsgd { momentum: 0.5, serve: Serve::One, staleness_bound: None });
    all
}

#[test]
fn each_cell_of_the_table_is_what_happens() {
    let documented = include_str!("../../README.md");
    let (_, table) = documented.split_once("| what goes wrong |").unwrap();
    let documented: BTreeSet<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let seen: BTreeSet<String> = strategies().iter().map(row).collect();
    let seen: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    let rows = seen.iter().copied().collect::<Vec<_>>().join("\n");
    assert_eq!(documented, seen, "the table is:\n{rows}");
}

#[test]
fn a_planned_fault_strikes_in_the_same_way_each_time() {
    for action in [FaultAction::Kill, FaultAction::Pause { length: Some(PAUSE) }] {
        for strategy in Strategy::samples() {
            let again = || strike(&strategy, VICTIM, action);
            let one = again();
            let other = again();
            assert_eq!((moment(&one), one.endings), (moment(&other), other.endings), "{strategy:?}");
        }
    }
}

#[test]
fn a_killed_rank_has_taken_the_steps_before() {
    for strategy in Strategy::samples() {
        let after = strike(&strategy, VICTIM, FaultAction::Kill);
        let last = after.outcome.ranks[VICTIM.index()].steps(LaneId::Compute).last().map(|step| step.step);
        assert_eq!(last, Some(AT - 1), "{strategy:?}");
    }
}
