//! Pictures as Pillow reads them, and folders of files that are none.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod decoding;
mod folders;
mod samples;
