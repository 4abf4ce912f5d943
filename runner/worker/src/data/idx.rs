//! IDX, the format of MNIST: numbers are big-endian with 32 bits, pixels and labels bytes.
//!
//! Images: 2051, count, rows, columns, pixels row by row. Labels: 2049, count, labels.
//! Source: the description on the MNIST database's page (LeCun, Cortes, Burges).

use super::file::Packed;
use super::set::Loaded;
use super::{DataError, Samples};
use recipe::Shape;
use sha2::{Digest, Sha256};
use std::path::Path;

const IMAGES: u32 = 2051;
const LABELS: u32 = 2049;
const CLASSES: usize = 10;

/// Reads the four files of MNIST, or of a set of the same format, from a folder.
pub(super) fn read(folder: &Path) -> Result<Loaded, DataError> {
    let mut digest = Sha256::new();
    let training = pair(folder, "train", &mut digest)?;
    let test = pair(folder, "t10k", &mut digest)?;
    if training.shape != test.shape {
        let sides = |shape| match shape {
            Shape::Image(_, rows, columns) => (rows as u32, columns as u32),
            Shape::Flat(size) => (1, size as u32),
        };
        let (expected, got) = (sides(training.shape), sides(test.shape));
        return Err(DataError::Sides { file: folder.join("t10k-images-idx3-ubyte"), expected, got });
    }
    Ok(Loaded { training, test, classes: CLASSES, digest })
}

fn pair(folder: &Path, stem: &str, digest: &mut Sha256) -> Result<Samples, DataError> {
    let images = Packed::open(folder, &format!("{stem}-images-idx3-ubyte"), "MNIST")?;
    let labels = Packed::open(folder, &format!("{stem}-labels-idx1-ubyte"), "MNIST")?;
    images.digest(digest);
    labels.digest(digest);
    parse(&images, &labels)
}

fn parse(image_file: &Packed, label_file: &Packed) -> Result<Samples, DataError> {
    let mut content = image_file.unpack();
    let [magic, images, rows, columns] = content.numbers("header of 16 bytes")?;
    check_magic(image_file, "IDX images", IMAGES, magic)?;
    let mut label_content = label_file.unpack();
    let [magic, labels] = label_content.numbers("header of 8 bytes")?;
    check_magic(label_file, "IDX labels", LABELS, magic)?;
    if images != labels {
        let (image_file, label_file) = (image_file.path.clone(), label_file.path.clone());
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
    Ok(Samples { shape: Shape::Image(1, rows as usize, columns as usize), pixels, labels })
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
