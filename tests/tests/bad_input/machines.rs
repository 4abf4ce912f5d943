//! Machines that lack something, and programs that are not what they should be.

use crate::row::{RUN, Row, hold, recipe};
use e2e::{Desk, Sketch};
use std::fs;
use std::os::unix::fs::PermissionsExt;

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

/// A worker program that is a script, and a recipe that was not run yet.
fn worker(desk: &Desk, script: &str) {
    recipe(desk, "lr = 0.05", "lr = 0.07");
    let path = desk.at("worker");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn fitting(then: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let protocol = launch::PROTOCOL;
    let wire = launch::wire_format();
    format!(
        "if [ \"$1\" = --protocol ]; then echo bakeoff-worker {version} protocol {protocol} format {wire:016x}; exit; fi\n{then}"
    )
}

/// The environment is the first part of the command line, as `NAME=value`.
pub(crate) const MACHINES: &[Row] = &[
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
        |desk| worker(desk, &fitting("").replace(" format ", " format f")),
        &["BAKEOFF_WORKER=worker", "run", "recipe.toml"],
        4,
        &["speaks wire format f", "from one state"],
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
        &["directory of sockets", "/proc/bakeoff-", "XDG_RUNTIME_DIR"],
    ),
];

#[test]
fn broken_machines() {
    hold(MACHINES);
}
