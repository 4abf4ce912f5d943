//! How the training samples are divided among the workers, as positions in the original training file, and in which
//! order each pass takes them.

use crate::rng;
use recipe::{Dataset, Partition, Sampling};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Training samples, divided among the workers.
#[derive(Debug)]
pub struct SamplePartition {
    seed: u64,
    /// One part for all, or one for each worker.
    parts: Vec<Arc<[u32]>>,
    sharing: Sharing,
    sampling: Sampling,
    /// The orders that were used last, so that a batch costs no shuffle.
    recent: Mutex<BTreeMap<Reader, Recent>>,
    shuffles: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// All workers draw from the same samples.
    Shared,
    /// Each worker has samples of its own.
    Sharded,
}

/// Who passes through samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    /// All workers together, step by step.
    All,
    /// One worker at its own pace.
    Worker(usize),
}

impl Reader {
    /// Passes that are kept. Workers that step together may be on both sides of the end of an epoch, at different
    /// moments; a worker at its own pace never returns to a pass that it left.
    fn kept(self) -> usize {
        match self {
            Self::All => 2,
            Self::Worker(_) => 1,
        }
    }
}

/// The last passes of one reader, the newest behind.
type Recent = Vec<Order>;

/// The samples of one pass over a part, in their order.
#[derive(Debug)]
struct Order {
    pass: u64,
    samples: Arc<[u32]>,
}

impl SamplePartition {
    /// Divides `samples` among `workers` as the recipe says; `labels[i]` is the label of `samples[i]`. A sample without
    /// a label counts as one of class 0.
    pub fn new(dataset: &Dataset, seed: u64, samples: &[u32], labels: &[u32], workers: usize) -> Self {
        let partition = match &dataset.partition {
            Partition::Shared => Self::shared_by(seed, samples.to_vec()),
            Partition::Sharded => Self::parted_by(seed, sharded(seed, samples, workers)),
            Partition::Dirichlet { alpha } => {
                Self::parted_by(seed, skewed(seed, samples, labels, workers, *alpha))
            }
        };
        partition.sampled(dataset.sampling)
    }

    /// One permutation per epoch for all workers together.
    pub fn shared_by(seed: u64, samples: Vec<u32>) -> Self {
        Self::of(seed, vec![samples.into()], Sharing::Shared)
    }

    /// Each worker keeps its own part.
    pub fn parted_by(seed: u64, parts: Vec<Vec<u32>>) -> Self {
        Self::of(seed, parts.into_iter().map(Into::into).collect(), Sharing::Sharded)
    }

    fn of(seed: u64, parts: Vec<Arc<[u32]>>, sharing: Sharing) -> Self {
        Self {
            seed,
            parts,
            sharing,
            sampling: Sampling::Permutation,
            recent: Mutex::default(),
            shuffles: AtomicU64::new(0),
        }
    }

