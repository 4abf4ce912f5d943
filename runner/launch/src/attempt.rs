//! One attempt of one run: the thin shell around the supervisor.

use crate::exit::Exit;
use crate::log::{last_lines, log_file};
use crate::process::{Order, Processes};
use crate::sockets::Sockets;
use crate::supervise::{Action, Input, Judgement, Rules, Supervisor};
use crate::{LaunchError, Outcome};
use mesh::{Briefing, ControlServer, Deadlines, Heartbeat, Member, PROTOCOL, Secret, ToMember};
use recipe::{KeptModels, Role, RunSpec};
use record::{Event, Nanos, Rank, SnapshotRecord};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often the supervisor looks at the clock when nothing happens.
const TICK: Duration = Duration::from_millis(50);
/// How long the channel may take to notice that everybody is gone.
const SETTLING: Duration = Duration::from_millis(200);
/// Lines of the logs of those to blame.
const LINES: usize = 20;

/// What to run, and within which limits.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// What the run does.
    pub spec: &'a RunSpec,
    /// Seed of everything random in it.
    pub seed: u64,
    /// The attempt's own directory: made if it is not there; logs and snapshots go into it. Of
    /// the snapshots that were evaluated only the initial and the last one are kept.
    pub directory: PathBuf,
    /// The worker binary.
    pub worker: PathBuf,
    /// How long to wait for what.
    pub deadlines: Deadlines,
    /// How long the attempt may take, by the wall.
    pub timeout: Option<Duration>,
}

/// How the user ends an attempt early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    /// Stop at the next step.
    pub at_next_step: CancellationToken,
    /// Kill everything.
    pub now: CancellationToken,
}

/// What is told while an attempt runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A process was started.
    Spawned {
        /// Whose.
        member: Member,
        /// Its process id.
        pid: u32,
    },
    /// Members reported events; those of one member come in their order.
    Events(Vec<Event>),
    /// What a rank is doing.
    Heartbeat(Rank, Heartbeat),
    /// The attempt entered a phase of its life.
    State(RunPhase),
    /// The run goes on without a rank: from here on it is degraded.
    Lost {
        /// Which.
        rank: Rank,
        /// Why, in a sentence.
        reason: String,
    },
    /// Something that a user may want to know, in a sentence.
    Note(String),
}

/// The phases in the life of an attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunPhase {
    /// Processes start, read data, make weights, meet.
    Starting,
    /// The ranks train.
    Running,
    /// The ranks were told to end early.
    Stopping,
    /// The ranks are gone; the evaluator works through the snapshots.
    Evaluating,
}

/// What is pretended to be slow keeps a rank silent for longer.
fn patient(spec: &RunSpec, deadlines: Deadlines) -> Deadlines {
    let bytes = 4 * spec.model.parameters() as u64;
    let (ranks, steps) = (spec.cluster.ranks(), spec.strategy.period());
    let more = spec.emulation.longest_silence((ranks, steps), bytes, deadlines.peer);
    Deadlines { peer: deadlines.peer + more, ..deadlines }
}

/// Runs one attempt and answers how it ended. Everything it reports goes to `updates`; no process that it
/// started is left when it returns, nor when its future is dropped, nor when this process is killed.
///
/// # Errors
/// What keeps an attempt from being made at all; a run that fails is an [`Outcome`].
pub async fn run(
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let begun = Instant::now();
    let directory = std::path::absolute(&attempt.directory).map_err(|source| LaunchError::File {
        path: attempt.directory.clone(),
        what: "found",
        source,
    })?;
    let deadlines = patient(attempt.spec, attempt.deadlines);
    let attempt = Attempt { directory, deadlines, ..attempt };
    let mut shell = Shell::open(&attempt, begun, updates).await?;
    for rank in 0..attempt.spec.cluster.ranks() {
        shell.spawn(Member::Rank(Rank(rank))).await?;
    }
    let (supervisor, first) = Supervisor::new(rules(&attempt));
    let judgement = shell.obey(supervisor, first, &stop).await?;
    shell.close().await?;
    Ok(Outcome {
        end: judgement.end,
        wall: since(begun),
        culprit: match judgement.suspects.as_slice() {
            [Member::Rank(rank)] => Some(*rank),
            _ => None,
        },
        detail: judgement.detail,
        losses: judgement.losses,
        last_lines: lines_of(&attempt, &judgement.suspects),
    })
}

