//! Selections against a naive model: every test evaluated by hand on every run.

use crate::world::{attempt, begin, end, fresh, plan};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use recipe::{Arm, Cell, Plan, Run, SharedBy};
use store::{Driver, RunId, RunState, Selection, Store};

/// Facts about a run, on which the model evaluates the tests.
struct Facts {
    id: RunId,
    newest: bool,
    strategy: String,
    arm: String,
    condition: String,
    workers: f64,
    repeat: f64,
    seed: String,
    state: &'static str,
    collective: Option<&'static str>,
    bandwidth: Option<f64>,
    schedule: &'static str,
    lr: Option<f64>,
    evaluate: Option<f64>,
}

/// Two sweeps of the same plan; in the first one, run 1 is done and run 2 failed, and only the values of axes are known, as an
/// earlier version recorded them.
async fn world(store: &Store, plan: &Plan) -> Vec<Facts> {
    let before = Plan { values: Vec::new(), ..plan.clone() };
    let (_, first) = begin(store, &before, Driver::this()).await;
    for (place, state) in [(1, RunState::Done), (2, RunState::Failed)] {
        let id = attempt(store, plan, &first, place).await;
        store.record_attempt_end(id, &end(state)).await.unwrap();
    }
    let (_, second) = begin(store, plan, Driver::this()).await;
    let all = first.into_iter().map(|id| (id, false)).chain(second.into_iter().map(|id| (id, true)));
    all.enumerate()
        .map(|(number, (id, newest))| {
            let run = plan.runs[number % plan.runs.len()];
            let cell = &plan.cells[run.cell];
            Facts {
                id,
                newest,
                strategy: cell.spec.strategy.kind().to_string(),
                arm: plan.arms[cell.arm].name.clone(),
                condition: cell.condition.clone(),
                workers: f64::from(cell.spec.cluster.workers()),
                repeat: f64::from(run.repeat + 1),
                seed: run.seed.to_string(),
                state: match number {
                    1 => "done",
                    2 => "failed",
                    _ => "pending",
                },
                collective: (cell.arm == 0).then_some("ring"),
                bandwidth: (newest && run.cell == 3).then_some(1.25e8),
                schedule: if newest && cell.arm == 1 { "step" } else { "constant" },
                lr: newest.then_some(0.1),
                evaluate: newest.then_some(if run.cell == 3 { 12.0 } else { 10.0 }),
            }
        })
        .collect()
}

