//! Readers get exactly what a driver recorded.

use crate::world::{attempt, begin, end, events, fresh, host, loss, metric, node, plan, step};
use recipe::{Metric, Role};
use record::{
    Event, LaneId, Nanos, Overhead, Phase, PhaseTimes, Rank, RankEnd, RankEnded, ScheduleCost,
    ScheduleRecord, ScheduledBucket, StepRecord, WeightHash,
};
use std::collections::BTreeMap;
use store::{
    AttemptEnd, Commit, Driver, ExportTable, RunState, Selection, Steady, Store, StoreError, SweepEnd, Value,
};

#[tokio::test]
async fn a_sweep_comes_back_as_it_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    assert_eq!(store.latest_sweep().await.unwrap(), None);
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    assert_eq!(store.latest_sweep().await.unwrap(), Some(sweep.clone()));
    assert_eq!(runs.len(), plan.runs.len());
    let rows = store.sweep_rows(&Selection::sweep(&sweep)).await.unwrap();
    assert_eq!(rows.plan, plan);
    assert_eq!((rows.id.as_str(), rows.recipe_path.as_str()), (sweep.as_str(), "small.toml"));
    assert_eq!(rows.argv, ["bakeoff", "run"]);
    assert_eq!(rows.commit, Some(Commit { hash: "abc".to_owned(), is_changed: true }));
    assert_eq!(rows.recipe_sha256, recipe_sha256());
    assert_eq!(rows.started, 1_000);
    let order: Vec<&str> = rows.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(order, runs.iter().map(store::RunId::as_str).collect::<Vec<_>>());
    for (run, planned) in rows.runs.iter().zip(&plan.runs) {
        assert_eq!((run.cell, run.repeat, run.seed), (planned.cell, planned.repeat, planned.seed));
        assert_eq!(run.state, RunState::Pending);
        assert!(run.attempt.is_none() && !run.reused);
    }
}

/// `printf 'name = "small"' | sha256sum`
fn recipe_sha256() -> &'static str {
    "1fa36e2598cd7d1f88668f406d45e8edfbbb9c246b724e94904ff6fbbb082454"
}

#[tokio::test]
async fn an_attempt_comes_back_with_its_summary() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    for batch in events(20).chunks(7) {
        store.record_events(id, batch).await.unwrap();
    }
    let under_way = store.sweep_rows(&Selection::last()).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();

    assert_eq!(rows.nodes, [node()]);
    assert_eq!(rows.runs[1].state, RunState::Done);
    let attempt = rows.runs[1].attempt.as_ref().unwrap();
    assert_eq!((attempt.number, attempt.started), (1, 1_001));
    assert_eq!(attempt.wall, Some(Nanos(9_000_000_000)));
    assert_eq!((attempt.detail.as_str(), attempt.culprit), ("", None));
    assert_eq!(attempt.last_lines, ["last words"]);
    // Step 20 begins at 200 ms and takes 2 ms on the slower rank.
    assert_eq!(attempt.training, Some(Nanos(202_000_000)));
    assert_eq!(attempt.step_time, Some(Nanos(2_000_000)));
    assert_eq!(attempt.mean_step_time, Some(Nanos(2_000_000)));
    assert_eq!((attempt.steps, attempt.samples), (20, 200));
    assert_eq!(attempt.weights, Some(Ok("same".to_owned())));
    assert_eq!((attempt.links[0].bytes, attempt.links[0].messages), (7, 2));
    assert_eq!(attempt.hosts, [host(0), host(20)]);
    let values: Vec<_> = attempt.metrics.iter().map(|row| (row.metric, row.step, row.value)).collect();
    assert_eq!(values, [(Metric::TestAccuracy, 10, 0.65), (Metric::TestAccuracy, 20, 0.9)]);
    assert_eq!(attempt.losses.len(), 20);
    assert_eq!((attempt.losses[1].step, attempt.losses[1].loss), (2, 0.5));
    assert_eq!((attempt.losses[1].samples, attempt.losses[1].at), (20, Nanos(22_000_000)));

    let slower = &attempt.ranks[1];
    assert_eq!((slower.rank, slower.role, slower.node, slower.threads), (Rank(1), Role::Worker, 0, 2));
    assert_eq!((slower.end.as_str(), slower.resident_bytes), ("finished", 1 << 20));
    assert_eq!(slower.recording_share, Some(0.005));
    let usage = slower.usage.unwrap();
    assert_eq!((usage.weights, usage.gradients, usage.optimizer, usage.activations), (401, 800, 0, 96));
    assert_eq!((usage.resident, usage.exchanging, usage.steps), (Some(3 << 20), Nanos(5_000), 20));
    // The first three of twenty steps are not steady.
    assert_eq!(slower.steady, Steady { time: Nanos(17 * 2_000_000), steps: 17 });
    assert_eq!(slower.exposed, Nanos(17 * 1_000_000));
    assert_eq!(slower.hidden, Nanos(17 * 500_000));
    assert_eq!((slower.bytes_out, slower.bytes_in), (2_000, 1_000));
    let phases: Vec<_> =
        slower.phases.iter().map(|row| (row.lane, row.phase, row.count, row.total)).collect();
    let total = Nanos(17_000_000);
    assert_eq!(
        phases,
        [(LaneId::Compute, Phase::Forward, 17, total), (LaneId::Compute, Phase::WaitPeer, 17, total)]
    );
    // The same numbers are read while the run is under way.
    let early = under_way.runs[1].attempt.as_ref().unwrap();
    assert_eq!(under_way.runs[1].state, RunState::Running);
    assert_eq!(early.ranks[1].phases, slower.phases);
    assert_eq!((early.training, early.step_time), (attempt.training, attempt.step_time));
}