fn rules(attempt: &Attempt<'_>) -> Rules {
    Rules {
        roles: attempt.spec.cluster.seats.iter().map(|seat| seat.role).collect(),
        strategy: attempt.spec.strategy.clone(),
        deadlines: attempt.deadlines,
        timeout: attempt.timeout,
        target: attempt.spec.train.target,
        evaluate_at_once: attempt.spec.threads.evaluate_at_once,
    }
}

/// What the supervisor's decisions are carried out with. The order of the fields is the order of their ends:
/// first the processes, then their channel, then its directory.
struct Shell<'a> {
    attempt: &'a Attempt<'a>,
    begun: Instant,
    processes: Processes,
    exits: UnboundedReceiver<(Member, Exit)>,
    control: ControlServer,
    sockets: Sockets,
    secret: Secret,
    updates: mpsc::Sender<Update>,
    /// Updates for which there was no room yet: whoever records them must not slow the supervisor down, or
    /// healthy ranks would seem silent.
    backlog: VecDeque<Update>,
}

impl<'a> Shell<'a> {
    async fn open(
        attempt: &'a Attempt<'a>,
        begun: Instant,
        updates: mpsc::Sender<Update>,
    ) -> Result<Self, LaunchError> {
        let snapshots = attempt.directory.join("snapshots");
        fs::create_dir_all(&snapshots).map_err(|source| LaunchError::File {
            path: snapshots,
            what: "made",
            source,
        })?;
        let sockets = Sockets::make()?;
        let secret = mesh::random_secret();
        let ranks = (0..attempt.spec.cluster.ranks()).map(|rank| Member::Rank(Rank(rank)));
        let members: Vec<Member> = ranks.chain([Member::Evaluator]).collect();
        let control =
            ControlServer::bind(&sockets.path, &secret, &members).await.map_err(LaunchError::Channel)?;
        let (exit, exits) = mpsc::unbounded_channel();
        let processes = Processes::new(exit).map_err(LaunchError::Thread)?;
        let backlog = VecDeque::new();
        Ok(Self { attempt, begun, processes, exits, control, sockets, secret, updates, backlog })
    }

    async fn spawn(&mut self, member: Member) -> Result<(), LaunchError> {
        let path = log_file(&self.attempt.directory, member);
        let log = File::create(&path).map_err(|source| LaunchError::File { path, what: "made", source })?;
        let mut briefing = Vec::new();
        mesh::write_briefing(&mut briefing, &self.briefing(member)).map_err(LaunchError::Channel)?;
        let program = self.attempt.worker.clone();
        let threads = self.threads(member);
        let started = self.processes.start(Order { member, program, briefing, log, threads }).await;
        let pid = started
            .map_err(|source| LaunchError::WorkerStart { path: self.attempt.worker.clone(), source })?;
        self.backlog.push_back(Update::Spawned { member, pid });
        Ok(())
    }

    fn briefing(&self, member: Member) -> Briefing {
        Briefing {
            protocol: PROTOCOL,
            member,
            spec: self.attempt.spec.clone(),
            seed: self.attempt.seed,
            secret: self.secret.clone(),
            sockets: self.sockets.path.clone(),
            directory: self.attempt.directory.clone(),
            threads: self.threads(member),
            deadlines: self.attempt.deadlines,
        }
    }

    /// How many threads a member computes with.
    fn threads(&self, member: Member) -> u32 {
        let threads = self.attempt.spec.threads;
        match member {
            Member::Rank(Rank(rank)) => {
                let seat = self.attempt.spec.cluster.seats.get(rank as usize);
                threads.of(seat.map_or(Role::Worker, |seat| seat.role))
            }
            Member::Evaluator => threads.evaluator,
        }
    }

