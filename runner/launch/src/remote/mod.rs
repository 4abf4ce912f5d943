//! The hosts of a sweep: connected once, asked for what a run needs, and the launcher that runs attempts on them.

mod delivery;
mod error;
mod hosts;
mod inspection;
mod launcher;
mod libraries;
mod link;
mod start;

pub use error::{HostError, HostFault};
pub use hosts::Hosts;
pub use inspection::{HostState, Inspect, Sent, WallClock, Way, WayState};
pub(crate) use launcher::HostsLauncher;
pub use launcher::needs_hosts;
pub use start::Upload;
