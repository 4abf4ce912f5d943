//! One attempt of one run: the thin shell around the supervisor.

mod briefing;
mod files;

use self::files::Fetched;
use crate::checkpoints::{CheckpointCollector, Continuation, SavedCheckpoint};
use crate::launcher::{Artifacts, Launcher, NodeReport, Opening, SpawnRequest};
use crate::local::{LocalLauncher, environment};
use crate::log;
use crate::order::{before, patient, prepared, rules, since, stopped_before_it_ran};
use crate::reading_schedule::ReadingSchedule;
use crate::remote::{Hosts, HostsLauncher};
use crate::sockets::OwnedDirectory;
use crate::supervise::{Action, AttemptReport, Input, Supervisor};
use crate::{Attempt, End, LaunchError, Outcome, RunPhase, StopSignal, Update};
use mesh::{ControlServer, Member, Secret, ToDriver, ToMember};
use recipe::{FaultAction, PortRange};
use record::{Event, Nanos, Rank, SnapshotRecord};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How often the supervisor checks the clock if nothing happens.
const TICK: Duration = Duration::from_millis(50);
/// How long the channel may take to notice that all members are gone.
const SETTLING: Duration = Duration::from_millis(200);
/// Events of an earlier attempt in one update.
const REPLAYED: usize = 512;
/// Lines of the suspects' logs in an outcome.
const LINES: usize = 20;

/// Runs one attempt on this machine and returns how it ended. Its reports go to `updates`. No process that it started is
/// left when it returns, nor when its future is dropped, nor when this process is killed.
///
/// # Errors
/// Why the attempt could not be made at all; a run that fails is an [`Outcome`].
pub async fn run(
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let attempt = prepared(attempt)?;
    let launcher = LocalLauncher::new(&attempt.directory, attempt.forks.clone())?;
    run_prepared(launcher, attempt, stop, updates).await
}

/// The same with ranks on connected hosts, whose doors listen at one of `ports`; the evaluator runs on this machine.
///
/// # Errors
/// As [`run`], and a host that is lost before the ranks run.
pub async fn run_on_hosts(
    hosts: &Arc<Hosts>,
    ports: Option<PortRange>,
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let attempt = prepared(attempt)?;
    let launcher = HostsLauncher::new(hosts.clone(), &attempt, ports)?;
    run_prepared(launcher, attempt, stop, updates).await
}

/// The same with processes that `launcher` starts.
///
/// # Errors
/// Fails as [`run`] does.
pub async fn run_on(
    launcher: impl Launcher + Artifacts,
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    run_prepared(launcher, prepared(attempt)?, stop, updates).await
}

async fn run_prepared(
    launcher: impl Launcher + Artifacts,
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let begun = Instant::now();
    let attempt = Attempt { deadlines: patient(attempt.spec, attempt.deadlines), ..attempt };
    let mut shell = Shell::open(&attempt, launcher, begun, updates).await?;
    let stopped = tokio::select! { biased;
        () = stop.at_next_step.cancelled() => true,
        () = stop.now.cancelled() => true,
        begun = shell.begin() => { begun?; false }
    };
    if stopped {
        shell.close(None).await?;
        return Ok(stopped_before_it_ran(begun));
    }
    let (supervisor, first) = Supervisor::new(rules(&attempt));
    let report = shell.obey(supervisor, first, &stop).await?;
    let last_lines = shell.lines_of(&report.suspects);
    shell.close(Some(&report.end)).await?;
    Ok(Outcome {
        end: report.end,
        wall: since(begun) + Nanos(before(&attempt).as_nanos() as u64),
        culprit: match report.suspects.as_slice() {
            [Member::Rank(rank)] => Some(*rank),
            _ => None,
        },
        detail: report.detail,
        lost_ranks: report.lost_ranks,
        as_ordered: report.as_ordered,
        last_lines,
    })
}

/// The clock of the run.
#[derive(Clone, Copy)]
struct RunTime {
    /// Its time at `since`.
    begin: Nanos,
    since: Instant,
}