    /// The same partition with another way to draw a pass.
    #[must_use]
    pub fn sampled(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// The seed that orders are drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of training samples in all parts together.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether there are no training samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all workers draw from the same samples.
    pub fn is_shared(&self) -> bool {
        self.sharing == Sharing::Shared
    }

    /// Orders that were drawn so far, each at the cost of one pass over its samples.
    pub fn shuffles(&self) -> u64 {
        self.shuffles.load(Ordering::Relaxed)
    }

    /// The samples at some positions of an epoch.
    pub(super) fn shared(&self, epoch: u64, positions: Range<usize>) -> Vec<u32> {
        self.order(Reader::All, epoch)[positions].to_vec()
    }

    /// Samples of one pass of a worker at its own pace: its part, or all that are shared.
    pub(super) fn own_len(&self, worker: usize) -> u64 {
        self.part(worker).len() as u64
    }

    /// The next `count` samples of a worker that has used `before` of its own part so far; each pass over the
    /// part has an order of its own. Of shared samples each worker has orders of its own as well.
    pub(super) fn own(&self, worker: usize, before: u64, count: usize) -> Vec<u32> {
        let size = self.own_len(worker);
        let mut samples = Vec::with_capacity(count);
        let mut next = before;
        // A worker without samples has empty batches.
        while size > 0 && samples.len() < count {
            let order = self.order(Reader::Worker(worker), next / size);
            let begin = (next % size) as usize;
            let end = order.len().min(begin + count - samples.len());
            samples.extend_from_slice(&order[begin..end]);
            next += (end - begin) as u64;
        }
        samples
    }

    fn part(&self, worker: usize) -> &Arc<[u32]> {
        match self.sharing {
            Sharing::Shared => &self.parts[0],
            Sharing::Sharded => &self.parts[worker],
        }
    }

    fn order(&self, reader: Reader, pass: u64) -> Arc<[u32]> {
        let recent = lock(&self.recent).get(&reader).and_then(|orders| {
            orders.iter().find(|order| order.pass == pass).map(|order| order.samples.clone())
        });
        if let Some(samples) = recent {
            return samples;
        }
        let samples = self.draw(reader, pass);
        let mut recent = lock(&self.recent);
        let orders = recent.entry(reader).or_default();
        if orders.len() >= reader.kept() {
            orders.remove(0);
        }
        orders.push(Order { pass, samples: samples.clone() });
        samples
    }

    fn draw(&self, reader: Reader, pass: u64) -> Arc<[u32]> {
        self.shuffles.fetch_add(1, Ordering::Relaxed);
        let (part, mut random) = match reader {
            Reader::All => (&self.parts[0], rng::keyed(self.seed, "order", &[0, pass])),
            Reader::Worker(worker) => {
                let purpose = if self.is_shared() { "own order" } else { "order" };
                (self.part(worker), rng::keyed(self.seed, purpose, &[worker as u64, pass]))
            }
        };
        match self.sampling {
            Sampling::Permutation => {
                let mut samples = part.to_vec();
                rng::shuffle(&mut random, &mut samples);
                samples.into()
            }
            Sampling::WithReplacement => {
                let size = part.len() as u64;
                (0..size).map(|_| part[rng::below(&mut random, size) as usize]).collect()
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Equal parts of one permutation.
fn sharded(seed: u64, samples: &[u32], workers: usize) -> Vec<Vec<u32>> {
    let mut samples = samples.to_vec();
    rng::shuffle(&mut rng::keyed(seed, "shard", &[]), &mut samples);
    (0..workers).map(|k| samples[crate::vector::piece(samples.len(), workers, k)].to_vec()).collect()
}

/// Each class is spread over the workers by shares drawn from a Dirichlet distribution with parameter
/// `alpha` (Hsu, Qi and Brown 2019); then workers left with nothing get one sample of the largest part.
fn skewed(seed: u64, samples: &[u32], labels: &[u32], workers: usize, alpha: f64) -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new(); workers];
    let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (place, sample) in samples.iter().enumerate() {
        classes.entry(labels.get(place).copied().unwrap_or(0)).or_default().push(*sample);
    }
    for (class, mut members) in classes {
        let mut random = rng::keyed(seed, "dirichlet", &[u64::from(class)]);
        rng::shuffle(&mut random, &mut members);
        let shares: Vec<f64> = (0..workers).map(|_| gamma(&mut random, alpha)).collect();
        let total: f64 = shares.iter().sum();
        let mut passed = 0.0;
        let mut begin = 0;
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
        let boost = rng::unit(random).max(f64::MIN_POSITIVE).powf(1.0 / alpha);
        return (gamma(random, alpha + 1.0) * boost).max(f64::MIN_POSITIVE);
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let u = rng::unit(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && u.max(f64::MIN_POSITIVE).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A draw from the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut rand_chacha::ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng::unit(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng::unit(random)).cos()
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
        let labels: Vec<u32> = (0..101).map(|i| i % 10).collect();
        for alpha in [0.05, 0.5, 5.0, 500.0] {
            let partition =
                SamplePartition::new(&parted(Partition::Dirichlet { alpha }), 3, &samples, &labels, 7);
            assert_eq!(sorted(&partition.parts), samples);
            assert!(partition.parts.iter().all(|part| !part.is_empty()));
        }
        let partition = SamplePartition::new(&parted(Partition::Sharded), 3, &samples, &labels, 7);
        assert_eq!(sorted(&partition.parts), samples);
        assert!(partition.parts.iter().all(|part| (14..=15).contains(&part.len())));
    }

    #[test]
    fn a_small_alpha_skews_and_a_large_one_does_not() {
        let samples: Vec<u32> = (0..10_000).collect();
        let labels: Vec<u32> = (0..10_000).map(|i| i % 10).collect();
        let largest_share = |alpha| {
            let partition =
                SamplePartition::new(&parted(Partition::Dirichlet { alpha }), 1, &samples, &labels, 4);
            let of_class_0 = |part: &[u32]| part.iter().filter(|id| **id % 10 == 0).count();
            partition.parts.iter().map(|part| of_class_0(part)).max().unwrap_or(0)
        };
        assert!(largest_share(0.05) > 600);
        assert!(largest_share(1_000.0) < 300);
    }

    #[test]
    fn classes_are_drawn_by_their_numbers_however_large() {
        let samples: Vec<u32> = (0..400).collect();
        let of = |labels: &[u32]| {
            let dataset = parted(Partition::Dirichlet { alpha: 0.3 });
            SamplePartition::new(&dataset, 5, &samples, labels, 3).parts
        };
        let few: Vec<u32> = (0..400).map(|i| i % 2).collect();
        let far: Vec<u32> = few.iter().map(|class| class * 1_000_000).collect();
        let one = of(&few);
        let other = of(&far);
        assert_eq!(sorted(&other), samples);
        // Class 0 is dealt alike in both, the other one by draws of its own.
        let zero = |part: &Arc<[u32]>| part.iter().filter(|id| **id % 2 == 0).copied().collect::<Vec<_>>();
        assert!(one.iter().map(zero).eq(other.iter().map(zero)));
        assert_ne!(one, other);
    }

    #[test]
    fn gamma_has_its_mean() {
        for alpha in [0.3, 1.0, 4.0] {
            let mut random = rng::keyed(1, "gamma", &[]);
            let mean = (0..20_000).map(|_| gamma(&mut random, alpha)).sum::<f64>() / 20_000.0;
            assert!((mean / alpha - 1.0).abs() < 0.05, "shape {alpha}: mean {mean}");
        }
    }
    fn replaced(seed: u64, samples: u32) -> SamplePartition {
        SamplePartition::shared_by(seed, (0..samples).collect()).sampled(Sampling::WithReplacement)
    }

    #[test]
    fn a_draw_is_a_function_of_seed_pass_position_and_worker() {
        let partition = replaced(4, 500);
        let again = replaced(4, 500);
        let other = replaced(5, 500);
        let pass = partition.shared(7, 0..500);
        assert_eq!(pass, again.shared(7, 0..500));
        assert_eq!(partition.shared(7, 120..130), pass[120..130]);
        let own = |worker| partition.own(worker, 0, 500);
        let all = [pass, other.shared(7, 0..500), partition.shared(8, 0..500), own(0), own(1)];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| one != other), "{index}");
        }
    }

    #[test]
    fn with_replacement_samples_come_as_often_as_chance_has_them() {
        // 100 samples, 10,000 draws: each is expected 100 times. The statistic has 99 degrees of freedom, so a mean of 99
        // and a standard deviation of 14; a permutation, whose counts are exact, has 0.
        let partition = replaced(9, 100);
        let mut counts = [0_u32; 100];
        for pass in 0..100 {
            partition.shared(pass, 0..100).iter().for_each(|id| counts[*id as usize] += 1);
        }
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - 100.0).powi(2) / 100.0).sum();
        assert!((57.0..150.0).contains(&chi_square), "{chi_square}");
        // Of 100 draws from 100 samples, 1 - (1 - 1/100)^100 = 63.4 % differ.
        let mut first = partition.shared(0, 0..100);
        first.sort_unstable();
        first.dedup();
        assert!((50..77).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn with_replacement_a_worker_keeps_to_its_part() {
        let parts = vec![(0..30).collect(), (30..50).collect()];
        let partition = SamplePartition::parted_by(3, parts).sampled(Sampling::WithReplacement);
        assert!(partition.own(0, 0, 300).iter().all(|id| *id < 30));
        assert!(partition.own(1, 0, 300).iter().all(|id| (30..50).contains(id)));
    }
}
