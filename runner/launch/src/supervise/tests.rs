//! The table of (state, event) -> actions, and what takes several events to see.

use super::*;
use crate::{End, Place};
use mesh::{Deadlines, Heartbeat};
use recipe::{Metric, Target};
use record::{LaneId, MetricRecord, Overhead, Phase, Prepared, RankEnded, SnapshotRecord};
use std::collections::BTreeSet;
use std::fmt::Write;

fn rules() -> Rules {
    Rules {
        ranks: 2,
        deadlines: Deadlines {
            start_up: Duration::from_secs(10),
            peer: Duration::from_secs(5),
            heartbeat: Duration::from_millis(100),
            shut_down: Duration::from_secs(3),
        },
        timeout: Some(Duration::from_mins(1)),
        target: Some(Target {
            metric: Metric::TestAccuracy,
            threshold: 0.9,
            after: Some(Duration::from_secs(50)),
            stop: true,
        }),
        evaluate_at_once: true,
    }
}

/// A supervisor on a stage: events come by name, 10 ms apart, and actions go by name too.
struct Play {
    supervisor: Supervisor,
    now: Nanos,
    actions: Vec<Action>,
}

impl Play {
    fn new(rules: Rules) -> Self {
        let (supervisor, actions) = Supervisor::new(rules);
        Self { supervisor, now: Nanos(0), actions }
    }

    /// Plays events, written as `finished 0, goodbye 0, wait 3`.
    fn play(mut self, events: &str) -> Self {
        for event in events.split(", ").filter(|event| !event.is_empty()) {
            match event.split(' ').collect::<Vec<_>>()[..] {
                ["wait", tenths] => self.wait(tenths.parse().unwrap(), false),
                ["run", tenths] => self.wait(tenths.parse().unwrap(), true),
                _ => self.tell(input(event), 10),
            }
        }
        self
    }

    /// Lets tenths of seconds pass; with or without heartbeats of both ranks.
    fn wait(&mut self, tenths: u64, beats: bool) {
        for _ in 0..tenths {
            self.tell(Input::Tick, 100);
            if beats {
                self.tell(input("beat 0"), 0);
                self.tell(input("beat 1"), 0);
            }
        }
    }

    fn tell(&mut self, input: Input, milliseconds: u64) {
        self.now += Nanos(milliseconds * 1_000_000);
        self.actions.extend(self.supervisor.on(self.now, input));
    }

    /// The actions since the last call, in short.
    fn said(&mut self) -> String {
        let said: Vec<String> = self.actions.drain(..).map(|action| short(&action)).collect();
        if said.is_empty() { "-".into() } else { said.join(" ") }
    }

    fn stage(&self) -> &'static str {
        match self.supervisor.stage {
            Stage::Starting => "starting",
            Stage::Running => "running",
            Stage::Doubting { .. } => "doubting",
            Stage::Stopping { .. } => "stopping",
            Stage::Killing { .. } => "killing",
            Stage::Evaluating => "evaluating",
            Stage::Over => "over",
        }
    }

    fn verdict(&self) -> String {
        match &self.supervisor.verdict {
            None => "-".into(),
            Some(Verdict::TargetReached { .. }) => "target".into(),
            Some(Verdict::Diverged { rank, .. }) => format!("diverged {rank}"),
            Some(Verdict::Failed(fault)) => {
                fault.culprit.map_or_else(|| "failed".into(), |rank| format!("failed {rank}"))
            }
            Some(Verdict::TimedOut) => "timeout".into(),
            Some(Verdict::Interrupted) => "interrupted".into(),
        }
    }

    fn detail(&self) -> String {
        self.supervisor.judgement().detail
    }
}

