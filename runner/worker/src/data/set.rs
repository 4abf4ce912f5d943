//! A data set in memory: training and test samples, which of them are held out, and how they are normalised.

use super::loaded::Loaded;
use super::{
    Change, DataError, Example, Normal, SampleStore, Samples, cifar, idx, labelled_text, npy, pictures,
    synthetic, text,
};
use crate::stream;
use arrays::Features;
use recipe::{Augmentation, Dataset, Shape, Source};
use sha2::Digest;
use strategies::Batch;

/// Part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The samples to train on.
    Training,
    /// Samples held out of the training file, to choose by.
    Validation,
    /// The test samples; nothing is chosen by them.
    Test,
}

/// A data set in memory; of pictures in files their names.
///
/// Samples are named by their position in the original training file (or test file), whatever is held out.
#[derive(Clone, Debug)]
pub struct DataSet {
    training: Samples,
    test: Samples,
    classes: usize,
    training_ids: Vec<u32>,
    validation_ids: Vec<u32>,
    test_ids: Vec<u32>,
    /// Of each channel of bytes; floats are taken as they are.
    normal: Vec<Normal>,
    /// For each channel the normalised value of each byte.
    values: Vec<[f32; 256]>,
    digest: String,
    augment: Augmentation,
}

impl DataSet {
    /// Reads or draws the described data set.
    pub fn load(described: &Dataset) -> Result<Self, DataError> {
        let loaded = match &described.source {
            Source::Synthetic { train, test, seed } => synthetic::draw(*train, *test, *seed),
            Source::Mnist { path } => idx::read(path, "MNIST")?,
            Source::FashionMnist { path } => idx::read(path, "Fashion-MNIST")?,
            Source::Cifar10 { path } => cifar::read_10(path)?,
            Source::Cifar100 { path } => cifar::read_100(path)?,
            Source::ImageFolder { path, pictures } => pictures::read(path, pictures)?,
            Source::Npy { path, arrays } => npy::read(path, arrays, arrays::load)?,
            Source::Safetensors { path, arrays } => npy::read(path, arrays, arrays::load_safetensors)?,
            Source::TextLines { path, text } => text::read(path, text)?,
            Source::Text { path, texts } => labelled_text::read(path, texts)?,
        };
        // The split belongs to the data: it must be the same for every seed of a sweep.
        let set = Self::new(loaded, described.validation, described.source.seed())?;
        Ok(Self { augment: described.augment, ..set })
    }

    fn new(loaded: Loaded, validation: f64, seed: u64) -> Result<Self, DataError> {
        let Loaded { training, test, classes, digest } = loaded;
        let (training_ids, validation_ids) = hold_out(training.len(), validation, seed);
        if training_ids.is_empty() || test.is_empty() {
            let training = training_ids.len();
            let test = test.len();
            return Err(DataError::Empty { training, test });
        }
        let normal: Vec<Normal> = match &training.features {
            SampleStore::Memory(Features::Bytes(pixels)) => {
                (0..training.channels()).map(|channel| normal(&training, pixels, channel)).collect()
            }
            SampleStore::Memory(Features::Floats(_)) => Vec::new(),
            SampleStore::Pictures(_) => pictures::NORMAL.to_vec(),
        };
        let values = normal.iter().map(table).collect();
        Ok(Self {
            test_ids: (0..test.len() as u32).collect(),
            training,
            test,
            classes,
            training_ids,
            validation_ids,
            normal,
            values,
            digest: recipe::hex(&digest.finalize()),
            augment: Augmentation::NONE,
        })
    }

    /// The shape of one example.
    pub fn shape(&self) -> Shape {
        self.training.shape
    }

    /// Labels are below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The samples to train on, as positions in the training file, ascending.
    pub fn training_ids(&self) -> &[u32] {
        &self.training_ids
    }

    /// The classes of all samples of the training file, held-out ones included, by position; of a text the targets of all windows.
    pub fn labels(&self) -> &[u32] {
        &self.training.labels
    }

    /// The class of each sample to train on, in the order of [`DataSet::training_ids`]; of a text the first target of each.
    pub fn training_classes(&self) -> Vec<u32> {
        let class = |id: &u32| self.training.targets_of(*id as usize)?.first().copied();
        self.training_ids.iter().filter_map(class).collect()
    }

    /// Targets of a sample: 1, or of a text its number of tokens.
    pub fn targets(&self) -> usize {
        self.training.targets()
    }

