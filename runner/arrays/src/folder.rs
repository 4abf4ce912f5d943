//! The four arrays of a folder, in files of their own or two by two in safetensors files, judged together: they must be about the same
//! classes of the same kind of samples.

use super::element::Element;
use super::error::{ArrayError, ArrayFault, ArrayRole};
use super::file::ArrayFile;
use super::values::{self, Features};
use recipe::{ArrayProfile, ArrayValues, Shape};
use std::path::Path;

const TRAIN_X: &str = "train_x.npy";
const TRAIN_Y: &str = "train_y.npy";
const TEST_X: &str = "test_x.npy";
const TEST_Y: &str = "test_y.npy";
const TRAIN: &str = "train.safetensors";
const TEST: &str = "test.safetensors";
const TRAIN_TENSORS: [&str; 2] = ["tensor `x` of train.safetensors", "tensor `y` of train.safetensors"];
const TEST_TENSORS: [&str; 2] = ["tensor `x` of test.safetensors", "tensor `y` of test.safetensors"];

/// The arrays of a folder, with all their values.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledArrays {
    /// The same profile that [`describe`] returns without the features.
    pub profile: ArrayProfile,
    /// Samples to train on, in the order of their file.
    pub train: LabelledFeatures,
    /// Samples to test with, in the order of their file.
    pub test: LabelledFeatures,
}

/// Samples with their classes.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledFeatures {
    /// All values of the first sample, then of the next.
    pub features: Features,
    /// One class for each sample.
    pub labels: Vec<u32>,
}

/// Profile of the arrays in a folder, from their headers and labels: the features themselves are not read.
///
/// # Errors
/// Everything that is wrong with headers and labels, in the order of the files.
pub fn describe(folder: &Path) -> Result<ArrayProfile, Vec<ArrayError>> {
    Files::open(folder)?.describe()
}

/// The same of `train.safetensors` and `test.safetensors`.
///
/// # Errors
/// Fails as [`describe`] does.
pub fn describe_safetensors(folder: &Path) -> Result<ArrayProfile, Vec<ArrayError>> {
    Files::open_safetensors(folder)?.describe()
}

/// Reads the arrays in a folder. `watch` sees what a digest of them is made of: for each file the length of its name (64 bits,
/// little-endian), its name, its own length in the same form, and all of its bytes.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn load(folder: &Path, watch: &mut dyn FnMut(&[u8])) -> Result<LabelledArrays, ArrayError> {
    Files::open(folder).map_err(first)?.load(watch)
}

/// The same of `train.safetensors` and `test.safetensors`.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_safetensors(folder: &Path, watch: &mut dyn FnMut(&[u8])) -> Result<LabelledArrays, ArrayError> {
    Files::open_safetensors(folder).map_err(first)?.load(watch)
}

fn labelled(
    features: &mut ArrayFile,
    labels: &mut ArrayFile,
    watch: &mut dyn FnMut(&[u8]),
) -> Result<LabelledFeatures, ArrayError> {
    let in_order = features.is_before(labels);
    let mut values = |watch: &mut dyn FnMut(&[u8])| {
        features.announce(watch);
        values::features(features, watch).map_err(|fault| features.error(fault))
    };
    let mut classes = |watch: &mut dyn FnMut(&[u8])| {
        labels.announce(watch);
        values::labels(labels, watch).map_err(|fault| labels.error(fault))
    };
    // In the order in which they lie in their file, if they share one.
    let (features, labels) = if in_order {
        let features = values(watch)?;
        (features, classes(watch)?)
    } else {
        let labels = classes(watch)?;
        (values(watch)?, labels)
    };
    Ok(LabelledFeatures { features, labels })
}

/// The arrays of a folder, whose headers fit each other.
struct Files {
    train_x: ArrayFile,
    train_y: ArrayFile,
    test_x: ArrayFile,
    test_y: ArrayFile,
}

impl Files {
    fn open(folder: &Path) -> Result<Self, Vec<ArrayError>> {
        let train_x = ArrayFile::open(folder, TRAIN_X, ArrayRole::Features);
        let train_y = ArrayFile::open(folder, TRAIN_Y, ArrayRole::Labels);
        let test_x = ArrayFile::open(folder, TEST_X, ArrayRole::Features);
        let test_y = ArrayFile::open(folder, TEST_Y, ArrayRole::Labels);
        match (train_x, train_y, test_x, test_y) {
            (Ok(train_x), Ok(train_y), Ok(test_x), Ok(test_y)) => {
                Self { train_x, train_y, test_x, test_y }.agreeing()
            }
            (train_x, train_y, test_x, test_y) => {
                Err([train_x, train_y, test_x, test_y].into_iter().filter_map(Result::err).collect())
            }
        }
    }

