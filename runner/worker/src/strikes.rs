//! Carries out what the recipe lets go wrong with this rank at the beginning of a step: real signals, and links that carry nothing any
//! more.

use crate::stop::lock;
use mesh::{ControlClient, LinkDropper};
use recipe::{FaultAction, PlannedFault};
use record::Rank;
use std::io;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::Duration;
use strategies::StepError;

/// Between two signals that end a pause.
const AGAIN: Duration = Duration::from_millis(20);

/// The faults of this rank that have not struck yet.
pub(crate) struct Strikes {
    planned: Mutex<Vec<PlannedFault>>,
    client: ControlClient,
    links: LinkDropper,
    /// Peers whose link was lost before the checkpoint from which the run continues.
    lost_before: Mutex<Vec<Rank>>,
    /// How long the driver may take to know of one before it strikes.
    patience: Duration,
}

impl Strikes {
    /// Those of `planned` that are meant for `rank`, which has these links.
    pub(crate) fn new(
        planned: &[PlannedFault],
        rank: u32,
        client: ControlClient,
        links: LinkDropper,
        patience: Duration,
    ) -> Self {
        let of_rank = planned.iter().filter(|fault| fault.rank == rank).copied().collect();
        Self { planned: Mutex::new(of_rank), client, links, lost_before: Mutex::default(), patience }
    }

    /// The same in a run that continues after this step: links that were lost by then are lost from its first step on.
    #[must_use]
    pub(crate) fn continued_after(self, step: u64) -> Self {
        let peer = |fault: &PlannedFault| match fault.action {
            FaultAction::DropLink { peer } if fault.step <= step => Some(Rank(peer)),
            FaultAction::Kill
            | FaultAction::Pause { .. }
            | FaultAction::DropLink { .. }
            | FaultAction::Slow { .. } => None,
        };
        let lost_before = lock(&self.planned).iter().filter_map(peer).collect();
        Self { lost_before: Mutex::new(lost_before), ..self }
    }

    /// The faults that strike at the beginning of a step. Each is returned once, to the first lane of the rank that comes there.
    pub(crate) fn due(&self, step: u64) -> Vec<PlannedFault> {
        lock(&self.lost_before).drain(..).for_each(|peer| self.links.drop_link(peer));
        lock(&self.planned).extract_if(.., |fault| fault.step == step).collect()
    }

    /// Lets it happen, once the driver has acknowledged everything that this rank has sent. Returns when the rank continues.
    pub(crate) fn carry_out(&self, action: FaultAction) -> Result<(), StepError> {
        if matches!(action, FaultAction::Slow { .. }) {
            return Ok(());
        }
        // A driver that is gone has ended the run, and with it this process.
        if let Err(error) = self.client.settle(self.patience) {
            tracing::warn!(%error, "the driver may not know of the fault");
        }
        let done = match action {
            FaultAction::Kill => raise(libc::SIGKILL),
            FaultAction::Pause { length } => pause(length),
            FaultAction::DropLink { peer } => {
                self.links.drop_link(Rank(peer));
                Ok(())
            }
            FaultAction::Slow { .. } => Ok(()),
        };
        done.map_err(|error| {
            StepError::Environment(format!("the fault of the recipe cannot be carried out: {error}"))
        })
    }
}

/// Stops all threads of this process; the kernel's timer runs while they are stopped, and continues them.
fn pause(length: Option<Duration>) -> io::Result<()> {
    // Deleted when this returns.
    let _alarm = length.map(Alarm::set).transpose()?;
    raise(libc::SIGSTOP)
}

/// Sends a signal to this thread, which therefore does not come past here before it has happened to the process.
fn raise(signal: i32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "there is no safe binding among the dependencies")]
    // SAFETY: no memory is passed, and this process has a handler for neither of the two signals.
    let raised = unsafe { libc::raise(signal) };
    if raised == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A timer of the kernel that sends SIGCONT to this process.
struct Alarm(libc::timer_t);

impl Alarm {
    fn set(after: Duration) -> io::Result<Self> {
        let time = |time: Duration| libc::timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        // Again and again: a first signal that came before the process is stopped would change nothing.
        let times = libc::itimerspec { it_interval: time(AGAIN), it_value: time(after) };
        let mut timer: libc::timer_t = null_mut();
        #[expect(unsafe_code, reason = "there is no safe binding among the dependencies")]
        // SAFETY: both structures and the timer live on this stack for as long as the calls last; zeros are a valid `sigevent`, of which
        // only the fields that are set are read.
        let set = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGCONT);
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::timer_settime(timer, 0, &raw const times, null_mut())
        };
        // From here on it is deleted with this.
        let alarm = Self(timer);
        if set == 0 { Ok(alarm) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "there is no safe binding among the dependencies")]
        // SAFETY: the timer was made by this value, and is deleted once.
        unsafe {
            libc::timer_delete(self.0);
        }
    }
}
