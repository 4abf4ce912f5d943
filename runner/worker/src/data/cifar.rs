//! The binary version of CIFAR-10 and CIFAR-100: records without a header.
//!
//! A record is one label byte (CIFAR-100: a coarse and a fine one, of which the fine one is used) and 3072
//! pixels: 1024 red, 1024 green, 1024 blue, each plane row by row.
//! Source: the data sets' page (Krizhevsky).

use super::file::Packed;
use super::set::Loaded;
use super::{DataError, Samples};
use recipe::Shape;
use sha2::{Digest, Sha256};
use std::path::Path;

const PIXELS: usize = 3 * 32 * 32;

/// Where the label is in a record, and how many classes there are.
#[derive(Clone, Copy)]
struct Format {
    /// Label bytes before the pixels; the last one counts.
    labels: usize,
    classes: usize,
}

const TEN: Format = Format { labels: 1, classes: 10 };
const HUNDRED: Format = Format { labels: 2, classes: 100 };

/// Reads CIFAR-10 from a folder: whichever of the five training batches are there, in their order, and the
/// test batch.
pub(super) fn read_10(folder: &Path) -> Result<Loaded, DataError> {
    let mut files = Vec::new();
    for number in 1..=5 {
        files.extend(Packed::find(folder, &format!("data_batch_{number}.bin"))?);
    }
    if files.is_empty() {
        files.push(Packed::open(folder, "data_batch_1.bin", "CIFAR-10")?);
    }
    let test = Packed::open(folder, "test_batch.bin", "CIFAR-10")?;
    load(TEN, &files, &test)
}

/// Reads CIFAR-100 from a folder.
pub(super) fn read_100(folder: &Path) -> Result<Loaded, DataError> {
    let training = Packed::open(folder, "train.bin", "CIFAR-100")?;
    let test = Packed::open(folder, "test.bin", "CIFAR-100")?;
    load(HUNDRED, &[training], &test)
}

fn load(format: Format, training: &[Packed], test: &Packed) -> Result<Loaded, DataError> {
    let mut digest = Sha256::new();
    let mut samples = empty();
    for file in training {
        file.digest(&mut digest);
        parse(format, file, &mut samples)?;
    }
    test.digest(&mut digest);
    let mut test_samples = empty();
    parse(format, test, &mut test_samples)?;
    Ok(Loaded { training: samples, test: test_samples, classes: format.classes, digest })
}

fn empty() -> Samples {
    Samples { shape: Shape::Image(3, 32, 32), pixels: Vec::new(), labels: Vec::new() }
}

/// Appends the records of a file.
fn parse(format: Format, file: &Packed, into: &mut Samples) -> Result<(), DataError> {
    let record = format.labels + PIXELS;
    let mut content = file.unpack();
    let mut offset = 0;
    loop {
        let bytes = content.up_to(record as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let whole = offset + record as u64;
        if bytes.len() < record {
            return Err(DataError::Length {
                file: file.path.clone(),
                expected: whole,
                got: offset + bytes.len() as u64,
                at_least: false,
                why: format!("records of {record} bytes"),
            });
        }
        let (labels, pixels) = bytes.split_at(format.labels);
        let label = labels[format.labels - 1];
        if usize::from(label) >= format.classes {
            let at = offset + format.labels as u64 - 1;
            let (file, classes) = (file.path.clone(), format.classes);
            return Err(DataError::Label { file, offset: at, label, classes });
        }
        into.labels.push(label);
        into.pixels.extend_from_slice(pixels);
        offset = whole;
    }
}