fn short(action: &Action) -> String {
    let name = |member: &Member| match member {
        Member::Rank(rank) => rank.to_string(),
        Member::Evaluator => "E".into(),
    };
    match action {
        Action::Start => "start".into(),
        Action::Send(member, ToMember::Stop) => format!("stop-{}", name(member)),
        Action::Send(member, ToMember::Leave) => format!("leave-{}", name(member)),
        Action::Send(_, ToMember::Evaluate(snapshot)) => format!("evaluate-{}", snapshot.step),
        Action::Send(_, ToMember::Start { .. }) => "start?".into(),
        Action::SpawnEvaluator => "spawn-E".into(),
        Action::Discard(snapshot) => format!("discard-{}", snapshot.step),
        Action::Kill(member) => format!("kill-{}", name(member)),
        Action::Tell(Update::Events(_)) => "events".into(),
        Action::Tell(Update::Heartbeat(..)) => "beat".into(),
        Action::Tell(Update::State(phase)) => format!("={phase:?}").to_lowercase(),
        Action::Tell(Update::Note(_)) => "note".into(),
        Action::Tell(Update::Spawned { .. }) => "spawned?".into(),
        Action::Finish => "finish".into(),
    }
}

fn input(event: &str) -> Input {
    let words: Vec<&str> = event.split(' ').collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
    let rank = Rank(number(1));
    let from = |message| Input::Message(Member::Rank(rank), message);
    let ended = |end| from(ToDriver::Events(vec![Event::Ended(RankEnded { rank, end })]));
    match words[0] {
        "prepared" => from(ToDriver::Events(vec![Event::Prepared(prepared(rank, "aaaa"))])),
        "differs" => from(ToDriver::Events(vec![Event::Prepared(prepared(rank, "ffff"))])),
        "beat" => from(ToDriver::Heartbeat(heartbeat(7))),
        "report" => from(ToDriver::Events(vec![Event::Overhead(Overhead {
            rank,
            recording: Nanos(1),
            wall: Nanos(2),
        })])),
        "evaluated-by" => from(ToDriver::Evaluated { file: "3.bin".into(), failure: None }),
        "snapshot" => from(ToDriver::Events(vec![Event::Snapshot(snapshot(rank, number(2).into()))])),
        "finished" => ended(RankEnd::Finished),
        "stopped" => ended(RankEnd::Stopped { step: number(2).into() }),
        "diverged" => ended(RankEnd::Diverged { step: 7, loss: "inf".into() }),
        "failed" => ended(failed(None)),
        "accuses" => ended(failed(Some(Rank(number(2))))),
        "goodbye" => from(ToDriver::Goodbye),
        "exit" => Input::Exited(Member::Rank(rank), Exit::Code(number(2) as i32)),
        "signal" => Input::Exited(Member::Rank(rank), Exit::Signal(9)),
        "metric" => metric(f64::from(number(1)) / 100.0, 5),
        "late-metric" => metric(1.0, 51),
        "evaluated" => evaluator(ToDriver::Evaluated { file: "3.bin".into(), failure: None }),
        "unevaluated" => {
            evaluator(ToDriver::Evaluated { file: "3.bin".into(), failure: Some("it is torn".into()) })
        }
        "E-beat" => evaluator(ToDriver::Heartbeat(heartbeat(7))),
        "E-goodbye" => evaluator(ToDriver::Goodbye),
        "E-exit" => Input::Exited(Member::Evaluator, Exit::Code(number(1) as i32)),
        "stop" => Input::Stop,
        "stop-now" => Input::StopNow,
        "tick" => Input::Tick,
        other => panic!("no event {other}"),
    }
}

fn evaluator(message: ToDriver) -> Input {
    Input::Message(Member::Evaluator, message)
}

fn metric(value: f64, seconds: u64) -> Input {
    evaluator(ToDriver::Events(vec![Event::Metric(MetricRecord {
        metric: Metric::TestAccuracy,
        model: "rank 0".into(),
        step: 3,
        samples: 192,
        epoch: 0.5,
        at: Nanos(seconds * 1_000_000_000),
        value,
    })]))
}

