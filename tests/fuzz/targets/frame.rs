//! Whatever a peer sends over the data plane, it becomes messages or is refused, and a size that is only promised
//! costs nothing.

#![no_main]

use bakeoff_fuzz::{Bound, bounded};
use libfuzzer_sys::fuzz_target;

/// A message that comes in pieces is given room for 64 MiB at once and twice what has come beyond; credits let
/// twice as much be open.
const BOUND: Bound = Bound { factor: 16, constant: (128 << 20) + (64 << 10) };

fuzz_target!(|input: &[u8]| {
    bounded(input, BOUND, mesh::fuzz_targets::data_frames);
});
