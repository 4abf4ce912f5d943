//! How the training samples are dealt to the workers, as positions in the original training file.

use crate::draw;
use recipe::{Dataset, Partition, Sampling};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Training samples, dealt.
#[derive(Debug)]
pub struct Deal {
    seed: u64,
    /// One part for all, or one for each worker.
    parts: Vec<Arc<[u32]>>,
    shared: bool,
    sampling: Sampling,
    // The orders that were asked for last; asking again must not shuffle again.
    recent: Mutex<Vec<Order>>,
}

/// Who passes through samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// All workers together, step by step.
    All,
    /// One worker at its own pace.
    Worker(usize),
}

/// The samples of one pass over a part, in their order.
#[derive(Debug)]
struct Order {
    whose: Whose,
    pass: u64,
    samples: Arc<[u32]>,
}

impl Deal {
    /// Deals `samples` to `workers` as the recipe says; `labels[i]` is the label of `samples[i]`.
    pub fn new(dataset: &Dataset, seed: u64, samples: &[u32], labels: &[u8], workers: usize) -> Self {
        assert_eq!(samples.len(), labels.len(), "each sample has its label");
        let deal = match &dataset.partition {
            Partition::Shared => Self::shared_by(seed, samples.to_vec()),
            Partition::Sharded => Self::parted_by(seed, sharded(seed, samples, workers)),
            Partition::Dirichlet { alpha } => {
                Self::parted_by(seed, skewed(seed, samples, labels, workers, *alpha))
            }
        };
        deal.sampled(dataset.sampling)
    }

    /// One permutation per epoch for all workers together.
    pub fn shared_by(seed: u64, samples: Vec<u32>) -> Self {
        let (parts, recent) = (vec![samples.into()], Mutex::default());
        Self { seed, parts, shared: true, sampling: Sampling::Permutation, recent }
    }

    /// The same, with passes that are drawn so.
    #[must_use]
    pub fn sampled(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// Each worker keeps its own part.
    pub fn parted_by(seed: u64, parts: Vec<Vec<u32>>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { seed, parts, shared: false, sampling: Sampling::Permutation, recent: Mutex::default() }
    }

    /// The seed that orders are drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Training samples altogether.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all workers draw from one permutation.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The samples at some positions of an epoch.
    pub(crate) fn shared(&self, epoch: u64, positions: Range<usize>) -> Vec<u32> {
        self.order(Whose::All, epoch)[positions].to_vec()
    }

    /// Samples that a worker passes through at its own pace: its part, or all that are shared.
    pub(crate) fn own_len(&self, worker: usize) -> u64 {
        self.part(worker).len() as u64
    }

    /// The next `count` samples of a worker that has used `before` of its own part so far; each pass over the
    /// part has an order of its own. Of shared samples each worker has orders of its own as well.
    pub(crate) fn own(&self, worker: usize, before: u64, count: usize) -> Vec<u32> {
        let size = self.own_len(worker);
        (before..before + count as u64)
            .map(|position| self.order(Whose::Worker(worker), position / size)[(position % size) as usize])
            .collect()
    }

    fn part(&self, worker: usize) -> &Arc<[u32]> {
        &self.parts[if self.shared { 0 } else { worker }]
    }

    fn order(&self, whose: Whose, pass: u64) -> Arc<[u32]> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = recent.iter().find(|order| (order.whose, order.pass) == (whose, pass)) {
            return order.samples.clone();
        }
        let (part, mut stream) = match whose {
            Whose::All => (&self.parts[0], draw::stream(self.seed, "order", &[0, pass])),
            Whose::Worker(worker) => {
                let purpose = if self.shared { "own order" } else { "order" };
                (self.part(worker), draw::stream(self.seed, purpose, &[worker as u64, pass]))
            }
        };
        let samples: Arc<[u32]> = match self.sampling {
            Sampling::Permutation => {
                let mut samples = part.to_vec();
                draw::shuffle(&mut stream, &mut samples);
                samples.into()
            }
            Sampling::WithReplacement => {
                let size = part.len() as u64;
                (0..size).map(|_| part[draw::below(&mut stream, size) as usize]).collect()
            }
        };
        // A batch may lie across two passes of each part.
        if recent.len() >= 2 * self.parts.len() {
            recent.remove(0);
        }
        recent.push(Order { whose, pass, samples: samples.clone() });
        samples
    }
}

/// Equal parts of one permutation.
fn sharded(seed: u64, samples: &[u32], workers: usize) -> Vec<Vec<u32>> {
    let mut samples = samples.to_vec();
    draw::shuffle(&mut draw::stream(seed, "shard", &[]), &mut samples);
    (0..workers).map(|k| samples[crate::vector::piece(samples.len(), workers, k)].to_vec()).collect()
}

/// Each class is spread over the workers by shares drawn from a Dirichlet distribution with parameter
/// `alpha` (Hsu, Qi and Brown 2019); then workers left with nothing get one sample of the largest part.
fn skewed(seed: u64, samples: &[u32], labels: &[u8], workers: usize, alpha: f64) -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new(); workers];
    for class in 0..=labels.iter().copied().max().unwrap_or(0) {
        let mut random = draw::stream(seed, "dirichlet", &[u64::from(class)]);
        let mut members: Vec<u32> =
            samples.iter().zip(labels).filter(|(_, label)| **label == class).map(|(id, _)| *id).collect();
        draw::shuffle(&mut random, &mut members);
        let shares: Vec<f64> = (0..workers).map(|_| gamma(&mut random, alpha)).collect();
        let total: f64 = shares.iter().sum();
        let (mut passed, mut begin) = (0.0, 0);
        for (part, share) in parts.iter_mut().zip(&shares) {
            passed += share;
            let end = ((passed / total * members.len() as f64).round() as usize).clamp(begin, members.len());
            part.extend_from_slice(&members[begin..end]);
            begin = end;
        }
        if let Some(last) = parts.last_mut() {
            last.extend_from_slice(&members[begin..]);
        }
    }
    for empty in 0..workers {
        let largest = (0..workers).max_by_key(|k| parts[*k].len()).unwrap_or(0);
        if parts[empty].is_empty() && parts[largest].len() > 1 {
            let moved = parts[largest].pop();
            parts[empty].extend(moved);
        }
    }
    parts
}

