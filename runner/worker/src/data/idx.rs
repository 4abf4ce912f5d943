//! IDX, the format of MNIST: numbers are big-endian with 32 bits, pixels and labels bytes.
//!
//! Images: 2051, count, rows, columns, pixels row by row. Labels: 2049, count, labels.
//! Source: the description on the MNIST database's page (LeCun, Cortes, Burges).

use super::file::Packed;
use super::loaded::Loaded;
use super::{DataError, Images};
use recipe::Shape;
use sha2::{Digest, Sha256};
use std::path::Path;

const IMAGES: u32 = 2051;
const LABELS: u32 = 2049;
const CLASSES: usize = 10;

/// Reads the four files of MNIST, or of a set of the same format with another name, from a folder.
pub(super) fn read(folder: &Path, set: &'static str) -> Result<Loaded, DataError> {
    let mut digest = Sha256::new();
    let training = pair(folder, set, "train", &mut digest)?;
    let test = pair(folder, set, "t10k", &mut digest)?;
    if training.shape != test.shape {
        let sides = |shape| match shape {
            Shape::Image(_, rows, columns) => (rows as u32, columns as u32),
            Shape::Flat(size) | Shape::Tokens(size, _) => (1, size as u32),
            Shape::Sequence(length, width) => (length as u32, width as u32),
        };
        let expected = sides(training.shape);
        let got = sides(test.shape);
        return Err(DataError::Sides { file: folder.join("t10k-images-idx3-ubyte"), expected, got });
    }
    Ok(Loaded { training: training.into(), test: test.into(), classes: CLASSES, digest })
}

fn pair(folder: &Path, set: &'static str, stem: &str, digest: &mut Sha256) -> Result<Images, DataError> {
    let images = Packed::open(folder, &format!("{stem}-images-idx3-ubyte"), set)?;
    let labels = Packed::open(folder, &format!("{stem}-labels-idx1-ubyte"), set)?;
    images.digest(digest);
    labels.digest(digest);
    parse(&images, &labels)
}

/// Reads images and their labels.
pub(super) fn parse(image_file: &Packed, label_file: &Packed) -> Result<Images, DataError> {
    let mut content = image_file.unpack();
    let [magic, images, rows, columns] = content.numbers("header of 16 bytes")?;
    check_magic(image_file, "IDX images", IMAGES, magic)?;
    if rows == 0 || columns == 0 {
        return Err(DataError::NoPixels { file: image_file.path.clone(), rows, columns });
    }
    let mut label_content = label_file.unpack();
    let [magic, labels] = label_content.numbers("header of 8 bytes")?;
    check_magic(label_file, "IDX labels", LABELS, magic)?;
    if images != labels {
        let image_file = image_file.path.clone();
        let label_file = label_file.path.clone();
        return Err(DataError::Counts { image_file, images, label_file, labels });
    }
    let why = format!("16 bytes of header, {images} images of {rows} x {columns}");
    // The product of three 32-bit numbers fits 64 bits only if checked; what saturates is too long anyway.
    let size = u64::from(images).saturating_mul(u64::from(rows) * u64::from(columns));
    let pixels = content.exactly(size, &why)?;
    content.end(&why)?;
    let why = format!("8 bytes of header, {labels} labels");
    let labels = label_content.exactly(u64::from(labels), &why)?;
    label_content.end(&why)?;
    check_labels(label_file, &labels)?;
    Ok(Images { shape: Shape::Image(1, rows as usize, columns as usize), pixels, labels })
}

fn check_magic(file: &Packed, what: &'static str, expected: u32, got: u32) -> Result<(), DataError> {
    if got == expected {
        Ok(())
    } else {
        Err(DataError::Magic { file: file.path.clone(), what, expected, got })
    }
}

