//! The head of a safetensors file: where its tensors `x` and `y` lie.
//!
//! ```text
//! byte 0                8        8 + length
//!      length (u64)     JSON     elements of the tensors, one tensor behind the other
//! ```
//!
//! Source: the format's description in the crate `safetensors`, which reads the JSON here and checks that the tensors lie one behind
//! the other without holes, each as long as its type and shape say. That the file is as long as they are together is checked here, so
//! that nothing is allocated by a number that the file does not bear out.

use super::element::Element;
use super::error::ArrayFault;
use super::header::{ArrayHeader, IndexOrder};
use safetensors::tensor::{Metadata, TensorInfo};
use std::io::Read;

/// Longer headers are refused: that of two tensors has less than 200 bytes, and people may add words of their own.
const MOST_HEADER: u64 = 1 << 20;
/// Bytes of the length in front of the header.
const LENGTH: u64 = 8;
/// Names of other tensors that an error lists.
const LISTED: usize = 5;

/// Where a tensor lies.
pub(crate) struct TensorPlace {
    /// Its type, shape and offset, in the form of an NPY header.
    pub(crate) header: ArrayHeader,
    /// The byte of the file behind its elements.
    pub(crate) end: u64,
}

/// Finds `x` and `y` in a file of `length` bytes.
///
/// # Errors
/// It is no safetensors file, its parts do not add up to its length, or it has other tensors than these two.
pub(crate) fn parse_tensors(reader: &mut dyn Read, length: u64) -> Result<[TensorPlace; 2], ArrayFault> {
    let unreadable = |source| ArrayFault::Read { source };
    let mut size = [0; LENGTH as usize];
    if length < LENGTH {
        return Err(ArrayFault::NoTensors {
            reason: format!("it has {length} bytes, and begins with a length of 8"),
        });
    }
    reader.read_exact(&mut size).map_err(unreadable)?;
    let bytes = u64::from_le_bytes(size);
    if bytes > MOST_HEADER || bytes > length - LENGTH {
        return Err(ArrayFault::TensorHeaderLength { bytes, most: MOST_HEADER.min(length - LENGTH) });
    }
    let mut header = vec![0; bytes as usize];
    reader.read_exact(&mut header).map_err(unreadable)?;
    let tensors: Metadata = serde_json::from_slice(&header)
        .map_err(|error| ArrayFault::NoTensors { reason: error.to_string() })?;
    let begin = LENGTH + bytes;
    let expected = begin.saturating_add(tensors.data_len() as u64);
    if expected != length {
        return Err(ArrayFault::TensorsLength { expected, got: length });
    }
    let names = tensors.offset_keys();
    let found = |name: &'static str| {
        let missing = || ArrayFault::MissingTensor { name, others: listed(&names) };
        tensors.info(name).map(|info| place(info, begin)).ok_or_else(missing)
    };
    let both = [found("x")?, found("y")?];
    match names.iter().find(|name| !["x", "y"].contains(&name.as_str())) {
        Some(name) => Err(ArrayFault::OtherTensor { name: name.clone() }),
        None => Ok(both),
    }
}

fn place(info: &TensorInfo, begin: u64) -> TensorPlace {
    let (from, to) = info.data_offsets;
    let element = format!("{:?}", info.dtype);
    TensorPlace {
        header: ArrayHeader {
            // An element that is not read keeps its name in this format.
            element: of_dtype(&element).map_or(element, |known| known.name().to_owned()),
            order: IndexOrder::C,
            shape: info.shape.iter().map(|size| *size as u64).collect(),
            offset: begin + from as u64,
        },
        end: begin + to as u64,
    }
}

/// The type of this name in safetensors.
fn of_dtype(name: &str) -> Option<Element> {
    let known = [
        ("F32", Element::F4),
        ("F64", Element::F8),
        ("U8", Element::U1),
        ("I8", Element::I1),
        ("U16", Element::U2),
        ("I16", Element::I2),
        ("U32", Element::U4),
        ("I32", Element::I4),
        ("U64", Element::U8),
        ("I64", Element::I8),
    ];
    known.into_iter().find(|(dtype, _)| *dtype == name).map(|(_, element)| element)
}

