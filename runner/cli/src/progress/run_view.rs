//! The run under way in one line: step, metric, time left, loss, and who is behind.

use crate::output::human;
use launch::{RunPhase, Update};
use recipe::{Cell, Extent, Metric, Target};
use record::{Event, Rank};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is known of the run under way.
pub(crate) struct RunView {
    title: String,
    workers: u32,
    batch: u32,
    length: Extent,
    target: Option<Target>,
    phase: RunPhase,
    begun: Instant,
    training_since: Option<Instant>,
    training_samples: Option<u64>,
    ranks: BTreeMap<Rank, mesh::Heartbeat>,
    samples: u64,
    metric: Option<(Metric, f64)>,
}

impl RunView {
    /// A run that begins.
    pub(crate) fn new(title: String, cell: &Cell, now: Instant) -> Self {
        let train = &cell.spec.train;
        Self {
            title,
            workers: cell.spec.cluster.workers(),
            batch: train.global_batch,
            length: train.length,
            target: train.target,
            phase: RunPhase::Starting,
            begun: now,
            training_since: None,
            training_samples: None,
            ranks: BTreeMap::new(),
            samples: 0,
            metric: None,
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
            }
            Update::Events(events) => events.iter().for_each(|event| self.event(event)),
            Update::Spawned { .. } | Update::Note(_) => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Prepared(prepared) => self.training_samples = Some(prepared.training_samples),
            Event::Step(step) => self.samples = self.samples.max(step.samples),
            Event::Metric(record) if record.metric == self.watched() => {
                self.metric = Some((record.metric, record.value));
            }
            _ => {}
        }
    }

    fn watched(&self) -> Metric {
        self.target.map_or(Metric::TestAccuracy, |target| target.metric)
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
        let mut parts = vec![Some(self.title.clone()), Some(self.stage())];
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

    fn stage(&self) -> String {
        match self.phase {
            RunPhase::Starting => "starting".to_owned(),
            RunPhase::Running => self.step(),
            RunPhase::Stopping => "stopping".to_owned(),
            RunPhase::Evaluating => "evaluating".to_owned(),
        }
    }

    /// `step 120/500`: samples of all ranks divided by the global batch.
    fn step(&self) -> String {
        let batch = u64::from(self.batch.max(1));
        let step = self.samples.div_ceil(batch);
        match self.goal() {
            Some(goal) => {
                format!("step {}/{}", human::thousands(step), human::thousands(goal.div_ceil(batch)))
            }
            None => format!("step {}", human::thousands(step)),
        }
    }

    /// Samples of all ranks together at the end.
    fn goal(&self) -> Option<u64> {
        Some(self.length.samples(self.training_samples?, self.batch)).filter(|goal| *goal > 0)
    }

    fn time_left(&self, now: Instant) -> Option<String> {
        let goal = self.goal()?;
        let took = now.saturating_duration_since(self.training_since?);
        let share = self.samples as f64 / goal as f64;
        // The first steps are slow, and guesses from them would jump about.
        (share > 0.02 && took > Duration::from_secs(1)).then(|| {
            let left = took.as_secs_f64() * (1.0 - share).max(0.0) / share;
            format!("{} left", human::whole(Duration::from_secs_f64(left.ceil())))
        })
    }

    fn loss(&self) -> Option<String> {
        let losses: Vec<f32> = self.ranks.values().filter_map(|beat| beat.loss).collect();
        (!losses.is_empty()).then(|| format!("loss {:.3}", losses.iter().sum::<f32>() / losses.len() as f32))
    }

    /// The worker that is furthest behind; nothing where there is only one.
    fn slowest(&self) -> Option<String> {
        let workers = self.ranks.iter().filter(|(rank, _)| rank.0 < self.workers);
        let (rank, beat) = workers.min_by_key(|(_, beat)| (beat.step, std::cmp::Reverse(beat.since)))?;
        (self.workers > 1).then(|| format!("slowest rank {rank} ({})", beat.phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
}
