//! Every fault at every moment of five strategies, one of each way to need the others: no lane waits past its deadline, what came before
//! is not changed, and the rank that is missed is named, with the step and the phase in which it was missed.
//!
//! A simulated world has ranks, lanes, messages and snapshots, and nothing else. So some of a cell is not here:
//!
//! - There is no driver. That it is killed is the death of all ranks in one moment, which is what the lease of an agent and the end of
//!   a pipe come to; that it names hosts and writes outcomes is tried in real processes (`tests/tests/faults/fault_matrix.rs`, `hosts/`).
//! - There is no database. Here are the records of ranks: those before the fault are as without it.
//! - A host is a set of ranks. That its agent is killed is the death of all of them in one moment; that `ssh` to it is lost leaves
//!   them alone until their lease is over, because data does not pass `ssh`, and then is the same.
//! - A full disk is that of the snapshots. Nothing else of a rank is written to one.

use crate::lost_workers::{first_failures, lost};
use crate::scene::Scene;
use recipe::{Averaging, Extent, MovingRate, Serve, StepPace, Strategy, Topology};
use record::{Event, Nanos, Phase, Rank, StepRecord};
use std::collections::BTreeSet;
use std::fmt;
use strategies::StepError;
use strategies::sim::{Aftermath, Ending, Fault, LaneEnd};

const WORKERS: u32 = 3;
const STEPS: u64 = 12;
/// Longer than any step takes.
const PATIENCE: Nanos = Nanos(50_000_000);
/// For so long ranks of a host go on that the driver has lost.
const LEASE: Nanos = Nanos(400_000);
/// The ranks of the host that is lost.
const HOST: [Rank; 2] = [Rank(1), Rank(2)];
const VICTIM: Rank = Rank(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Kill,
    Stop,
    DropLink,
    FullDisk,
    DriverKill,
    SshLost,
    AgentKill,
}

impl Trouble {
    const ALL: [Self; 7] = [
        Self::Kill,
        Self::Stop,
        Self::DropLink,
        Self::FullDisk,
        Self::DriverKill,
        Self::SshLost,
        Self::AgentKill,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the run's clock starts.
    StartUp,
    /// In a step in which `pipe-sgd` does not overlap yet; for the others, in their first steps.
    WarmUp,
    /// In the middle of a step.
    MidStep,
    /// When a snapshot begins to be written.
    Snapshot,
    /// Just before the last lane ends.
    ShutDown,
}

impl Moment {
    const ALL: [Self; 5] = [Self::StartUp, Self::WarmUp, Self::MidStep, Self::Snapshot, Self::ShutDown];
}

/// A cell of the matrix.
struct Cell {
    strategy: Strategy,
    trouble: Trouble,
    moment: Moment,
    scene: Scene,
    well: Aftermath,
    /// When it goes wrong, counted from the beginning of the world.
    at: Nanos,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} at {:?} of {}", self.trouble, self.moment, self.strategy.kind())
    }
}

fn strategies() -> [Strategy; 5] {
    [
        Strategy::PsSync,
        Strategy::DSync,
        Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(4), segments: 1 },
        Strategy::EasgdAsync { moving_rate: MovingRate::Fixed(0.25), period: 1, serve: Serve::One },
        Strategy::AdPsgd { topology: Topology::Ring, averaging: Averaging::EachStep },
    ]
}

/// A run in which everything takes time, with snapshots after every fourth step.
fn scene(strategy: &Strategy) -> Scene {
    Scene::timed(strategy.clone(), WORKERS, STEPS).seed(3)
}

fn run(scene: &Scene, faults: Vec<(Nanos, Fault)>) -> Aftermath {
    scene.with_faults(PATIENCE, faults)
}

fn steps(after: &Aftermath) -> impl Iterator<Item = &StepRecord> {
    let events = after.outcome.ranks.iter().flat_map(|rank| &rank.events);
    events.filter_map(|event| match event {
        Event::Step(step) => Some(step),
        _ => None,
    })
}

