//! What users and machines get wrong: each case has an error that says where, what and what to do, and nothing is lost.
//!
//! A row is one thing that is broken. Before each, there is a store with one finished run; after it, the store is as it
//! was, or, where the store itself is what is broken, its file is, byte for byte.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Driver, Ended, Sketch, binary};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(3);

/// One row: what is broken, what is typed then, the exit code, and what must be read.
type Row = (&'static str, fn(&Desk), &'static [&'static str], i32, &'static [&'static str]);

/// The recipe with one piece in place of another.
fn recipe(desk: &Desk, from: &str, to: &str) {
    let whole = Sketch::default().to_string();
    assert!(whole.contains(from), "{from}");
    desk.write("recipe.toml", &whole.replacen(from, to, 1)).unwrap();
}

/// A model of 15 GB for each of twenty workers.
fn large(desk: &Desk) {
    let layers = "kind = \"sequential\"\nlayers = [{ kind = \"flatten\" }, { kind = \"linear\", outputs = 1000000 }, \
                  { kind = \"linear\", outputs = 3000 }, { kind = \"linear\", outputs = 10 }]";
    let text = Sketch::default()
        .to_string()
        .replacen("kind = \"softmax\"", layers, 1)
        .replacen("local*2", "local*20", 1);
    desk.write("recipe.toml", &text).unwrap();
}

/// A worker program that is a script, and a recipe that nobody has run yet.
fn worker(desk: &Desk, script: &str) {
    recipe(desk, "lr = 0.05", "lr = 0.07");
    let path = desk.at("worker");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn fitting(then: &str) -> String {
    let (version, protocol, build) = (env!("CARGO_PKG_VERSION"), launch::PROTOCOL, launch::BUILD);
    format!(
        "if [ \"$1\" = --protocol ]; then echo bakeoff-worker {version} protocol {protocol} build {build:016x}; exit; fi\n{then}"
    )
}

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

fn database(desk: &Desk) -> PathBuf {
    desk.at(".bakeoff/bakeoff.db")
}

const IMAGES: &str = "train-images-idx3-ubyte";
const LABELS: &str = "train-labels-idx1-ubyte";
const CHECK: &[&str] = &["check", "recipe.toml"];
const RUN: &[&str] = &["run", "recipe.toml"];

const RECIPES: &[Row] = &[
    (
        "no TOML",
        |desk| recipe(desk, "name = \"small\"", "name = "),
        CHECK,
        2,
        &["error[R001]", "recipe.toml:2:"],
    ),
    (
        "an unknown key",
        |desk| recipe(desk, "steps = 10", "stepps = 10"),
        CHECK,
        2,
        &["error[R012]", "recipe.toml:11:1", "did you mean `steps`"],
    ),
    (
        "a number in words",
        |desk| recipe(desk, "lr = 0.05", "lr = \"fast\""),
        CHECK,
        2,
        &["error[R011]", "recipe.toml:12:"],
    ),
    (
        "out of range",
        |desk| recipe(desk, "lr = 0.05", "lr = -1.0"),
        CHECK,
        2,
        &["error[R014]", "recipe.toml:12:"],
    ),
    (
        "not together",
        |desk| recipe(desk, "steps = 10", "steps = 10\nepochs = 1"),
        CHECK,
        2,
        &["error[R016]", "recipe.toml:1"],
    ),
    (
        "a quantity",
        |desk| recipe(desk, "\"10 steps\"", "\"ten steps\""),
        CHECK,
        2,
        &["error[R015]", "recipe.toml:13:"],
    ),
    (
        "more workers than samples",
        |desk| recipe(desk, "global-batch = 20", "global-batch = 1"),
        CHECK,
        2,
        &["error[R101]"],
    ),
    (
        "a format of the future",
        |desk| recipe(desk, "schema = 1", "schema = 9"),
        CHECK,
        2,
        &["error[R017]", "schema = 1"],
    ),
    (
        "a name of nothing",
        |desk| recipe(desk, "\"d-sync\"", "\"d-sink\""),
        CHECK,
        2,
        &["error[R013]", "did you mean `d-sync`"],
    ),
    (
        "too many workers",
        |desk| recipe(desk, "use = [\"local*2\"]", "use = [\"local*2\"]\nworkers = 9"),
        CHECK,
        2,
        &["error[R107]", "9 workers"],
    ),
    (
        "a machine that is not there",
        |desk| recipe(desk, "local*2", "gpu-1*2"),
        CHECK,
        2,
        &["error[R020]", "gpu-1"],
    ),
    (
        "bytes that are no text",
        |desk| fs::write(desk.at("recipe.toml"), [0xff, 0xfe, 0x00, 0x41]).unwrap(),
        CHECK,
        2,
        &["error[R002]", "recipe.toml", "not UTF-8"],
    ),
    ("an empty file", |desk| desk.write("recipe.toml", "").unwrap(), CHECK, 2, &["error[R010]", "schema"]),
    ("a folder", |_| (), &["check", "."], 2, &["error[R002]", "it is a folder"]),
    ("no file", |_| (), &["check", "nowhere.toml"], 2, &["error[R002]", "nowhere.toml", "no such file"]),
    (
        "a dangling link",
        |desk| symlink("nowhere", desk.at("link.toml")).unwrap(),
        &["run", "link.toml"],
        2,
        &["link.toml", "no such file"],
    ),
    ("a device without an end", |_| (), &["check", "/dev/zero"], 2, &["/dev/zero", "larger than 8.0 MiB"]),
    (
        "a giant",
        |desk| desk.write("recipe.toml", &"# more\n".repeat(2 << 20)).unwrap(),
        CHECK,
        2,
        &["larger than 8.0 MiB"],
    ),
    (
        "a well without a bottom",
        |desk| desk.write("recipe.toml", &format!("x = {}", "[".repeat(100_000))).unwrap(),
        CHECK,
        2,
        &["error[R001]", "recipe.toml:1:"],
    ),
    (
        "a circle",
        |desk| desk.write("recipe.toml", "extends = [\"recipe.toml\"]\nschema = 1\n").unwrap(),
        CHECK,
        2,
        &["error[R003]", "recipe.toml"],
    ),
];

const COMMAND_LINES: &[Row] = &[
    ("an unknown verb", |_| (), &["rum", "recipe.toml"], 2, &["'rum'", "'run'"]),
    ("an unknown option", |_| (), &["run", "recipe.toml", "--fast"], 2, &["--fast"]),
    (
        "an override of nothing",
        |_| (),
        &["plan", "recipe.toml", "--set", "train.stepps=3"],
        2,
        &["train.stepps=3", "did you mean `steps`"],
    ),
    ("an override without a value", |_| (), &["plan", "recipe.toml", "--set", "steps"], 2, &["error[R004]"]),
    ("a condition", |_| (), &["plan", "recipe.toml", "--only", "strategy.name =="], 2, &["error[R040]"]),
    ("a selection", |_| (), &["list", "colour=red"], 2, &["colour"]),
    ("a run that is not there", |_| (), &["show", "ZZZZZZZZ"], 3, &["no run ZZZZZZZZ"]),
    (
        "a place without room",
        |_| (),
        &["export", "last", "--format", "csv", "--what", "steps", "-o", "/dev/full"],
        1,
        &["the output cannot be written: /dev/full: No space left", "cure: write it to another place"],
    ),
    (
        "a page in a file",
        |desk| desk.write("file", "").unwrap(),
        &["run", "recipe.toml", "--fresh", "--report", "file/page.html"],
        4,
        &["file/page.html cannot be written", "cure: name another file"],
    ),
];

/// The environment is the first part of what is typed, as `NAME=value`.
const MACHINES: &[Row] = &[
    (
        "a log filter",
        |_| (),
        &["BAKEOFF_LOG=launch=loudly", "list"],
        2,
        &["BAKEOFF_LOG=launch=loudly", "cure: give parts and levels"],
    ),
    ("a store without a name", |_| (), &["BAKEOFF_STORE=", "list"], 2, &["BAKEOFF_STORE"]),
    (
        "no worker",
        |_| (),
        &["BAKEOFF_WORKER=/nowhere/worker", "run", "recipe.toml"],
        4,
        &["no `bakeoff-worker` at /nowhere/worker", "cargo build"],
    ),
    (
        "a worker that is a folder",
        |_| (),
        &["BAKEOFF_WORKER=.", "run", "recipe.toml"],
        4,
        &["no `bakeoff-worker` at .", "cargo build"],
    ),
    (
        "a worker that is no program",
        |desk| desk.write("worker", "").unwrap(),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["worker cannot be started", "Permission denied", "BAKEOFF_WORKER"],
    ),
    (
        "a worker of another version",
        |desk| worker(desk, "echo bakeoff-worker 0.0.7 protocol 99"),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["is version 0.0.7, protocol 99", "from one state"],
    ),
    (
        "a worker of another build",
        |desk| worker(desk, &fitting("").replace(" build ", " build f")),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["is of build f", "from one state"],
    ),
    (
        "a worker that dies at once",
        |desk| worker(desk, "kill -9 $$"),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["it said nothing (signal: 9", "from one state"],
    ),
    (
        "a worker that talks nonsense",
        |desk| worker(desk, "echo good morning"),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["does not say its protocol: good morning", "from one state"],
    ),
    (
        "no libtorch",
        |desk| {
            worker(
                desk,
                "echo 'error while loading shared libraries: libtorch_cpu.so: cannot open' >&2; exit 127",
            );
        },
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["libtorch_cpu.so", "`cargo xtask setup` brings the libraries"],
    ),
    (
        "a worker that dies in the run",
        |desk| worker(desk, &fitting("exit 3")),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        5,
        &["exited with code 3", "next: bakeoff logs"],
    ),
    (
        "too little memory",
        large,
        RUN,
        4,
        &[
            "of memory are available",
            "20 x ",
            " for a worker: 150 MiB to run, 6 x ",
            "cure: use fewer workers",
        ],
    ),
    (
        "nowhere to put sockets",
        |desk| recipe(desk, "lr = 0.05", "lr = 0.07"),
        &["XDG_RUNTIME_DIR=/proc", "run", "recipe.toml"],
        5,
        &["the channel to the workers", "/proc/bakeoff-", "XDG_RUNTIME_DIR"],
    ),
];

const DATA: &[Row] = &[
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

const STORES: &[Row] = &[
    (
        "a newer database",
        |desk| poke(desk, 60, &99_u32.to_be_bytes()),
        &["list"],
        7,
        &["bakeoff.db has schema version 99", "--store"],
    ),
    (
        "a damaged database",
        |desk| poke(desk, 100, &[0xff; 3000]),
        &["list"],
        7,
        &["bakeoff.db is damaged", "bakeoff db rebuild"],
    ),
    (
        "a database that is none",
        |desk| fs::write(database(desk), "dear diary").unwrap(),
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database", "--store"],
    ),
    (
        "another program's database",
        |desk| poke(desk, 68, &[1, 2, 3, 4]),
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database"],
    ),
    (
        "a database that is a folder",
        |desk| {
            fs::remove_file(database(desk)).unwrap();
            fs::create_dir(database(desk)).unwrap();
        },
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database"],
    ),
    (
        "a store that is a file",
        |desk| desk.write("file", "").unwrap(),
        &["run", "recipe.toml", "--store", "file"],
        7,
        &["cannot use file", "--store"],
    ),
    (
        "a store that leads nowhere",
        |desk| symlink("/proc/nowhere", desk.at("link")).unwrap(),
        &["run", "recipe.toml", "--store", "link"],
        7,
        &["cannot use link", "--store"],
    ),
    (
        "no store to look at",
        |_| (),
        &["list", "--store", "none"],
        7,
        &["no store in none", "run something first"],
    ),
    (
        "nothing to make a database from",
        |_| (),
        &["db", "rebuild", "--store", "none"],
        7,
        &["none/runs holds no journal"],
    ),
];

/// Overwrites bytes of the database.
fn poke(desk: &Desk, at: usize, bytes: &[u8]) {
    let mut all = fs::read(database(desk)).unwrap();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(database(desk), all).unwrap();
}

/// Types it, with the environment that it begins with.
fn typed(desk: &Desk, words: &[&str]) -> Ended {
    let settings = words.iter().take_while(|word| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
    });
    let settings: Vec<&&str> = settings.collect();
    let mut command = desk.command(&words[settings.len()..]).unwrap();
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        command.env(name, value);
    }
    command.env("RUST_BACKTRACE", "1");
    Driver::start(command).unwrap().end(PATIENCE).unwrap()
}

/// A desk with a store in which one run is finished.
struct Template(Desk);

impl Template {
    fn new() -> Self {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", &Sketch::default().to_string()).unwrap();
        desk.run(RUN).unwrap().with_code(0).unwrap();
        Self(desk)
    }

    fn copy(&self) -> Desk {
        let desk = Desk::new().unwrap();
        for name in [".bakeoff", "recipe.toml"] {
            copy(&self.0.at(name), &desk.at(name));
        }
        desk
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// The finished run as it is listed and exported.
fn kept(desk: &Desk) -> String {
    let list = desk.run(["list", "state=done", "--format", "json"]).unwrap().with_code(0).unwrap().stdout;
    let steps = desk.run(["export", "state=done", "--format", "csv", "--what", "steps"]).unwrap();
    list + &steps.with_code(0).unwrap().stdout
}

fn hold(rows: &[Row]) {
    let template = Template::new();
    let before = kept(&template.0);
    let mut faults = Vec::new();
    for (name, ruin, words, code, says) in rows {
        let desk = template.copy();
        ruin(&desk);
        let file = fs::read(database(&desk)).unwrap_or_default();
        let broken = file != fs::read(database(&template.0)).unwrap();
        let ended = typed(&desk, words);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        if ended.code != Some(*code) {
            faults.push(format!("{name}: exit code {:?}, not {code}:\n{said}", ended.code));
        }
        faults.extend(
            says.iter()
                .filter(|what| !said.contains(**what))
                .map(|what| format!("{name}: `{what}` is not in\n{said}")),
        );
        let rude = ["panicked", "RUST_BACKTRACE", "stack backtrace", "a fault of bakeoff itself"];
        faults.extend(
            rude.iter()
                .filter(|what| said.contains(**what))
                .map(|what| format!("{name}: `{what}` is in\n{said}")),
        );
        let lost = if broken {
            fs::read(database(&desk)).unwrap_or_default() != file
        } else {
            kept(&desk) != before
        };
        if lost {
            faults.push(format!("{name}: something was lost"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn there_are_cases_enough() {
    let tables = [RECIPES, COMMAND_LINES, MACHINES, DATA, STORES];
    let count: usize = tables.iter().map(|table| table.len()).sum();
    assert!(count >= 40 && binary("bakeoff-worker").is_ok(), "{count}");
}

#[test]
fn broken_recipes() {
    hold(RECIPES);
}

#[test]
fn broken_command_lines() {
    hold(COMMAND_LINES);
}

#[test]
fn broken_machines() {
    hold(MACHINES);
}

#[test]
fn broken_data() {
    hold(DATA);
}

#[test]
fn broken_stores() {
    hold(STORES);
}

/// Somebody keeps the store locked: whoever comes waits, then says for whom to wait.
#[test]
fn a_locked_store() {
    let template = Template::new();
    let before = kept(&template.0);
    let held = File::create(template.0.at(".bakeoff/bakeoff.lock")).unwrap();
    held.lock().unwrap();
    let ended = typed(&template.0, &["list"]).with_code(7).unwrap();
    assert!(
        ended.stderr.contains("bakeoff.lock locked for 10 s") && ended.stderr.contains("bakeoff status"),
        "{}",
        ended.stderr
    );
    drop(held);
    assert_eq!(kept(&template.0), before);
}