fn failed(peer: Option<Rank>) -> RankEnd {
    RankEnd::Failed {
        lane: LaneId::Service(0),
        step: 8,
        phase: Phase::WaitPeer,
        peer,
        reason: "because".into(),
    }
}

fn heartbeat(step: u64) -> Heartbeat {
    let (lane, phase) = (LaneId::Compute, Phase::Backward);
    Heartbeat { lane, step, phase, since: Nanos(0), samples: 0, loss: None }
}

fn prepared(rank: Rank, weights: &str) -> Prepared {
    Prepared {
        rank,
        pid: 1,
        threads: 1,
        training_samples: 100,
        data_digest: "dddd".into(),
        weights: weights.into(),
        parameters: 10,
        resident_bytes: 0,
    }
}

fn snapshot(rank: Rank, step: u64) -> SnapshotRecord {
    SnapshotRecord {
        rank,
        model: "rank 0".into(),
        step,
        samples: 0,
        at: Nanos(0),
        file: format!("{step}.bin"),
        last: false,
    }
}

/// How each state is reached.
const STATES: [(&str, &str); 14] = [
    ("starting", "prepared 0"),
    ("unsure", "prepared 0, accuses 0 1"),
    ("running", "prepared 0, prepared 1, beat 0, beat 1"),
    ("doubting", "prepared 0, prepared 1, beat 0, beat 1, accuses 1 0"),
    ("faulty", "prepared 0, prepared 1, beat 0, beat 1, failed 1"),
    ("diverged", "prepared 0, prepared 1, beat 0, beat 1, snapshot 0 3, diverged 1"),
    ("aimed", "prepared 0, prepared 1, beat 0, beat 1, snapshot 0 3, metric 95"),
    ("late", "prepared 0, prepared 1, beat 0, beat 1, run 600"),
    ("halting", "prepared 0, prepared 1, beat 0, beat 1, stop"),
    ("killing", "prepared 0, prepared 1, beat 0, beat 1, stop-now"),
    ("felling", "prepared 0, prepared 1, beat 0, beat 1, failed 1, wait 21"),
    (
        "evaluating",
        "prepared 0, prepared 1, snapshot 0 3, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0",
    ),
    ("leaving", "prepared 0, prepared 1, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0"),
    (
        "over",
        "prepared 0, prepared 1, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0, E-goodbye, E-exit 0",
    ),
];

/// What can happen.
const EVENTS: [&str; 31] = [
    "prepared 1",
    "differs 1",
    "beat 0",
    "beat 9",
    "report 0",
    "snapshot 0 6",
    "finished 0",
    "stopped 0 6",
    "diverged 0",
    "failed 0",
    "accuses 0 1",
    "accuses 0 9",
    "goodbye 0",
    "evaluated-by 0",
    "exit 0 0",
    "exit 0 1",
    "exit 9 1",
    "signal 0",
    "metric 95",
    "metric 85",
    "E-beat",
    "evaluated",
    "unevaluated",
    "E-goodbye",
    "E-exit 0",
    "E-exit 1",
    "stop",
    "stop-now",
    "tick",
    "wait 35",
    "run 600",
];

