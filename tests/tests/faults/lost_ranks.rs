//! Ranks that die, hang or are slow, in real processes of every strategy that `fault_matrix` does not have: methods whose
//! ranks step together end soon and name the culprit, servers that do not wait for all workers continue and say so, and a
//! rank that is only slow costs time and nothing else.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Trained, train, train_watched};
use launch::{Deadlines, End, Member, Update};
use recipe::{ExchangeThrough, Profile, StepPace, StrategyKind};
use record::{Event, Rank};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// After ten of these without a message, a rank counts as hanging: long enough for a busy machine, short enough for a
/// test.
const HEARTBEAT: Duration = Duration::from_millis(300);
/// A run that has lost a rank which it needs is over long before a peer would have given up waiting for it.
const SOON: Duration = Duration::from_secs(30);

/// Steps take 10 ms, as fast as the machine may be: time enough for something to go wrong.
fn recipe(strategy: &str, workers: u32, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "lost"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 600
test = 100
[train]
global-batch = 60
steps = 200
optimizer = {{ kind = "sgd", lr = 0.05 }}
evaluate = "100 steps"
[nodes]
use = ["local*{workers}"]
{more}
[[strategy]]
{strategy}
[compute]
step-time = "10ms"
split = {{ kind = "given" }}
[repeats]
count = 1
"#
    )
}

/// The arms of a kind: what stands in `[[strategy]]`. None for the kinds of `fault_matrix`, and for strategies of other crates.
fn arms(kind: StrategyKind) -> &'static [&'static str] {
    match kind {
        StrategyKind::PsSync | StrategyKind::DSync | StrategyKind::Custom => &[],
        StrategyKind::PipeSgd => &["kind = \"pipe-sgd\"\nwarmup-epochs = 0"],
        StrategyKind::LocalSgd => &["kind = \"local-sgd\"\nperiod = 3"],
        StrategyKind::Slowmo => &["kind = \"slowmo\"\nperiod = 3"],
        StrategyKind::AsyncSgd => &["kind = \"async-sgd\""],
        StrategyKind::AsyncMsgd => &["kind = \"async-msgd\""],
        StrategyKind::HogwildSgd => &["kind = \"hogwild-sgd\""],
        StrategyKind::DPsgd => &["kind = \"d-psgd\""],
        StrategyKind::AdPsgd => &["kind = \"ad-psgd\""],
        StrategyKind::Sgp => &["kind = \"sgp\""],
        StrategyKind::EasgdOriginal => &["kind = \"easgd-original\"\nmoving-rate = 0.2"],
        StrategyKind::EasgdAsync => &["kind = \"easgd-async\"\nmoving-rate = 0.2"],
        StrategyKind::MeasgdAsync => &["kind = \"measgd-async\"\nmoving-rate = 0.2\nmomentum = 0.5"],
        StrategyKind::EasgdHogwild => &["kind = \"easgd-hogwild\"\nmoving-rate = 0.2"],
        StrategyKind::EasgdSync => &[
            "kind = \"easgd-sync\"\nvariant = 1\nmoving-rate = 0.2",
            "kind = \"easgd-sync\"\nvariant = 3\nmoving-rate = 0.2",
        ],
        StrategyKind::Eamsgd => &["kind = \"eamsgd\"\nmomentum = 0.5"],
        StrategyKind::Gmp => &["kind = \"gmp\"\nmp = 2"],
    }
}

fn arms_of(chosen: impl Fn(Profile) -> bool) -> Vec<&'static str> {
    let kinds = StrategyKind::ALL.iter().filter(|kind| chosen(kind.profile()));
    kinds.flat_map(|kind| arms(*kind)).copied().collect()
}

/// Methods whose ranks need each other in every step or round.
fn together() -> Vec<&'static str> {
    arms_of(|profile| profile.pace == StepPace::Common)
}

/// Methods whose workers step by themselves.
fn alone() -> Vec<&'static str> {
    arms_of(|profile| profile.pace == StepPace::Own)
}

/// Of these, the methods whose server or master does not wait for all workers.
fn served() -> Vec<&'static str> {
    arms_of(|profile| profile.pace == StepPace::Own && profile.exchange != ExchangeThrough::Neighbours)
}

