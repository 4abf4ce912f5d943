//! Whatever comes over the control plane, it is a message or is refused. So is what a worker reads from its
//! standard input as its briefing.

#![no_main]

use bakeoff_fuzz::{Bound, bounded};
use libfuzzer_sys::fuzz_target;

/// A decoded message is larger than its MessagePack: an event has a fixed size of a few hundred bytes,
/// and its shortest text some tens. A vector that promises more than it holds is given up to a MiB before that
/// shows, and vectors nest a few deep.
const BOUND: Bound = Bound { factor: 64, constant: 4 << 20 };

fuzz_target!(|input: &[u8]| {
    bounded(input, BOUND, |input| {
        mesh::fuzz_targets::control_message(input);
        drop(mesh::read_briefing(input));
    });
});
