//! `data`, and recipes whose data is not there.

use crate::kitchen::{HAPLESS, Kitchen, told};
use std::fs;
use std::path::Path;

#[test]
fn the_list_says_what_there_is_and_what_is_here() {
    let kitchen = Kitchen::new();
    fs::create_dir_all(kitchen.path("data/cifar-10")).unwrap();
    fs::write(kitchen.path("data/cifar-10/test_batch.bin.gz"), "").unwrap();
    insta::assert_snapshot!("data_list", kitchen.run(&["data", "list"]).code(0).out);
    let all = kitchen.run(&["data", "list", "-v"]).code(0).out;
    assert!(all.contains("cifar-10-binary.tar.gz, 170052171 bytes, SHA-256 c4a38c50a1bc5f3a"), "{all}");
    assert!(all.contains("from https://www.cs.toronto.edu/~kriz"), "{all}");
}

#[test]
fn wrong_names_suggest_the_right_ones() {
    let kitchen = Kitchen::new();
    let err = kitchen.run(&["data", "fetch", "imagenet"]).code(2).err;
    assert!(err.contains("mnist, fashion-mnist, cifar10, cifar100"), "{err}");
}

#[test]
fn a_users_own_arrays_are_described_and_not_fetched() {
    let kitchen = Kitchen::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-data");
    let told = kitchen.run(&["data", "describe", &folder.display().to_string()]).code(0).out;
    insta::assert_snapshot!("data_describe", told);
    // The same as safetensors, alone in a folder.
    std::fs::create_dir(kitchen.path("tensors")).unwrap();
    for name in ["train.safetensors", "test.safetensors"] {
        std::fs::copy(folder.join(name), kitchen.path("tensors").join(name)).unwrap();
    }
    assert_eq!(kitchen.run(&["data", "describe", "tensors"]).code(0).out, told);
    std::fs::remove_file(kitchen.path("tensors/test.safetensors")).unwrap();
    let err = kitchen.run(&["data", "describe", "tensors"]).code(4).err;
    assert!(
        err.contains("tensors/test.safetensors is missing") && err.contains("safetensors.numpy.save_file"),
        "{err}"
    );
    let err = kitchen.run(&["data", "fetch", "npy"]).code(2).err;
    assert!(err.contains("these are your own arrays: `bakeoff data describe FOLDER`"), "{err}");
    std::fs::create_dir(kitchen.path("arrays")).unwrap();
    std::fs::write(kitchen.path("arrays/test_x.npy"), "none").unwrap();
    let told = kitchen.run(&["data", "describe", "arrays"]).code(4);
    assert_eq!(told.err.matches("= cure: write train_x.npy").count(), 3, "{}", told.err);
    assert!(told.err.contains("arrays/test_y.npy is missing"), "{}", told.err);
}

#[test]
fn arrays_that_no_rank_would_train_on_are_found_before_a_run() {
    let kitchen = Kitchen::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-data");
    std::fs::create_dir(kitchen.path("arrays")).unwrap();
    for name in ["train_x.npy", "train_y.npy", "test_x.npy", "test_y.npy"] {
        std::fs::copy(folder.join(name), kitchen.path("arrays").join(name)).unwrap();
    }
    let features = kitchen.path("arrays/test_x.npy");
    let mut bytes = std::fs::read(&features).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&features, bytes).unwrap();
    let err = kitchen.run(&["data", "describe", "arrays"]).code(4).err;
    assert!(err.contains("arrays/test_x.npy has NaN at [") && err.contains("np.nan_to_num"), "{err}");
}

