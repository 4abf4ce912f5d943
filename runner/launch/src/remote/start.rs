//! How an agent is started on a host: the user's own `ssh`, Slurm's `srun`, or directly on this machine; one session per
//! host, so that a person who has to confirm a login does it once.
//!
//! A short script looks for the agent's program in the host's cache, by its SHA-256, and receives it if it is not there. It
//! says so on its standard output; from the line `bakeoff: begin` on, the agent speaks.

use super::error::HostFault;
use recipe::{Access, Node};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;

/// The most that a shell may print before the script's first word.
const NOISE: usize = 64 << 10;
/// The part of what `ssh` says that a person is shown.
const SAID: usize = 2_000;
/// From the start to the agent's first word, without the upload.
const PATIENCE: Duration = Duration::from_mins(1);
/// For a mebibyte of the upload.
const PER_MEBIBYTE: Duration = Duration::from_secs(10);

/// The script that starts an agent. It has no quotes of the kind that it is wrapped in, no line breaks and no exclamation
/// marks, so that every login shell passes it on unchanged.
const SCRIPT: &str = r#"echo; umask 077; c="${BAKEOFF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bakeoff}"; a="$c/agents/SHA256"; m="$(uname -s) $(uname -m)"; test "$m" = "Linux x86_64" || { echo "bakeoff: machine $m"; exit 91; }; test -x "$a" || { mkdir -p "$c/agents" || exit 92; t="$a.$(uname -n).$$"; echo "bakeoff: send"; head -c SIZE > "$t" && test "$(sha256sum < "$t" | cut -c1-64)" = SHA256 && chmod 700 "$t" && mv -f "$t" "$a" || { rm -f "$t"; exit 92; }; }; echo "bakeoff: begin"; exec "$a" agent"#;

/// The program of agents: this one.
#[derive(Clone)]
pub(crate) struct AgentProgram {
    path: PathBuf,
    bytes: Arc<[u8]>,
    sha256: String,
}

impl AgentProgram {
    /// This process's own program.
    pub(super) fn this() -> std::io::Result<Self> {
        // The file may have been replaced since; the kernel still has the one that runs.
        let bytes: Arc<[u8]> = std::fs::read("/proc/self/exe")?.into();
        let sha256 = recipe::hex(&Sha256::digest(&bytes));
        Ok(Self { path: std::env::current_exe()?, bytes, sha256 })
    }

    fn script(&self) -> String {
        SCRIPT.replace("SHA256", &self.sha256).replace("SIZE", &self.bytes.len().to_string())
    }
}

/// How far an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Name of the node that receives the file.
    pub host: String,
    /// The file that is uploaded.
    pub file: String,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// A started agent, before its first message.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) input: ChildStdin,
    pub(super) output: BufReader<ChildStdout>,
    pub(super) errors: Said,
}

/// Starts an agent on a node.
pub(super) async fn start(
    node: &Node,
    program: &AgentProgram,
    uploads: &UnboundedSender<Upload>,
) -> Result<Started, HostFault> {
    let (command, direct) = command(node, program);
    let (path, mut command) = command;
    // Not in the terminal's process group: Ctrl-C is for the driver to hear.
    command.process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let no_program =
        |error: std::io::Error| HostFault::NoProgram { program: path, reason: error.to_string() };
    let mut child = command.spawn().map_err(no_program)?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(HostFault::NoAgent { said: "no pipes".into() });
    };
    let errors = Said::listen(errors);
    let mut started = Started { child, input, output: BufReader::with_capacity(1 << 18, output), errors };
    if !direct {
        started.bring(node, program, uploads).await?;
    }
    Ok(started)
}

/// The command that reaches a node, and whether it is the agent itself.
fn command(node: &Node, program: &AgentProgram) -> ((PathBuf, Command), bool) {
    let script = program.script();
    let made = |path: PathBuf, words: Vec<OsString>| {
        let mut command = Command::new(&path);
        command.args(words);
        (path, command)
    };
    match &node.access {
        Access::Local => {
            let (path, mut command) = made(program.path.clone(), vec!["agent".into()]);
            // It says how the user reached this machine, not how others do.
            command.env_remove("SSH_CONNECTION");
            ((path, command), true)
        }
        Access::Ssh { login, port } => {
            let ssh = std::env::var_os("BAKEOFF_SSH").filter(|name| !name.is_empty());
            let path = ssh.map_or_else(|| PathBuf::from("ssh"), PathBuf::from);
            (made(path, ssh_words(login, *port, &script)), false)
        }
        Access::Slurm { host } => {
            let (path, mut command) = made("srun".into(), srun_words(host, &script));
            // The same: `srun` would hand it on.
            command.env_remove("SSH_CONNECTION");
            ((path, command), false)
        }
    }
}

fn ssh_words(login: &str, port: Option<u16>, script: &str) -> Vec<OsString> {
    // It must not ask, because no answer would come. With this a host key that is not known is refused.
    let options = ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=5", "ServerAliveCountMax=3"];
    let mut words: Vec<OsString> = vec!["-T".into()];
    for option in options {
        words.extend(["-o".into(), option.into()]);
    }
    if let Some(port) = port {
        words.extend(["-p".into(), port.to_string().into()]);
    }
    words.extend(["--".into(), login.into(), format!("exec sh -c '{script}'").into()]);
    words
}