/// A draw from the gamma distribution with shape `alpha` and scale 1 (Marsaglia and Tsang 2000; shapes below
/// 1 by their boost, alpha + 1 and a power of a uniform draw).
fn gamma(random: &mut rand_chacha::ChaCha8Rng, alpha: f64) -> f64 {
    if alpha < 1.0 {
        let boost = draw::unit(random).max(f64::MIN_POSITIVE).powf(1.0 / alpha);
        return (gamma(random, alpha + 1.0) * boost).max(f64::MIN_POSITIVE);
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let (x, u) = (normal(random), draw::unit(random));
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && u.max(f64::MIN_POSITIVE).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A draw from the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut rand_chacha::ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - draw::unit(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * draw::unit(random)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(parts: &[Arc<[u32]>]) -> Vec<u32> {
        let mut all: Vec<u32> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    fn parted(partition: Partition) -> Dataset {
        Dataset { partition, ..crate::sim::sample_spec(1).dataset }
    }

    #[test]
    fn parts_are_disjoint_and_complete() {
        let samples: Vec<u32> = (100..201).collect();
        let labels: Vec<u8> = (0..101).map(|i| i % 10).collect();
        for alpha in [0.05, 0.5, 5.0, 500.0] {
            let deal = Deal::new(&parted(Partition::Dirichlet { alpha }), 3, &samples, &labels, 7);
            assert_eq!(sorted(&deal.parts), samples);
            assert!(deal.parts.iter().all(|part| !part.is_empty()));
        }
        let deal = Deal::new(&parted(Partition::Sharded), 3, &samples, &labels, 7);
        assert_eq!(sorted(&deal.parts), samples);
        assert!(deal.parts.iter().all(|part| (14..=15).contains(&part.len())));
    }

    #[test]
    fn a_small_alpha_skews_and_a_large_one_does_not() {
        let samples: Vec<u32> = (0..10_000).collect();
        let labels: Vec<u8> = (0..10_000).map(|i| (i % 10) as u8).collect();
        let largest_share = |alpha| {
            let deal = Deal::new(&parted(Partition::Dirichlet { alpha }), 1, &samples, &labels, 4);
            let of_class_0 = |part: &[u32]| part.iter().filter(|id| **id % 10 == 0).count();
            deal.parts.iter().map(|part| of_class_0(part)).max().unwrap_or(0)
        };
        assert!(largest_share(0.05) > 600);
        assert!(largest_share(1_000.0) < 300);
    }

    #[test]
    fn gamma_has_its_mean() {
        for alpha in [0.3, 1.0, 4.0] {
            let mut random = draw::stream(1, "gamma", &[]);
            let mean = (0..20_000).map(|_| gamma(&mut random, alpha)).sum::<f64>() / 20_000.0;
            assert!((mean / alpha - 1.0).abs() < 0.05, "shape {alpha}: mean {mean}");
        }
    }
    fn replaced(seed: u64, samples: u32) -> Deal {
        Deal::shared_by(seed, (0..samples).collect()).sampled(Sampling::WithReplacement)
    }

    #[test]
    fn a_draw_is_a_function_of_seed_pass_position_and_worker() {
        let (deal, again, other) = (replaced(4, 500), replaced(4, 500), replaced(5, 500));
        let pass = deal.shared(7, 0..500);
        assert_eq!(pass, again.shared(7, 0..500));
        assert_eq!(deal.shared(7, 120..130), pass[120..130]);
        let own = |worker| deal.own(worker, 0, 500);
        let all = [pass, other.shared(7, 0..500), deal.shared(8, 0..500), own(0), own(1)];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| one != other), "{index}");
        }
    }

    #[test]
    fn with_replacement_samples_come_as_often_as_chance_has_them() {
        // 100 samples, 10,000 draws: each is expected 100 times. The statistic has 99 degrees of freedom, so a mean of 99
        // and a standard deviation of 14; a permutation, whose counts are exact, has 0.
        let deal = replaced(9, 100);
        let mut counts = [0_u32; 100];
        for pass in 0..100 {
            deal.shared(pass, 0..100).iter().for_each(|id| counts[*id as usize] += 1);
        }
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - 100.0).powi(2) / 100.0).sum();
        assert!((57.0..150.0).contains(&chi_square), "{chi_square}");
        // Of 100 draws from 100 samples, 1 - (1 - 1/100)^100 = 63.4 % differ.
        let mut first = deal.shared(0, 0..100);
        first.sort_unstable();
        first.dedup();
        assert!((50..77).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn with_replacement_a_worker_keeps_to_its_part() {
        let parts = vec![(0..30).collect(), (30..50).collect()];
        let deal = Deal::parted_by(3, parts).sampled(Sampling::WithReplacement);
        assert!(deal.own(0, 0, 300).iter().all(|id| *id < 30));
        assert!(deal.own(1, 0, 300).iter().all(|id| (30..50).contains(id)));
    }
}