/// The language as a tree that can be both written and evaluated.
#[derive(Clone, Debug)]
enum Tree {
    Last,
    Text(&'static str, bool, String),
    /// Field, sign, and the value as it is written and in its base unit.
    Number(&'static str, &'static str, (&'static str, f64)),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn written(&self) -> String {
        match self {
            Self::Last => "last".to_owned(),
            Self::Text(field, equal, value) => {
                format!("{field} {} \"{value}\"", if *equal { "=" } else { "!=" })
            }
            Self::Number(field, operator, (text, _)) => format!("{field}{operator}{text}"),
            Self::Not(inner) => format!("not ({})", inner.written()),
            Self::And(left, right) => format!("({}) and ({})", left.written(), right.written()),
            Self::Or(left, right) => format!("{} or ({})", left.written(), right.written()),
        }
    }

    /// `None` where it is not known: of a key of a sweep that an earlier version recorded.
    fn fits(&self, run: &Facts) -> Option<bool> {
        match self {
            Self::Last => Some(run.newest),
            Self::Text(field, equal, value) => {
                let found = match *field {
                    "strategy" => Some(run.strategy.as_str()),
                    "arm" => Some(run.arm.as_str()),
                    "condition" => Some(run.condition.as_str()),
                    "seed" => Some(run.seed.as_str()),
                    "state" => Some(run.state),
                    "recipe" => Some("small"),
                    "train.lr-schedule.kind" | "lr-schedule" => Some(run.schedule),
                    "communication.collective.kind" | "collective" => run.collective,
                    other => panic!("the model has no {other}"),
                };
                if found.is_none() && !run.newest {
                    return None;
                }
                Some((found == Some(value.as_str())) == *equal)
            }
            Self::Number(field, operator, (text, value)) => {
                let found = match *field {
                    "workers" | "nodes.workers" => Some(run.workers),
                    "repeat" => Some(run.repeat),
                    "train.optimizer.lr" | "lr" => run.lr,
                    "evaluate" => run.evaluate.filter(|_| text.contains("step")),
                    "network.bandwidth" => run.bandwidth,
                    _ => None,
                };
                if found.is_none() && !run.newest {
                    return None;
                }
                Some(match *operator {
                    "=" => found == Some(*value),
                    "!=" => found != Some(*value),
                    "<" => found.is_some_and(|found| found < *value),
                    "<=" => found.is_some_and(|found| found <= *value),
                    ">" => found.is_some_and(|found| found > *value),
                    _ => found.is_some_and(|found| found >= *value),
                })
            }
            Self::Not(inner) => inner.fits(run).map(|fits| !fits),
            Self::And(left, right) => match (left.fits(run), right.fits(run)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                (None, _) | (_, None) => None,
            },
            Self::Or(left, right) => match (left.fits(run), right.fits(run)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                (None, _) | (_, None) => None,
            },
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let text = prop::sample::select(vec![
        ("strategy", "d-sync"),
        ("strategy", "easgd"),
        ("arm", "ps-sync plain"),
        ("condition", "workers=2"),
        ("seed", "18446744073709551614"),
        ("state", "pending"),
        ("state", "failed"),
        ("recipe", "small"),
        ("train.lr-schedule.kind", "constant"),
        ("lr-schedule", "step"),
        ("communication.collective.kind", "ring"),
        ("collective", "tree"),
    ]);
    let sign = || prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let number = |fields: Vec<&'static str>, values: Vec<(&'static str, f64)>| {
        (prop::sample::select(fields), sign(), prop::sample::select(values))
    };
    let number = prop_oneof![
        number(vec!["workers", "repeat", "nodes.workers"], vec![("1", 1.0), ("2", 2.0)]),
        number(vec!["train.optimizer.lr", "lr"], vec![("0.1", 0.1), ("1e-1", 0.1), ("0.2", 0.2)]),
        number(
            vec!["evaluate"],
            vec![("'10 steps'", 10.0), ("'12 steps'", 12.0), ("'10 epochs'", 10.0), ("'1 epoch'", 1.0)],
        ),
        number(
            vec!["network.bandwidth"],
            vec![("1Gbit/s", 1.25e8), ("1000Mbit/s", 1.25e8), ("10Mbit/s", 1.25e6)]
        ),
    ];
    let leaf = prop_oneof![
        1 => Just(Tree::Last),
        3 => (text, any::<bool>()).prop_map(|((field, value), equal)| Tree::Text(field, equal, value.to_owned())),
        3 => number.prop_map(|(field, operator, value)| Tree::Number(field, operator, value)),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::Not(Box::new(tree))),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| Tree::And(Box::new(left), Box::new(right))),
            (inner.clone(), inner).prop_map(|(left, right)| Tree::Or(Box::new(left), Box::new(right))),
        ]
    })
}

#[test]
fn selections_agree_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (store, facts) = runtime.block_on(async {
        let store = fresh(folder.path()).await;
        let facts = world(&store, &plan()).await;
        (store, facts)
    });
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&trees(), |tree| {
        let written = tree.written();
        let selection = Selection::parse(&written).unwrap();
        let found = runtime.block_on(store.runs_fitting(&selection)).unwrap();
        let expected: Vec<RunId> =
            facts.iter().filter(|run| tree.fits(run) == Some(true)).map(|run| run.id.clone()).collect();
        prop_assert_eq!(found, expected, "{}", written);
        Ok(())
    });
    outcome.unwrap();
}