    fn open_safetensors(folder: &Path) -> Result<Self, Vec<ArrayError>> {
        let train = ArrayFile::open_tensors(folder, TRAIN, TRAIN_TENSORS);
        let test = ArrayFile::open_tensors(folder, TEST, TEST_TENSORS);
        match (train, test) {
            (Ok([train_x, train_y]), Ok([test_x, test_y])) => {
                Self { train_x, train_y, test_x, test_y }.agreeing()
            }
            (train, test) => Err([train, test].into_iter().filter_map(Result::err).flatten().collect()),
        }
    }

    fn agreeing(self) -> Result<Self, Vec<ArrayError>> {
        let errors = self.disagreements();
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    fn describe(mut self) -> Result<ArrayProfile, Vec<ArrayError>> {
        let [train, test] = [&mut self.train_y, &mut self.test_y].map(|file| {
            let labels = values::labels(file, &mut |_| ()).map_err(|fault| file.error(fault))?;
            Ok(labels.into_iter().max().unwrap_or_default())
        });
        match (train, test) {
            (Ok(train), Ok(test)) => self.profile(Highest { train, test }).map_err(|error| vec![error]),
            (train, test) => Err([train, test].into_iter().filter_map(Result::err).collect()),
        }
    }

    fn load(mut self, watch: &mut dyn FnMut(&[u8])) -> Result<LabelledArrays, ArrayError> {
        let train = labelled(&mut self.train_x, &mut self.train_y, watch)?;
        let test = labelled(&mut self.test_x, &mut self.test_y, watch)?;
        let highest = |half: &LabelledFeatures| half.labels.iter().max().copied().unwrap_or_default();
        let profile = self.profile(Highest { train: highest(&train), test: highest(&test) })?;
        Ok(LabelledArrays { profile, train, test })
    }

    /// Problems between files that are each right by themselves.
    fn disagreements(&self) -> Vec<ArrayError> {
        let Self { train_x, train_y, test_x, test_y } = self;
        let mut errors = Vec::new();
        for (labels, features) in [(train_y, train_x), (test_y, test_x)] {
            let labels_there = labels.samples();
            let samples = features.samples();
            if labels_there != samples {
                errors.push(labels.error(ArrayFault::Counts {
                    labels: labels_there,
                    other: features.name,
                    samples,
                }));
            }
        }
        let got = test_x.element;
        let expected = train_x.element;
        if values_of(got) != values_of(expected) {
            errors.push(test_x.error(ArrayFault::Mixed { got, other: train_x.name, expected }));
        }
        if test_x.example() != train_x.example() {
            let got = test_x.example().to_vec();
            let expected = train_x.example().to_vec();
            errors.push(test_x.error(ArrayFault::Example { got, other: train_x.name, expected }));
        }
        errors
    }

    /// Profile of the arrays, given their largest labels; fails if these or the sizes cannot be used.
    fn profile(&self, highest: Highest) -> Result<ArrayProfile, ArrayError> {
        let Highest { train, test } = highest;
        if train == 0 && test == 0 {
            return Err(self.train_y.error(ArrayFault::OneClass));
        }
        if test > train {
            return Err(self.test_y.error(ArrayFault::Untrained { label: test, highest: train }));
        }
        let too_large = |size: &u64| ArrayFault::Memory { bytes: *size };
        let side = |size: &u64| usize::try_from(*size).map_err(|_| self.train_x.error(too_large(size)));
        let shape = match self.train_x.example() {
            [channels, rows, columns] => Shape::Image(side(channels)?, side(rows)?, side(columns)?),
            flat => Shape::Flat(side(&flat.iter().product())?),
        };
        Ok(ArrayProfile {
            train: self.train_x.samples() as u32,
            test: self.test_x.samples() as u32,
            classes: train + 1,
            shape,
            values: values_of(self.train_x.element),
        })
    }
}

/// The largest labels of the two halves.
#[derive(Clone, Copy)]
struct Highest {
    train: u32,
    test: u32,
}

/// Form in which a run keeps features of this type.
fn values_of(element: Element) -> ArrayValues {
    match element {
        Element::U1 => ArrayValues::Bytes,
        Element::F4
        | Element::F8
        | Element::I1
        | Element::U2
        | Element::I2
        | Element::U4
        | Element::I4
        | Element::U8
        | Element::I8 => ArrayValues::Floats,
    }
}

/// Of several errors the first, which there is.
fn first(errors: Vec<ArrayError>) -> ArrayError {
    errors.into_iter().next().unwrap_or_else(|| unreachable!("a folder is refused for at least one reason"))
}

#[cfg(test)]
mod tests;