fn end(after: &Aftermath) -> Nanos {
    after.endings.iter().map(|ending| ending.at).max().unwrap()
}

impl Cell {
    fn new(strategy: &Strategy, trouble: Trouble, moment: Moment) -> Self {
        let scene = scene(strategy);
        let well = run(&scene, vec![]);
        assert!(well.endings.iter().all(|ending| ending.end == LaneEnd::Finished), "{:?}", well.endings);
        let at = moment_of(moment, &well);
        Self { strategy: strategy.clone(), trouble, moment, scene, well, at }
    }

    /// The other end of the victim's link: the server, where there is one.
    fn peer(&self) -> Rank {
        if self.scene.spec.cluster.ranks() > WORKERS { Rank(WORKERS) } else { Rank(2) }
    }

    fn faults(&self) -> Vec<(Nanos, Fault)> {
        let host = |at: Nanos| HOST.map(|rank| (at, Fault::Kill(rank))).to_vec();
        match self.trouble {
            Trouble::Kill => vec![(self.at, Fault::Kill(VICTIM))],
            Trouble::Stop => vec![(self.at, Fault::Stop(VICTIM))],
            Trouble::DropLink => vec![(self.at, Fault::DropLink(VICTIM, self.peer()))],
            Trouble::FullDisk => vec![(self.at, Fault::FullDisk)],
            Trouble::DriverKill => vec![(self.at, Fault::KillAll)],
            Trouble::SshLost => host(self.at + LEASE),
            Trouble::AgentKill => host(self.at),
        }
    }

    /// The ranks that are gone from then on.
    fn gone(&self) -> Vec<Rank> {
        match self.trouble {
            Trouble::Kill | Trouble::Stop => vec![VICTIM],
            Trouble::SshLost | Trouble::AgentKill => HOST.to_vec(),
            Trouble::DriverKill => (0..self.scene.spec.cluster.ranks()).map(Rank).collect(),
            Trouble::DropLink | Trouble::FullDisk => vec![],
        }
    }

    /// Whom the others may name: those that are gone, or the ends of the link.
    fn named(&self) -> BTreeSet<Rank> {
        match self.trouble {
            Trouble::DropLink => [VICTIM, self.peer()].into(),
            _ => self.gone().into_iter().collect(),
        }
    }

    fn is_alone(&self) -> bool {
        self.strategy.kind().profile().pace == StepPace::Own
    }

    /// Every deadline of a lane has passed by then: a server or a passive rank lets three pass, and the rest of the run takes its
    /// ranks up to three times as long as all of them.
    fn limit(&self, struck: Nanos) -> Nanos {
        let well = end(&self.well);
        Nanos(struck.0.max(well.0) + 4 * PATIENCE.0 + 3 * well.0)
    }

    fn check(&self) {
        let faults = self.faults();
        let struck = faults[0].0;
        let after = run(&self.scene, faults);
        for ending in after.endings.iter().filter(|ending| ending.end != LaneEnd::Hangs) {
            assert!(ending.at <= self.limit(struck), "{self}: {ending:?}");
        }
        let hang: Vec<&Ending> = after.endings.iter().filter(|one| one.end == LaneEnd::Hangs).collect();
        let stopped = self.trouble == Trouble::Stop;
        assert!(hang.iter().all(|ending| stopped && ending.rank == VICTIM), "{self}: {hang:?}");
        self.past_is_as_it_was(&after, struck);
        match self.trouble {
            Trouble::DriverKill => self.all_die(&after),
            Trouble::FullDisk => self.the_writer_says_why(&after),
            Trouble::DropLink => self.ends_of_the_link_wait(&after),
            Trouble::Kill | Trouble::Stop | Trouble::SshLost | Trouble::AgentKill => self.are_missed(&after),
        }
    }