#[tokio::test]
async fn ids_are_found_by_their_beginning_and_by_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    for part in [&runs[2].as_str()[16..], &runs[2].as_str()[..24], &runs[2].as_str().to_lowercase()] {
        let selection = Selection::parse(part).unwrap();
        assert_eq!(store.runs_fitting(&selection).await.unwrap(), [runs[2].clone()]);
        assert_eq!(store.show(part).await.unwrap().line.id, runs[2].as_str());
    }
    let of_sweep = store.runs_fitting(&Selection::parse(&sweep.as_str()[12..]).unwrap()).await.unwrap();
    assert_eq!(of_sweep, runs);
    let lines = store.list(&Selection::run(&runs[0])).await.unwrap();
    let full = store.list_in_full(&Selection::run(&runs[0])).await.unwrap();
    assert_eq!(full[0].spec, plan.cells[0].spec);
    assert!(full.iter().map(|run| &run.id).eq(lines.iter().map(|line| &line.id)));
    assert_eq!((lines[0].sweep.as_str(), lines[0].recipe.as_str()), (sweep.as_str(), "small"));
}

/// As in a recipe: a word is the strategy of that name, and a kind only where no strategy has that name. Names may have spaces.
#[tokio::test]
async fn a_word_is_a_strategys_name_before_it_is_a_kind() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    // The first is of kind d-sync, the second of kind ps-sync.
    for names in [["ring", "ring slow"], ["ps-sync period=4", "d-sync"], ["d-sync period=4", "two words"]] {
        let mut plan = plan();
        for (arm, name) in plan.arms.iter_mut().zip(names) {
            name.clone_into(&mut arm.name);
        }
        begin(&store, &plan, Driver::this()).await;
        let mut arms = Vec::new();
        for word in ["ring", "ring slow", "ps-sync", "d-sync", "two"] {
            let selection = Selection::parse(&format!("last and strategy = \"{word}\"")).unwrap();
            let found = store.list(&selection).await.unwrap();
            let found: std::collections::BTreeSet<String> = found.into_iter().map(|run| run.arm).collect();
            arms.push((word, found.into_iter().collect::<Vec<_>>()));
        }
        let expected: [&[&str]; 5] = match names[0] {
            "ring" => [&["ring"], &["ring slow"], &["ring slow"], &["ring"], &[]],
            "ps-sync period=4" => [&[], &[], &["ps-sync period=4"], &["d-sync"], &[]],
            _ => [&[], &[], &["two words"], &["d-sync period=4"], &[]],
        };
        for ((word, found), expected) in arms.iter().zip(expected) {
            assert_eq!(found, expected, "{names:?}: {word}");
        }
    }
}

/// A page of some runs has a plan of these alone: what was not selected is not missing.
#[tokio::test]
async fn rows_of_a_part_of_a_sweep_have_the_plan_of_that_part() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    begin(&store, &plan, Driver::this()).await;
    let rows = async |text: &str| store.sweep_rows(&Selection::parse(text).unwrap()).await.unwrap();
    let whole = rows("last").await;
    assert!(whole.plan == plan);
    // The cell of the second arm on two workers, the last of four, in one of two repeats.
    let part = rows("last and strategy=ps-sync and repeat=2").await;
    assert_eq!(part.plan.arms, [Arm { baseline: true, ..plan.arms[1].clone() }]);
    assert_eq!(part.plan.cells, [Cell { arm: 0, ..plan.cells[3].clone() }]);
    assert_eq!(part.plan.runs, [Run { cell: 0, repeat: 1, seed: plan.runs[5].seed }]);
    assert_eq!((part.runs.len(), part.runs[0].index, part.runs[0].cell), (1, 0, 0));
    let lr_schedule = |plan: &Plan, cell: usize| {
        plan.values_of(cell).into_iter().find(|value| value.path == "train.lr-schedule").unwrap().text.clone()
    };
    assert_eq!(
        (lr_schedule(&part.plan, 0), lr_schedule(&plan, 0)),
        ("step".to_owned(), "constant".to_owned())
    );
    let evaluate = part.plan.values_of(0).into_iter().find(|value| value.path == "train.evaluate").unwrap();
    assert_eq!((evaluate.number, evaluate.of), (Some(12.0), SharedBy::Cell(0)));
    // Prices are those of cells, in their order; the first and the last of the other part.
    let first = rows("last and arm=\"d-sync plain\" and workers=1").await;
    assert_eq!(first.plan.report.prices.cells, [Some(2.5)]);
    assert_eq!(part.plan.report.prices.cells, []);
}
