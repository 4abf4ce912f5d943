//! The planes over real sockets; ranks and members are threads of the test.

#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

mod briefing;
mod control;
mod fixture;
mod leaving;
mod links;
mod network;
mod processes;
mod strangers;
mod transport;
