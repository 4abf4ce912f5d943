//! The worker binary: where it is, and whether it fits this driver.

use crate::digest::digest;
use crate::local::Loaded;
use crate::{ForkServers, Inventory, LaunchError};
use mesh::INTRODUCE;
use recipe::{RunSpec, hex};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const NAME: &str = "bakeoff-worker";
/// Generous: the first start after a boot reads hundreds of megabytes of libraries.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker binary that fits this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBinary {
    /// Path of the executable.
    pub path: PathBuf,
    /// Version of its package: `0.1.0`.
    pub version: String,
    /// SHA-256 of its bytes and of the build of libtorch that it found, in hexadecimal: both decide the bits of its sums.
    pub identity: String,
    /// Its strategies and codecs of other crates.
    pub inventory: Inventory,
    /// Whether it can be a fork server.
    pub forks: bool,
}

/// Finds the worker binary: `$BAKEOFF_WORKER`, else `bakeoff-worker` beside this program.
pub fn find_worker() -> Result<PathBuf, LaunchError> {
    let program = std::env::current_exe().map_err(|source| LaunchError::File {
        path: "/proc/self/exe".into(),
        what: "read",
        source,
    })?;
    find(std::env::var_os("BAKEOFF_WORKER"), &program)
}

fn find(named: Option<OsString>, program: &Path) -> Result<PathBuf, LaunchError> {
    let named = named.filter(|name| !name.is_empty()).map(PathBuf::from);
    let looked = named.unwrap_or_else(|| program.with_file_name(NAME));
    // Workers may be started from any folder, so a relative name is made absolute here.
    match looked.canonicalize() {
        Ok(path) if path.is_file() => Ok(path),
        _ => Err(LaunchError::NoWorker { looked }),
    }
}

/// Starts the binary to ask for its version, protocol, wire format and inventory, and digests it.
///
/// # Errors
/// It cannot be read or started, does not answer, or does not fit this driver.
pub fn examine(path: &Path) -> Result<WorkerBinary, LaunchError> {
    examined(path, introduction(path, &BTreeMap::new(), PATIENCE)?)
}

/// The same for a run, loading the binary only once if it can be a fork server: one of `forks` introduces it, and stays for the
/// processes of the run. With variables of an inventory, which must not change what a binary is, it is asked by itself.
///
/// # Errors
/// Fails as [`examine`] does.
pub fn examine_for(spec: &RunSpec, path: &Path, forks: &ForkServers) -> Result<WorkerBinary, LaunchError> {
    let loaded = Loaded::for_first_of(spec, path);
    if !loaded.environment.is_empty() {
        return examine(path);
    }
    examined(path, introduced(&loaded, forks)?)
}

fn examined(path: &Path, introduction: Introduction) -> Result<WorkerBinary, LaunchError> {
    let Introduction { version, libtorch, forks, inventory } = introduction;
    let identity = identity(path, &libtorch)?;
    Ok(WorkerBinary { path: path.into(), version, identity, inventory, forks })
}

/// The identity of a binary on this host that fits this driver, with these variables set.
pub(crate) fn identity_in(
    path: &Path,
    environment: &BTreeMap<String, String>,
) -> Result<String, LaunchError> {
    identity(path, &introduction(path, environment, PATIENCE)?.libtorch)
}

/// The same of one that is loaded as one of `forks`, if it can be.
pub(crate) fn identity_of(loaded: &Loaded, forks: &ForkServers) -> Result<String, LaunchError> {
    identity(&loaded.program, &introduced(loaded, forks)?.libtorch)
}

/// Introduction of a binary, printed by a fork of one that was loaded, else by the binary itself.
fn introduced(loaded: &Loaded, forks: &ForkServers) -> Result<Introduction, LaunchError> {
    let path = loaded.program.as_path();
    let by_a_fork = forks.introduction(loaded).map(|text| understood(path, &text, String::new));
    match by_a_fork {
        Some(Err(LaunchError::WorkerSilent { .. })) | None => {
            introduction(path, &loaded.environment, PATIENCE)
        }
        Some(introduction) => introduction,
    }
}