#[tokio::test]
async fn a_run_that_continued_without_a_rank_says_so_and_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    let identity = format!("{:064}", 7);
    // A gossiping rank does not know the steps of others.
    let stepless = store::LostRow { step: 0, ..loss() };
    for (state, lost, again) in [
        (RunState::Degraded, vec![loss()], false),
        (RunState::Degraded, vec![stepless], false),
        (RunState::Diverged, vec![loss()], false),
        (RunState::Diverged, vec![], true),
        // The last attempt counts.
        (RunState::Failed, vec![loss()], false),
        (RunState::Done, vec![], true),
    ] {
        store.record_identity(&runs[1], &identity).await.unwrap();
        let id = attempt(&store, &plan, &runs, 1).await;
        let unsaid = |event: &Event| !matches!(event, Event::Ended(ended) if ended.rank == Rank(1));
        let events: Vec<Event> = events(20).into_iter().filter(unsaid).collect();
        store.record_events(id, &events).await.unwrap();
        store.record_attempt_end(id, &AttemptEnd { lost: lost.clone(), ..end(state) }).await.unwrap();
        let rows = store.sweep_rows(&Selection::sweep(&sweep)).await.unwrap();
        let attempt = rows.runs[1].attempt.as_ref().unwrap();
        assert_eq!((rows.runs[1].state, &attempt.lost), (state, &lost));
        let last_word = match lost.first().map(|lost| lost.step) {
            None => "did not say",
            Some(0) => "lost",
            Some(_) => "lost in step 12",
        };
        assert_eq!(attempt.ranks[1].end, last_word);
        let found = store.find_finished(&identity).await.unwrap();
        assert_eq!(found.is_some(), again, "{state:?}");
    }
    let degraded = attempt(&store, &plan, &runs, 2).await;
    store.record_attempt_end(degraded, &end(RunState::Degraded)).await.unwrap();
    let listed = store.list(&Selection::parse("state=degraded").unwrap()).await.unwrap();
    assert_eq!(listed.iter().map(|line| line.id.as_str()).collect::<Vec<_>>(), [runs[2].as_str()]);
    let mut table = store.export(ExportTable::Runs, &Selection::run(&runs[2])).await.unwrap();
    let row = table.next_page().await.unwrap().unwrap().remove(0);
    let column =
        |name: &str| &row[ExportTable::Runs.columns().iter().position(|known| known == name).unwrap()];
    assert_eq!(
        (column("state"), column("ranks_lost")),
        (&Value::Text("degraded".to_owned()), &Value::Integer(1))
    );
}