    /// Tells the supervisor what happens, and does what it says, until everything is over.
    async fn obey(
        &mut self,
        mut supervisor: Supervisor,
        first: Vec<Action>,
        stop: &StopSignal,
    ) -> Result<Judgement, LaunchError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut asked, mut urged) = (false, false);
        let mut over = self.carry_out(first).await?;
        while !over {
            if !self.passes_on() {
                return Err(LaunchError::Unrecorded { whereabouts: supervisor.whereabouts() });
            }
            // What was said before a process went comes before its end; hence the order.
            let input = tokio::select! { biased;
                () = stop.now.cancelled(), if !urged => { urged = true; Input::StopNow }
                () = stop.at_next_step.cancelled(), if !asked => { asked = true; Input::Stop }
                message = self.control.recv() => {
                    let (member, message) = message.ok_or(LaunchError::ChannelLost)?;
                    Input::Message(member, message)
                }
                Some((member, exit)) = self.exits.recv() => Input::Exited(member, exit),
                _ = ticks.tick() => Input::Tick,
            };
            over = self.carry_out(supervisor.on(since(self.begun), input)).await?;
        }
        Ok(supervisor.judgement())
    }

    /// Answers whether everything is over.
    async fn carry_out(&mut self, actions: Vec<Action>) -> Result<bool, LaunchError> {
        for action in actions {
            match action {
                Action::Start => self.start(),
                Action::Send(member, message) => self.send(member, message),
                Action::SpawnEvaluator => self.spawn(Member::Evaluator).await?,
                Action::Kill(member) => self.processes.kill(member),
                Action::Discard(snapshot) if self.keeps(&snapshot) => {}
                Action::Discard(snapshot) => self.discard(&snapshot),
                Action::Tell(update) => self.backlog.push_back(update),
                Action::Finish => return Ok(true),
            }
        }
        Ok(false)
    }

    /// One moment for all ranks: the zero of the run's clock.
    fn start(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let origin = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for rank in 0..self.attempt.spec.cluster.ranks() {
            self.send(Member::Rank(Rank(rank)), ToMember::Start { origin });
        }
    }

    fn send(&self, member: Member, message: ToMember) {
        if let Err(error) = self.control.send(member, message) {
            // The member is gone or going; its end is about to be told.
            tracing::debug!(%member, %error, "a message was not sent");
        }
    }

    /// Whether the recipe asks for a model that the run itself needs no more.
    fn keeps(&self, snapshot: &SnapshotRecord) -> bool {
        snapshot.last && self.attempt.spec.measure.models == KeptModels::All
    }

    /// Snapshots of a whole sweep would fill the disk, so each goes as soon as it has served.
    fn discard(&mut self, snapshot: &SnapshotRecord) {
        let path = self.attempt.directory.join(&snapshot.file);
        if let Err(error) = fs::remove_file(&path) {
            let note = format!("the evaluated snapshot {} cannot be deleted: {error}", path.display());
            self.backlog.push_back(Update::Note(note));
        }
    }

    /// Hands on as many updates as there is room for; false if nobody takes them any more.
    fn passes_on(&mut self) -> bool {
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

    /// Hands on the last updates and closes the channel. All processes are gone by now.
    async fn close(mut self) -> Result<(), LaunchError> {
        for update in std::mem::take(&mut self.backlog) {
            let unrecorded = |_| LaunchError::Unrecorded { whereabouts: String::new() };
            self.updates.send(update).await.map_err(unrecorded)?;
        }
        drop(self.processes);
        self.control.close(SETTLING).await;
        Ok(())
    }
}

/// The last lines of the logs of those to blame; whose they are is said where there are several.
fn lines_of(attempt: &Attempt<'_>, suspects: &[Member]) -> Vec<String> {
    let share = LINES.div_ceil(suspects.len().max(1)).max(3);
    let lines = |member: &Member| last_lines(&log_file(&attempt.directory, *member), share);
    match suspects {
        [only] => lines(only),
        several => {
            let named = |member: &Member| {
                let name = member.to_string();
                lines(member).into_iter().map(move |line| format!("{name}: {line}")).collect::<Vec<_>>()
            };
            several.iter().flat_map(named).collect()
        }
    }
}

fn since(begun: Instant) -> Nanos {
    Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