/// A change of `table.txt` is a change of what the supervisor does: the new table is printed, to be looked at.
#[test]
fn every_event_in_every_state() {
    let mut table = "state      | event         | stage after| verdict     | actions\n".to_owned();
    for (state, way) in STATES {
        for event in EVENTS {
            let mut play = Play::new(rules()).play(way);
            play.said();
            let mut play = play.play(event);
            let (said, stage, verdict) = (shortened(&play.said()), play.stage(), play.verdict());
            writeln!(table, "{state:<11}| {event:<14}| {stage:<11}| {verdict:<12}| {said}").unwrap();
        }
    }
    let expected = include_str!("table.txt");
    if let Some((line, (new, old))) =
        table.lines().zip(expected.lines()).enumerate().find(|(_, (new, old))| new != old)
    {
        println!("{table}");
        panic!("line {}:\n  {new}\nwas\n  {old}", line + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "{table}");
}

/// Heartbeats of a long time in one word.
fn shortened(said: &str) -> String {
    let beats = said.split(' ').filter(|word| *word == "beat").count();
    if beats < 4 {
        return said.to_owned();
    }
    let rest: Vec<&str> = said.split(' ').filter(|word| *word != "beat").collect();
    [vec!["beats"], rest].concat().join(" ")
}

/// The kind of an input; the compiler asks for a name here when there is a new one, and the test for its rows.
fn kind(input: &Input) -> &'static str {
    match input {
        Input::Message(Member::Rank(_), ToDriver::Heartbeat(_)) => "heartbeat",
        Input::Message(Member::Rank(_), ToDriver::Events(events)) => event_kind(&events[0]),
        Input::Message(Member::Rank(_), ToDriver::Evaluated { .. }) => "evaluated by a rank",
        Input::Message(Member::Rank(_), ToDriver::Goodbye) => "good-bye",
        Input::Message(Member::Evaluator, ToDriver::Heartbeat(_)) => "heartbeat of the evaluator",
        Input::Message(Member::Evaluator, ToDriver::Events(_)) => "measured",
        Input::Message(Member::Evaluator, ToDriver::Evaluated { failure: None, .. }) => "evaluated",
        Input::Message(Member::Evaluator, ToDriver::Evaluated { failure: Some(_), .. }) => "not evaluated",
        Input::Message(Member::Evaluator, ToDriver::Goodbye) => "good-bye of the evaluator",
        Input::Exited(Member::Rank(_), Exit::Code(_)) => "exit",
        Input::Exited(Member::Rank(_), Exit::Signal(_)) => "signal",
        Input::Exited(Member::Evaluator, _) => "exit of the evaluator",
        Input::Stop => "stop",
        Input::StopNow => "stop now",
        Input::Tick => "tick",
    }
}

fn event_kind(event: &Event) -> &'static str {
    match event {
        Event::Prepared(_) => "prepared",
        Event::Snapshot(_) => "snapshot",
        Event::Ended(RankEnded { end: RankEnd::Finished, .. }) => "finished",
        Event::Ended(RankEnded { end: RankEnd::Stopped { .. }, .. }) => "stopped",
        Event::Ended(RankEnded { end: RankEnd::Diverged { .. }, .. }) => "diverged",
        Event::Ended(RankEnded { end: RankEnd::Failed { peer: None, .. }, .. }) => "failed",
        Event::Ended(RankEnded { end: RankEnd::Failed { peer: Some(_), .. }, .. }) => "accused",
        // What the supervisor only hands on.
        Event::Step(_)
        | Event::Span(_)
        | Event::Metric(_)
        | Event::WeightHash(_)
        | Event::Link(_)
        | Event::Coding(_)
        | Event::Overhead(_)
        | Event::Emulation(_)
        | Event::Samples(_)
        | Event::Update(_)
        | Event::Lost(_)
        | Event::Gossip(_)
        | Event::Averaged(_) => "report",
    }
}

#[test]
fn the_table_has_every_kind_of_event_and_every_stage() {
    let named = EVENTS.iter().filter(|event| !event.starts_with("wait") && !event.starts_with("run"));
    let kinds: BTreeSet<&str> = named.map(|event| kind(&input(event))).collect();
    // As many as there are arms above.
    assert_eq!(kinds.len(), 22, "{kinds:?}");
    let stages: BTreeSet<&str> = STATES.iter().map(|(_, way)| Play::new(rules()).play(way).stage()).collect();
    assert_eq!(stages.len(), 7, "{stages:?}");
    let rows: BTreeSet<(&str, &str)> = include_str!("table.txt")
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('|'))
        .map(|(state, rest)| (state.trim(), rest.split('|').next().unwrap_or_default().trim()))
        .collect();
    assert_eq!(rows.len(), STATES.len() * EVENTS.len());
}