    /// The samples of a split, as positions in the file they come from, ascending.
    pub fn positions(&self, split: Split) -> &[u32] {
        match split {
            Split::Training => &self.training_ids,
            Split::Validation => &self.validation_ids,
            Split::Test => &self.test_ids,
        }
    }

    /// The file that a split is part of.
    pub fn samples(&self, split: Split) -> &Samples {
        match split {
            Split::Training | Split::Validation => &self.training,
            Split::Test => &self.test,
        }
    }

    /// How each channel is normalised; empty where values are floats, which are taken as they are.
    pub fn normal(&self) -> &[Normal] {
        &self.normal
    }

    /// SHA-256 over the names and contents of the files that were read, as they lie on disk; over pixels and
    /// labels where the data set is drawn, and over the names of pictures, which are not read yet. In hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether its values are decoded from files whenever they are asked for.
    pub fn is_decoded(&self) -> bool {
        match self.training.features {
            SampleStore::Memory(_) => false,
            SampleStore::Pictures(_) => true,
        }
    }

    /// The values of a batch as they are trained on in the run of `seed`: as [`DataSet::values`], but changed where the recipe
    /// says so.
    pub fn training_values(&self, batch: &Batch, seed: u64) -> Result<Vec<f32>, DataError> {
        let change = |sample| Change::of(self.augment, seed, batch.epoch, sample);
        if let SampleStore::Pictures(files) = &self.training.features {
            return files.values(&batch.examples, &self.values, &change);
        }
        let mut values = self.values(Split::Training, &batch.examples)?;
        if self.augment != Augmentation::NONE {
            let examples = values.chunks_exact_mut(self.shape().size().max(1));
            for (values, sample) in examples.zip(&batch.examples) {
                change(*sample).apply(self.shape(), values);
            }
        }
        Ok(values)
    }

    /// The values of some samples, one after another, bytes normalised; nothing is changed at random.
    pub fn values(&self, split: Split, positions: &[u32]) -> Result<Vec<f32>, DataError> {
        let samples = self.samples(split);
        if let SampleStore::Pictures(files) = &samples.features {
            return files.values(positions, &self.values, &|_| Change::NONE);
        }
        let channel = self.shape().size() / samples.channels();
        let mut values = Vec::with_capacity(positions.len() * self.shape().size());
        for position in positions {
            let example = samples
                .example(*position as usize)
                .ok_or(DataError::Position { position: *position, samples: samples.len() })?;
            match example {
                Example::Bytes(image) => {
                    for (pixels, table) in image.chunks_exact(channel).zip(&self.values) {
                        values.extend(pixels.iter().map(|pixel| table[usize::from(*pixel)]));
                    }
                }
                Example::Floats(floats) => values.extend_from_slice(floats),
            }
        }
        Ok(values)
    }

    /// The classes of some samples; of a text the targets of one window after the other.
    pub fn labels_at(&self, split: Split, positions: &[u32]) -> Result<Vec<i64>, DataError> {
        let samples = self.samples(split);
        let mut labels = Vec::with_capacity(positions.len() * samples.targets());
        for position in positions {
            let targets = samples.targets_of(*position as usize);
            let missing = DataError::Position { position: *position, samples: samples.len() };
            labels.extend(targets.ok_or(missing)?.iter().map(|label| i64::from(*label)));
        }
        Ok(labels)
    }
}

/// Which of `samples` are trained on and which are held out, both ascending; a pure function of its arguments.
fn hold_out(samples: usize, share: f64, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let held = (share.clamp(0.0, 1.0) * samples as f64).round() as usize;
    let mut ids: Vec<u32> = (0..samples as u32).collect();
    let mut draws = stream::keyed(seed, "validation", &[]);
    // The first steps of a Fisher-Yates shuffle choose a uniform subset.
    for place in 0..held {
        let other = place + stream::below(&mut draws, (samples - place) as u32) as usize;
        ids.swap(place, other);
    }
    let mut training = ids.split_off(held);
    training.sort_unstable();
    ids.sort_unstable();
    (training, ids)
}

/// Mean and population deviation of a channel, from exact sums.
fn normal(samples: &Samples, pixels: &[u8], channel: usize) -> Normal {
    let size = samples.shape.size();
    let of_channel = size / samples.channels();
    let mut sum = 0_u64;
    let mut squares = 0_u64;
    for image in pixels.chunks_exact(size) {
        for pixel in &image[channel * of_channel..(channel + 1) * of_channel] {
            let value = u64::from(*pixel);
            sum += value;
            squares += value * value;
        }
    }
    let count = (samples.len() * of_channel) as u64;
    let spread = u128::from(count) * u128::from(squares) - u128::from(sum) * u128::from(sum);
    let scale = 255.0 * count as f64;
    let deviation = if spread == 0 { 1.0 } else { (spread as f64).sqrt() / scale };
    Normal { mean: sum as f64 / scale, deviation }
}