#[tokio::test]
async fn what_a_recipe_orders_is_a_result_that_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    let identity = format!("{:064}", 7);
    store.record_identity(&runs[1], &identity).await.unwrap();
    let found = async |store: &Store| store.find_finished(&identity).await.unwrap().map(|run| run.state);
    for (state, ordered, again) in [
        (RunState::Degraded, true, true),
        (RunState::Failed, true, true),
        (RunState::Diverged, true, true),
        (RunState::Interrupted, true, false),
        (RunState::TimedOut, true, false),
        // The last attempt counts.
        (RunState::Failed, false, false),
        (RunState::Degraded, true, true),
    ] {
        let id = attempt(&store, &plan, &runs, 1).await;
        if ordered {
            store.record_ordered(id, 5, "rank 1 was killed").await.unwrap();
        }
        store.record_attempt_end(id, &AttemptEnd { lost: vec![loss()], ..end(state) }).await.unwrap();
        let rows = store.sweep_rows(&Selection::sweep(&sweep)).await.unwrap();
        assert_eq!(rows.runs[1].is_as_ordered(), ordered, "{state:?}");
        assert_eq!(found(&store).await, again.then_some(state), "{state:?}");
    }
    drop(store);
    store::rebuild(&folder.path().join(".bakeoff"), false, |_| ()).await.unwrap();
    let store = fresh(folder.path()).await;
    assert_eq!(found(&store).await, Some(RunState::Degraded));
}

#[tokio::test]
async fn counts_of_gradients_and_averagings_are_those_of_the_events_however_they_come() {
    let events = events(20);
    let mut expected = BTreeMap::new();
    let mut asked = BTreeMap::new();
    for event in &events {
        match event {
            Event::Update(event) => {
                *expected.entry((event.rank, event.worker, event.staleness)).or_insert(0_u64) += 1;
            }
            Event::Averaged(event) => *asked.entry((event.rank, event.peer)).or_insert(0_u64) += 1,
            _ => {}
        }
    }
    assert_eq!((expected.len(), expected.values().sum::<u64>(), asked.values().sum::<u64>()), (7, 40, 20));
    for size in [1, 7, events.len()] {
        let folder = tempfile::tempdir().unwrap();
        let store = fresh(folder.path()).await;
        let plan = plan();
        let (_, runs) = begin(&store, &plan, Driver::this()).await;
        let id = attempt(&store, &plan, &runs, 1).await;
        for batch in events.chunks(size) {
            store.record_events(id, batch).await.unwrap();
        }
        // A batch that cannot be kept adds nothing.
        let updates = events.iter().filter(|event| matches!(event, Event::Update(_))).cloned();
        let unknown = Overhead { rank: Rank(9), recording: Nanos(1), wall: Nanos(2), resident_bytes: 0 };
        let broken: Vec<Event> = updates.chain([Event::Overhead(unknown)]).collect();
        store.record_events(id, &broken).await.unwrap_err();
        let rows = store.sweep_rows(&Selection::last()).await.unwrap();
        let attempt = rows.runs[1].attempt.as_ref().unwrap();
        let found: BTreeMap<_, _> = attempt
            .staleness
            .iter()
            .map(|row| ((row.server, row.worker, row.staleness), row.count))
            .collect();
        assert_eq!(found, expected, "{size} at a time");
        let found: BTreeMap<_, _> =
            attempt.averagings.iter().map(|row| ((row.rank, row.peer), row.count)).collect();
        assert_eq!(found, asked, "{size} at a time");
    }
}