/// Rules for an evaluator that works after the ranks, and a run without a target.
fn later() -> Rules {
    Rules { evaluate_at_once: false, target: None, ..rules() }
}

const BEGIN: &str = "prepared 0, prepared 1, beat 0, beat 1";
const LEAVE: &str = "finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0";

#[test]
fn an_evaluator_without_a_core_of_its_own_waits_for_the_ranks() {
    let mut play = Play::new(later()).play(BEGIN).play("snapshot 0 3, snapshot 0 6");
    assert_eq!(play.said(), "=starting events events start =running beat beat events events");
    let mut play = play.play(LEAVE);
    assert_eq!(play.said(), "events leave-0 events leave-1 =evaluating spawn-E evaluate-3");
    let mut play = play.play("metric 50, evaluated");
    assert_eq!(play.said(), "events discard-3 evaluate-6");
    let mut play = play.play("evaluated");
    assert_eq!(play.said(), "discard-6 leave-E");
    let mut play = play.play("E-goodbye, E-exit 0");
    assert_eq!((play.said().as_str(), play.verdict().as_str()), ("finish", "-"));
    assert_eq!(play.supervisor.judgement().end, End::Done);
}

#[test]
fn the_models_that_a_run_begins_and_ends_with_are_kept() {
    let last = SnapshotRecord { last: true, ..snapshot(Rank(0), 6) };
    let mut play = Play::new(later()).play(BEGIN).play("snapshot 0 0, snapshot 0 3");
    play.tell(Input::Message(Member::Rank(Rank(0)), ToDriver::Events(vec![Event::Snapshot(last)])), 10);
    let mut play = play.play(LEAVE).play("evaluated, evaluated, evaluated");
    assert!(play.said().ends_with("evaluate-0 evaluate-3 discard-3 evaluate-6 leave-E"));
}

#[test]
fn a_run_without_snapshots_needs_no_evaluator() {
    let mut play = Play::new(later()).play(BEGIN).play(LEAVE);
    assert!(play.said().ends_with("leave-1 finish"), "{}", play.said());
}

#[test]
fn an_evaluator_that_takes_too_long_for_a_snapshot_is_given_up() {
    // The limit holds for each snapshot anew, and whatever else the evaluator says.
    let quiet = Play::new(later()).play("prepared 0, prepared 1, snapshot 0 3, snapshot 0 6").play(LEAVE);
    let quiet = quiet.play("wait 90, evaluated, wait 90, metric 50");
    assert_eq!(quiet.stage(), "evaluating");
    let mut quiet = quiet.play("wait 15");
    assert_eq!((quiet.stage(), quiet.verdict().as_str()), ("evaluating", "failed"));
    assert!(quiet.said().ends_with("kill-E"));
    let quiet = quiet.play("E-exit 1");
    assert_eq!(quiet.stage(), "over");
    assert_eq!(quiet.detail(), "the evaluator did not evaluate 6.bin within 10.0 s");
}

#[test]
fn an_evaluator_that_does_not_leave_is_killed_and_spoils_nothing() {
    let mut play = Play::new(rules()).play(BEGIN).play(LEAVE).play("wait 61");
    assert!(play.said().ends_with("leave-E note kill-E"));
    let mut play = play.play("wait 62");
    assert_eq!((play.said().as_str(), play.stage(), play.verdict().as_str()), ("note finish", "over", "-"));
}

#[test]
fn silence_is_counted_from_the_last_sign_of_life() {
    let play = Play::new(later()).play(BEGIN).play("wait 9, beat 0, beat 1, wait 9, beat 1");
    assert_eq!(play.stage(), "running");
    let play = play.play("wait 2");
    assert_eq!(play.verdict(), "failed 0");
    assert_eq!(
        play.detail(),
        "rank 0 hangs: it gave no sign of life for 1.0 s; it was last seen in step 7, phase backward, lane compute"
    );
}

