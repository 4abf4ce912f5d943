//! The binary version of CIFAR-10 and CIFAR-100: records without a header.
//!
//! A record is one label byte (CIFAR-100: a coarse and a fine one, of which the fine one is used) and 3072
//! pixels: 1024 red, 1024 green, 1024 blue, each plane row by row.
//! Source: the data sets' page (Krizhevsky).

use super::file::Packed;
use super::loaded::Loaded;
use super::{DataError, Images};
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

/// The samples of one file of CIFAR-10.
pub(super) fn samples_10(file: &Packed) -> Result<Images, DataError> {
    samples(TEN, file)
}

/// The samples of one file of CIFAR-100.
pub(super) fn samples_100(file: &Packed) -> Result<Images, DataError> {
    samples(HUNDRED, file)
}

fn samples(format: Format, file: &Packed) -> Result<Images, DataError> {
    let mut samples = empty();
    parse(format, file, &mut samples).map(|()| samples)
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
    Ok(Loaded { training: samples.into(), test: test_samples.into(), classes: format.classes, digest })
}

fn empty() -> Images {
    Images { shape: Shape::Image(3, 32, 32), pixels: Vec::new(), labels: Vec::new() }
}

/// Appends the records of a file.
fn parse(format: Format, file: &Packed, into: &mut Images) -> Result<(), DataError> {
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
            let file = file.path.clone();
            let classes = format.classes;
            return Err(DataError::Label { file, offset: at, label, classes });
        }
        into.labels.push(label);
        into.pixels.extend_from_slice(pixels);
        offset = whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn record(labels: &[u8], first: u8) -> Vec<u8> {
        let mut bytes = labels.to_vec();
        bytes.extend((0..PIXELS).map(|place| if place == 0 { first } else { (place / 1024) as u8 }));
        bytes
    }

    fn read(format: Format, bytes: Vec<u8>) -> Result<Images, DataError> {
        samples(format, &Packed::from_bytes(bytes, false))
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let samples = read(TEN, [record(&[3], 59), record(&[9], 60)].concat()).unwrap();
        assert_eq!(samples.labels, [3, 9]);
        let image = samples.image(1).unwrap();
        assert_eq!((image[0], image[1], image[1024], image[3071]), (60, 0, 1, 2));
        let samples = read(HUNDRED, record(&[19, 99], 1)).unwrap();
        assert_eq!(samples.labels, [99], "the fine label counts");
    }

    #[test]
    fn whichever_batches_are_there_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_10(folder.path()).err().unwrap().to_string();
        assert!(error.contains("has neither data_batch_1.bin nor data_batch_1.bin.gz"), "{error}");
        fs::write(folder.path().join("data_batch_4.bin"), record(&[4], 0)).unwrap();
        fs::write(folder.path().join("data_batch_2.bin"), record(&[2], 0)).unwrap();
        let error = read_10(folder.path()).err().unwrap();
        assert!(matches!(&error, DataError::Missing { name, .. } if name == "test_batch.bin"), "{error}");
        fs::write(folder.path().join("test_batch.bin"), record(&[7], 0)).unwrap();
        let loaded = read_10(folder.path()).unwrap();
        assert_eq!((loaded.training.labels, loaded.test.labels), (vec![2, 4], vec![7]));
    }

    #[test]
    fn half_records_and_labels_without_a_class_are_noticed() {
        let mut bytes = [record(&[1], 0), record(&[2], 0)].concat();
        bytes.pop();
        let error = read(TEN, bytes).unwrap_err();
        assert!(matches!(error, DataError::Length { expected: 6146, got: 6145, .. }), "{error}");
        let error = read(TEN, [record(&[1], 0), record(&[10], 0)].concat()).unwrap_err();
        assert!(matches!(error, DataError::Label { offset: 3073, label: 10, .. }), "{error}");
        let error = read(HUNDRED, record(&[0, 100], 0)).unwrap_err();
        assert!(matches!(error, DataError::Label { offset: 1, label: 100, .. }), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            records in 0..3_usize,
            gzipped in prop::bool::ANY,
        ) {
            let bytes = [record(&[1], 0).repeat(records), bytes].concat();
            let mut samples = empty();
            let _ = parse(HUNDRED, &Packed::from_bytes(bytes, gzipped), &mut samples);
            prop_assert_eq!(samples.pixels.len(), samples.len() * PIXELS);
        }
    }
}