/// One of each way to need no other worker.
fn one_of_each_exchange() -> Vec<&'static str> {
    let mut seen = Vec::new();
    let mut first = |profile: Profile| {
        let new = profile.pace == StepPace::Own && !seen.contains(&profile.exchange);
        if new {
            seen.push(profile.exchange);
        }
        new
    };
    let kinds = StrategyKind::ALL.iter().filter(|kind| first(kind.profile()));
    kinds.flat_map(|kind| arms(*kind)).copied().collect()
}

/// The arm of synchronous elastic averaging whose centre is on a master.
const WITH_MASTER: &str = "kind = \"easgd-sync\"\nvariant = 1\nmoving-rate = 0.2";

/// Whom a run loses: the processes by rank, and when the last signal was sent.
#[derive(Debug, Default)]
struct Victims {
    processes: BTreeMap<Rank, Pid>,
    struck: Vec<(Rank, Instant)>,
}

impl Victims {
    fn learn(&mut self, update: &Update) {
        if let Update::Spawned { member: Member::Rank(rank), pid } = update {
            self.processes.insert(*rank, Pid::from_raw(pid.cast_signed()).unwrap());
        }
    }

    /// Sends the signal, once.
    fn strike(&mut self, rank: Rank, signal: Signal) {
        if self.struck.iter().all(|(struck, _)| *struck != rank) {
            kill_process(self.processes[&rank], signal).unwrap();
            self.struck.push((rank, Instant::now()));
        }
    }
}

/// Makes a run, and does what `strike` says when it sees an update.
fn run_into(
    recipe: &str,
    strike: impl Fn(&mut Victims, &Update) + Send + 'static,
) -> (Trained, Vec<(Rank, Instant)>) {
    let deadlines = Deadlines { heartbeat: HEARTBEAT, ..Deadlines::default() };
    let victims = Arc::new(Mutex::new(Victims::default()));
    let watched = victims.clone();
    let trained = train_watched(recipe, deadlines, move |update| {
        let mut victims = watched.lock().unwrap();
        victims.learn(update);
        strike(&mut victims, update);
    });
    let struck = victims.lock().unwrap().struck.clone();
    (trained.unwrap(), struck)
}

/// Whether workers learn of each other's steps from each other only.
fn gossips(strategy: &str) -> bool {
    arms_of(|profile| profile.exchange == ExchangeThrough::Neighbours).contains(&strategy)
}

/// Whether the update reports the sixth step of a rank.
fn trains(update: &Update, rank: Rank) -> bool {
    let step = |event: &Event| matches!(event, Event::Step(step) if step.rank == rank && step.step >= 6);
    matches!(update, Update::Events(events) if events.iter().any(step))
}

/// Samples that the model had seen which the run ends with.
fn samples_at_the_end(trained: &Trained) -> u64 {
    let last = trained.events.iter().filter_map(|event| match event {
        Event::Snapshot(snapshot) if snapshot.last && !snapshot.model.is_empty() => Some(snapshot.samples),
        _ => None,
    });
    last.max().unwrap()
}

/// Whether that model was evaluated.
fn is_judged(trained: &Trained) -> bool {
    let samples = samples_at_the_end(trained);
    trained.events.iter().any(|event| matches!(event, Event::Metric(metric) if metric.samples == samples))
}

#[test]
fn ranks_that_step_together_end_soon_and_name_the_missing_one() {
    for strategy in together() {
        for (signal, words) in [(Signal::KILL, "SIGKILL"), (Signal::STOP, "no sign of life")] {
            let (trained, struck) = run_into(&recipe(strategy, 4, ""), move |victims, update| {
                if trains(update, Rank(1)) {
                    victims.strike(Rank(1), signal);
                }
            });
            let outcome = &trained.outcome;
            assert!(struck[0].1.elapsed() < SOON, "{strategy}, {words}");
            assert!(matches!(outcome.end, End::Failed { .. }), "{strategy}, {words}: {:?}", outcome.end);
            assert_eq!(outcome.culprit, Some(Rank(1)), "{strategy}, {words}: {}", outcome.detail);
            assert!(outcome.detail.contains(words), "{strategy}: {}", outcome.detail);
            assert_eq!(outcome.lost_ranks, [], "{strategy}, {words}");
        }
    }
}

