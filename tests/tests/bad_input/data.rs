//! Data files that are not what the recipe says.

use crate::row::{RUN, Row, hold, recipe};
use e2e::Desk;
use std::fs;
use std::path::Path;

/// A folder with a small MNIST, one file of which is another one.
fn mnist(desk: &Desk, name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    fs::create_dir(desk.at("mnist")).unwrap();
    for (prefix, count) in [("train", 200_u32), ("t10k", 100)] {
        let images = [2051, count, 28, 28]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .chain((0..count * 784).map(|at| at as u8));
        let labels =
            [2049, count].into_iter().flat_map(u32::to_be_bytes).chain((0..count).map(|at| (at % 10) as u8));
        fs::write(desk.at(format!("mnist/{prefix}-images-idx3-ubyte")), images.collect::<Vec<u8>>()).unwrap();
        fs::write(desk.at(format!("mnist/{prefix}-labels-idx1-ubyte")), labels.collect::<Vec<u8>>()).unwrap();
    }
    let path = desk.at("mnist").join(name);
    fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
    recipe(desk, "kind = \"synthetic\"\ntrain = 200\ntest = 100", "kind = \"mnist\"\npath = \"mnist\"");
}

/// The arrays of the example, one of which is missing or another file.
fn own(desk: &Desk, name: &str, instead: Option<&[u8]>) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/own-data");
    fs::create_dir(desk.at("mine")).unwrap();
    for file in ["train_x.npy", "train_y.npy", "test_x.npy", "test_y.npy"] {
        fs::copy(example.join(file), desk.at("mine").join(file)).unwrap();
    }
    let path = desk.at("mine").join(name);
    match instead {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
    recipe(desk, "kind = \"synthetic\"\ntrain = 200\ntest = 100", "kind = \"npy\"\npath = \"mine\"");
}

const IMAGES: &str = "train-images-idx3-ubyte";
const LABELS: &str = "train-labels-idx1-ubyte";

pub(crate) const DATA: &[Row] = &[
    (
        "no folder",
        |desk| {
            mnist(desk, IMAGES, |all| all);
            fs::remove_dir_all(desk.at("mnist")).unwrap();
        },
        RUN,
        4,
        &["mnist has neither train-images-idx3-ubyte nor", "cure: bakeoff data fetch mnist --folder"],
    ),
    (
        "a folder for a file",
        |desk| {
            mnist(desk, IMAGES, |all| all);
            fs::remove_file(desk.at("mnist").join(IMAGES)).unwrap();
            fs::create_dir(desk.at("mnist").join(IMAGES)).unwrap();
        },
        RUN,
        4,
        &["has neither train-images-idx3-ubyte nor"],
    ),
    (
        "a file cut off",
        |desk| mnist(desk, IMAGES, |all| all[..999].to_vec()),
        RUN,
        5,
        &["train-images-idx3-ubyte has 999 bytes where 156816 were expected", "fetch it again"],
    ),
    (
        "an empty file",
        |desk| mnist(desk, LABELS, |_| Vec::new()),
        RUN,
        5,
        &["train-labels-idx1-ubyte has 0 bytes where", "fetch it again"],
    ),
    (
        "another kind of file",
        |desk| mnist(desk, IMAGES, |all| [b"PNG!".to_vec(), all[4..].to_vec()].concat()),
        RUN,
        5,
        &["train-images-idx3-ubyte begins with ", "begin with 2051", "right name"],
    ),
    (
        "files that were swapped",
        |desk| {
            mnist(desk, IMAGES, |all| all);
            fs::copy(desk.at("mnist").join(LABELS), desk.at("mnist").join(IMAGES)).unwrap();
        },
        RUN,
        5,
        &["begins with 2049 at offset 0 where ", "right name"],
    ),
    (
        "a size of nothing",
        |desk| mnist(desk, IMAGES, |all| [all[..8].to_vec(), vec![0; 8]].concat()),
        RUN,
        5,
        &["0 x 0, which have no pixels"],
    ),
    (
        "labels of another set",
        |desk| {
            mnist(desk, LABELS, |_| {
                [2049, 100].into_iter().flat_map(u32::to_be_bytes).chain([1; 100]).collect()
            });
        },
        RUN,
        5,
        &["has 200 images, but ", " has 100 labels"],
    ),
    (
        "a label without a class",
        |desk| {
            mnist(desk, LABELS, |mut all| {
                all[8] = 99;
                all
            });
        },
        RUN,
        5,
        &["has label 99 at offset 8"],
    ),
    (
        "arrays that are missing",
        |desk| own(desk, "train_y.npy", None),
        RUN,
        2,
        &["error[R023]: ", "mine/train_y.npy is missing", "cure: write train_x.npy, train_y.npy"],
    ),
    (
        "an array cut off",
        |desk| own(desk, "test_x.npy", Some(b"\x93NUMPY\x01\x00\x76\x00{'descr'")),
        RUN,
        2,
        &[
            "error[R023]: ",
            "test_x.npy has a header that cannot be read: the rest of the header was expected",
        ],
    ),
    (
        "an array that is to be evaluated",
        |desk| own(desk, "test_x.npy", Some(b"\x93NUMPY\x01\x00\x18\x00__import__('os').abort()")),
        RUN,
        2,
        &["error[R023]: ", "test_x.npy has a header that cannot be read: `{` was expected at byte 10"],
    ),
    (
        "half a record",
        |desk| {
            fs::create_dir(desk.at("cifar")).unwrap();
            for name in ["data_batch_1.bin", "test_batch.bin"] {
                fs::write(desk.at("cifar").join(name), vec![1; 3073 * 100 + 5]).unwrap();
            }
            recipe(
                desk,
                "kind = \"synthetic\"\ntrain = 200\ntest = 100",
                "kind = \"cifar10\"\npath = \"cifar\"",
            );
        },
        RUN,
        5,
        &["data_batch_1.bin has 307305 bytes where ", "fetch it again"],
    ),
];

#[test]
fn broken_data() {
    hold(DATA);
}