#[tokio::test]
async fn what_is_no_number_survives_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let with_loss = |rank, loss| Event::Step(StepRecord { loss, ..step(rank, 1, 1) });
    let events = [
        with_loss(0, Some(0.5)),
        with_loss(1, Some(f32::NAN)),
        Event::Step(StepRecord { loss: Some(f32::INFINITY), ..step(0, 2, 1) }),
        Event::Step(StepRecord { loss: None, ..step(0, 3, 1) }),
        Event::Metric(metric(1, f64::NAN)),
        Event::Metric(metric(2, f64::NEG_INFINITY)),
        Event::Ended(RankEnded { rank: Rank(1), end: RankEnd::Diverged { step: 1, loss: "NaN".to_owned() } }),
    ];
    store.record_events(id, &events).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Diverged)).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    let attempt = rows.runs[1].attempt.as_ref().unwrap();
    assert!(attempt.metrics[0].value.is_nan());
    assert_eq!(attempt.metrics[1].value.to_string(), "-inf");
    assert_eq!(attempt.losses.len(), 2);
    assert!(attempt.losses.iter().all(|row| !row.loss.is_finite()), "{:?}", attempt.losses);
    assert_eq!(attempt.ranks[1].end, "diverged in step 1: loss NaN");
    assert_eq!(attempt.ranks[0].end, "did not say");
    let listed = store.list(&Selection::parse("state=diverged").unwrap()).await.unwrap();
    assert_eq!(listed[0].metric.map(|(metric, value)| (metric, value.to_string())).unwrap().1, "-inf");
}

#[tokio::test]
async fn of_a_schedule_the_last_record_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let record = |steps, measured| ScheduleRecord {
        rank: Rank(0),
        at: Nanos(steps),
        from_step: 9,
        steps,
        cost: Some(ScheduleCost {
            start_up: 1e-3,
            per_byte: 2e-8,
            worst: 0.125,
            held: None,
            computed: Nanos(7),
        }),
        layers: vec![Nanos(3), Nanos(4)],
        buckets: vec![ScheduledBucket {
            layers: vec!["linear1".to_owned(), "\"<linear2>".to_owned()],
            elements: 12,
            predicted: Some((Nanos(1), Nanos(2))),
            measured,
        }],
    };
    let last = record(40, Some((Nanos(3), Nanos(4))));
    store.record_events(id, &[Event::Schedule(record(0, None))]).await.unwrap();
    store.record_events(id, &[Event::Schedule(last.clone())]).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(rows.runs[1].attempt.as_ref().unwrap().schedule, Some(last));
}

#[tokio::test]
async fn a_batch_is_kept_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    store.record_events(id, &[Event::Step(step(0, 1, 1))]).await.unwrap();
    let twice = [Event::Step(step(0, 2, 1)), Event::Step(step(0, 1, 1))];
    assert!(matches!(store.record_events(id, &twice).await, Err(StoreError::Database(_))));
    let stranger = [Event::Step(step(0, 2, 1)), Event::Step(step(9, 1, 1))];
    assert!(matches!(store.record_events(id, &stranger).await, Err(StoreError::Database(_))));
    let ended = Event::Ended(RankEnded { rank: Rank(9), end: RankEnd::Finished });
    assert!(matches!(store.record_events(id, &[ended]).await, Err(StoreError::Unknown { .. })));
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(rows.runs[1].attempt.as_ref().unwrap().steps, 1);
}

#[tokio::test]
async fn weights_that_differ_are_listed_by_rank() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let hash = |rank, step, sha256: &str| {
        Event::WeightHash(WeightHash { rank: Rank(rank), step, sha256: sha256.to_owned() })
    };
    store
        .record_events(id, &[hash(0, 1, "a"), hash(1, 1, "a"), hash(0, 2, "b"), hash(1, 2, "c")])
        .await
        .unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    let weights = rows.runs[1].attempt.as_ref().unwrap().weights.clone();
    assert_eq!(weights, Some(Err(vec!["0: b".to_owned(), "1: c".to_owned()])));
}