#[test]
fn a_driver_that_was_away_itself_blames_nobody() {
    let mut play = Play::new(later()).play(BEGIN);
    play.tell(Input::Tick, 30_000);
    assert_eq!(play.stage(), "running");
    assert_eq!(play.play("wait 11").verdict(), "failed 0");
}

#[test]
fn before_the_start_too_whoever_has_spoken_must_go_on_speaking() {
    let silent = Play::new(later()).play("prepared 0, wait 11");
    assert_eq!(silent.stage(), "stopping");
    let told = "rank 0 hangs: it gave no sign of life for 1.1 s; it was last seen while starting up";
    assert_eq!(silent.detail(), told);
    // Who has not spoken yet may still be loading.
    let play = Play::new(later()).play("wait 90");
    assert_eq!(play.stage(), "starting");
    assert_eq!(play.play("wait 10").detail(), "ranks 0 and 1 were not ready after 10.0 s");
    let gone = Play::new(later()).play("wait 50, exit 1 3, wait 11");
    assert_eq!(gone.detail(), "rank 1 exited with code 3 (while starting up)");
    let late = Play::new(later()).play(&format!("prepared 0, {}", "wait 9, beat 0, ".repeat(12)));
    assert_eq!(late.detail(), "rank 1 was not ready after 10.0 s");
    assert_eq!(late.supervisor.judgement().suspects, [Member::Rank(Rank(1))]);
}

#[test]
fn ranks_that_prepared_differently_do_not_start() {
    let mut play = Play::new(later()).play("prepared 0, differs 1");
    assert_eq!(play.said(), "=starting events events =stopping stop-0 stop-1");
    assert_eq!(
        play.detail(),
        "the ranks do not start alike: the initial weights of rank 0: aaaa, of rank 1: ffff"
    );
}

#[test]
fn blame_falls_on_the_cause_and_not_on_the_complaint() {
    // events after the begin -> verdict, and what the sentence holds
    let table = [
        ("accuses 1 0, signal 0, wait 3", "failed 0", "rank 0 was ended by signal 9"),
        ("accuses 1 0, exit 0 1, run 11", "failed 0", "rank 0 exited with code 1"),
        (
            "accuses 1 0, failed 0",
            "failed 0",
            "rank 0 failed in step 8, phase wait-peer, lane service-0: because",
        ),
        ("accuses 1 0, diverged 0", "diverged 0", "rank 0 diverged in step 7: its loss is inf"),
        ("wait 9, beat 1, accuses 1 0, wait 9", "failed 0", "rank 0 hangs: it gave no sign of life for"),
        (
            "accuses 1 0, run 11",
            "failed 0",
            "rank 0 let rank 1 wait in vain: because (in step 7, phase backward",
        ),
        ("accuses 1 0, accuses 0 1, run 11", "failed 0", "rank 0 let rank 1 wait in vain"),
        ("exit 1 1, accuses 1 0, signal 0, run 11", "failed 0", "rank 0 was ended by signal 9"),
        ("exit 1 1, failed 1, run 11", "failed 1", "rank 1 failed in step 8"),
        ("exit 1 0, run 11", "failed 1", "rank 1 exited with code 0 (in step 7"),
        (
            "accuses 1 9, run 11",
            "failed 1",
            "rank 1 failed in step 8, phase wait-peer, lane service-0: because",
        ),
        ("signal 1, signal 0, wait 3", "failed 1", "rank 1 was ended by signal 9"),
    ];
    for (events, verdict, words) in table {
        let play = Play::new(later()).play(BEGIN).play(events);
        assert_eq!(play.verdict(), verdict, "{events}");
        assert!(play.detail().starts_with(words), "{events}: {}", play.detail());
    }
}

