//! A stage for the supervisor, on which events and actions go by short names; the tests are beside it by topic.

mod blame;
mod evaluation;
mod leaving;
mod lost_ranks;
mod planned;
mod table;

use super::*;
use mesh::{Deadlines, Heartbeat};
use recipe::{FaultAction, Metric, PlannedFault, Role, Strategy, Target};
use record::{
    LaneId, LostRecord, MetricRecord, Overhead, Phase, Prepared, RankEnded, SnapshotGroup, SnapshotRecord,
    Standing, StruckRecord,
};

/// Two ranks that train together, and an evaluator beside them.
fn rules() -> Rules {
    Rules {
        roles: vec![Role::Worker; 2],
        hosts: vec![],
        strategy: Strategy::DSync,
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
        faults: vec![],
        continues: false,
    }
}

/// Workers at their own pace, and a server behind them.
fn sparing(workers: usize) -> Rules {
    let mut roles = vec![Role::Worker; workers];
    roles.push(Role::Server);
    Rules {
        roles,
        strategy: Strategy::AsyncSgd { serve: recipe::Serve::All, staleness_bound: None },
        ..rules()
    }
}

/// A supervisor on a stage: events come by name, 10 ms apart, and actions go by name too.
struct Play {
    supervisor: Supervisor,
    ranks: u32,
    now: Nanos,
    actions: Vec<Action>,
}

impl Play {
    fn new(rules: Rules) -> Self {
        let ranks = rules.ranks();
        let (supervisor, actions) = Supervisor::new(rules);
        Self { supervisor, ranks, now: Nanos(0), actions }
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

    /// Lets tenths of seconds pass; with or without heartbeats of all ranks.
    fn wait(&mut self, tenths: u64, beats: bool) {
        for _ in 0..tenths {
            self.tell(Input::Tick, 100);
            for rank in (0..self.ranks).filter(|_| beats) {
                self.tell(input(&format!("beat {rank}")), 0);
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

    fn conclusion(&self) -> String {
        match &self.supervisor.conclusion {
            None => "-".into(),
            Some(Conclusion::TargetReached { .. }) => "target".into(),
            Some(Conclusion::Diverged { rank, .. }) => format!("diverged {rank}"),
            Some(Conclusion::Failed(fault)) => {
                fault.culprit.map_or_else(|| "failed".into(), |rank| format!("failed {rank}"))
            }
            Some(Conclusion::TimedOut) => "timeout".into(),
            Some(Conclusion::Interrupted) => "interrupted".into(),
        }
    }

    fn detail(&self) -> String {
        self.supervisor.report().detail
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
        Action::Send(_, ToMember::Average(snapshots)) => {
            let files: Vec<&str> = snapshots.iter().map(|snapshot| snapshot.file.as_str()).collect();
            format!("average-{}", files.join("+"))
        }
        Action::Send(_, ToMember::Start { .. }) => "start?".into(),
        Action::SpawnEvaluator => "spawn-E".into(),
        Action::Discard(snapshot) => format!("discard-{}", snapshot.step),
        Action::Kill(member) => format!("kill-{}", name(member)),
        Action::Tell(Update::Events(_)) => "events".into(),
        Action::Tell(Update::Heartbeat(..)) => "beat".into(),
        Action::Tell(Update::State(phase)) => format!("={phase:?}").to_lowercase(),
        Action::Tell(Update::Note(_)) => "note".into(),
        Action::Tell(Update::Lost { rank, .. }) => format!("lost-{rank}"),
        Action::Tell(Update::Spawned { .. }) => "spawned?".into(),
        Action::Tell(Update::Continued { .. }) => "continued?".into(),
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
        "later-beat" => from(ToDriver::Heartbeat(heartbeat(40))),
        "report" => from(ToDriver::Events(vec![Event::Overhead(Overhead {
            rank,
            recording: Nanos(1),
            wall: Nanos(2),
            resident_bytes: 0,
        })])),
        "evaluated-by" => from(ToDriver::Evaluated { file: "3.bin".into(), failure: None }),
        "snapshot" => from(ToDriver::Events(vec![Event::Snapshot(snapshot(rank, number(2).into()))])),
        "copy" => from(ToDriver::Events(vec![Event::Snapshot(copy(rank, number(2).into(), false))])),
        "final" => from(ToDriver::Events(vec![Event::Snapshot(copy(rank, number(2).into(), true))])),
        "finished" => ended(RankEnd::Finished),
        "stopped" => ended(RankEnd::Stopped { step: number(2).into() }),
        "diverged" => ended(RankEnd::Diverged { step: 7, loss: "inf".into() }),
        "failed" => ended(failed(None)),
        "accuses" => ended(failed(Some(Rank(number(2))))),
        "misses" => from(ToDriver::Events(vec![Event::Lost(missed(rank, Rank(number(2))))])),
        "struck" => struck(rank, FaultAction::Kill),
        "paused" => {
            let length = (words.len() > 2).then(|| Duration::from_millis(u64::from(number(2)) * 100));
            struck(rank, FaultAction::Pause { length })
        }
        "unlinked" => struck(rank, FaultAction::DropLink { peer: number(2) }),
        "slowed" => struck(rank, FaultAction::Slow { compute: 2.0, until: None }),
        "goodbye" => from(ToDriver::Goodbye),
        "exit" => Input::Exited(Member::Rank(rank), ProcessExit::Code(number(2) as i32)),
        "signal" => Input::Exited(Member::Rank(rank), ProcessExit::Signal(9)),
        "metric" => metric(f64::from(number(1)) / 100.0, 5),
        "late-metric" => metric(1.0, 51),
        "evaluated" => evaluator(ToDriver::Evaluated { file: "3.bin".into(), failure: None }),
        "unevaluated" => {
            evaluator(ToDriver::Evaluated { file: "3.bin".into(), failure: Some("it is torn".into()) })
        }
        "E-beat" => evaluator(ToDriver::Heartbeat(heartbeat(7))),
        "E-goodbye" => evaluator(ToDriver::Goodbye),
        "E-exit" => Input::Exited(Member::Evaluator, ProcessExit::Code(number(1) as i32)),
        "stop" => Input::Stop,
        "stop-now" => Input::StopNow,
        "tick" => Input::Tick,
        other => panic!("no event {other}"),
    }
}

fn struck(rank: Rank, action: FaultAction) -> Input {
    let fault = PlannedFault { rank: rank.0, step: 7, action };
    let event = Event::Struck(StruckRecord { fault, at: Nanos(0) });
    Input::Message(Member::Rank(rank), ToDriver::Events(vec![event]))
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
        judged: true,
    })]))
}

