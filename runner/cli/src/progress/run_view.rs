//! The run under way in one line: step, metric, time left, loss, and who is behind.

use crate::live::{LiveMember, LiveRun};
use crate::live_curve::LiveCurve;
use crate::output::{self, human};
use launch::{Heartbeat, Member, RunPhase, Update};
use recipe::{Cell, Extent, Metric, PlannedFault, Target};
use record::{Event, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use store::Driver;

/// The state of the current run.
pub(crate) struct RunView {
    title: String,
    workers: u32,
    batch: u32,
    steps_together: bool,
    length: Extent,
    target: Option<Target>,
    phase: RunPhase,
    begun: Instant,
    training_since: Option<Instant>,
    training_samples: Option<u64>,
    ranks: BTreeMap<Rank, Heartbeat>,
    heard: BTreeMap<Rank, Instant>,
    processes: BTreeMap<Member, Driver>,
    samples: u64,
    /// Those of an attempt before, which this one continues.
    samples_before: u64,
    metric: Option<(Metric, f64)>,
    curve: LiveCurve,
    arm: usize,
    in_rung: bool,
    /// The ranks that it has lost.
    lost: BTreeSet<Rank>,
    /// What the recipe let go wrong so far.
    struck: Vec<PlannedFault>,
    /// How its job stands in a queue, where it is one.
    job: Option<String>,
}

impl RunView {
    /// A run that begins.
    pub(crate) fn new(title: String, cell: &Cell, now: Instant) -> Self {
        let train = &cell.spec.train;
        Self {
            title,
            workers: cell.spec.cluster.workers(),
            batch: train.global_batch,
            steps_together: !cell.spec.strategy.is_asynchronous(),
            length: train.length,
            target: train.target,
            phase: RunPhase::Starting,
            begun: now,
            training_since: None,
            training_samples: None,
            ranks: BTreeMap::new(),
            heard: BTreeMap::new(),
            processes: BTreeMap::new(),
            samples: 0,
            samples_before: 0,
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
                    self.training_since = Some(now);
                }
            }
            Update::Heartbeat(rank, beat) => {
                self.samples = self.samples.max(beat.samples);
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
            Update::Continued { samples } => self.samples_before = *samples,
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
            Event::Prepared(prepared) => self.training_samples = Some(prepared.training_samples),
            Event::Struck(struck) => self.struck.push(struck.fault),
            Event::Step(step) => self.samples = self.samples.max(step.samples),
            Event::Metric(record) if record.judged && record.metric == self.watched() => {
                self.metric = Some((record.metric, record.value));
                let share = self.goal().map(|goal| record.samples as f64 / goal as f64);
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
        let batch = u64::from(self.batch.max(1));
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
        let trained = self.training_since.map(|since| now.saturating_duration_since(since).as_secs_f64());
        LiveRun {
            title: self.title.clone(),
            stage: self.job.clone().unwrap_or_else(|| self.phase_name().to_owned()),
            seconds: self.elapsed(now).as_secs(),
            step: self.steps_of(self.samples),
            steps: self.goal().map(|goal| self.steps_of(goal)),
            steps_per_second: trained
                .filter(|seconds| *seconds > 0.5)
                .map(|seconds| self.samples_here() as f64 / batch as f64 / seconds),
            seconds_left: self.left(now).map(|left| left.as_secs()),
            metric: self.metric_words(),
            arm: self.arm,
            degraded: self.lost_words(),
            struck: self.struck.iter().map(PlannedFault::struck).collect(),
            members: self.processes.iter().map(member).collect(),
        }
    }

    /// Steps that these samples make. Workers that step together take the rest of an epoch as a short batch.
    fn steps_of(&self, samples: u64) -> u64 {
        let batch = u64::from(self.batch.max(1));
        match self.training_samples {
            Some(all) if self.steps_together && all > 0 => {
                samples / all * all.div_ceil(batch) + (samples % all).div_ceil(batch)
            }
            _ => samples.div_ceil(batch),
        }
    }

    fn phase_name(&self) -> &'static str {
        match self.phase {
            RunPhase::Starting => "starting",
            RunPhase::Running if self.has_all_samples() => "finishing",
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
            RunPhase::Running if !self.has_all_samples() => self.step(),
            _ => self.phase_name().to_owned(),
        }
    }

    /// `step 120/500`.
    fn step(&self) -> String {
        let step = self.steps_of(self.samples);
        match self.goal() {
            Some(goal) => {
                format!("step {}/{}", human::thousands(step), human::thousands(self.steps_of(goal)))
            }
            None => format!("step {}", human::thousands(step)),
        }
    }

    /// Samples of all ranks together at the end.
    fn goal(&self) -> Option<u64> {
        Some(self.length.samples(self.training_samples?, self.batch)).filter(|goal| *goal > 0)
    }

    /// Samples of this attempt.
    fn samples_here(&self) -> u64 {
        self.samples.saturating_sub(self.samples_before)
    }

    fn time_left(&self, now: Instant) -> Option<String> {
        Some(format!("{} left", human::whole(self.left(now)?)))
    }

    /// Whether nothing is left to train, and its ranks are only waited for: one that lost a link gives its peer up late.
    fn has_all_samples(&self) -> bool {
        let goal = self.goal();
        goal.is_some_and(|goal| self.samples_here() >= goal.saturating_sub(self.samples_before).max(1))
    }

    /// How long the training still takes, in whole seconds.
    fn left(&self, now: Instant) -> Option<Duration> {
        let goal = self.goal()?;
        let took = now.saturating_duration_since(self.training_since?);
        let share = self.samples_here() as f64 / goal.saturating_sub(self.samples_before).max(1) as f64;
        // The first steps are slow, and guesses from them would jump about.
        (share > 0.02 && share < 1.0 && took > Duration::from_secs(1)).then(|| {
            let left = took.as_secs_f64() * (1.0 - share).max(0.0) / share;
            Duration::from_secs_f64(left.ceil())
        })
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

    /// 1,000 samples in batches of 300 are four steps together, and three and a third by themselves.
    #[test]
    fn the_short_last_batch_of_an_epoch_is_a_step() {
        let begun = Instant::now();
        let mut view = half_way(begun);
        view.batch = 300;
        assert_eq!([900, 950, 1000, 1300, 2000].map(|samples| view.steps_of(samples)), [3, 4, 4, 5, 8]);
        view.steps_together = false;
        assert_eq!([900, 1000, 2000].map(|samples| view.steps_of(samples)), [3, 4, 7]);
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
