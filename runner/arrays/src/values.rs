//! Elements to the values that are trained on, and to classes.

use super::element::Element;
use super::error::{ArrayFault, ArrayRole};
use super::file::ArrayFile;

/// Classes at most: the widest layer that a recipe can write (`model.layers.outputs`).
pub(crate) const MOST_CLASSES: i128 = 1 << 20;

/// The values of samples, one sample after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Pixels: 0 dark, 255 bright.
    Bytes(Vec<u8>),
    /// Values with 32 bits, all of them finite.
    Floats(Vec<f32>),
}

/// Reads the features of all samples. `watch` sees the bytes of the file.
///
/// # Errors
/// A value is not finite, or leaves the range of 32 bits; the file cannot be read, or not held.
pub(crate) fn features(file: &mut ArrayFile, watch: &mut dyn FnMut(&[u8])) -> Result<Features, ArrayFault> {
    let other = |element: Element| ArrayFault::ElementType {
        element: element.name().to_owned(),
        role: ArrayRole::Features,
    };
    match file.element {
        Element::U1 => {
            let mut bytes: Vec<u8> = file.room()?;
            file.read(watch, &mut |chunk| {
                bytes.extend_from_slice(chunk);
                Ok(())
            })?;
            Ok(Features::Bytes(bytes))
        }
        Element::F4 => floats(file, watch, |bytes: [u8; 4]| f64::from(f32::from_le_bytes(bytes))),
        Element::F8 => floats(file, watch, f64::from_le_bytes),
        element @ (Element::I1
        | Element::U2
        | Element::I2
        | Element::U4
        | Element::I4
        | Element::U8
        | Element::I8) => Err(other(element)),
    }
}

/// Numbers of `N` bytes, rounded to the nearest of 32 bits.
fn floats<const N: usize>(
    file: &mut ArrayFile,
    watch: &mut dyn FnMut(&[u8]),
    number: impl Fn([u8; N]) -> f64,
) -> Result<Features, ArrayFault> {
    let mut values: Vec<f32> = file.room()?;
    let shape = file.shape.clone();
    file.read(watch, &mut |chunk| {
        for bytes in chunk.as_chunks().0 {
            let value = number(*bytes);
            let narrow = value as f32;
            if !narrow.is_finite() {
                return Err(ArrayFault::NotFinite { value, at: position(values.len() as u64, &shape) });
            }
            values.push(narrow);
        }
        Ok(())
    })?;
    Ok(Features::Floats(values))
}

/// The indices of an element that has this place in the file.
fn position(mut place: u64, shape: &[u64]) -> Vec<u64> {
    let mut at: Vec<u64> = Vec::with_capacity(shape.len());
    for size in shape.iter().rev() {
        at.push(place % (*size).max(1));
        place /= (*size).max(1);
    }
    at.reverse();
    at
}

/// Reads the classes of all samples. `watch` sees the bytes of the file.
///
/// # Errors
/// A label is below 0 or 2^20 and more; the file cannot be read, or not held.
pub(crate) fn labels(file: &mut ArrayFile, watch: &mut dyn FnMut(&[u8])) -> Result<Vec<u32>, ArrayFault> {
    match file.element {
        Element::U1 => classes(file, watch, |bytes| u8::from_le_bytes(bytes).into()),
        Element::I1 => classes(file, watch, |bytes| i8::from_le_bytes(bytes).into()),
        Element::U2 => classes(file, watch, |bytes| u16::from_le_bytes(bytes).into()),
        Element::I2 => classes(file, watch, |bytes| i16::from_le_bytes(bytes).into()),
        Element::U4 => classes(file, watch, |bytes| u32::from_le_bytes(bytes).into()),
        Element::I4 => classes(file, watch, |bytes| i32::from_le_bytes(bytes).into()),
        Element::U8 => classes(file, watch, |bytes| u64::from_le_bytes(bytes).into()),
        Element::I8 => classes(file, watch, |bytes| i64::from_le_bytes(bytes).into()),
        element @ (Element::F4 | Element::F8) => {
            Err(ArrayFault::ElementType { element: element.name().to_owned(), role: ArrayRole::Labels })
        }
    }
}

fn classes<const N: usize>(
    file: &mut ArrayFile,
    watch: &mut dyn FnMut(&[u8]),
    number: impl Fn([u8; N]) -> i128,
) -> Result<Vec<u32>, ArrayFault> {
    let mut labels: Vec<u32> = file.room()?;
    file.read(watch, &mut |chunk| {
        for bytes in chunk.as_chunks().0 {
            let label = number(*bytes);
            if !(0..MOST_CLASSES).contains(&label) {
                return Err(ArrayFault::Label { label, at: labels.len() as u64 });
            }
            labels.push(label as u32);
        }
        Ok(())
    })?;
    Ok(labels)
}