impl RunTime {
    fn now(self) -> Nanos {
        self.begin + since(self.since)
    }
}

/// Carries out the supervisor's decisions. Its fields are dropped in their order: first the processes, then their
/// channel, then its directory.
struct Shell<'a, L> {
    attempt: &'a Attempt<'a>,
    begun: Instant,
    launcher: L,
    fetching: JoinSet<Fetched>,
    control: ControlServer,
    sockets: OwnedDirectory,
    secret: Secret,
    checkpoints: CheckpointCollector,
    /// Whether the user was informed of a checkpoint that is missing.
    checkpoint_missed: bool,
    /// Models that were evaluated and are deleted soon: their values must be recorded before.
    discarded: VecDeque<(Instant, SnapshotRecord)>,
    /// Inputs replayed to the supervisor from the attempt that this one continues; empty once it has them.
    earlier: Vec<Input>,
    updates: mpsc::Sender<Update>,
    /// Updates for which the channel had no room: a slow recorder must not delay the supervisor, or healthy ranks would
    /// seem silent.
    backlog: VecDeque<Update>,
    /// The clock of the run, and when the machines are read; `None` while no rank trains.
    training: Option<(RunTime, ReadingSchedule)>,
}

impl<'a, L: Launcher + Artifacts> Shell<'a, L> {
    async fn open(
        attempt: &'a Attempt<'a>,
        launcher: L,
        begun: Instant,
        updates: mpsc::Sender<Update>,
    ) -> Result<Self, LaunchError> {
        let sockets = OwnedDirectory::of_sockets().map_err(LaunchError::Sockets)?;
        let secret = mesh::random_secret();
        let ranks = (0..attempt.spec.cluster.ranks()).map(|rank| Member::Rank(Rank(rank)));
        let members: Vec<Member> = ranks.chain([Member::Evaluator]).collect();
        let control =
            ControlServer::bind(&sockets.path, &secret, &members).await.map_err(LaunchError::Channel)?;
        Ok(Self {
            attempt,
            begun,
            launcher,
            fetching: JoinSet::new(),
            control,
            sockets,
            secret,
            checkpoints: CheckpointCollector::new(&attempt.directory, attempt.spec.cluster.ranks()),
            checkpoint_missed: false,
            discarded: VecDeque::new(),
            earlier: Vec::new(),
            updates,
            backlog: VecDeque::new(),
            training: None,
        })
    }

    /// Opens the attempt on its nodes, and starts its ranks.
    async fn begin(&mut self) -> Result<(), LaunchError> {
        let sockets = &self.sockets.path;
        let resume = self.attempt.resume.as_ref().map(|resume| resume.checkpoint.directory.as_path());
        let opening = Opening { spec: self.attempt.spec, sockets, secret: &self.secret, resume };
        self.launcher.open(opening).await?;
        for rank in 0..self.attempt.spec.cluster.ranks() {
            self.spawn(Member::Rank(Rank(rank))).await?;
        }
        Ok(())
    }

    async fn spawn(&mut self, member: Member) -> Result<(), LaunchError> {
        let mut briefing = Vec::new();
        mesh::write_briefing(&mut briefing, &self.briefing(member)).map_err(LaunchError::Channel)?;
        let program = self.attempt.worker.clone();
        let node = self.node(member);
        let threads = self.threads_in_variables(member);
        let environment = environment::of_local_node(&self.attempt.spec.cluster);
        let request = SpawnRequest { member, node, program, briefing, threads, environment };
        let pid = self.launcher.start(request).await?;
        self.backlog.push_back(Update::Spawned { member, pid });
        Ok(())
    }