/// `a, b and 3 more`.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    match names.len().saturating_sub(LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::{describe_safetensors, load_safetensors};
    use super::super::values::Features;
    use super::*;
    use proptest::prelude::*;
    use recipe::{ArrayProfile, ArrayValues, Shape};
    use std::fs;
    use std::path::Path;

    /// A file by hand: its header, padded by blanks to a multiple of eight bytes as the format's own writer does, then elements.
    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let mut header = header.to_owned();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), elements].concat()
    }

    fn tensor(name: &str, dtype: &str, shape: &str, from: usize, to: usize) -> String {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    }

    const VALUES: [f32; 6] = [1.0, 2.0, 3.0, -4.0, 0.5, 6.0];

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Three samples of two floats, and their labels.
    fn good() -> Vec<u8> {
        let header =
            format!("{{{},{}}}", tensor("x", "F32", "[3,2]", 0, 24), tensor("y", "U8", "[3]", 24, 27));
        file(&header, &[&floats(&VALUES)[..], &[2, 0, 1]].concat())
    }

    fn folder(train: &[u8], test: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.safetensors"), train).unwrap();
        fs::write(folder.path().join("test.safetensors"), test).unwrap();
        folder
    }

    /// The error of both readers for a folder with this training file.
    fn said(train: &[u8]) -> String {
        let folder = folder(train, &good());
        let error = load_safetensors(folder.path(), &mut |_| ()).unwrap_err();
        if let Err(errors) = describe_safetensors(folder.path()) {
            assert_eq!(errors[0].to_string(), error.to_string());
        }
        format!("{error}; {}", error.cure()).replace(&format!("{}/", folder.path().display()), "")
    }

    fn watched(folder: &Path) -> Vec<u8> {
        let mut seen = Vec::new();
        load_safetensors(folder, &mut |bytes| seen.extend_from_slice(bytes)).unwrap();
        seen
    }

    #[test]
    fn tensors_come_out_as_they_went_in_whichever_is_first() {
        let header = format!(
            "{{\"__metadata__\":{{\"made\":\"by hand\"}},{},{}}}",
            tensor("x", "F32", "[3,2]", 12, 36),
            tensor("y", "I32", "[3]", 0, 12)
        );
        let labels: Vec<u8> = [2_i32, 0, 1].into_iter().flat_map(i32::to_le_bytes).collect();
        let turned = file(&header, &[labels, floats(&VALUES)].concat());
        let folder = folder(&turned, &good());
        let profile = ArrayProfile {
            train: 3,
            test: 3,
            classes: 3,
            shape: Shape::Flat(2),
            values: ArrayValues::Floats,
        };
        assert_eq!(describe_safetensors(folder.path()).unwrap(), profile);
        let arrays = load_safetensors(folder.path(), &mut |_| ()).unwrap();
        assert_eq!((arrays.profile, &arrays.train), (profile, &arrays.test));
        assert_eq!(arrays.train.features, Features::Floats(VALUES.to_vec()));
        assert_eq!(arrays.train.labels, [2, 0, 1]);
        let part = |name: &str, bytes: &[u8]| {
            let sizes = [(name.len() as u64).to_le_bytes(), (bytes.len() as u64).to_le_bytes()];
            [&sizes[0][..], name.as_bytes(), &sizes[1], bytes].concat()
        };
        let expected = [part("train.safetensors", &turned), part("test.safetensors", &good())].concat();
        assert_eq!(watched(folder.path()), expected, "a digest is over names, lengths and contents");
    }

    #[test]
    fn what_is_no_such_file_is_refused_before_anything_is_allocated() {
        let begin = "train.safetensors is no safetensors file: ";
        assert!(said(b"").starts_with(&format!(
            "{begin}it has 0 bytes, and begins with a length of 8; write the file again"
        )));
        assert!(said(&[1, 0, 0]).starts_with(&format!("{begin}it has 3 bytes")));
        let announces = |bytes: u64, most: u64| {
            format!(
                "train.safetensors announces a header of {bytes} bytes at byte 0; at most {most} can be read; write"
            )
        };
        assert!(said(&u64::MAX.to_le_bytes()).starts_with(&announces(u64::MAX, 0)));
        let mut longer = good();
        let length = longer.len() as u64;
        longer[..8].copy_from_slice(&length.to_le_bytes());
        assert!(said(&longer).starts_with(&announces(length, length - 8)));
        assert!(said(&file("not json", b"")).starts_with(begin));
        assert!(said(&file("[1, 2]", b"")).starts_with(begin));
        assert!(said(&file(&"[".repeat(100_000), b"")).starts_with(begin));
        assert!(
            said(&file("{\"x\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", &[0; 4]))
                .starts_with(begin)
        );
    }

    #[test]
    fn offsets_are_believed_only_as_far_as_they_fit_the_file() {
        let two =
            |x: &str, y: &str, elements: usize| said(&file(&format!("{{{x},{y}}}"), &vec![0; elements]));
        let y = tensor("y", "U8", "[3]", 24, 27);
        let begin = "train.safetensors is no safetensors file: ";
        for x in [
            tensor("x", "F32", "[3,2]", 0, 25),
            tensor("x", "F32", "[3,2]", 3, 27),
            tensor("x", "F32", "[3,3]", 0, 24),
            tensor("x", "F32", "[4611686018427387905,4]", 0, 24),
            tensor("x", "F32", "[-3,2]", 0, 24),
        ] {
            assert!(two(&x, &y, 27).starts_with(begin), "{x}: {}", two(&x, &y, 27));
        }
        let x = tensor("x", "F32", "[3,2]", 0, 24);
        let header = file(&format!("{{{x},{y}}}"), &[]).len();
        for elements in [0, 26, 28] {
            let told = format!(
                "train.safetensors has {} bytes where its header and its tensors need {};",
                header + elements,
                header + 27
            );
            assert!(two(&x, &y, elements).starts_with(&told), "{}", two(&x, &y, elements));
        }
    }

    #[test]
    fn other_tensors_than_two_of_known_types_are_refused() {
        let one = |tensors: &[String], elements: usize| {
            said(&file(&format!("{{{}}}", tensors.join(",")), &vec![0; elements]))
        };
        let x = tensor("x", "F32", "[3,2]", 0, 24);
        let y = tensor("y", "U8", "[3]", 24, 27);
        let told = one(std::slice::from_ref(&x), 24);
        assert!(
            told.starts_with("train.safetensors has no tensor `y`; its tensors: x; write the file again"),
            "{told}"
        );
        assert!(one(&[], 0).starts_with("train.safetensors has no tensor `x`; its tensors: none"));
        let more = tensor("mask", "U8", "[3]", 27, 30);
        let told = one(&[x.clone(), y.clone(), more], 30);
        assert!(told.starts_with("train.safetensors has a tensor `mask` beside `x` and `y`;"), "{told}");
        let half = tensor("x", "F16", "[3,4]", 0, 24);
        let told = one(&[half, y.clone()], 27);
        let expected = "train.safetensors, tensor `x`, has elements of type `F16`; features are `<f4`, `<f8` or `|u1`; convert it: \
                        `x.astype(np.float32)`";
        assert_eq!(told, expected);
        let told = one(&[x.clone(), tensor("y", "U8", "[4]", 24, 28)], 28);
        let expected = "train.safetensors, tensor `y`, has 4 labels, and tensor `x` of train.safetensors has 3 samples: there must be \
                        one label for each";
        assert!(told.starts_with(expected), "{told}");
        let told = one(&[x, tensor("y", "U8", "[0]", 24, 24)], 24);
        assert!(
            told.starts_with("train.safetensors, tensor `y`, has shape (0,): nothing is in it"),
            "{told}"
        );
        let missing = tempfile::tempdir().unwrap();
        let errors = describe_safetensors(missing.path()).unwrap_err();
        assert_eq!(errors.len(), 2);
        assert!(errors[1].to_string().ends_with("/test.safetensors is missing"));
        assert!(errors[1].cure().contains("safetensors.numpy.save_file"), "{}", errors[1].cure());
    }

    #[test]
    fn a_file_may_end_anywhere() {
        let whole = good();
        let place = |bytes: &[u8]| parse_tensors(&mut &*bytes, bytes.len() as u64).map(|_| ());
        assert!(place(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(place(&whole[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(at in 0_usize..150, bytes in prop::collection::vec(any::<u8>(), 1..9)) {
            let mut changed = good();
            let at = at.min(changed.len() - 1);
            let end = (at + bytes.len()).min(changed.len());
            changed.splice(at..end, bytes);
            let folder = folder(&changed, &good());
            let _ = describe_safetensors(folder.path());
            let _ = load_safetensors(folder.path(), &mut |_| ());
        }
    }
}