fn failed(peer: Option<Rank>) -> RankEnd {
    RankEnd::Failed {
        lane: LaneId::Communication,
        step: 8,
        phase: Phase::WaitPeer,
        peer,
        reason: "because".into(),
    }
}

fn missed(rank: Rank, peer: Rank) -> LostRecord {
    LostRecord { rank, peer, step: 9, at: Nanos(2_000_000_000), reason: "it is gone".into() }
}

fn heartbeat(step: u64) -> Heartbeat {
    let lane = LaneId::Compute;
    let phase = Phase::Backward;
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
        replica_group: None,
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
        mark: step,
        standing: Standing::Judged,
        group: None,
        sha256: String::new(),
        digested: true,
    }
}

/// A model of a run that is judged by the mean of both ranks.
fn copy(rank: Rank, mark: u64, last: bool) -> SnapshotRecord {
    SnapshotRecord {
        mark,
        last,
        standing: if rank == Rank(0) { Standing::Beside } else { Standing::Member },
        group: Some(SnapshotGroup { size: 2, judged: true }),
        file: format!("r{rank}m{mark}"),
        ..snapshot(rank, mark)
    }
}

/// Rules for an evaluator that works after the ranks, and a run without a target.
fn later() -> Rules {
    Rules { evaluate_at_once: false, target: None, ..rules() }
}

const BEGIN: &str = "prepared 0, prepared 1, beat 0, beat 1";
const LEAVE: &str = "finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0";