fn check_labels(file: &Packed, labels: &[u8]) -> Result<(), DataError> {
    match labels.iter().position(|label| usize::from(*label) >= CLASSES) {
        None => Ok(()),
        Some(place) => Err(DataError::Label {
            file: file.path.clone(),
            offset: 8 + place as u64,
            label: labels[place],
            classes: CLASSES,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    fn images(magic: u32, count: u32, rows: u32, columns: u32, pixels: &[u8]) -> Vec<u8> {
        let header = [magic, count, rows, columns].into_iter().flat_map(u32::to_be_bytes);
        header.chain(pixels.iter().copied()).collect()
    }

    fn labels(magic: u32, count: u32, labels: &[u8]) -> Vec<u8> {
        [magic, count].into_iter().flat_map(u32::to_be_bytes).chain(labels.iter().copied()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn plain(images: Vec<u8>, labels: Vec<u8>) -> Result<Images, DataError> {
        parse(&Packed::from_bytes(images, false), &Packed::from_bytes(labels, false))
    }

    #[test]
    fn images_and_labels_come_out_as_they_went_in() {
        let images = images(2051, 2, 2, 3, b"abcdefghijkl");
        let labels = labels(2049, 2, &[9, 0]);
        let samples = plain(images.clone(), labels.clone()).unwrap();
        assert_eq!(samples.shape, Shape::Image(1, 2, 3));
        assert_eq!((samples.image(1), samples.image(2)), (Some(&b"ghijkl"[..]), None));
        assert_eq!(samples.labels, [9, 0]);
        let zipped =
            parse(&Packed::from_bytes(gzip(&images), true), &Packed::from_bytes(gzip(&labels), true));
        assert_eq!(zipped.unwrap(), samples);
    }

    #[test]
    fn every_defect_has_its_own_error() {
        let good = || (images(2051, 2, 2, 2, &[7; 8]), labels(2049, 2, &[1, 2]));
        let error = |images, labels| plain(images, labels).unwrap_err();
        let swapped = error(good().1.repeat(2), good().0);
        assert!(matches!(swapped, DataError::Magic { expected: 2051, got: 2049, .. }), "{swapped}");
        let wrong = error(good().0, labels(2051, 2, &[1, 2]));
        assert!(matches!(wrong, DataError::Magic { expected: 2049, got: 2051, .. }), "{wrong}");
        let counts = error(good().0, labels(2049, 3, &[1, 2, 3]));
        assert!(matches!(counts, DataError::Counts { images: 2, labels: 3, .. }), "{counts}");
        let label = error(good().0, labels(2049, 2, &[1, 10]));
        assert!(matches!(label, DataError::Label { offset: 9, label: 10, classes: 10, .. }), "{label}");
        let flat = error(images(2051, 2, 0, 2, &[]), good().1);
        assert!(matches!(flat, DataError::NoPixels { rows: 0, columns: 2, .. }), "{flat}");
        let long = error([good().0, vec![0]].concat(), good().1);
        assert!(matches!(long, DataError::Length { expected: 24, got: 25, at_least: true, .. }), "{long}");
        let text = error(good().0[..20].to_vec(), good().1).to_string();
        assert_eq!(
            text,
            "file has 20 bytes where 24 were expected (16 bytes of header, 2 images of 2 x 2); fetch it again"
        );
    }

    #[test]
    fn every_shortened_file_is_noticed() {
        let images = images(2051, 2, 2, 2, &[7; 8]);
        let labels = labels(2049, 2, &[1, 2]);
        for length in 0..images.len() {
            let error = plain(images[..length].to_vec(), labels.clone()).unwrap_err();
            assert!(matches!(error, DataError::Length { got, .. } if got == length as u64), "{error}");
        }
        for length in 0..labels.len() {
            let error = plain(images.clone(), labels[..length].to_vec()).unwrap_err();
            assert!(matches!(error, DataError::Length { got, .. } if got == length as u64), "{error}");
        }
        let zipped = gzip(&images);
        for length in 0..zipped.len() {
            let file = Packed::from_bytes(zipped[..length].to_vec(), true);
            assert!(parse(&file, &Packed::from_bytes(labels.clone(), false)).is_err(), "{length}");
        }
    }

    #[test]
    fn a_header_that_promises_too_much_is_not_believed() {
        for gzipped in [false, true] {
            let bytes = images(2051, u32::MAX, u32::MAX, u32::MAX, &[7; 8]);
            let bytes = if gzipped { gzip(&bytes) } else { bytes };
            let labels = Packed::from_bytes(labels(2049, u32::MAX, &[1]), false);
            let error = parse(&Packed::from_bytes(bytes, gzipped), &labels).unwrap_err();
            assert!(matches!(error, DataError::Length { got: 24, .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(
            magic in prop::bool::ANY,
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            other in prop::collection::vec(any::<u8>(), 0..50),
            gzipped in prop::bool::ANY,
        ) {
            if magic && bytes.len() >= 16 {
                // Past the magic, and small enough numbers to get further.
                bytes[..4].copy_from_slice(&2051_u32.to_be_bytes());
                for place in [4, 5, 6, 8, 9, 10, 12, 13, 14] {
                    bytes[place] = 0;
                }
            }
            let bytes = if gzipped && magic { gzip(&bytes) } else { bytes };
            let _ = parse(&Packed::from_bytes(bytes, gzipped), &Packed::from_bytes(other, false));
        }
    }
}
