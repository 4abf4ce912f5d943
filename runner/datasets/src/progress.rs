//! What a download tells while it lasts.

use crate::Refusal;
use crate::catalogue::Archive;

/// What happens meanwhile.
#[derive(Debug)]
pub enum FetchProgress<'a> {
    /// Files of an archive that are there and good.
    Here {
        /// The archive that the event is about.
        archive: &'static Archive,
    },
    /// A source is asked.
    Source {
        /// The archive that is asked for.
        archive: &'static Archive,
        /// Where.
        url: &'a str,
        /// Bytes that came earlier.
        have: u64,
    },
    /// Bytes have come.
    Received {
        /// Of the archive, altogether.
        bytes: u64,
    },
    /// The source broke off, and is tried again.
    Again {
        /// Why.
        reason: &'a str,
    },
    /// The source will not give it.
    Refused {
        /// Why.
        refusal: &'a Refusal,
    },
    /// The archive is whole and as published; its files are unpacked.
    Unpacking {
        /// The archive that the event is about.
        archive: &'static Archive,
    },
}
