//! Progress of a fetch.

use crate::Refusal;
use crate::catalogue::Archive;

/// An event of a fetch under way.
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
        /// Address of the archive at the source.
        url: &'a str,
        /// Bytes that came earlier.
        have: u64,
    },
    /// More bytes have come.
    Received {
        /// Bytes of the archive that are here, altogether.
        bytes: u64,
    },
    /// The source broke off, and is tried again.
    Again {
        /// Cause of the break, in words.
        reason: &'a str,
    },
    /// The source will not give it.
    Refused {
        /// Reason of the source, with its address.
        refusal: &'a Refusal,
    },
    /// The archive is whole and as published; its files are unpacked.
    Unpacking {
        /// The archive that the event is about.
        archive: &'static Archive,
    },
}
