//! A slower network and a stated step time, in user space: pure models, and decorators that make them happen.
//!
//! - [`NicModel`], [`Fabric`]: what a network card does to the messages that it carries. No clock of its own; the
//!   simulator and [`EmulatedNic`] both ask it, and so agree to the nanosecond.
//! - [`EmulatedNic`]: the card of a real rank; it decorates the rank's transport.
//! - [`ComputeModel`]: how long each piece of work takes; the simulator spends it, [`EmulatedClock`] lets it pass around the
//!   real arithmetic.
//! - [`Lateness`]: how well that was kept. It is recorded and shown.
//!
//! Nothing here may ever hand anything over earlier than the model says: too late is an error of measurement that is
//! recorded, too early would be a network that does not exist.

mod compute_model;
mod emulated_clock;
mod emulated_nic;
mod inbound;
mod lateness;
mod nic_model;
mod slowness;

pub use compute_model::{ComputeModel, Parts};
pub use emulated_clock::{ClockReport, EmulatedClock};
pub use emulated_nic::{Arrivals, Carrier, EmulatedNic};
pub use lateness::Lateness;
pub use nic_model::{ArrivalTimes, Fabric, Flight, Link, NicModel};
pub use slowness::Slowness;

use crate::StepError;
use record::Nanos;

/// Time as a decorator sees it: real, or scripted in tests. Moments are on the clock of the run, which all ranks of
/// a machine share; ranks of different machines have no common clock, and cannot be decorated together.
pub trait Timer: Send + Sync {
    /// Nanoseconds since the start of the run.
    fn now(&self) -> Nanos;

    /// Returns as soon after that moment as the machine can, never before it; fails when the run is stopped.
    fn wait_until(&self, moment: Nanos) -> Result<(), StepError>;

    /// The same without hurry, and at less cost.
    fn doze_until(&self, moment: Nanos) -> Result<(), StepError> {
        self.wait_until(moment)
    }
}