fn identity(path: &Path, libtorch: &str) -> Result<String, LaunchError> {
    let unread = |source| LaunchError::File { path: path.into(), what: "read", source };
    let sha256 = digest(path).map_err(unread)?;
    Ok(hex(&Sha256::digest(format!("{sha256} {libtorch}"))))
}

/// Facts that a binary which fits this driver prints of itself.
struct Introduction {
    version: String,
    /// SHA-256 of how libtorch says that it was built; empty where a worker does not say.
    libtorch: String,
    forks: bool,
    inventory: Inventory,
}

fn introduction(
    path: &Path,
    environment: &BTreeMap<String, String>,
    patience: Duration,
) -> Result<Introduction, LaunchError> {
    let answer = ask(path, &[OsStr::new(INTRODUCE)], environment, patience)?;
    understood(path, &answer.stdout, || instead(&answer))
}

/// Parses the introduction in `text`; the error quotes `instead` where `text` is none.
fn understood(
    path: &Path,
    text: &[u8],
    instead: impl FnOnce() -> String,
) -> Result<Introduction, LaunchError> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let [NAME, version, "protocol", protocol, ref rest @ ..] = words[..] else {
        return Err(LaunchError::WorkerSilent { path: path.into(), answer: instead() });
    };
    if version != env!("CARGO_PKG_VERSION") || protocol != mesh::PROTOCOL.to_string() {
        let version = version.into();
        let protocol = protocol.into();
        return Err(LaunchError::WorkerVersion { path: path.into(), version, protocol });
    }
    // A worker that was not built again with the driver has the same version; its messages may differ all the same.
    match rest {
        ["format", format, ..] if *format == format!("{:016x}", mesh::wire_format()) => {}
        ["format", format, ..] => {
            return Err(LaunchError::WorkerFormat { path: path.into(), format: (*format).into() });
        }
        _ => return Err(LaunchError::WorkerFormat { path: path.into(), format: "unknown".into() }),
    }
    let inventory = lines.next().map(Inventory::from_line).transpose().map_err(|error| {
        let answer = format!("what it has cannot be understood: {error}");
        LaunchError::WorkerSilent { path: path.into(), answer }
    })?;
    let libtorch = match rest {
        ["format", _, "libtorch", build, ..] => (*build).to_owned(),
        _ => String::new(),
    };
    let forks = rest.last() == Some(&"forks");
    Ok(Introduction { version: version.into(), libtorch, forks, inventory: inventory.unwrap_or_default() })
}

/// Starts the binary with `arguments`, and returns what it prints.
pub(crate) fn ask(
    path: &Path,
    arguments: &[&OsStr],
    environment: &BTreeMap<String, String>,
    patience: Duration,
) -> Result<Output, LaunchError> {
    let fault = |source| LaunchError::WorkerStart { path: path.into(), source };
    let mut command = Command::new(path);
    command.envs(environment);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.process_group(0).spawn().map_err(fault)?;
    let pid = Pid::from_child(&child);
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || answer.send(child.wait_with_output()));
    let Ok(output) = answered.recv_timeout(patience) else {
        // It is not reaped before it replies, so the process id is still its own.
        let _ = kill_process_group(pid, Signal::KILL);
        return Err(LaunchError::WorkerHangs { path: path.into(), waited: patience });
    };
    output.map_err(fault)
}

/// The binary's first output instead of its protocol, else how it exited.
fn instead(output: &Output) -> String {
    let said = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    let said = said.into_iter().find(|text| !text.is_empty());
    said.map_or_else(|| format!("it said nothing ({})", output.status), |text| shortened(&text))
}