fn srun_words(host: &str, script: &str) -> Vec<OsString> {
    // Beside the other steps of the allocation, with all of the host's processors.
    let words =
        ["--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", "--mem=0", "--unbuffered", "--quiet"];
    let mut words: Vec<OsString> = words.map(OsString::from).into();
    words.extend([format!("--nodelist={host}").into(), "sh".into(), "-c".into(), script.into()]);
    words
}

impl Started {
    /// Speaks with the script until the agent begins.
    async fn bring(
        &mut self,
        node: &Node,
        program: &AgentProgram,
        uploads: &UnboundedSender<Upload>,
    ) -> Result<(), HostFault> {
        let mut uploading = false;
        loop {
            let word = match tokio::time::timeout(PATIENCE, self.word()).await {
                Ok(Some(word)) => word,
                Ok(None) => return Err(self.unbegun(uploading).await),
                Err(_) => return Err(HostFault::Silent { waited: PATIENCE }),
            };
            match word.split_once(' ').unwrap_or((&word, "")) {
                ("begin", _) => return Ok(()),
                ("machine", machine) => return Err(HostFault::OtherMachine { machine: machine.into() }),
                ("send", _) if !uploading => {
                    uploading = true;
                    self.upload(node, program, uploads).await?;
                }
                _ => {}
            }
        }
    }

    async fn upload(
        &mut self,
        node: &Node,
        program: &AgentProgram,
        uploads: &UnboundedSender<Upload>,
    ) -> Result<(), HostFault> {
        let size = program.bytes.len() as u64;
        let mut sent = 0;
        for piece in program.bytes.chunks(1 << 20) {
            match tokio::time::timeout(PER_MEBIBYTE, self.input.write_all(piece)).await {
                Ok(Ok(())) => {}
                // The script has ended: what it said is the reason.
                Ok(Err(_)) => return Ok(()),
                Err(_) => return Err(HostFault::Silent { waited: PER_MEBIBYTE }),
            }
            sent += piece.len() as u64;
            let file = "bakeoff".to_owned();
            // Fails if no progress is shown.
            let _ = uploads.send(Upload { host: node.name.clone(), file, sent, size });
        }
        Ok(())
    }

    /// The next word of the script; what a shell prints beside it is passed over. `None` at the end.
    async fn word(&mut self) -> Option<String> {
        let mut noise = 0;
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.output).take((NOISE - noise) as u64);
            let read = limited.read_until(b'\n', &mut line).await.ok()?;
            noise += read;
            if read == 0 || noise >= NOISE {
                return None;
            }
            if let Some(word) = String::from_utf8_lossy(&line).trim_end().strip_prefix("bakeoff: ") {
                return Some(word.to_owned());
            }
        }
    }

    /// Why no agent began.
    async fn unbegun(&mut self, uploading: bool) -> HostFault {
        let ended = tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await;
        let code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
        let said = self.errors.last().await;
        let said = if said.is_empty() {
            code.map_or("it said nothing".into(), |code| format!("exit code {code}"))
        } else {
            said
        };
        match code {
            Some(92) => HostFault::Cache { what: said },
            Some(126 | 127) if uploading => HostFault::NoAgent { said },
            _ => HostFault::Unreached { said },
        }
    }
}

/// End of a program's standard error, collected while the program runs.
#[derive(Clone)]
pub(super) struct Said(Arc<tokio::sync::Mutex<Vec<u8>>>, Arc<tokio::sync::Notify>);

impl Said {
    fn listen(mut errors: ChildStderr) -> Self {
        let said = Self(Arc::default(), Arc::default());
        let kept = said.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut buffer).await {
                let mut all = kept.0.lock().await;
                all.extend(&buffer[..read]);
                let excess = all.len().saturating_sub(8 * SAID);
                all.drain(..excess);
            }
            kept.1.notify_one();
        });
        said
    }

    /// The last of it, in one line, after its end or a short wait.
    pub(super) async fn last(&self) -> String {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.1.notified()).await;
        let all = self.0.lock().await;
        let text = String::from_utf8_lossy(&all);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let words = lines.join("; ");
        let plain: String = words.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        plain.chars().rev().take(SAID).collect::<Vec<_>>().into_iter().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_survives_every_shell() {
        let program =
            AgentProgram { path: "/p".into(), bytes: b"abc".as_slice().into(), sha256: "f".repeat(64) };
        let script = program.script();
        assert!(
            !script.contains(['\'', '\n', '!']) && !script.contains("SIZE") && !script.contains("SHA256")
        );
    }

    #[test]
    fn a_login_that_looks_like_an_option_is_none() {
        let words = ssh_words("-oProxyCommand=evil", Some(22), "true");
        let dashes = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(words[dashes + 1], "-oProxyCommand=evil");
    }
}
