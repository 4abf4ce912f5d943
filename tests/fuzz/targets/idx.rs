//! Whatever lies in the files of MNIST, reading them ends with samples or with an error that names the problem.
//!
//! The first byte says how the files are packed, the next two (little endian) how long the first one is.

#![no_main]

use bakeoff_fuzz::{Bound, bounded};
use libfuzzer_sys::fuzz_target;
use worker::data::fuzz_targets::{FileForm, read_idx};

/// gzip unpacks to at most 1,032 times its size, and a vector that grows is at most doubled, the old half
/// still there; the decoder has windows of its own.
const BOUND: Bound = Bound { factor: 3 * 1040, constant: 1 << 20 };

fuzz_target!(|input: &[u8]| {
    bounded(input, BOUND, |input| {
        let Some(([packing, low, high], rest)) = input.split_first_chunk::<3>() else { return };
        let (images, labels) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
        let packing = if packing & 1 == 0 { FileForm::Plain } else { FileForm::Gzip };
        match read_idx(images, labels, packing) {
            Ok(samples) => assert_eq!(samples.image(samples.len()), None),
            Err(error) => drop(error.to_string()),
        }
    });
});
