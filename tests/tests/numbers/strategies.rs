//! Every strategy and collective in real processes, with two workers and with four: the loss falls, and what must hold
//! exactly does.
//!
//! One driver runs them all from one recipe. The kinds come from the recipe's own list of choices, so that a new one
//! without an arm here is missed at once.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod learning;
mod traffic;

use e2e::{Desk, strategy_kinds};
use learning::{MEASURES, follows_the_path, learns};
use recipe::{ExchangeThrough, RunSpec, Strategy};
use record::{Event, LaneId, Rank, RankEnd, StepRecord, UpdateRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{AttemptRow, EventLog, RunState, Selection, Store};
use traffic::sends_what_it_costs;

const STEPS: u64 = 100;
const BUDGET: u64 = STEPS * 100;
/// How long all runs together may take: a minute and a half's work for a machine that does nothing else.
const PATIENCE: Duration = Duration::from_mins(9);

const RECIPE: &str = r#"
schema = 1
name = "strategies"
[model]
kind = "sequential"
layers = [
    { kind = "flatten" },
    { kind = "linear", outputs = 102 },
    { kind = "relu" },
    { kind = "linear", outputs = 50 },
    { kind = "relu" },
    { kind = "linear", outputs = 10 },
]
[dataset]
kind = "synthetic"
train = 2000
test = 100
[train]
global-batch = 100
steps = 100
optimizer = { kind = "sgd", lr = 0.1 }
evaluate = "100 steps"
[nodes]
use = ["local*4"]
[repeats]
count = 1
[limits]
run-timeout = "2min"
[sweep.axes]
nodes.workers = [2, 4]
[[sweep.exclude]]
when = "communication.collective.kind == 'hierarchical' and nodes.workers == 2"
reason = "two workers are one group"
"#;

/// The kind of an arm, and what stands in `[[strategy]]` after it: one arm at least for each kind.
type Arm = (&'static str, &'static str);

const SERVERS_AND_ALL_REDUCES: &[Arm] = &[
    ("ps-sync", ""),
    ("ps-sync", "servers = 2"),
    ("ps-sync", "compression = { kind = \"quantize8\", error-feedback = true }"),
    ("d-sync", "communication.collective = \"pipelined-ring\""),
    ("d-sync", "communication.collective = \"tree\""),
    ("d-sync", "communication.collective = \"recursive-doubling\""),
    ("d-sync", "communication.collective = \"halving-doubling\""),
    ("d-sync", "communication.collective = \"star\""),
    ("d-sync", "communication.collective = { kind = \"hierarchical\", group-size = 2 }"),
    ("d-sync", "communication.reduce-order = \"rank\""),
    ("d-sync", "compression = \"truncate16\""),
    ("d-sync", "compression = { kind = \"quantize8\", error-feedback = true }"),
    ("pipe-sgd", ""),
    ("pipe-sgd", "gradient-segments = 4"),
    ("pipe-sgd", "warmup-epochs = 1"),
    ("pipe-sgd", "compression = \"truncate16\""),
    ("pipe-sgd", "compression = { kind = \"quantize8\", error-feedback = true }"),
    ("async-sgd", ""),
    ("async-sgd", "serve = \"all\""),
    ("async-sgd", "servers = 2\nstaleness-bound = 1"),
    ("async-sgd", "compression = \"truncate16\""),
    ("async-msgd", "lr = 0.01"),
    ("hogwild-sgd", ""),
    ("local-sgd", "period = 8"),
    ("slowmo", "slow-momentum = 0.5\nlr = 0.05"),
    ("gmp", ""),
    ("gmp", "average-every = 8"),
    ("gmp", "mp = 2\nfc-update = \"per-batch\""),
    ("gmp", "mp = 2\nscheme = \"bk\"\naverage-every = 8"),
    ("gmp", "mp = 2\nscheme = \"b\"\ncompression = \"truncate16\""),
];

/// As above: elastic averaging, gossip, and codes that lose much.
const OTHERS: &[Arm] = &[
    ("easgd-original", "rho = 2.5"),
    ("easgd-original", "rho = 2.5\noverlap = false"),
    ("easgd-async", "rho = 2.5"),
    ("easgd-async", "moving-rate = 0.2\nperiod = 4\nservers = 2"),
    ("easgd-async", "moving-rate = 0.2\nserve = \"all\""),
    ("measgd-async", "moving-rate = 0.2\nlr = 0.03"),
    ("easgd-hogwild", "rho = 2.5"),
    ("easgd-sync", "rho = 2.5\nvariant = 1"),
    ("easgd-sync", "rho = 2.5\nvariant = 2"),
    ("easgd-sync", "rho = 2.5\nvariant = 3"),
    ("eamsgd", "momentum = 0.9\nlr = 0.03\nperiod = 4\nservers = 2"),
    ("eamsgd", "momentum = 0.9\nlr = 0.03\nlook-ahead = false\nserve = \"one\""),
    ("d-psgd", ""),
    ("d-psgd", "topology = \"exponential-wide\"\norder = \"step-then-mix\""),
    ("ad-psgd", ""),
    ("ad-psgd", "topology = \"complete\""),
    ("ad-psgd", "averaging = \"continuous\""),
    ("sgp", ""),
    (
        "d-sync",
        "compression = { kind = \"top-k\", ratio = 0.1, error-feedback = true }\ncommunication.collective = \"all-gather\"",
    ),
    (
        "d-sync",
        "compression = { kind = \"sign\", error-feedback = true }\ncommunication.collective = \"all-gather\"",
    ),
    ("d-sync", "compression = { kind = \"random-k\", ratio = 0.25 }"),
    ("d-sync", "compression = { kind = \"powersgd\", rank = 4, error-feedback = true }"),
    ("d-sync", "compression = \"terngrad\"\ncommunication.collective = \"star\""),
    ("d-sync", "compression = \"qsgd\"\ncommunication.collective = \"all-gather\""),
];

/// One run that was made.
struct Ran {
    arm: Arm,
    name: String,
    spec: RunSpec,
    attempt: AttemptRow,
    events: Vec<Event>,
}

#[test]
fn every_kind_has_an_arm() {
    let shown: BTreeSet<&str> =
        SERVERS_AND_ALL_REDUCES.iter().chain(OTHERS).chain(&MEASURES).map(|(kind, _)| *kind).collect();
    assert_eq!(shown, strategy_kinds().iter().map(String::as_str).collect());
}

#[test]
fn servers_and_all_reduces_learn_in_real_processes_and_close_their_books() {
    // The hierarchical one has no run with two workers.
    learn(SERVERS_AND_ALL_REDUCES, 2 * (MEASURES.len() + SERVERS_AND_ALL_REDUCES.len()) - 1);
}

#[test]
fn elastic_averaging_gossip_and_strong_codes_learn_in_real_processes_and_close_their_books() {
    learn(OTHERS, 2 * (MEASURES.len() + OTHERS.len()));
}

fn learn(arms: &[Arm], expected: usize) {
    let desk = Desk::new().unwrap();
    let arms = [&MEASURES, arms].concat();
    let arm = |(number, (kind, more)): (usize, &Arm)| {
        format!("[[strategy]]\nkind = \"{kind}\"\nname = \"{number}\"\n{more}\n")
    };
    let text: String = arms.iter().enumerate().map(arm).collect();
    desk.write("recipe.toml", &format!("{RECIPE}{text}")).unwrap();
    desk.start(["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap();
    let runs = runs(&desk, &arms);
    assert_eq!(runs.len(), expected);
    let steps: usize = runs.iter().map(|ran| ran.steps().count()).sum();
    assert_eq!(stored_steps(&desk), steps);
    let offences: Vec<String> = runs
        .iter()
        .flat_map(|ran| {
            let offences = [learns(ran), consumes_the_budget(ran), closes_its_books(ran), serves_all(ran)];
            let more = [sends_what_it_costs(ran), follows_the_path(ran, &runs)];
            offences.into_iter().chain(more).flatten().map(|what| format!("{}: {what}", ran.name))
        })
        .collect();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// The runs in the store of the desk, all of which are done.
fn runs(desk: &Desk, arms: &[Arm]) -> Vec<Ran> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open_existing(&desk.at(".bakeoff")).await.unwrap();
        let rows = store.sweep_rows(&Selection::last()).await.unwrap();
        let cells = &rows.plan.cells;
        rows.runs
            .into_iter()
            .map(|run| {
                let cell = &cells[run.cell];
                let (kind, more) = arms[cell.arm];
                let name = format!("{kind} ({more}), {} workers", cell.spec.cluster.workers());
                assert_eq!(run.state, RunState::Done, "{name}");
                let attempt = run.attempt.unwrap();
                let folder = desk.at(".bakeoff/runs").join(run.id).join(attempt.number.to_string());
                let events = EventLog::read(&folder).unwrap();
                Ran { arm: (kind, more), name, spec: cell.spec.clone(), attempt, events }
            })
            .collect()
    })
}

/// The number of steps in the database. The phases of each sum to its length there, too.
fn stored_steps(desk: &Desk) -> usize {
    let steps = desk.said(["export", "last", "--format", "jsonl", "--what", "steps"]).unwrap();
    let closed = |line: &str| {
        let row: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        let beside = ["begin_ns", "hidden_ns"];
        let times = row.iter().filter(|(name, _)| name.ends_with("_ns") && !beside.contains(&name.as_str()));
        let (length, phases): (Vec<_>, Vec<_>) = times.partition(|(name, _)| *name == "length_ns");
        let sum = |some: Vec<(&String, &serde_json::Value)>| -> u64 {
            some.into_iter().map(|(_, time)| time.as_u64().unwrap()).sum()
        };
        assert_eq!(sum(phases), sum(length), "{line}");
    };
    steps.lines().map(closed).count()
}

impl Ran {
    fn is(&self, arm: Arm) -> bool {
        self.arm == arm
    }

    fn workers(&self) -> usize {
        self.spec.cluster.workers() as usize
    }

    fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
    }

    /// The steps of a lane, in their order.
    fn lane(&self, rank: Rank, lane: LaneId) -> impl Iterator<Item = &StepRecord> {
        self.steps().filter(move |step| step.rank == rank && step.lane == lane)
    }

    fn lanes(&self) -> BTreeSet<(Rank, LaneId)> {
        self.steps().map(|step| (step.rank, step.lane)).collect()
    }

    /// Gradients of all workers, and how many each has made.
    fn gradients(&self) -> Vec<u64> {
        let made = |rank| self.lane(rank, LaneId::Compute).filter(|step| step.own_samples > 0).count() as u64;
        (0..self.workers()).map(|rank| made(Rank(rank as u32))).collect()
    }
}