    /// The records before the fault are those of a run without it.
    fn past_is_as_it_was(&self, after: &Aftermath, struck: Nanos) {
        if struck <= self.well.origin {
            return;
        }
        let before = |after: &Aftermath| -> Vec<String> {
            let ended = |step: &&StepRecord| self.well.origin + step.begin + step.length < struck;
            steps(after).filter(ended).map(|step| format!("{step:?}")).collect()
        };
        let past = before(&self.well);
        assert_eq!(before(after), past, "{self}");
        // Otherwise the host would have been dead before.
        let on_host = steps(after).filter(|step| HOST.contains(&step.rank));
        let meanwhile = on_host.filter(|step| self.well.origin + step.begin + step.length > self.at).count();
        let lives_on =
            self.trouble == Trouble::SshLost && matches!(self.moment, Moment::WarmUp | Moment::MidStep);
        assert!(!lives_on || meanwhile > 0, "{self}: its ranks go on until their lease is over");
    }

    fn all_die(&self, after: &Aftermath) {
        for ending in &after.endings {
            let in_time = ending.end == LaneEnd::Finished && ending.at <= self.at;
            assert!(in_time || ending.end == LaneEnd::Killed, "{self}: {ending:?}");
        }
    }

    fn the_writer_says_why(&self, after: &Aftermath) {
        let full = |ending: &&Ending| matches!(&ending.end, LaneEnd::Failed(StepError::Environment(reason)) if reason.contains("no space left"));
        let told = after.endings.iter().filter(full).count();
        assert_eq!(told == 0, self.moment == Moment::ShutDown, "{self}: {:?}", after.endings);
        let others = after.endings.iter().filter(|ending| !full(ending));
        for ending in others {
            let explained = match &ending.end {
                LaneEnd::Finished => true,
                LaneEnd::Failed(error) => {
                    matches!(error, StepError::Stopped | StepError::Gone { .. } | StepError::Silent { .. })
                }
                LaneEnd::Killed | LaneEnd::Hangs => false,
            };
            assert!(explained, "{self}: {ending:?}");
        }
    }

    /// Ranks that were lost are named by those that fail, or that go on without them.
    fn are_missed(&self, after: &Aftermath) {
        let gone = self.gone();
        let others = || after.endings.iter().filter(|ending| !gone.contains(&ending.rank));
        let struck = after.endings.iter().any(|ending| {
            gone.contains(&ending.rank) && matches!(ending.end, LaneEnd::Killed | LaneEnd::Hangs)
        });
        if !struck {
            // They had left before.
            assert_eq!(self.moment, Moment::ShutDown, "{self}");
            assert!(others().all(|ending| ending.end == LaneEnd::Finished), "{self}");
            return;
        }
        let go_on = others().all(|ending| ending.end == LaneEnd::Finished);
        if self.faults()[0].0 <= self.well.origin {
            // A run that has not begun does so for no rank.
            return assert!(!go_on, "{self}");
        }
        // One that is over may be so for some.
        if self.moment != Moment::ShutDown || !go_on {
            assert_eq!(go_on, self.is_alone(), "{self}: {:?}", after.endings);
            self.names(after);
        }
    }

    fn ends_of_the_link_wait(&self, after: &Aftermath) {
        let go_on = |but: Option<Rank>| {
            let others = after.endings.iter().filter(|ending| Some(ending.rank) != but);
            others.into_iter().all(|ending| ending.end == LaneEnd::Finished)
        };
        if matches!(self.moment, Moment::StartUp | Moment::ShutDown) && go_on(None) {
            // All messages of the link have passed by that moment, or no rank misses them.
            return;
        }
        let pairs = matches!(self.strategy, Strategy::AdPsgd { .. });
        assert_eq!(go_on(None), pairs, "{self}: {:?}", after.endings);
        // Where workers need their server and no other worker, the others go on.
        assert_eq!(go_on(Some(VICTIM)), self.is_alone(), "{self}: {:?}", after.endings);
        self.names(after);
    }