#[test]
fn images_with_their_channels_last_are_warned_of_and_classes_without_samples_counted() {
    let kitchen = Kitchen::new();
    let describe = |folder: &str, shape: &str, labels: [u8; 2]| {
        std::fs::create_dir(kitchen.path(folder)).unwrap();
        let array = |element: &str, shape: &str, bytes: &[u8]| {
            let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
            [b"\x93NUMPY\x01\x00\x76\x00", format!("{header:<117}\n").as_bytes(), bytes].concat()
        };
        for half in ["train", "test"] {
            let name = |what: &str| kitchen.path(&format!("{folder}/{half}_{what}.npy"));
            std::fs::write(name("x"), array("|u1", shape, &[0; 2 * 3 * 8 * 8])).unwrap();
            std::fs::write(name("y"), array("|u1", "(2,)", &labels)).unwrap();
        }
        kitchen.run(&["data", "describe", folder]).code(0)
    };
    let last = describe("last", "(2, 8, 8, 3)", [0, 1]).err;
    assert!(last.contains("a sample of [8, 8, 3] looks like an image with its channels last"), "{last}");
    assert!(last.contains("x.transpose(0, 3, 1, 2)"), "{last}");
    let first = describe("first", "(2, 3, 8, 8)", [0, 1]);
    assert!(first.err.is_empty() && !first.out.contains("of which"), "{first:?}");
    // A label that is none makes as many classes.
    let typo = describe("typo", "(2, 3, 8, 8)", [0, 200]).out;
    assert!(typo.contains("201, of which 2 have a training sample"), "{typo}");
}

#[test]
fn what_a_folder_of_pictures_leaves_out_is_counted() {
    let kitchen = Kitchen::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-pictures");
    let describe = || kitchen.run(&["data", "describe", "pictures"]).code(0).out;
    copy_folder(&folder, &kitchen.path("pictures"));
    assert!(!describe().contains("left out"));
    let class = std::fs::read_dir(kitchen.path("pictures/train")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(class.join("photograph.webp"), "").unwrap();
    std::fs::create_dir(class.join("more")).unwrap();
    std::fs::write(class.join(".hidden"), "").unwrap();
    let out = describe();
    assert!(out.contains("files and folders left out  2"), "{out}");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            std::fs::copy(entry.path(), copy).unwrap();
        }
    }
}

#[test]
fn what_is_no_data_set_of_a_users_own_is_told_once() {
    let kitchen = Kitchen::new();
    let describe = |name: &str| kitchen.run(&["data", "describe", name]).code(4).err;
    assert_eq!(describe("nowhere"), "error: there is no folder nowhere\n  = cure: mend the path\n");
    std::fs::create_dir(kitchen.path("empty")).unwrap();
    let err = describe("empty");
    assert!(err.contains("empty has none of the files by which data of your own are known"), "{err}");
    assert!(err.matches("error").count() == 1 && err.contains("`image-folder`"), "{err}");
    std::fs::write(kitchen.path("empty/t10k-labels-idx1-ubyte"), "").unwrap();
    assert!(describe("empty").contains("bakeoff data verify mnist --folder empty"));
    std::fs::write(kitchen.path("notes.txt"), "").unwrap();
    assert!(describe("notes.txt").contains("notes.txt is a file: data sets of your own are folders"));
}

#[test]
fn a_users_own_texts_are_described() {
    let kitchen = Kitchen::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-texts");
    let folder = folder.display().to_string();
    let told = kitchen.run(&["data", "describe", &folder, "--header", "true"]).code(0).out;
    insta::assert_snapshot!("data_describe_texts", told);
    let told =
        kitchen.run(&["data", "describe", &folder, "--header", "false", "--tokens", "bytes"]).code(0).out;
    assert!(told.contains("\"topic\"") && told.contains("601"), "{told}");
    let err = kitchen.run(&["data", "describe", &folder]).code(2).err;
    assert!(err.contains("= cure: say `--header true` if their first lines name the columns"), "{err}");
    let err = kitchen.run(&["data", "describe", "nowhere", "--header", "true"]).code(4).err;
    assert!(err.contains("nowhere/train.csv is missing") && err.contains("= cure: put train.csv"), "{err}");
    let err = kitchen.run(&["data", "fetch", "text"]).code(2).err;
    assert!(err.contains("these are your own texts: `bakeoff data describe FOLDER --header"), "{err}");
}

