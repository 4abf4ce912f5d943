//! The real `bakeoff` in a folder of its own: started, listened to, interrupted, and the workers that it has.

use crate::binary;
use anyhow::{Context, Result, bail, ensure};
use record::{Event, Rank};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::EventLog;

/// Name that the system has for the process of a fork server.
const SERVER: &str = "bakeoff-forks";
/// No command that a test waits for takes longer than this.
const PATIENCE: Duration = Duration::from_mins(4);
/// Between two looks at a driver whose end is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks at what cannot be waited for.
const GLANCE: Duration = Duration::from_millis(10);

/// A folder to work in, as a user has one; the store is in it.
#[derive(Debug)]
pub struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    /// An empty temporary folder, which is removed when this is dropped.
    pub fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    /// A path in it.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.at(name), text)?)
    }

    /// `bakeoff` with these arguments, in this folder, free of what the tester's own environment says to it.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Command> {
        let mut command = Command::new(binary("bakeoff")?);
        command.args(arguments).current_dir(self.folder.path());
        for name in ["BAKEOFF_STORE", "BAKEOFF_DATA", "BAKEOFF_WORKER", "BAKEOFF_LOG", "BAKEOFF_SSH"] {
            command.env_remove(name);
        }
        // Wide enough for every sentence to stay on one line.
        command.env("NO_COLOR", "1").env("COLUMNS", "1000");
        Ok(command)
    }

    /// Starts `bakeoff` with these arguments.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<DriverProcess> {
        DriverProcess::start(self.command(arguments)?)
    }

    /// Runs `bakeoff` with these arguments to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Ended> {
        self.start(arguments)?.end(PATIENCE)
    }

    /// Standard output of `bakeoff` with these arguments, which must end with exit code 0.
    pub fn said<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        Ok(self.run(arguments)?.with_code(0)?.stdout)
    }

    /// The same, parsed as JSON.
    pub fn json<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.said(arguments)?)?)
    }

    /// The folders of all first attempts.
    pub fn attempts(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let runs = fs::read_dir(self.at(".bakeoff/runs")).into_iter().flatten();
        runs.filter_map(|run| Some(run.ok()?.path().join("1")))
    }

    /// The last digest of each rank's weights in the newest sweep, by arm and repeat.
    pub fn weights(&self) -> Result<BTreeMap<(String, u64), BTreeMap<Rank, String>>> {
        let mut all = BTreeMap::new();
        for line in self.json(["list", "last", "--format", "json"])?.as_array().context("a list")? {
            let shown = self.json(["show", line["id"].as_str().context("an id")?, "--format", "json"])?;
            let source =
                shown["reused_from"].as_str().or(line["id"].as_str()).context("a source")?.to_owned();
            let last =
                shown["attempts"].as_array().and_then(|attempts| attempts.last()).context("an attempt")?;
            let folder = self.at(".bakeoff/runs").join(source).join(last["number"].to_string());
            let hash = |event| match event {
                Event::WeightHash(hash) => Some((hash.rank, hash.sha256)),
                _ => None,
            };
            let hashes = EventLog::read(&folder)?.into_iter().filter_map(hash).collect();
            let repeat = line["repeat"].as_u64().context("a repeat")?;
            all.insert((line["arm"].as_str().context("an arm")?.to_owned(), repeat), hashes);
        }
        Ok(all)
    }

    /// Events that all first attempts have reported so far.
    pub fn events(&self) -> Vec<Event> {
        self.attempts().filter_map(|attempt| EventLog::read(&attempt).ok()).flatten().collect()
    }
}

/// Exit code and output of a `bakeoff` that ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// The lines of its standard error.
    pub stderr: String,
}

impl Ended {
    /// Returns itself if this is the exit code; else the error has the output.
    pub fn with_code(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == Some(code),
            "exit code {:?}, not {code}:\n{}\n{}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }

    /// The page that it made.
    pub fn page(&self) -> Result<PathBuf> {
        let line = self.stdout.lines().find_map(|line| line.strip_prefix("report: "));
        Ok(PathBuf::from(line.with_context(|| format!("no report was made:\n{}", self.stdout))?))
    }
}

/// A `bakeoff` that runs. Dropping it kills it.
#[derive(Debug)]
pub struct DriverProcess {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    printed: Option<JoinHandle<String>>,
}

impl DriverProcess {
    /// Starts this command and begins to read its output.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdout = child.stdout.take().context("its standard output is a pipe")?;
        let stderr = child.stderr.take().context("its standard error is a pipe")?;
        let printed = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // If the pipe breaks, the bytes that were read before are the output.
            let _ = stdout.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let said = BufReader::new(stderr).lines().map_while(Result::ok);
            said.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        Ok(Self { child, lines, heard: Vec::new(), printed: Some(printed) })
    }

