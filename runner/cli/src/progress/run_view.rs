//! The run under way in one line: step, metric, time left, loss, and who is behind.

use super::training::Training;
use crate::live::{LiveMember, LiveRun};
use crate::live_curve::LiveCurve;
use crate::output::{self, human};
use launch::{Heartbeat, Member, RunPhase, Update};
use recipe::{Cell, Metric, PlannedFault, Target};
use record::{Event, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use store::Driver;

/// The state of the current run.
pub(crate) struct RunView {
    title: String,
    workers: u32,
    target: Option<Target>,
    phase: RunPhase,
    begun: Instant,
    training: Training,
    ranks: BTreeMap<Rank, Heartbeat>,
    heard: BTreeMap<Rank, Instant>,
    processes: BTreeMap<Member, Driver>,
    metric: Option<(Metric, f64)>,
    curve: LiveCurve,
    arm: usize,
    in_rung: bool,
    /// The ranks that it has lost.
    lost: BTreeSet<Rank>,
    /// Faults of the recipe that struck it so far.
    struck: Vec<PlannedFault>,
    /// How its job stands in a queue, where it is one.
    job: Option<String>,
}

impl RunView {
    /// A run that begins.
    pub(crate) fn new(title: String, cell: &Cell, now: Instant) -> Self {
        Self {
            title,
            workers: cell.spec.cluster.workers(),
            target: cell.spec.train.target,
            phase: RunPhase::Starting,
            begun: now,
            training: Training::of(&cell.spec),
            ranks: BTreeMap::new(),
            heard: BTreeMap::new(),
            processes: BTreeMap::new(),
            metric: None,
            curve: LiveCurve::default(),
            arm: cell.arm,
            in_rung: false,
            lost: BTreeSet::new(),
            struck: Vec::new(),
            job: None,
        }
    }

    /// Takes an update into account.
    pub(crate) fn update(&mut self, update: &Update, now: Instant) {
        match update {
            Update::State(phase) => {
                self.phase = *phase;
                if *phase == RunPhase::Running {
                    self.training.since = Some(now);
                }
            }
            Update::Heartbeat(rank, beat) => {
                self.training.reached(beat.samples);
                self.ranks.insert(*rank, beat.clone());
                self.heard.insert(*rank, now);
            }
            Update::Events(events) => events.iter().for_each(|event| self.event(event)),
            Update::Spawned { member, pid } => {
                self.processes.extend(Driver::of(*pid).map(|process| (*member, process)));
            }
            Update::Lost { rank, .. } => {
                self.lost.insert(*rank);
            }
            Update::Continued { samples } => self.training.samples_before = *samples,
            Update::Note(_) => {}
        }
    }

    /// `degraded: without ranks 1, 3`; `degraded as ordered` where the recipe let all of them fail.
    fn lost_words(&self) -> Option<String> {
        let ranks: Vec<String> = self.lost.iter().map(ToString::to_string).collect();
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let is_ordered = |rank: &Rank| {
            let costs_it = |fault: &PlannedFault| {
                fault.rank == rank.0 && fault.action.is_fatal()
                    || fault.link().is_some_and(|ends| ends.contains(&rank.0))
            };
            self.struck.iter().any(costs_it)
        };
        let how = if self.lost.iter().all(is_ordered) { "degraded as ordered" } else { "degraded" };
        (!ranks.is_empty()).then(|| format!("{how}: without {noun} {}", ranks.join(", ")))
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Prepared(prepared) => self.training.epoch = Some(prepared.training_samples),
            Event::Struck(struck) => self.struck.push(struck.fault),
            Event::Step(step) => self.training.reached(step.samples),
            Event::Metric(record) if record.judged && record.metric == self.watched() => {
                self.metric = Some((record.metric, record.value));
                let share = self.training.goal().map(|goal| record.samples as f64 / goal as f64);
                self.curve.push(share.unwrap_or_default(), record.value);
            }
            _ => {}
        }
    }

    fn watched(&self) -> Metric {
        let metric = self.target.map_or(Metric::TestAccuracy, |target| target.metric);
        // A rung is judged by samples that are held out.
        metric.held_out().filter(|_| self.in_rung).unwrap_or(metric)
    }

    /// Of a run that chooses among settings.
    pub(crate) fn in_rung(mut self) -> Self {
        self.in_rung = true;
        self
    }

    /// Its cell and repeat, in words.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Takes in how its job stands; whether that is news.
    pub(crate) fn queued(&mut self, words: &str) -> bool {
        let is_news = self.job.as_deref() != Some(words);
        self.job = Some(words.to_owned());
        is_news
    }

    /// `job 17 is pending (Resources): d-sync, repeat 1 of 5`.
    pub(crate) fn job_words(&self) -> String {
        match &self.job {
            Some(job) => format!("{job}: {}", self.title),
            None => self.title.clone(),
        }
    }

    /// Index of its arm in the plan.
    pub(crate) fn arm(&self) -> usize {
        self.arm
    }

    /// Its evaluations so far.
    pub(crate) fn curve(&self) -> &LiveCurve {
        &self.curve
    }

    /// How long the attempt has been under way.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// `test accuracy 97.6 %`: the last value of the watched metric.
    pub(crate) fn metric_words(&self) -> Option<String> {
        let (metric, value) = self.metric?;
        Some(format!("{} {}", human::metric_name(metric), human::metric(metric, value)))
    }

    /// One line of at most `width` characters; what matters less goes first when there is no room.
    pub(crate) fn line(&self, width: usize, now: Instant) -> String {
        if self.job.is_some() {
            // How it stands is worth more than the whole of its title.
            return output::cut(&self.job_words(), width);
        }
        let mut parts = vec![Some(self.title.clone()), Some(self.stage()), self.lost_words()];
        if self.phase == RunPhase::Running {
            parts.extend([self.metric_words(), self.time_left(now), self.loss(), self.slowest()]);
        }
        let mut line = String::new();
        for part in parts.into_iter().flatten() {
            let joint = if line.is_empty() { "" } else { "  " };
            if line.chars().count() + joint.len() + part.chars().count() <= width {
                line.push_str(joint);
                line.push_str(&part);
            }
        }
        line
    }

    /// The same for `bakeoff status`.
    pub(crate) fn live(&self, now: Instant) -> LiveRun {
        let member = |(member, process): (&Member, &Driver)| {
            let rank = if let Member::Rank(rank) = member { Some(rank) } else { None };
            let beat = rank.and_then(|rank| self.ranks.get(rank));
            let heard = rank.and_then(|rank| self.heard.get(rank));
            LiveMember {
                name: member.to_string(),
                process: process.clone(),
                step: beat.map(|beat| beat.step),
                phase: beat.map(|beat| beat.phase.to_string()),
                heard: heard.map(|heard| now.saturating_duration_since(*heard).as_secs_f64()),
            }
        };
        LiveRun {
            title: self.title.clone(),
            stage: self.job.clone().unwrap_or_else(|| self.phase_name().to_owned()),
            seconds: self.elapsed(now).as_secs(),
            step: self.training.step(),
            steps: self.training.steps(),
            steps_per_second: self.training.steps_per_second(now),
            seconds_left: self.training.left(now).map(|left| left.as_secs()),
            metric: self.metric_words(),
            arm: self.arm,
            degraded: self.lost_words(),
            struck: self.struck.iter().map(PlannedFault::struck).collect(),
            members: self.processes.iter().map(member).collect(),
        }
    }

    fn phase_name(&self) -> &'static str {
        match self.phase {
            RunPhase::Starting => "starting",
            RunPhase::Running if self.training.has_all_samples() => "finishing",
            RunPhase::Running => "running",
            RunPhase::Stopping => "stopping",
            RunPhase::Evaluating => "evaluating",
        }
    }

    fn stage(&self) -> String {
        if let Some(job) = &self.job {
            return job.clone();
        }
        match self.phase {
            RunPhase::Running if !self.training.has_all_samples() => self.step_words(),
            _ => self.phase_name().to_owned(),
        }
    }

    /// The step, with the last one where it is known: `step 120/500`.
    fn step_words(&self) -> String {
        let step = human::thousands(self.training.step());
        match self.training.steps() {
            Some(steps) => format!("step {step}/{}", human::thousands(steps)),
            None => format!("step {step}"),
        }
    }

    fn time_left(&self, now: Instant) -> Option<String> {
        Some(format!("{} left", human::whole(self.training.left(now)?)))
    }

    fn loss(&self) -> Option<String> {
        let losses: Vec<f32> = self.workers().filter_map(|(_, beat)| beat.loss).collect();
        (!losses.is_empty()).then(|| format!("loss {:.3}", losses.iter().sum::<f32>() / losses.len() as f32))
    }

    fn workers(&self) -> impl Iterator<Item = (&Rank, &Heartbeat)> {
        self.ranks.iter().filter(|(rank, _)| rank.0 < self.workers && !self.lost.contains(rank))
    }

    /// The worker that is furthest behind; nothing where there is only one.
    fn slowest(&self) -> Option<String> {
        let (rank, beat) =
            self.workers().min_by_key(|(_, beat)| (beat.step, std::cmp::Reverse(beat.since)))?;
        (self.workers > 1).then(|| format!("slowest rank {rank} ({})", beat.phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskFiles;
    use recipe::{Machine, PlanRequest};
    use record::{LaneId, MetricRecord, Nanos, Phase, Prepared};
    use std::path::Path;

    /// A parameter server, two workers, 20 steps of 50 samples.
    fn view(now: Instant) -> RunView {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recipes/small.toml"));
        let plan = recipe::plan(&DiskFiles, &PlanRequest::new(path), &Machine::new(2)).unwrap();
        RunView::new("ps-sync, repeat 1 of 5".to_owned(), &plan.cells[0], now)
    }

    fn prepared() -> Update {
        let prepared = Prepared {
            rank: Rank(0),
            pid: 7,
            threads: 1,
            training_samples: 1000,
            data_digest: String::new(),
            weights: String::new(),
            parameters: 10,
            resident_bytes: 0,
            replica_group: None,
        };
        Update::Events(vec![Event::Prepared(prepared)])
    }

    fn beat(rank: u32, step: u64, loss: f32) -> Update {
        let beat = Heartbeat {
            lane: LaneId::Compute,
            step,
            phase: Phase::WaitPeer,
            since: Nanos(step),
            samples: step * 50,
            loss: Some(loss),
        };
        Update::Heartbeat(Rank(rank), beat)
    }

    fn accuracy(value: f64) -> Update {
        let record = MetricRecord {
            metric: Metric::TestAccuracy,
            model: "rank 0".to_owned(),
            step: 10,
            samples: 500,
            epoch: 0.5,
            at: Nanos(1),
            value,
            judged: true,
        };
        Update::Events(vec![Event::Metric(record)])
    }

    /// Half of the steps are done; rank 1 is behind.
    fn half_way(begun: Instant) -> RunView {
        let mut view = view(begun);
        let updates = [
            prepared(),
            Update::State(RunPhase::Running),
            beat(1, 9, 0.5),
            beat(0, 10, 0.25),
            // A server does not count among the slow.
            beat(2, 1, 0.0),
            accuracy(0.625),
        ];
        for update in &updates {
            view.update(update, begun);
        }
        view
    }

    #[test]
    fn the_line_says_where_the_run_is_and_who_is_behind() {
        let begun = Instant::now();
        let line = half_way(begun).line(200, begun + Duration::from_secs(10));
        assert_eq!(
            line,
            "ps-sync, repeat 1 of 5  step 10/20  test accuracy 62.5 %  10 s left  loss 0.375  \
             slowest rank 1 (wait-peer)"
        );
    }

    #[test]
    fn the_line_is_never_wider_than_the_terminal() {
        let begun = Instant::now();
        let view = half_way(begun);
        for width in 0..130 {
            let line = view.line(width, begun + Duration::from_secs(10));
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let narrow = view.line(77, begun + Duration::from_secs(10));
        assert!(
            narrow.starts_with("ps-sync, repeat 1 of 5  step 10/20  test accuracy 62.5 %  10 s left"),
            "{narrow}"
        );
    }

    #[test]
    fn a_lost_rank_is_named_and_not_waited_for() {
        let begun = Instant::now();
        let mut view = half_way(begun);
        let reason = "rank 1 was ended by signal 9".to_owned();
        view.update(&Update::Lost { rank: Rank(1), reason }, begun);
        let line = view.line(200, begun + Duration::from_secs(10));
        assert_eq!(
            line,
            "ps-sync, repeat 1 of 5  step 10/20  degraded: without rank 1  test accuracy 62.5 %  10 s left  \
             loss 0.250  slowest rank 0 (wait-peer)"
        );
        assert_eq!(view.live(begun).degraded.as_deref(), Some("degraded: without rank 1"));
        let fault = PlannedFault { rank: 1, step: 7, action: recipe::FaultAction::Kill };
        let struck = record::StruckRecord { fault, at: record::Nanos(0) };
        view.update(&Update::Events(vec![Event::Struck(struck)]), begun);
        let live = view.live(begun);
        assert_eq!(live.degraded.as_deref(), Some("degraded as ordered: without rank 1"));
        assert_eq!(live.struck, ["rank 1 was killed at the beginning of step 7, as the recipe says"]);
    }

    #[test]
    fn before_and_after_training_there_is_no_step() {
        let begun = Instant::now();
        let mut view = view(begun);
        assert_eq!(view.line(80, begun), "ps-sync, repeat 1 of 5  starting");
        view.update(&Update::State(RunPhase::Evaluating), begun);
        assert_eq!(view.line(80, begun), "ps-sync, repeat 1 of 5  evaluating");
    }
}