    /// Those that fail first name a rank that is missed, and where they waited for it; those that go on record it.
    fn names(&self, after: &Aftermath) {
        let named = self.named();
        let told: BTreeSet<Rank> = lost(&after.outcome).iter().map(|lost| lost.peer).collect();
        let first = first_failures(after);
        let accused = first.iter().filter_map(|(_, error)| error.peer()).any(|peer| named.contains(&peer));
        let recorded = told.intersection(&named).next().is_some();
        // A rank that waits for one that waits for the lost one is as late, and may be the first.
        let hidden = self.trouble == Trouble::Stop || self.trouble == Trouble::DropLink;
        let silent = first.iter().any(|(_, error)| matches!(error, StepError::Silent { .. }));
        assert!(accused || recorded || hidden && silent, "{self}: {first:?}, {told:?}");
        let from = self.step();
        for ending in &after.endings {
            let waited = matches!(&ending.end, LaneEnd::Failed(error) if error.peer().is_some());
            let place = (ending.step, ending.phase);
            // One that had something to send finds its peer gone before it waits.
            let is_placed = matches!(ending.phase, Phase::WaitPeer | Phase::Send) && ending.step >= from;
            let has_steps = ending.lane == record::LaneId::Compute;
            assert!(!waited || !has_steps || is_placed, "{self}: {place:?} of {ending:?}");
        }
    }

    /// No rank was in an earlier step when it went wrong.
    fn step(&self) -> u64 {
        match self.moment {
            Moment::MidStep => STEPS / 2,
            Moment::StartUp | Moment::WarmUp | Moment::Snapshot | Moment::ShutDown => 0,
        }
    }
}

/// When a moment is in a run that goes well, counted from the beginning of its world.
fn moment_of(moment: Moment, well: &Aftermath) -> Nanos {
    let middle = |number: u64| {
        let taken = steps(well).filter(|step| step.step == number && !step.drain);
        let taken: Vec<&StepRecord> = taken.collect();
        // The last of the ranks that take it.
        let begin = taken.iter().map(|step| step.begin).max().unwrap();
        let length = taken.iter().map(|step| step.length).min().unwrap();
        well.origin + begin + Nanos(length.0 / 2)
    };
    match moment {
        Moment::StartUp => Nanos(well.origin.0 / 2),
        Moment::WarmUp => middle(2),
        Moment::MidStep => middle(STEPS / 2),
        Moment::Snapshot => {
            let events = well.outcome.ranks.iter().flat_map(|rank| &rank.events);
            let taken = events.filter_map(|event| match event {
                Event::Snapshot(snapshot) if snapshot.at > Nanos(0) && !snapshot.last => Some(snapshot.at),
                _ => None,
            });
            well.origin + taken.min().unwrap() + Nanos(1)
        }
        Moment::ShutDown => Nanos(end(well).0 - 1),
    }
}

fn every_moment(trouble: Trouble) {
    for strategy in strategies() {
        for moment in Moment::ALL {
            Cell::new(&strategy, trouble, moment).check();
        }
    }
}

#[test]
fn a_rank_is_killed() {
    every_moment(Trouble::Kill);
}

#[test]
fn a_rank_is_stopped() {
    every_moment(Trouble::Stop);
}

#[test]
fn a_link_drops() {
    every_moment(Trouble::DropLink);
}

#[test]
fn the_disk_is_full() {
    every_moment(Trouble::FullDisk);
}

#[test]
fn the_driver_is_killed() {
    every_moment(Trouble::DriverKill);
}

#[test]
fn the_driver_hears_a_host_no_more() {
    every_moment(Trouble::SshLost);
}

#[test]
fn the_agent_of_a_host_is_killed() {
    every_moment(Trouble::AgentKill);
}

#[test]
fn each_cell_is_the_same_each_time() {
    for strategy in strategies() {
        for trouble in Trouble::ALL {
            let cell = Cell::new(&strategy, trouble, Moment::MidStep);
            let endings = || run(&cell.scene, cell.faults()).endings;
            assert_eq!(endings(), endings(), "{cell}");
        }
    }
}