    /// Process number of the driver.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says a line in which something is found.
    pub fn hear<T>(&mut self, within: Duration, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(reason) => bail!("it did not say so ({reason}):\n{}", self.heard.join("\n")),
            };
            let found = find(&line);
            self.heard.push(line);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Waits for the start of this rank's process; the driver must have been started with `-v`.
    pub fn worker(&mut self, rank: u32) -> Result<WorkerProcess> {
        let lead = format!("rank {rank} is process ");
        // Bringing the program to a host takes long while other tests do the same.
        let pid = self.hear(Duration::from_mins(2), |line| line.trim().strip_prefix(&lead)?.parse().ok())?;
        WorkerProcess::of(pid)
    }

    /// The `ssh` among its children that carries its connection with a host.
    pub fn session(&self, host: &str) -> Result<WorkerProcess> {
        let is_it = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let named = command.split(|byte| *byte == 0).any(|word| word == host.as_bytes());
            named && Stat::of(*pid).is_some_and(|stat| stat.parent == self.pid() && stat.name == "ssh")
        };
        let processes =
            fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let found: Vec<u32> = processes.filter(is_it).collect();
        let [pid] = found[..] else { bail!("the sessions with {host} are {found:?}") };
        WorkerProcess::of(pid)
    }

    /// Its workers, whatever they are for: its children of that name, and those of its fork servers.
    pub fn workers(&self) -> Result<Vec<WorkerProcess>> {
        let servers = self.fork_servers()?;
        let parents: Vec<u32> = servers.iter().map(|server| server.pid).chain([self.pid()]).collect();
        children(&parents, "bakeoff-worker")
    }

    /// The processes that fork its workers.
    pub fn fork_servers(&self) -> Result<Vec<WorkerProcess>> {
        children(&[self.pid()], SERVER)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        send(self.pid(), signal)
    }

    /// Waits for its end; kills it if it does not come.
    pub fn end(self, within: Duration) -> Result<Ended> {
        self.end_watched(within, |_| ())
    }

    /// Like [`DriverProcess::end`], and calls `look` now and then.
    pub fn end_watched(mut self, within: Duration, mut look: impl FnMut(&Self)) -> Result<Ended> {
        let deadline = Instant::now() + within;
        loop {
            look(&self);
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    bail!("it has not ended within {within:?}:\n{}", self.heard.join("\n"))
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // Nothing more can be said, so its end is a matter of moments.
        let code = self.child.wait()?.code();
        let printed = self.printed.take().map(JoinHandle::join);
        let stdout = printed.and_then(Result::ok).context("what it printed was not read")?;
        Ok(Ended { code, stdout, stderr: self.heard.join("\n") })
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A worker process, told apart from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProcess {
    /// Its process number, which a later process may get.
    pub pid: u32,
    born: u64,
}

impl WorkerProcess {
    fn of(pid: u32) -> Result<Self> {
        let stat = Stat::of(pid).with_context(|| format!("there is no process {pid}"))?;
        Ok(Self { pid, born: stat.born })
    }

    /// Whether it is there.
    pub fn lives(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.born == self.born)
    }

    /// The nearest of the processes above it whose name begins like this.
    pub fn ancestor(&self, name: &str) -> Result<Self> {
        let mut above = self.parent()?;
        while !Stat::of(above.pid).is_some_and(|stat| stat.name.starts_with(name)) {
            above = above.parent()?;
        }
        Ok(above)
    }

    /// The driver or agent that it belongs to: the process that started it, or that started its fork server.
    pub fn starter(&self) -> Result<Self> {
        let parent = self.parent()?;
        let is_server = Stat::of(parent.pid).is_some_and(|stat| stat.name == SERVER);
        if is_server { parent.parent() } else { Ok(parent) }
    }

    /// The process that started it.
    pub fn parent(&self) -> Result<Self> {
        let stat = Stat::of(self.pid).with_context(|| format!("worker {} is gone", self.pid))?;
        Self::of(stat.parent)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.lives(), "worker {} is gone", self.pid);
        send(self.pid, signal)
    }
}

/// The processes of a name that one of these started.
fn children(parents: &[u32], name: &str) -> Result<Vec<WorkerProcess>> {
    let processes = fs::read_dir("/proc")?.filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = Stat::of(pid)?;
        (parents.contains(&stat.parent) && stat.name == name)
            .then_some(WorkerProcess { pid, born: stat.born })
    });
    Ok(processes.collect())
}

/// Waits until none of them is there.
pub fn gone(workers: &[WorkerProcess], within: Duration) -> Result<()> {
    wait_until(within, || Ok(!workers.iter().any(WorkerProcess::lives)))
        .with_context(|| format!("of {workers:?}"))
}

/// Waits for something that is not reported.
pub fn wait_until(within: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + within;
    while !holds()? {
        ensure!(Instant::now() < deadline, "it has not come about within {within:?}");
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid.cast_signed()).context("a process number is not zero")?;
    Ok(kill_process(pid, signal)?)
}

/// Fields of `/proc/PID/stat` of a process that exists and is no zombie.
struct Stat {
    name: String,
    parent: u32,
    born: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything, a parenthesis included.
        let (head, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let [state, parent, ..] = fields.as_slice() else { return None };
        if matches!(*state, "Z" | "X") {
            return None;
        }
        let name = head.split_once('(')?.1.to_owned();
        Some(Self { name, parent: parent.parse().ok()?, born: fields.get(19)?.parse().ok()? })
    }
}