#[test]
fn a_source_without_the_files_is_4_and_tells_what_to_do() {
    let kitchen = Kitchen::new();
    fs::create_dir(kitchen.path("empty")).unwrap();
    let told = kitchen.run(&["data", "fetch", "cifar-100", "--from", "empty"]).code(4);
    assert!(told.err.contains("empty/cifar-100-binary.tar.gz: no such file"), "{}", told.err);
    assert!(told.err.contains("= cure: --from FOLDER needs the published files"), "{}", told.err);
    fs::write(kitchen.path("empty/cifar-100-binary.tar.gz"), "a page of the proxy").unwrap();
    let told = kitchen.run(&["data", "fetch", "cifar-100", "--from", "empty"]).code(4);
    assert!(told.err.contains("has 19 bytes where 168513733 bytes were expected"), "{}", told.err);
    assert!(kitchen.path("data/cifar-100").is_dir());
}

#[test]
fn what_is_missing_or_different_is_4_with_the_command_that_brings_it() {
    let kitchen = Kitchen::new();
    let told = kitchen.run(&["data", "verify", "mnist"]).code(4);
    assert_eq!(told.out.matches("missing").count(), 4, "{}", told.out);
    assert!(told.err.contains("= cure: bakeoff data fetch mnist"), "{}", told.err);
    fs::create_dir_all(kitchen.path("data/mnist")).unwrap();
    fs::write(kitchen.path("data/mnist/t10k-labels-idx1-ubyte"), [0; 10_008]).unwrap();
    let told = kitchen.run(&["data", "verify", "mnist"]).code(4);
    assert!(told.out.contains("different") && told.out.contains("SHA-256"), "{}", told.out);
}

#[test]
fn a_recipe_without_its_data_names_the_command_that_brings_it() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let run = |kind: &str, data: Option<&str>| {
        let mut command =
            kitchen.command(&["run", "small.toml", "--set", &format!("dataset={{kind='{kind}'}}")]);
        if let Some(folder) = data {
            command.env("BAKEOFF_DATA", folder);
        }
        told(&mut command).code(4).err
    };
    for kind in ["mnist", "fashion-mnist", "cifar10", "cifar100"] {
        let err = run(kind, None);
        assert!(err.contains(&format!("= cure: bakeoff data fetch {kind}, or name")), "{err}");
    }
    let err = run("cifar10", Some("/elsewhere"));
    assert!(err.contains("/elsewhere/cifar-10 has neither"), "{err}");
    let placed = ["run", "small.toml", "--set", "dataset={kind='mnist',path='mine'}"];
    let err = kitchen.run(&placed).code(4).err;
    assert!(err.contains("bakeoff data fetch mnist --folder ") && err.contains("/mine, or name"), "{err}");
}

/// With real files: those of `BAKEOFF_DATA`, as a user may have downloaded them by hand.
#[test]
fn real_digits_come_from_a_folder_and_a_recipe_finds_them() {
    let Some(real) = std::env::var_os("BAKEOFF_DATA") else {
        println!("not run: BAKEOFF_DATA names no folder with data sets");
        return;
    };
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let from = Path::new(&real).join("mnist");
    let told = kitchen.run(&["data", "fetch", "mnist", "--from", from.to_str().unwrap()]).code(0);
    assert!(told.err.contains("MNIST: 4 files came; verified in data/mnist"), "{}", told.err);
    assert_eq!(told.out, "data/mnist\n");
    let verified = kitchen.run(&["data", "verify", "mnist"]).code(0).out;
    assert_eq!(verified.matches("as published").count(), 4, "{verified}");
    let again = kitchen.run(&["data", "fetch", "mnist", "--from", "nowhere"]).code(0);
    assert!(again.err.contains("everything was there already"), "{}", again.err);
    // The worker fails, but only once it is started: its data is there.
    let err =
        kitchen.run(&["run", "small.toml", "--set", "dataset={kind='mnist'}", "--max-fail", "1"]).code(5).err;
    assert!(err.contains("no luck today"), "{err}");
}