#[test]
fn a_server_that_waits_for_no_worker_continues_without_two_of_three() {
    for strategy in alone() {
        let (trained, struck) = run_into(&recipe(strategy, 3, ""), |victims, update| {
            if trains(update, Rank(1)) {
                victims.strike(Rank(1), Signal::KILL);
            }
            if matches!(update, Update::Lost { rank: Rank(1), .. }) {
                victims.strike(Rank(0), Signal::STOP);
            }
        });
        let outcome = &trained.outcome;
        assert_eq!(struck.len(), 2, "{strategy}: {}", outcome.detail);
        assert_eq!(outcome.end, End::Done, "{strategy}: {}", outcome.detail);
        let lost: Vec<Rank> = outcome.lost_ranks.iter().map(|lost| lost.rank).collect();
        assert_eq!(lost, [Rank(1), Rank(0)], "{strategy}: {:?}", outcome.lost_ranks);
        // Who gossips does not count the steps of others; what the rank itself said last may be older.
        let known = |lost: &launch::LostRank| lost.step > 5 || gossips(strategy);
        assert!(outcome.lost_ranks.iter().all(known), "{strategy}: {:?}", outcome.lost_ranks);
        assert!(
            outcome.lost_ranks[0].reason.contains("SIGKILL"),
            "{strategy}: {}",
            outcome.lost_ranks[0].reason
        );
        assert!(
            outcome.lost_ranks[1].reason.contains("no sign of life"),
            "{strategy}: {}",
            outcome.lost_ranks[1].reason
        );
        assert!(outcome.detail.ends_with("the run went on without them"), "{strategy}: {}", outcome.detail);
        // The last worker computes the share of the lost ones, unless it had gone home; the model is judged as ever.
        let samples = samples_at_the_end(&trained);
        assert!((11_960..12_060).contains(&samples), "{strategy}: {samples} samples");
        assert!(is_judged(&trained), "{strategy}");
    }
}

#[test]
fn without_its_last_worker_or_its_server_a_run_has_failed() {
    let last = one_of_each_exchange().into_iter().map(|strategy| (strategy, vec![Rank(0), Rank(1)], None));
    let server = served().into_iter().chain([WITH_MASTER]);
    let server = server.map(|strategy| (strategy, vec![Rank(2)], Some(Rank(2))));
    for (strategy, victims, culprit) in last.chain(server) {
        let (trained, struck) = run_into(&recipe(strategy, 2, ""), move |processes, update| {
            for victim in victims.iter().filter(|_| trains(update, Rank(0))) {
                processes.strike(*victim, Signal::KILL);
            }
        });
        let outcome = &trained.outcome;
        assert!(struck[0].1.elapsed() < SOON, "{strategy}");
        assert!(matches!(outcome.end, End::Failed { .. }), "{strategy}: {outcome:?}");
        assert!(culprit.is_none() || outcome.culprit == culprit, "{strategy}: {outcome:?}");
        assert!(outcome.detail.contains("SIGKILL"), "{strategy}: {}", outcome.detail);
    }
}

#[test]
fn a_slow_rank_costs_time_and_nothing_else() {
    let slow = "slow = [{ rank = 1, compute = 3.0 }]";
    let run = |strategy: &str, more: &str| {
        let short =
            recipe(strategy, 2, more).replace("steps = 200", "steps = 40").replace("100 steps", "40 steps");
        let trained = train(&short).unwrap().done().unwrap();
        assert_eq!(trained.outcome.lost_ranks, [], "{strategy}");
        trained
    };
    for strategy in together().into_iter().chain(["kind = \"ps-sync\"", "kind = \"d-sync\""]) {
        let even = run(strategy, "");
        let uneven = run(strategy, slow);
        assert_eq!(even.final_weights().unwrap(), uneven.final_weights().unwrap(), "{strategy}");
    }
    for strategy in served() {
        assert_eq!(samples_at_the_end(&run(strategy, slow)) / 30, 80, "{strategy}");
    }
}