#[tokio::test]
async fn finished_runs_are_found_by_identity_and_reused() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let identity = "1".repeat(64);
    let (_, first) = begin(&store, &plan, Driver::this()).await;
    store.record_identity(&first[1], &identity).await.unwrap();
    assert_eq!(store.find_finished(&identity).await.unwrap(), None);
    let id = attempt(&store, &plan, &first, 1).await;
    store.record_events(id, &events(20)).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Failed)).await.unwrap();
    assert_eq!(store.find_finished(&identity).await.unwrap(), None);
    let id = attempt(&store, &plan, &first, 1).await;
    store.record_events(id, &events(20)).await.unwrap();
    store.record_note(id, 1_002, "running", "all ranks are prepared").await.unwrap();
    store.record_heartbeat(id, 1_005).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    assert_eq!(store.attempt_number(id).await.unwrap(), 2);
    let source = store.find_finished(&identity).await.unwrap().unwrap();
    assert_eq!((&source.run, source.state), (&first[1], RunState::Done));

    let (_, second) = begin(&store, &plan, Driver::this()).await;
    store.record_identity(&second[1], &identity).await.unwrap();
    store.record_reuse(&second[1], &source.run).await.unwrap();
    // The source stays the one that was really run.
    assert_eq!(store.find_finished(&identity).await.unwrap().unwrap().run, first[1]);
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    assert!(rows.runs[1].reused && rows.runs[1].state == RunState::Done);
    assert_eq!(rows.runs[1].attempt.as_ref().unwrap().number, 2);

    let detail = store.show(&second[1].as_str().to_ascii_lowercase()[10..]).await.unwrap();
    assert_eq!(detail.reused_from.as_deref(), Some(first[1].as_str()));
    assert_eq!(detail.identity.as_deref(), Some(identity.as_str()));
    let states: Vec<_> = detail.attempts.iter().map(|attempt| (attempt.number, attempt.state)).collect();
    assert_eq!(states, [(1, RunState::Failed), (2, RunState::Done)]);
    assert!(detail.attempts[1].directory.ends_with(format!("runs/{}/2", first[1])));
    let told: Vec<_> = detail.events.iter().map(|event| (event.attempt, event.text.as_str())).collect();
    let expected = [(1, ""), (1, "rank 1 went silent"), (2, ""), (2, "all ranks are prepared"), (2, "")];
    assert_eq!(told, expected);
    assert!(matches!(store.record_identity(&gone(), &identity).await, Err(StoreError::Unknown { .. })));
    assert_eq!(store.find_run("last").await.unwrap(), first[1], "a reused run did not start again");
    attempt(&store, &plan, &second, 0).await;
    assert_eq!(store.find_run("last").await.unwrap(), second[0]);
    assert!(matches!(store.show("0").await, Err(StoreError::Ambiguous { .. })));
    assert!(matches!(store.show("").await, Err(StoreError::Unknown { .. } | StoreError::Ambiguous { .. })));
    assert!(matches!(store.show("zzzz").await, Err(StoreError::Unknown { .. })));
}

/// A run of another store.
fn gone() -> store::RunId {
    let folder = tempfile::tempdir().unwrap();
    let runtime = std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = fresh(folder.path()).await;
            begin(&store, &plan(), Driver::this()).await.1.remove(0)
        })
    });
    runtime.join().unwrap()
}

#[tokio::test]
async fn steps_that_empty_a_pipeline_are_not_steady_and_services_have_totals_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    // Two workers and a server.
    let id = attempt(&store, &plan, &runs, 2).await;
    let mut events: Vec<Event> = (1..=10).map(|number| Event::Step(step(0, number, 1))).collect();
    events.push(Event::Step(StepRecord { drain: true, ..step(0, 11, 50) }));
    events.extend((1..=10).map(|number| Event::Step(serving(number))));
    store.record_events(id, &events).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    let attempt = rows.runs[2].attempt.as_ref().unwrap();
    assert_eq!((attempt.steps, attempt.step_time), (10, Some(Nanos(1_000_000))));
    assert_eq!(attempt.training, Some(Nanos(11 * 10_000_000 + 50_000_000)));
    assert_eq!(attempt.ranks[0].steady, Steady { time: Nanos(7_000_000), steps: 7 });
    let server = &attempt.ranks[2];
    assert_eq!((server.role, server.steady, server.exposed), (Role::Server, Steady::default(), Nanos(0)));
    assert_eq!((server.phases[0].lane, server.phases[0].count), (LaneId::Clients, 7));
    assert_eq!(server.bytes_out, 1_000);
}

/// A server's turn, longer than any step.
fn serving(number: u64) -> StepRecord {
    let mut phases = PhaseTimes::default();
    phases[Phase::Reduce] = Nanos(9_000_000_000);
    StepRecord {
        lane: LaneId::Clients,
        length: Nanos(9_000_000_000),
        phases,
        loss: None,
        own_samples: 0,
        ..step(2, number, 1)
    }
}
