//! Folders written by hand, byte by byte.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

/// An array of version 1.0 as NumPy writes it: its header ends at a multiple of 64 bytes.
fn npy(element: &str, order: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{element}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
}

fn f4(shape: &str, values: &[f32]) -> Vec<u8> {
    npy("<f4", "False", shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

fn u1(shape: &str, values: &[u8]) -> Vec<u8> {
    npy("|u1", "False", shape, values)
}

/// Three training samples of two floats and one test sample, of the classes 0 to 2.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), TRAIN_X, &f4("(3, 2)", &[1.0, 2.0, 3.0, -4.0, 0.5, 6.0]));
    put(folder.path(), TRAIN_Y, &u1("(3,)", &[2, 0, 1]));
    put(folder.path(), TEST_X, &f4("(1, 2)", &[7.0, 8.0]));
    put(folder.path(), TEST_Y, &u1("(1,)", &[1]));
    folder
}

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    fs::write(folder.join(name), bytes).unwrap();
}

fn loaded(folder: &Path) -> Result<LabelledArrays, ArrayError> {
    load(folder, &mut |_| ())
}

/// The error of both readers for the folder with one file in place of another; without the folder's path.
fn said(name: &str, bytes: &[u8]) -> String {
    let folder = folder();
    put(folder.path(), name, bytes);
    let error = loaded(folder.path()).unwrap_err();
    if let Err(errors) = describe(folder.path()) {
        assert_eq!(errors[0].to_string(), error.to_string());
    }
    let cure = error.cure();
    format!("{error}; {cure}").replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn a_folder_of_floats_comes_out_as_it_went_in() {
    let folder = folder();
    let profile =
        ArrayProfile { train: 3, test: 1, classes: 3, shape: Shape::Flat(2), values: ArrayValues::Floats };
    assert_eq!(describe(folder.path()).unwrap(), profile);
    let mut seen = Vec::new();
    let arrays = load(folder.path(), &mut |bytes| seen.extend_from_slice(bytes)).unwrap();
    assert_eq!(arrays.profile, profile);
    assert_eq!(arrays.train.features, Features::Floats(vec![1.0, 2.0, 3.0, -4.0, 0.5, 6.0]));
    assert_eq!((arrays.train.labels, arrays.test.labels), (vec![2, 0, 1], vec![1]));
    assert_eq!(arrays.test.features, Features::Floats(vec![7.0, 8.0]));
    let expected: Vec<u8> = [TRAIN_X, TRAIN_Y, TEST_X, TEST_Y]
        .into_iter()
        .flat_map(|name| {
            let bytes = fs::read(folder.path().join(name)).unwrap();
            let sizes = [(name.len() as u64).to_le_bytes(), (bytes.len() as u64).to_le_bytes()];
            [&sizes[0][..], name.as_bytes(), &sizes[1], &bytes].concat()
        })
        .collect();
    assert_eq!(seen, expected, "a digest is over names, lengths and contents");
}

#[test]
fn pictures_of_bytes_stay_bytes() {
    let folder = folder();
    put(folder.path(), TRAIN_X, &u1("(3, 1, 2, 2)", &[0, 255, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    put(folder.path(), TEST_X, &u1("(1, 1, 2, 2)", &[1, 2, 3, 4]));
    let arrays = loaded(folder.path()).unwrap();
    assert_eq!((arrays.profile.shape, arrays.profile.values), (Shape::Image(1, 2, 2), ArrayValues::Bytes));
    assert_eq!(arrays.test.features, Features::Bytes(vec![1, 2, 3, 4]));
    assert_eq!(describe(folder.path()).unwrap(), arrays.profile);
}

#[test]
fn every_type_of_label_and_float_is_read() {
    let one: [(&str, Vec<u8>); 8] = [
        ("|u1", vec![255]),
        ("|i1", vec![127]),
        ("<u2", 65_535_u16.to_le_bytes().to_vec()),
        ("<i2", 32_767_i16.to_le_bytes().to_vec()),
        ("<u4", 1_048_575_u32.to_le_bytes().to_vec()),
        ("<i4", 1_048_575_i32.to_le_bytes().to_vec()),
        ("<u8", 1_048_575_u64.to_le_bytes().to_vec()),
        ("<i8", 1_048_575_i64.to_le_bytes().to_vec()),
    ];
    for (element, bytes) in one {
        let folder = folder();
        put(folder.path(), TEST_Y, &npy(element, "False", "(1,)", &bytes));
        put(folder.path(), TRAIN_Y, &npy(element, "False", "(3,)", &bytes.repeat(3)));
        let expected = match element {
            "|u1" => 255,
            "|i1" => 127,
            "<u2" => 65_535,
            "<i2" => 32_767,
            _ => 1_048_575,
        };
        let arrays = loaded(folder.path()).unwrap();
        assert_eq!((arrays.test.labels, arrays.profile.classes), (vec![expected], expected + 1), "{element}");
    }
    let folder = folder();
    let bytes: Vec<u8> = [0.1_f64, -1e-300].into_iter().flat_map(f64::to_le_bytes).collect();
    put(folder.path(), TEST_X, &npy("<f8", "False", "(1, 2)", &bytes));
    assert_eq!(loaded(folder.path()).unwrap().test.features, Features::Floats(vec![0.1, -0.0]));
}

#[test]
fn files_that_are_no_such_arrays_are_refused() {
    for (name, bytes, expected) in [
        (
            TRAIN_X,
            b"\x89PNG\r\n\x1a\n and so on".to_vec(),
            "is no NPY file: these begin with the bytes 93 4E 55 4D 50 59 at offset 0; write the file again",
        ),
        (TRAIN_X, Vec::new(), "is no NPY file"),
        (
            TRAIN_X,
            npy(">f4", "False", "(3, 2)", &[0; 24]),
            "has elements of type `>f4`; features are `<f4`, `<f8` or `|u1`; convert it: `x.astype(np.float32)`",
        ),
        (TRAIN_X, npy("<i8", "False", "(3, 2)", &[0; 48]), "has elements of type `<i8`; features are"),
        (TRAIN_X, npy("|O", "False", "(3, 2)", &[0; 48]), "has elements of type `|O`"),
        (
            TRAIN_Y,
            f4("(3,)", &[0.0, 1.0, 2.0]),
            "has elements of type `<f4`; labels are integers: `|u1`, `|i1`, `<u2`, `<i2`, `<u4`, `<i4`, `<u8` or \
             `<i8`; convert it: `y.astype(np.int64)`",
        ),
        (
            TRAIN_X,
            npy("<f4", "True", "(3, 2)", &[0; 24]),
            "has its elements in Fortran's order; store it row by row: `np.ascontiguousarray(x)`",
        ),
    ] {
        let said = said(name, &bytes);
        assert!(said.starts_with(&format!("{name} {expected}")), "{expected}:\n{said}");
    }
}

#[test]
fn shapes_that_mean_nothing_or_lie_are_refused() {
    let dimensions = "features have (samples, values), or (samples, channels, rows, columns)";
    for (name, bytes, expected, cure) in [
        (TRAIN_X, f4("(3,)", &[0.0; 3]), format!("has shape (3,); {dimensions}"), "`x.reshape(-1, 1)`"),
        (
            TRAIN_X,
            f4("(3, 1, 2)", &[0.0; 6]),
            format!("has shape (3, 1, 2); {dimensions}"),
            "`x[:, None, :, :]`",
        ),
        (
            TRAIN_Y,
            u1("(3, 1)", &[0, 1, 2]),
            "has shape (3, 1); labels have (samples,)".into(),
            "`y.reshape(-1)`",
        ),
        (
            TRAIN_Y,
            u1("(3, 4)", &[0; 12]),
            "has shape (3, 4); labels have (samples,)".into(),
            "`y.argmax(axis=1)`, if each row has a one at its class",
        ),
        (TRAIN_X, f4("(0, 2)", &[]), "has shape (0, 2): nothing is in it".into(), "at least one value"),
        (
            TRAIN_X,
            f4("(3, 2)", &[0.0; 5]),
            "has 148 bytes where (3, 2) of `<f4` need 152, the 128 of the header included".into(),
            "`np.save(FILE, ARRAY)`, of a plain array",
        ),
        (
            TRAIN_X,
            f4("(3, 2)", &[0.0; 7]),
            "has 156 bytes where (3, 2) of `<f4` need 152".into(),
            "plain array",
        ),
        (
            TRAIN_X,
            f4("(4294967295, 9223372036854775807, 1, 9223372036854775807)", &[0.0; 6]),
            "has 152 bytes where (4294967295, 9223372036854775807, 1, 9223372036854775807) of `<f4` need more than any \
             file has".into(),
            "plain array",
        ),
        (
            TRAIN_X,
            f4("(4294967296, 2)", &[0.0; 6]),
            "has 4294967296 samples; at most 4294967295 can be numbered".into(),
            "fewer samples",
        ),
    ] {
        let said = said(name, &bytes);
        assert!(
            said.starts_with(&format!("{name} {expected}")) && said.ends_with(cure),
            "{expected}:\n{said}"
        );
    }
}

#[test]
fn values_that_nothing_can_be_learned_from_are_refused_with_their_place() {
    let doubles: Vec<u8> = [0.0, 1e39].into_iter().flat_map(f64::to_le_bytes).collect();
    let spoiled = [0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0];
    for (name, bytes, expected) in [
        (
            TRAIN_X,
            f4("(3, 2)", &spoiled),
            "has NaN at [1, 1], which is no finite 32-bit number; leave out such samples, or give them values: \
             `np.nan_to_num(x, posinf=0, neginf=0)`",
        ),
        (TEST_X, f4("(1, 2)", &[f32::NEG_INFINITY, 0.0]), "has -inf at [0, 0]"),
        (
            TEST_X,
            npy("<f8", "False", "(1, 2)", &doubles),
            "has 1e39 at [0, 1], which is no finite 32-bit number; scale the values",
        ),
        (
            TRAIN_Y,
            npy("|i1", "False", "(3,)", &[0, 1, 255]),
            "has label -1 at [2]; classes are numbered from 0 to at most 1048575; number the classes from 0: \
             `np.unique(y, return_inverse=True)[1]`",
        ),
        (TEST_Y, npy("<i8", "False", "(1,)", &[255; 8]), "has label -1 at [0]"),
        (TEST_Y, npy("<u8", "False", "(1,)", &[255; 8]), "has label 18446744073709551615 at [0]"),
        (TEST_Y, npy("<u4", "False", "(1,)", &1_048_576_u32.to_le_bytes()), "has label 1048576 at [0]"),
    ] {
        let said = said(name, &bytes);
        assert!(said.starts_with(&format!("{name} {expected}")), "{expected}:\n{said}");
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    for (name, bytes, expected) in [
        (
            TRAIN_Y,
            u1("(2,)", &[0, 1]),
            "has 2 labels, and train_x.npy has 3 samples: there must be one label for each; store the features and the labels of the same samples",
        ),
        (TEST_Y, u1("(2,)", &[0, 1]), "has 2 labels, and test_x.npy has 1 samples: there must"),
        (TEST_X, f4("(1, 3)", &[0.0; 3]), "has samples of shape (3,), but train_x.npy has samples of (2,)"),
        (
            TEST_X,
            f4("(1, 1, 1, 2)", &[0.0; 2]),
            "has samples of shape (1, 1, 2), but train_x.npy has samples of (2,)",
        ),
        (
            TEST_X,
            u1("(1, 2)", &[0; 2]),
            "has elements of type `|u1`, but train_x.npy has `<f4`: bytes are normalised, floats are taken as they are",
        ),
    ] {
        let said = said(name, &bytes);
        assert!(said.starts_with(&format!("{name} {expected}")), "{expected}:\n{said}");
    }
}

#[test]
fn a_class_of_the_test_samples_alone_is_refused() {
    let told = said(TEST_Y, &u1("(1,)", &[3]));
    assert!(
        told.contains("has the label 3, and the training labels end with 2: nothing could be learned of it"),
        "{told}"
    );
}

#[test]
fn one_class_is_none() {
    let folder = folder();
    put(folder.path(), TRAIN_Y, &u1("(3,)", &[0; 3]));
    put(folder.path(), TEST_Y, &u1("(1,)", &[0]));
    assert!(matches!(loaded(folder.path()).unwrap_err().fault, ArrayFault::OneClass));
    let [error] = &describe(folder.path()).unwrap_err()[..] else { panic!("one error") };
    assert!(matches!(error.fault, ArrayFault::OneClass));
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let folder = folder();
    let names = |folder: &Path| -> Vec<PathBuf> {
        let errors = describe(folder).unwrap_err().into_iter();
        errors.map(|error| error.file.strip_prefix(folder).unwrap().to_owned()).collect()
    };
    put(folder.path(), TRAIN_Y, &npy("|i1", "False", "(3,)", &[0, 1, 255]));
    put(folder.path(), TEST_Y, &npy("|i1", "False", "(1,)", &[254]));
    assert_eq!(names(folder.path()), [Path::new(TRAIN_Y), Path::new(TEST_Y)]);
    put(folder.path(), TRAIN_X, b"text");
    fs::remove_file(folder.path().join(TEST_X)).unwrap();
    assert_eq!(names(folder.path()), [Path::new(TRAIN_X), Path::new(TEST_X)]);
    let errors = describe(&folder.path().join("nowhere")).unwrap_err();
    assert_eq!(errors.len(), 4);
    assert!(errors.iter().all(|error| matches!(error.fault, ArrayFault::Missing)));
    fs::create_dir(folder.path().join(TEST_X)).unwrap();
    let errors = describe(folder.path()).unwrap_err();
    assert!(matches!(errors[1].fault, ArrayFault::NoFile), "{errors:?}");
}

#[test]
fn pieces_of_a_large_array_join() {
    let folder = folder();
    let values: Vec<f32> = (0..60_002).map(|place| place as f32).collect();
    put(folder.path(), TRAIN_X, &f4("(30001, 2)", &values));
    put(folder.path(), TRAIN_Y, &u1("(30001,)", &vec![1; 30_001]));
    assert_eq!(loaded(folder.path()).unwrap().train.features, Features::Floats(values));
}

#[test]
fn the_names_are_those_that_other_machines_are_sent() {
    let files = recipe::DatasetFiles::ARRAYS;
    assert_eq!(files.required, [TRAIN_X, TRAIN_Y, TEST_X, TEST_Y]);
    assert_eq!((files.some, files.endings), (&[][..], &[""][..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One file is changed or cut: both readers end, and differ only where a feature decides.
    #[test]
    fn no_file_panics(
        which in 0_usize..4,
        place in 0_usize..200,
        with in prop::collection::vec(any::<u8>(), 0..40),
        rest in prop::bool::ANY,
    ) {
        let folder = folder();
        let path = folder.path().join([TRAIN_X, TRAIN_Y, TEST_X, TEST_Y][which]);
        let mut bytes = fs::read(&path).unwrap();
        let place = place.min(bytes.len());
        let end = if rest { (place + with.len()).min(bytes.len()) } else { bytes.len() };
        bytes.splice(place..end, with);
        fs::write(&path, bytes).unwrap();
        match (describe(folder.path()), loaded(folder.path())) {
            (Ok(profile), Ok(arrays)) => prop_assert_eq!(profile, arrays.profile),
            (Ok(_), Err(error)) => prop_assert!(matches!(error.fault, ArrayFault::NotFinite { .. }), "{error}"),
            (Err(errors), Ok(_)) => prop_assert!(false, "{errors:?}"),
            (Err(_), Err(_)) => {}
        }
    }
}
