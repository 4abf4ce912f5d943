//! A place to run the program in: a folder of its own, no settings from outside, 80 columns.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder with recipes, and perhaps a worker program.
pub(crate) struct Kitchen {
    folder: TempDir,
    worker: PathBuf,
}

/// Output of the program, and its exit code.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A worker that states its version, logs a line for each start and fails.
pub(crate) const HAPLESS: &str =
    r#"echo '{"level":"ERROR","fields":{"message":"no luck today"}}' >&2; exit 3"#;

/// A worker that the system kills.
pub(crate) const KILLED: &str = "kill -9 $$";

/// A worker that never gets ready.
pub(crate) const IDLE: &str = "exec sleep 600";

impl Kitchen {
    /// The recipes of the tests, and no worker.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes");
        for entry in fs::read_dir(recipes).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
        Self { folder, worker: "/nowhere/bakeoff-worker".into() }
    }

    /// A worker program that fits this driver and then does what the line of shell says.
    pub(crate) fn with_worker(mut self, line: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let format = launch::wire_format();
        let greeting = format!("bakeoff-worker {version} protocol {} format {format:016x}", launch::PROTOCOL);
        let script =
            format!("#!/bin/sh\nif [ \"$1\" = --protocol ]; then echo {greeting}; exit; fi\n{line}\n");
        self.worker = self.path("bakeoff-worker");
        fs::write(&self.worker, script).unwrap();
        fs::set_permissions(&self.worker, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The program, ready to be started in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("bakeoff"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in [
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "BAKEOFF_STORE",
            "BAKEOFF_DATA",
            "BAKEOFF_LOG",
            "RUST_BACKTRACE",
        ] {
            command.env_remove(name);
        }
        command.env("COLUMNS", "80").env("TZ", "UTC").env("BAKEOFF_WORKER", &self.worker);
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Told {
        told(&mut self.command(arguments))
    }
}

/// Runs a command to its end.
pub(crate) fn told(command: &mut Command) -> Told {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

impl Told {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }

    /// Both streams, for a snapshot.
    pub(crate) fn both(&self) -> String {
        format!("{}--- stderr\n{}", self.out, self.err)
    }
}