#[test]
fn last_words_that_come_after_the_end_of_a_process_count() {
    let play = Play::new(later()).play(BEGIN).play("exit 0 0, finished 0");
    assert_eq!(play.stage(), "doubting");
    let play = play.play("goodbye 0");
    assert_eq!(play.stage(), "running");
    let play = play.play("finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.stage(), play.verdict().as_str()), ("over", "-"));
}

#[test]
fn a_rank_must_say_good_bye_and_then_go() {
    let play = Play::new(later()).play(BEGIN).play("finished 0, run 61");
    assert_eq!(
        play.detail(),
        "rank 0 ended, but did not say that all its records were sent (in step 7, phase backward, lane compute)"
    );
    let mut play = Play::new(later()).play(BEGIN).play("finished 0, goodbye 0, run 61");
    assert!(play.said().contains("note kill-0"));
    // The run goes on, and its end is no fault.
    let mut play = play.play("signal 0, finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.said().as_str(), play.verdict().as_str()), ("events leave-1 finish", "-"));
}

#[test]
fn a_rank_that_stops_unbidden_is_a_fault() {
    let play = Play::new(later()).play(BEGIN).play("stopped 0 4, goodbye 0, exit 0 0");
    let play = play.play("finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.stage(), play.verdict().as_str()), ("over", "failed 0"));
}

#[test]
fn a_target_counts_only_in_time() {
    let play = Play::new(rules()).play(BEGIN).play("late-metric, metric 89");
    assert_eq!(play.stage(), "running");
    let play = play.play("metric 90, stopped 0 9, goodbye 0, exit 0 0, stopped 1 9, goodbye 1, exit 1 0");
    assert_eq!(play.stage(), "evaluating");
    let play = play.play("E-goodbye, E-exit 0");
    let end = play.supervisor.judgement().end;
    assert_eq!(end, End::TargetReached { at: Nanos(5_000_000_000), value: 0.9 });
}

#[test]
fn what_was_set_aside_before_the_target_is_still_evaluated() {
    let aimed = "snapshot 0 3, snapshot 0 6, metric 95, evaluated";
    let play = Play::new(rules()).play(BEGIN).play(aimed).play(LEAVE);
    assert_eq!(play.stage(), "evaluating");
    let mut play = play.play("evaluated");
    assert!(play.said().ends_with("=evaluating discard-6 leave-E"));
}

#[test]
fn time_is_up_at_any_moment() {
    let table = [
        (BEGIN, "run 600", "stopping", "timeout"),
        ("prepared 0, prepared 1, snapshot 0 3, finished 0, goodbye 0, exit 0 0", "wait 1", "running", "-"),
    ];
    for (way, events, stage, verdict) in table {
        let play = Play::new(later()).play(way).play(events);
        assert_eq!((play.stage(), play.verdict().as_str()), (stage, verdict), "{way}, {events}");
    }
    let begun = Play::new(rules()).play("prepared 0, prepared 1");
    let evaluating = (1..=7).fold(begun, |play, step| play.play(&format!("snapshot 0 {step}"))).play(LEAVE);
    let late = (1..=7).fold(evaluating, |play, _| play.play("wait 90, evaluated"));
    assert_eq!(late.verdict(), "timeout");
    assert!(Play::new(later()).play(BEGIN).play("run 600").detail().starts_with(
        "the run took longer than its time limit of 60.0 s; rank 0 was furthest behind, in step 7"
    ));
}

#[test]
fn an_interrupted_run_knows_the_last_step_that_all_ranks_finished() {
    let play = Play::new(later()).play(BEGIN).play("stop, stopped 0 9, wait 31");
    assert_eq!(play.supervisor.judgement().end, End::Interrupted { step: 6 });
    assert_eq!(play.detail(), "stopped by the user after step 6");
}

#[test]
fn a_fault_has_the_place_where_it_happened() {
    let play = Play::new(later()).play(BEGIN).play("signal 1, wait 3, beat 0");
    let End::Failed { place, cause } = play.supervisor.judgement().end else { panic!("no fault") };
    assert_eq!(place, Some(Place { lane: LaneId::Compute, step: 7, phase: Phase::Backward }));
    assert!(cause.starts_with("was ended by signal 9"), "{cause}");
}
