//! How a process exited, in words.

use crate::FaultOrigin;
use rustix::process::{Signal, WaitIdStatus};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a process exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessExit {
    /// It returned an exit code, 0 to 255.
    Code(i32),
    /// A signal ended it, by its number.
    Signal(i32),
    /// The connection to its host was lost; the host ends it.
    HostLost {
        /// The host's name in the recipe.
        host: String,
        /// Why the connection ended.
        reason: String,
    },
}

impl From<&WaitIdStatus> for ProcessExit {
    fn from(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

impl ProcessExit {
    /// Where a fault comes from that ends a process like this.
    pub fn origin(&self) -> FaultOrigin {
        let own = [Signal::SEGV, Signal::ABORT, Signal::ILL, Signal::FPE];
        match self {
            Self::Code(_) => FaultOrigin::Program,
            Self::Signal(number) if own.iter().any(|signal| signal.as_raw() == *number) => {
                FaultOrigin::Program
            }
            Self::Signal(_) | Self::HostLost { .. } => FaultOrigin::Infrastructure,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exited with code {code}"),
            Self::HostLost { host, reason } => write!(out, "was lost with its host {host}: {reason}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(out, "was ended by signal {number} ({name})"),
                None => write!(out, "was ended by signal {number}"),
            },
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    let known = [
        (Signal::KILL, "SIGKILL: by a user or by the out-of-memory killer"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS: often a full disk or too little shared memory"),
        (Signal::ILL, "SIGILL: the processor lacks an instruction that the worker was built for"),
        (Signal::FPE, "SIGFPE"),
        (Signal::TERM, "SIGTERM"),
        (Signal::INT, "SIGINT"),
        (Signal::HUP, "SIGHUP"),
        (Signal::PIPE, "SIGPIPE"),
    ];
    known.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_read_as_sentences() {
        assert_eq!(ProcessExit::Code(3).to_string(), "exited with code 3");
        assert_eq!(ProcessExit::Signal(11).to_string(), "was ended by signal 11 (SIGSEGV)");
        assert_eq!(ProcessExit::Signal(40).to_string(), "was ended by signal 40");
        let lost = ProcessExit::HostLost { host: "lab1".into(), reason: "it was silent for 15 s".into() };
        assert_eq!(lost.to_string(), "was lost with its host lab1: it was silent for 15 s");
    }

    #[test]
    fn only_what_the_program_does_itself_is_its_own_fault() {
        let origins = [ProcessExit::Code(101), ProcessExit::Signal(11), ProcessExit::Signal(9)];
        let origins = origins.map(|exit| exit.origin());
        assert_eq!(origins, [FaultOrigin::Program, FaultOrigin::Program, FaultOrigin::Infrastructure]);
    }
}
