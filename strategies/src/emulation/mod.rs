//! A slower network and a stated step time, in user space: pure models, and decorators that make them happen.
//!
//! - [`Card`], [`Fabric`]: what a network card does to the messages that it carries. No clock of its own; the
//!   simulator and [`NetworkCard`] both ask it, and so agree to the nanosecond.
//! - [`NetworkCard`]: the card of a real rank; it decorates the rank's transport.
//! - [`Pace`]: how long each piece of work takes; the simulator spends it, [`PacedClock`] lets it pass around the
//!   real arithmetic.
//! - [`Lateness`]: how well that was kept. It is recorded and shown.
//!
//! Nothing here may ever hand anything over earlier than the model says: too late is an error of measurement that is
//! recorded, too early would be a network that does not exist.

mod card;
mod inbound;
mod lateness;
mod network_card;
mod pace;
mod paced_clock;
mod slowness;

pub use card::{Arrival, Card, Fabric, Flight, Link};
pub use lateness::Lateness;
pub use network_card::{Arrivals, Carrier, NetworkCard};
pub use pace::{Pace, Parts};
pub use paced_clock::{Paced, PacedClock};
pub use slowness::Slowness;

use crate::StepError;
use record::Nanos;

/// Time as a decorator sees it: real, or scripted in tests. Moments are on the clock of the run, which all ranks of
/// a machine share; ranks of different machines have no common clock, and cannot be decorated together.
pub trait Timer: Send + Sync {
    /// Now.
    fn now(&self) -> Nanos;

    /// Returns as soon after that moment as the machine can, never before it; fails when the run is stopped.
    fn wait_until(&self, moment: Nanos) -> Result<(), StepError>;

    /// The same without hurry, and at less cost.
    fn doze_until(&self, moment: Nanos) -> Result<(), StepError> {
        self.wait_until(moment)
    }
}
