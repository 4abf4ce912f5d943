//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second stops the workers, the third leaves.

use crate::exit::{Exit, Failure};
use crate::output::Talk;
use launch::StopSignal;
use std::sync::Arc;
use std::sync::OnceLock;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What the user said while a sweep runs. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    stop: StopSignal,
    first: Arc<OnceLock<Exit>>,
}

impl Session {
    /// Listens from now on; must be called inside the runtime.
    pub(crate) fn listen(talk: &Talk) -> Result<Self, Failure> {
        let deaf = |error| Failure::new(Exit::Internal, format!("signals cannot be heard: {error}"));
        let keyboard = signal(SignalKind::interrupt()).map_err(deaf)?;
        let system = signal(SignalKind::terminate()).map_err(deaf)?;
        let session = Self::default();
        tokio::spawn(hear(session.clone(), talk.clone(), keyboard, system));
        Ok(session)
    }

    /// What running attempts listen to.
    pub(crate) fn stop(&self) -> StopSignal {
        self.stop.clone()
    }

    /// The exit code of whoever interrupted first, once somebody has.
    pub(crate) fn interrupted(&self) -> Option<Exit> {
        self.first.get().copied()
    }

    /// Takes a signal into account; answers what to tell the user, or nothing where it is time to leave.
    fn hear(&self, exit: Exit) -> Option<&'static str> {
        if self.first.set(exit).is_ok() {
            self.stop.at_next_step.cancel();
            return Some("stopping after the current step; once more stops at once");
        }
        if !self.stop.now.is_cancelled() {
            self.stop.now.cancel();
            return Some("stopping the workers; once more leaves at once");
        }
        None
    }
}

async fn hear(session: Session, talk: Talk, mut keyboard: Signal, mut system: Signal) {
    loop {
        let exit = tokio::select! {
            Some(()) = keyboard.recv() => Exit::Interrupted,
            Some(()) = system.recv() => Exit::Terminated,
            else => return,
        };
        match session.hear(exit) {
            Some(answer) => talk.write(answer),
            // The kernel ends the workers with this process.
            None => std::process::exit(session.interrupted().unwrap_or(exit) as i32),
        }
    }
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
}