fn consumes_the_budget(ran: &Ran) -> Vec<String> {
    let own: u64 = ran.steps().map(|step| u64::from(step.own_samples)).sum();
    let told = ran.attempt.samples;
    // A worker that learns the progress of the run from its neighbours learns of its end a little late.
    let gossips = matches!(ran.spec.strategy, Strategy::AdPsgd { .. });
    if (own, told) == (BUDGET, BUDGET) || gossips && own >= BUDGET && told >= BUDGET {
        return vec![];
    }
    vec![format!("{own} samples were consumed, and {told} are stored, of {BUDGET}")]
}

/// All ranks finish; the phases of each step sum to its length, and each step begins where the one before it ended.
fn closes_its_books(ran: &Ran) -> Vec<String> {
    let mut offences = Vec::new();
    let finished = |event: &&Event| matches!(event, Event::Ended(ended) if ended.end == RankEnd::Finished);
    let ranks = ran.spec.cluster.ranks() as usize;
    let ends = ran.events.iter().filter(finished).count();
    if ends != ranks || ran.attempt.ranks.iter().any(|rank| rank.end != "finished") {
        offences.push(format!("{ends} of {ranks} ranks finished"));
    }
    for (rank, lane) in ran.lanes() {
        let mut end = None;
        for (number, step) in ran.lane(rank, lane).enumerate() {
            if step.step != number as u64 + 1 || end.is_some_and(|end| step.begin != end) {
                offences.push(format!("{rank} {lane:?} has a gap before step {}", step.step));
            }
            if step.phases.total() != step.length {
                offences.push(format!("{rank} {lane:?} step {}: the phases are not its length", step.step));
            }
            end = Some(step.begin + step.length);
        }
    }
    offences
}

