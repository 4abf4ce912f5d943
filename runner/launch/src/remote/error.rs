//! Why a host cannot be used, with the cure.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why a host cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{host}: {fault}")]
pub struct HostError {
    /// The node's name in the recipe.
    pub host: String,
    /// It decides the cure.
    pub fault: HostFault,
}

/// Reason for which a host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of each variant say what its fields are")]
pub enum HostFault {
    /// The program that reaches it cannot be started.
    NoProgram { program: PathBuf, reason: String },
    /// `ssh` or `srun` ended before an agent ran.
    Unreached {
        /// The last lines of its standard error.
        said: String,
    },
    /// The host is no machine that this build runs on.
    OtherMachine { machine: String },
    /// A file of the cache cannot be written.
    Cache { what: String },
    /// The agent does not run there.
    NoAgent { said: String },
    /// The agent that replies is of another version.
    Version { version: String },
    /// Nothing came for so long.
    Silent { waited: Duration },
    /// It shows signs of life, but did not reply to a request in time.
    Late { waited: Duration },
    /// The connection ended while it was needed.
    Lost {
        /// The last lines of its standard error, and how it exited.
        said: String,
    },
    /// The agent refused a request.
    Refused { what: String },
    /// The data set is not there, or another.
    Data { what: String },
}

impl fmt::Display for HostFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram { program, reason } => {
                write!(out, "{} cannot be started: {reason}", program.display())
            }
            Self::Unreached { said } => write!(out, "it cannot be reached: {said}"),
            Self::OtherMachine { machine } => {
                write!(out, "it is `{machine}`, and this build runs on Linux x86_64")
            }
            Self::Cache { what } => write!(out, "its cache cannot be written: {what}"),
            Self::NoAgent { said } => write!(out, "the agent does not run there: {said}"),
            Self::Version { version } => write!(out, "its agent is of version {version}"),
            Self::Silent { waited } => write!(out, "it was silent for {} s", waited.as_secs()),
            Self::Late { waited } => {
                write!(out, "it did not reply to a request within {} s", waited.as_secs())
            }
            Self::Lost { said } => write!(out, "the connection was lost: {said}"),
            Self::Refused { what } | Self::Data { what } => out.write_str(what),
        }
    }
}

impl HostError {
    /// Advice in the imperative.
    pub fn cure(&self) -> String {
        let host = &self.host;
        match &self.fault {
            HostFault::NoProgram { .. } => "install OpenSSH's client, or name another program in BAKEOFF_SSH".into(),
            HostFault::Unreached { said } | HostFault::Lost { said } => unreached(host, said),
            HostFault::OtherMachine { .. } => "leave it out of `nodes.use`".into(),
            HostFault::Cache { what } if what.contains("No space left") || what.contains("quota") => {
                "free some space there, or put the cache on another disk: set BAKEOFF_CACHE in the environment of its \
                 sshd or shell, as in ~/.ssh/environment or ~/.bashrc"
                    .into()
            }
            HostFault::Cache { .. } => {
                "make the folder writable for this user, or set BAKEOFF_CACHE on the host to another".into()
            }
            HostFault::NoAgent { said } if said.contains("GLIBC") => {
                "its C library is older than the one that this program was built with: build on the oldest host".into()
            }
            HostFault::NoAgent { .. } => format!("try `ssh {host} true`, and look whether its shell prints anything"),
            HostFault::Version { .. } => "remove the folder `agents` in the host's cache, and run again".into(),
            HostFault::Silent { .. } => "look whether the host and the network are well, and run again".into(),
            HostFault::Late { .. } => "look whether its disk hangs or its processors are overloaded".into(),
            HostFault::Refused { what } if what.contains("no door at") => {
                "give the machine's own `address` in the inventory, other `nodes.ports`, or send everything through ssh: \
                 `nodes.tunnel = \"ssh\"`"
                    .into()
            }
            HostFault::Refused { .. } => "look at the host's log, or leave it out of `nodes.use`".into(),
            HostFault::Data { .. } => {
                "copy it there with `nodes.copy-data = true`, or fetch it on the host and name its folder".into()
            }
        }
    }
}

/// The cure for what `ssh` says.
fn unreached(host: &str, said: &str) -> String {
    let has = |words: &str| said.contains(words);
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        format!(
            "its key is not the one that this machine knows: ask its administrator whether it was installed again, and only \
             then remove the old key with `ssh-keygen -R {host}`"
        )
    } else if has("Host key verification failed") {
        format!("connect once by hand with `ssh {host}`, and compare the key that it shows")
    } else if has("Permission denied") {
        format!(
            "`ssh {host} true` must work without a password: add your key with `ssh-copy-id {host}`, or `ssh-add` it"
        )
    } else if has("Could not resolve hostname") {
        "check the name, or give it an alias in ~/.ssh/config".into()
    } else if has("refused") || has("timed out") || has("No route to host") || has("unreachable") {
        format!("check that it is on and that sshd runs there: `ssh {host} true` must work")
    } else {
        format!("try `ssh {host} true`: it must work without a prompt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cure(said: &str) -> String {
        HostError { host: "lab1".into(), fault: HostFault::Unreached { said: said.into() } }.cure()
    }

    #[test]
    fn each_failure_of_ssh_has_its_cure() {
        assert!(cure("user@lab1: Permission denied (publickey).").contains("ssh-copy-id lab1"));
        assert!(cure("Host key verification failed.").contains("connect once by hand"));
        assert!(
            cure("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ Host key verification failed.")
                .contains("administrator")
        );
        assert!(cure("ssh: Could not resolve hostname lab1: Name or service not known").contains("alias"));
        assert!(cure("ssh: connect to host lab1 port 22: Connection refused").contains("sshd runs"));
        assert!(cure("anything else").contains("ssh lab1 true"));
    }
}