fn table(normal: &Normal) -> [f32; 256] {
    std::array::from_fn(|byte| ((byte as f64 / 255.0 - normal.mean) / normal.deviation) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Partition;
    use sha2::Sha256;

    fn two_channels() -> Samples {
        Samples {
            shape: Shape::Image(2, 1, 2),
            features: Features::Bytes(vec![0, 255, 10, 10, 255, 0, 10, 10]).into(),
            labels: vec![0, 1],
        }
    }

    fn loaded() -> Loaded {
        Loaded { training: two_channels(), test: two_channels(), classes: 2, digest: Sha256::new() }
    }

    #[test]
    fn each_channel_is_normalised_by_its_own_mean_and_deviation() {
        let set = DataSet::new(loaded(), 0.5, 0).unwrap();
        assert_eq!(set.training_ids().len(), 1, "held-out samples still count");
        let [first, second] = set.normal() else { panic!("two channels") };
        assert!((first.mean - 0.5).abs() < 1e-15 && (first.deviation - 0.5).abs() < 1e-15);
        assert!((second.mean - 10.0 / 255.0).abs() < 1e-15);
        assert_eq!(second.deviation.to_bits(), 1.0_f64.to_bits(), "a flat channel is only centred");
        assert_eq!(set.values(Split::Test, &[1, 0]).unwrap(), [1.0, -1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0]);
        let error = set.values(Split::Training, &[2]).unwrap_err();
        assert!(matches!(error, DataError::Position { position: 2, samples: 2 }), "{error}");
        assert!(set.labels_at(Split::Training, &[2]).is_err());
    }

    #[test]
    fn floats_are_taken_as_they_are() {
        let floats = |first| Samples {
            shape: Shape::Flat(2),
            features: Features::Floats(vec![first, -0.0, 1e30, 3.5]).into(),
            labels: vec![0, 70_000],
        };
        let loaded =
            Loaded { training: floats(1.0), test: floats(2.0), classes: 70_001, digest: Sha256::new() };
        let set = DataSet::new(loaded, 0.0, 0).unwrap();
        assert_eq!(set.normal(), []);
        assert_eq!(set.values(Split::Training, &[1, 0]).unwrap(), [1e30, 3.5, 1.0, -0.0]);
        assert_eq!(set.values(Split::Test, &[0]).unwrap()[0].to_bits(), 2.0_f32.to_bits());
        assert_eq!(set.labels_at(Split::Test, &[1, 0]).unwrap(), [70_000, 0]);
    }

    #[test]
    fn held_out_samples_are_a_share_and_depend_on_the_data_only() {
        let (training, held) = hold_out(1000, 0.1, 7);
        assert_eq!((training.len(), held.len()), (900, 100));
        let mut all = [training.clone(), held.clone()].concat();
        assert!(training.is_sorted() && held.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert_eq!(hold_out(1000, 0.1, 7).1, held);
        assert_ne!(hold_out(1000, 0.1, 8).1, held);
        assert_eq!(hold_out(10, 0.0, 7), ((0..10).collect(), vec![]));
    }

    #[test]
    fn something_must_be_left_to_train_on() {
        let error = DataSet::new(loaded(), 1.0, 0).unwrap_err();
        assert!(matches!(error, DataError::Empty { training: 0, test: 2 }), "{error}");
    }

    #[test]
    fn the_digest_tells_data_sets_apart() {
        let digest = |train, seed| {
            let source = Source::Synthetic { train, test: 5, seed };
            let described = Dataset {
                source,
                sampling: recipe::Sampling::Permutation,
                augment: Augmentation::NONE,
                partition: Partition::Shared,
                validation: 0.0,
            };
            DataSet::load(&described).unwrap().digest().to_owned()
        };
        assert_eq!(digest(9, 1), digest(9, 1));
        assert_ne!(digest(9, 1), digest(9, 2));
        assert_ne!(digest(9, 1), digest(8, 1));
        // Another digest here means that the same recipe no longer means the same images.
        assert_eq!(digest(9, 1), "207135d3182b0016a8d25d72e3a7970a1c8a2f71fc0a7e01420c5356c466a29a");
    }
}