/// An asynchronous server applies each gradient of each worker once, and says how stale it was.
fn serves_all(ran: &Ran) -> Vec<String> {
    if ran.spec.strategy.kind().profile().exchange != ExchangeThrough::AsyncServer {
        return vec![];
    }
    let workers = ran.workers();
    let mut offences = Vec::new();
    for server in workers..ran.spec.cluster.ranks() as usize {
        let mut updates: Vec<&UpdateRecord> = ran
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Update(update) if update.rank.index() == server => Some(update),
                _ => None,
            })
            .collect();
        updates.sort_by_key(|update| update.version);
        let mut seen: BTreeMap<Rank, (u64, u64)> = BTreeMap::new();
        for (before, update) in updates.iter().enumerate() {
            let (step, version) =
                seen.insert(update.worker, (update.step, update.version)).unwrap_or_default();
            let in_turn = update.version == before as u64 + 1 && update.step == step + 1;
            // A worker's next gradient knows at least its own last one.
            if !in_turn || update.staleness >= update.version - version {
                offences.push(format!("{update:?} after step {step} and version {version} of the worker"));
            }
        }
        let applied: Vec<u64> = seen.values().map(|(step, _)| *step).collect();
        let last = updates.iter().map(|update| update.samples).max();
        if applied != ran.gradients() || last != Some(BUDGET) {
            offences.push(format!("server {server} applied {applied:?} of {:?}, {last:?}", ran.gradients()));
        }
        // All begin with the same weights: of the first gradients, one is fresh, one a step old, ...
        let stale: u64 = updates.iter().map(|update| update.staleness).sum();
        if stale < (workers * (workers - 1) / 2) as u64 {
            offences.push(format!("server {server} says that gradients were stale {stale} times in all"));
        }
    }
    offences
}
