//! Whatever lies in a file of CIFAR-10 or CIFAR-100, reading it ends with samples or with an error that names
//! the problem.
//!
//! The first byte says which of the two it is, and how it is packed.

#![no_main]

use bakeoff_fuzz::{Bound, bounded};
use libfuzzer_sys::fuzz_target;
use worker::data::fuzz_targets::{FileForm, read_cifar_10, read_cifar_100};

/// The bound of the target `idx`, whose files are packed the same way.
const BOUND: Bound = Bound { factor: 3 * 1040, constant: 1 << 20 };

fuzz_target!(|input: &[u8]| {
    bounded(input, BOUND, |input| {
        let Some((choice, bytes)) = input.split_first() else { return };
        let packing = if choice & 1 == 0 { FileForm::Plain } else { FileForm::Gzip };
        let read = if choice & 2 == 0 { read_cifar_10(bytes, packing) } else { read_cifar_100(bytes, packing) };
        match read {
            Ok(samples) => assert!(samples.image(samples.len()).is_none()),
            Err(error) => drop(error.to_string()),
        }
    });
});