/// Characters of a program's words that are repeated; libtorch's errors name the fault first, and then where it was seen.
const REPEATED: usize = 600;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{} ...", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn long_words_are_cut_and_the_cut_is_shown() {
        assert_eq!(shortened(&"é".repeat(REPEATED)), "é".repeat(REPEATED));
        assert_eq!(shortened(&"é".repeat(REPEATED + 1)), "é".repeat(REPEATED) + " ...");
    }

    /// A program made of a shell script; the directory must live as long.
    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, path)
    }

    /// The answer of a worker that fits.
    fn greeting() -> String {
        let version = env!("CARGO_PKG_VERSION");
        let format = mesh::wire_format();
        format!("{NAME} {version} protocol {} format {format:016x}", mesh::PROTOCOL)
    }

    fn refusal(text: &str) -> String {
        let (_directory, path) = script(text);
        let answer =
            introduction(&path, &BTreeMap::new(), Duration::from_secs(10)).err().unwrap().to_string();
        answer.replace(&path.display().to_string(), "W")
    }

    #[test]
    fn a_fitting_worker_is_described() {
        let has = r#"{"strategies":{"lazy-sgd":2},"codecs":["coarse"]}"#;
        let line = format!("echo '{}\n{has}'", greeting());
        let (_directory, path) = script(&line);
        let worker = examine(&path).unwrap();
        assert_eq!(worker.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(worker.inventory, Inventory::from_line(has).unwrap());
        assert_eq!(worker.inventory.strategies["lazy-sgd"], 2);
        let (_directory, path) =
            script(&line.replacen(&greeting(), &format!("{} libtorch 9f", greeting()), 1));
        let other = examine(&path).unwrap();
        assert_ne!(worker.identity, other.identity, "another libtorch gives other bits");
        assert!(!worker.forks && !other.forks);
        let (_directory, path) =
            script(&line.replacen(&greeting(), &format!("{} libtorch 9f forks", greeting()), 1));
        assert!(examine(&path).unwrap().forks);
    }

    #[test]
    fn a_worker_that_does_not_fit_is_refused_with_a_cure() {
        let told = refusal("echo bakeoff-worker 0.0.7 protocol 99");
        assert!(told.contains("W is version 0.0.7, protocol 99; this driver is version 0.1.0"), "{told}");
        let told = refusal("echo cannot open libtorch.so >&2; exit 127");
        assert!(told.contains("W does not say its protocol: cannot open libtorch.so"), "{told}");
        let told = refusal(&format!("echo '{}\nwhatever'", greeting()));
        assert!(told.contains("what it has cannot be understood"), "{told}");
        assert!(refusal("true").contains("it said nothing (exit status: 0)"));
        let (_directory, path) = script("exec sleep 60");
        let told = introduction(&path, &BTreeMap::new(), Duration::from_millis(100)).err().unwrap();
        assert!(matches!(told, LaunchError::WorkerHangs { .. }), "{told}");
        assert!(introduction(Path::new("/dev/null"), &BTreeMap::new(), PATIENCE).is_err());
    }

    #[test]
    fn a_worker_of_an_older_state_of_the_sources_is_refused() {
        let (before, format) =
            greeting().rsplit_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let cure = format!("this driver {format}; build driver and worker from one state: `cargo build");
        let told = refusal(&format!("echo {before} {:016x}", mesh::wire_format() ^ 1));
        let stale = format!("worker W speaks wire format {:016x}, ", mesh::wire_format() ^ 1);
        assert!(told.starts_with(&stale) && told.contains(&cure), "{told}");
        let told = refusal(&format!("echo {}", before.trim_end_matches(" format")));
        assert!(told.starts_with("worker W speaks wire format unknown, ") && told.contains(&cure), "{told}");
    }

    #[test]
    fn the_worker_is_beside_the_program_unless_it_is_named() {
        let (directory, path) = script("true");
        let whole = path.canonicalize().unwrap();
        let program = directory.path().join("bakeoff");
        assert_eq!(find(None, &program).unwrap(), whole);
        assert_eq!(find(Some("".into()), &program).unwrap(), whole);
        assert_eq!(find(Some(path.clone().into()), Path::new("/bin/sh")).unwrap(), whole);
        let told = find(Some("/nowhere/worker".into()), &program).unwrap_err().to_string();
        assert!(told.contains("/nowhere/worker") && told.contains("cargo build"), "{told}");
        assert!(find(Some(directory.path().into()), &program).is_err());
    }
}
