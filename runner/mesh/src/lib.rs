//! Placeholder head.
mod message;
pub use message::{Briefing, Deadlines, Heartbeat, Member, PROTOCOL, Secret, ToDriver, ToMember};
