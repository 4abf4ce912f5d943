//! Ctrl-C, SIGTERM, SIGHUP and `bakeoff stop`: the first word asks for an orderly end, the second stops the workers,
//! the third leaves.

use crate::exit::{Exit, Failure};
use crate::live::{self, Level};
use crate::output::Console;
use launch::StopSignal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::Driver;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// How often requests of `bakeoff stop` are looked for.
const GLANCE: Duration = Duration::from_millis(200);

/// The user's requests to stop a sweep. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    stop: StopSignal,
    first: Arc<OnceLock<Exit>>,
    work: Work,
}

/// The work of a driver that is asked to stop; it decides the words for the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// It trains runs itself.
    #[default]
    Training,
    /// It waits for jobs of a queue.
    Waiting,
}

impl Session {
    /// Listens from now on; must be called inside the runtime.
    pub(crate) fn listen(console: &Console, store: &Path) -> Result<Self, Failure> {
        Self::listen_at(Work::Training, console, store)
    }

    /// The same, with words for the kind of work that is stopped.
    pub(crate) fn listen_at(work: Work, console: &Console, store: &Path) -> Result<Self, Failure> {
        let signals = StopSignals {
            keyboard: heard_signal(SignalKind::interrupt())?,
            system: heard_signal(SignalKind::terminate())?,
            terminal: heard_signal(SignalKind::hangup())?,
        };
        let session = Self { work, ..Self::default() };
        tokio::spawn(hear(session.clone(), console.clone(), signals));
        tokio::spawn(watch(session.clone(), console.clone(), store.to_owned()));
        Ok(session)
    }

    /// The signal by which running attempts are asked to stop.
    pub(crate) fn stop(&self) -> StopSignal {
        self.stop.clone()
    }

    /// The exit code of the first request, if there was one.
    pub(crate) fn interrupted(&self) -> Option<Exit> {
        self.first.get().copied()
    }

    /// Takes a request into account. Returns a line for the user, or `None` if the program exits now.
    fn hear(&self, exit: Exit) -> Option<&'static str> {
        self.obey(exit, self.level().map_or(Some(Level::Softly), Level::next)?)
    }

    /// How soon it is to stop by now.
    fn level(&self) -> Option<Level> {
        match (self.stop.at_next_step.is_cancelled(), self.stop.now.is_cancelled()) {
            (_, true) => Some(Level::Now),
            (true, false) => Some(Level::Softly),
            (false, false) => None,
        }
    }

    /// Stops at least at this level. Returns a line for the user, or `None` if the program exits now.
    fn obey(&self, exit: Exit, level: Level) -> Option<&'static str> {
        // The first request decides the exit code.
        let _ = self.first.set(exit);
        self.stop.at_next_step.cancel();
        match (level, self.work) {
            (Level::Softly | Level::Now, Work::Waiting) => {
                self.stop.now.cancel();
                Some("leaving; the jobs stay in the queue")
            }
            (Level::Softly, Work::Training) => {
                Some("stopping after the current step; once more stops at once; what was recorded is kept")
            }
            (Level::Now, Work::Training) => {
                self.stop.now.cancel();
                Some("stopping the workers; once more leaves at once")
            }
            (Level::Kill, Work::Training | Work::Waiting) => None,
        }
    }
}

impl Level {
    fn next(self) -> Option<Self> {
        match self {
            Self::Softly => Some(Self::Now),
            Self::Now | Self::Kill => None,
        }
    }
}

/// The signals that stop a session; those that are ignored are left out.
struct StopSignals {
    keyboard: Option<Signal>,
    system: Option<Signal>,
    terminal: Option<Signal>,
}

/// Nothing where the signal was to be ignored from the start, as `nohup` wants it.
fn heard_signal(kind: SignalKind) -> Result<Option<Signal>, Failure> {
    if is_ignored(kind.as_raw_value()) {
        return Ok(None);
    }
    let deaf = |error| Failure::new(Exit::Internal, format!("signals cannot be heard: {error}"));
    signal(kind).map(Some).map_err(deaf)
}

/// Whether this process was started with the signal ignored.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| number > 0 && mask >> (number - 1) & 1 == 1)
}

async fn next(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn hear(session: Session, console: Console, mut signals: StopSignals) {
    loop {
        let exit = tokio::select! {
            () = next(&mut signals.keyboard) => Exit::Interrupted,
            () = next(&mut signals.system) => Exit::Terminated,
            () = next(&mut signals.terminal) => Exit::HungUp,
        };
        match session.hear(exit) {
            Some(answer) => console.write(answer),
            None => leave(&session, &console, exit),
        }
    }
}

/// Checks for requests of `bakeoff stop`.
async fn watch(session: Session, console: Console, store: PathBuf) {
    let this = Driver::this();
    let mut ticks = interval(GLANCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(level) = live::asked(&store, &this).filter(|level| Some(*level) > session.level()) else {
            continue;
        };
        if let Some(answer) = session.obey(Exit::Terminated, level) {
            console.write(&format!("`bakeoff stop`: {answer}"));
        } else {
            live::forget(&store, &this);
            leave(&session, &console, Exit::Terminated);
        }
    }
}

/// The kernel ends the workers with this process.
fn leave(session: &Session, console: &Console, exit: Exit) -> ! {
    console.write(match session.work {
        Work::Training => {
            "leaving; the workers are killed, what was recorded is kept, and the same command continues from there"
        }
        Work::Waiting => "leaving; the jobs stay in the queue, and the same command waits for them again",
    });
    std::process::exit(session.interrupted().unwrap_or(exit) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_signals_mean_three_things_and_the_first_names_the_exit() {
        let session = Session::default();
        let stop = session.stop();
        assert_eq!(session.interrupted(), None);
        assert!(session.hear(Exit::Terminated).is_some());
        assert!(stop.at_next_step.is_cancelled() && !stop.now.is_cancelled());
        assert!(session.hear(Exit::Interrupted).is_some());
        assert!(stop.now.is_cancelled());
        assert_eq!(session.hear(Exit::Interrupted), None);
        assert_eq!(session.interrupted(), Some(Exit::Terminated));
    }

    #[test]
    fn a_request_counts_once_and_a_signal_after_it_counts_on() {
        let session = Session::default();
        assert!(Some(Level::Softly) > session.level());
        session.obey(Exit::Terminated, Level::Softly);
        assert!(Some(Level::Softly) <= session.level() && Some(Level::Now) > session.level());
        assert!(session.hear(Exit::Interrupted).is_some());
        assert_eq!(session.level(), Some(Level::Now));
        assert!(Some(Level::Kill) > session.level());
        assert_eq!(session.obey(Exit::Terminated, Level::Kill), None);
    }

    #[test]
    fn only_signals_that_the_caller_ignores_are_ignored() {
        assert!(!is_ignored(SignalKind::user_defined1().as_raw_value()) && !is_ignored(0));
    }
}