    /// Reports events to the supervisor and carries out its actions until the attempt is over.
    async fn obey(
        &mut self,
        mut supervisor: Supervisor,
        first: Vec<Action>,
        stop: &StopSignal,
    ) -> Result<AttemptReport, LaunchError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = false;
        let mut killing = false;
        let mut over = self.carry_out(first).await?;
        while !over {
            if !self.forward_updates() {
                return Err(LaunchError::Unrecorded { whereabouts: supervisor.whereabouts() });
            }
            // A process's last messages are taken before its exit; hence the order.
            let input = tokio::select! { biased;
                () = stop.now.cancelled(), if !killing => { killing = true; Input::StopNow }
                () = stop.at_next_step.cancelled(), if !stopping => { stopping = true; Input::Stop }
                message = self.control.recv() => {
                    let (member, message) = message.ok_or(LaunchError::ChannelLost)?;
                    self.bring_files(&message);
                    Input::Message(member, message)
                }
                report = self.launcher.next_report() => self.take(report),
                Some(fetched) = self.fetching.join_next() => match fetched {
                    Ok(fetched) => self.take_fetched(fetched),
                    Err(error) => return Err(LaunchError::Fetch { source: error }),
                },
                _ = ticks.tick() => Input::Tick,
            };
            over = self.carry_out(supervisor.on(since(self.begun), input)).await?;
            for earlier in std::mem::take(&mut self.earlier) {
                over |= self.carry_out(supervisor.on(since(self.begun), earlier)).await?;
            }
            self.discard_recorded();
            if self.training.as_mut().is_some_and(|(time, schedule)| schedule.is_due(time.now())) {
                self.read_hosts();
            }
        }
        Ok(supervisor.report())
    }

    /// Input that a report is for the supervisor. Readings and notes go to the recorder, and the input is a tick.
    fn take(&mut self, report: NodeReport) -> Input {
        match report {
            NodeReport::Exit(member, exit) => return Input::Exited(member, exit),
            NodeReport::Reading(reading) => {
                self.backlog.push_back(Update::Events(vec![Event::Host(reading)]));
            }
            NodeReport::Note(note) => self.backlog.push_back(Update::Note(note)),
        }
        Input::Tick
    }

    /// Returns whether the attempt is over.
    async fn carry_out(&mut self, actions: Vec<Action>) -> Result<bool, LaunchError> {
        for action in actions {
            match action {
                Action::Start => self.start(),
                Action::Send(Member::Evaluator, message) => self.send_with_snapshots(message),
                Action::Send(member, message) => self.send(member, message),
                Action::SpawnEvaluator => self.spawn(Member::Evaluator).await?,
                Action::Kill(member) => self.launcher.kill(member),
                Action::Discard(snapshot) if self.keeps(&snapshot) => {}
                Action::Discard(snapshot) => self.discarded.push_back((Instant::now(), snapshot)),
                Action::Tell(update) => {
                    let trained = update == Update::State(RunPhase::Evaluating);
                    self.backlog.push_back(update);
                    if trained {
                        self.read_hosts();
                        self.training = None;
                    }
                }
                Action::Finish => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Starts the run's clock: zero is the same moment on all nodes, given to each rank by the clock of its node.
    fn start(&mut self) {
        let begin = self.take_over();
        self.training = Some((RunTime { begin, since: Instant::now() }, ReadingSchedule::default()));
        self.read_hosts();
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        for rank in 0..self.attempt.spec.cluster.ranks() {
            let member = Member::Rank(Rank(rank));
            // Before the start of the machine, where that was after the run's.
            let origin = now - begin.0 as i64 + self.launcher.clock_ahead(self.node(member));
            self.send(member, ToMember::Start { origin });
        }
    }

    /// Reports what the run did before the checkpoint from which it continues. Returns when that was over, on the run's clock.
    fn take_over(&mut self) -> Nanos {
        let attempt = self.attempt;
        let Some(continuation) = &attempt.resume else { return Nanos(0) };
        let Continuation { checkpoint, events, unevaluated } = continuation;
        let SavedCheckpoint { number, samples, .. } = checkpoint;
        let words = format!(
            "it continues from checkpoint {number} of an earlier attempt, after step {}",
            checkpoint.step()
        );
        self.backlog.push_back(Update::Note(words));
        self.backlog.push_back(Update::Continued { samples: *samples });
        let (values, rest): (Vec<Event>, Vec<Event>) =
            events.iter().cloned().partition(|event| matches!(event, Event::Metric(_)));
        let (lasting, recorded): (Vec<Event>, Vec<Event>) = rest.into_iter().partition(lasts);
        for piece in recorded.chunks(REPLAYED) {
            self.backlog.push_back(Update::Events(piece.to_vec()));
        }
        // One of them may be the target.
        self.earlier.push(Input::Message(Member::Evaluator, ToDriver::Events(values)));
        for event in lasting {
            let Event::Struck(struck) = &event else { continue };
            let member = Member::Rank(Rank(struck.fault.rank));
            self.earlier.push(Input::Message(member, ToDriver::Events(vec![event])));
        }
        let taken = |snapshot: &SnapshotRecord| {
            let event = Event::Snapshot(snapshot.clone());
            Input::Message(Member::Rank(snapshot.rank), ToDriver::Events(vec![event]))
        };
        self.earlier.extend(unevaluated.iter().map(taken));
        continuation.end()
    }

    /// Reports the counters of the machines, if ranks train.
    fn read_hosts(&mut self) {
        let Some((time, _)) = self.training else { return };
        let readings = self.launcher.read_hosts(time.now());
        if !readings.is_empty() {
            self.backlog.push_back(Update::Events(readings.into_iter().map(Event::Host).collect()));
        }
    }

    fn send(&self, member: Member, message: ToMember) {
        if let Err(error) = self.control.send(member, message) {
            // The member has exited or is exiting, which its exit reports.
            tracing::debug!(%member, %error, "a message was not sent");
        }
    }

    /// Forwards updates while the channel has room; false if its receiver is gone.
    fn forward_updates(&mut self) -> bool {
        while let Some(update) = self.backlog.pop_front() {
            match self.updates.try_send(update) {
                Ok(()) => {}
                Err(TrySendError::Full(update)) => {
                    self.backlog.push_front(update);
                    break;
                }
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        true
    }

    /// The last lines of the suspects' logs; each names its member if there are several.
    fn lines_of(&mut self, suspects: &[Member]) -> Vec<String> {
        let share = LINES.div_ceil(suspects.len().max(1)).max(3);
        let mut all = Vec::new();
        for member in suspects {
            let tail = self.launcher.log_tail(*member, log::TAIL).unwrap_or_default();
            for line in log::last_lines_of(&tail, share) {
                all.push(if suspects.len() == 1 { line } else { format!("{member}: {line}") });
            }
        }
        all
    }

    /// Forwards the last updates and closes the channel. All processes have exited; an attempt that was stopped before its ranks ran
    /// has no end.
    async fn close(mut self, end: Option<&End>) -> Result<(), LaunchError> {
        self.forward_all().await?;
        // Behind the values of the models, so that a driver which is killed here leaves one or the other.
        for (_, snapshot) in std::mem::take(&mut self.discarded) {
            self.discard(&snapshot);
        }
        if end.is_some_and(End::is_result) {
            self.forget_unwanted_models();
        }
        self.forward_all().await?;
        drop(self.launcher);
        self.control.close(SETTLING).await;
        Ok(())
    }

    async fn forward_all(&mut self) -> Result<(), LaunchError> {
        for update in std::mem::take(&mut self.backlog) {
            let unrecorded = |_| LaunchError::Unrecorded { whereabouts: String::new() };
            self.updates.send(update).await.map_err(unrecorded)?;
        }
        Ok(())
    }
}
/// Whether it is a fault by which its rank is slow, or without a link, in a run that continues after it as well.
fn lasts(event: &Event) -> bool {
    let Event::Struck(struck) = event else { return false };
    match struck.fault.action {
        FaultAction::DropLink { .. } | FaultAction::Slow { .. } => true,
        FaultAction::Kill | FaultAction::Pause { .. } => false,
    }
}
