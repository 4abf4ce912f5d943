//! Memory that the ranks of one host share: a packet is written once, and read where it lies.
//!
//! Each rank has one anonymous file ([`memory::OwnMemory`]) that the others map without the right to write. A rank encodes into
//! it, announces the place on the link, and keeps the packet (a [`loan`](loans)) until the receiver has let go of it. The
//! receiver says so in its own file: one mark for each sender and each place of its list of loans. So no rank writes where
//! another rank reads its own state, and a rank that dies has at most kept loans open.
//!
//! Small records travel on [`lines`], one from each rank to each other, in the sender's file as well. A receiver that finds its line
//! empty sleeps on one of its [`bells`], the only page that its peers may write: they wake it by a system call, without a socket
//! or another thread between.
//!
//! The files have no name: nothing is left after any end, and no limit of `/dev/shm` counts. They are sealed, so that a peer cannot
//! shorten what others have mapped, and they are found as `/proc/PID/fd/N`, which the system opens for the same user only.

mod bells;
mod lines;
mod loans;
mod memory;
mod ranges;
mod sharing;

pub(crate) use bells::{Bell, Bells};
pub(crate) use lines::{LARGEST as LARGEST_RECORD, LineFault, LineReader, LineWriter, Record};
pub(crate) use memory::{Description, MemoryFault};
pub(crate) use sharing::{BlockFault, Joining, Reference, Sharing, Size, write_packets_into};
