//! How a briefing travels.

use crate::fixture::PATIENCE;
use mesh::{Briefing, Member, MeshError, PROTOCOL, read_briefing, wire_format, write_briefing};
use proptest::prelude::*;
use record::Rank;
use std::io::Read;

fn briefing() -> Briefing {
    crate::fixture::briefing("/tmp/sockets".as_ref(), Member::Rank(Rank(3)), 8, PATIENCE)
}

fn written() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_briefing(&mut bytes, &briefing()).unwrap();
    bytes
}

#[test]
fn a_briefing_survives_and_not_a_byte_more_is_read() {
    let mut bytes = written();
    bytes.extend(b"more");
    let mut input = &bytes[..];
    assert_eq!(read_briefing(&mut input).unwrap(), briefing());
    assert_eq!(input, b"more");
}

#[test]
fn another_version_is_told_before_anything_is_decoded() {
    for (at, change) in [(4, "protocol"), (8, "format")] {
        let mut bytes = written();
        bytes[at] ^= 1;
        bytes.truncate(16);
        let error = read_briefing(&bytes[..]).unwrap_err();
        let MeshError::Version { protocol, format, .. } = error else { panic!("{change}: {error}") };
        assert!(protocol != PROTOCOL || format != wire_format());
        assert!(error.to_string().contains("build driver and worker again"), "{error}");
    }
}

#[test]
fn what_is_no_briefing_is_told() {
    for input in [&b""[..], b"BK", b"[strategy]\nkind = \"d-sync\""] {
        let error = read_briefing(input).unwrap_err();
        assert!(matches!(error, MeshError::NoBriefing), "{error}");
    }
    let bytes = written();
    for length in [5, 15, 20, 30, bytes.len() - 1] {
        let error = read_briefing(&bytes[..length]).unwrap_err();
        assert!(matches!(error, MeshError::Io { .. }), "{length}: {error}");
    }
    let mut bytes = written();
    bytes[24] = 0xc1;
    let error = read_briefing(&bytes[..]).unwrap_err();
    assert!(matches!(error, MeshError::Decode { .. }), "{error}");
}

#[test]
fn a_giant_length_allocates_nothing() {
    let mut bytes = written();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = read_briefing(&bytes[..]).unwrap_err();
    assert!(matches!(error, MeshError::TooLarge { bytes: u64::MAX, .. }), "{error}");
}

/// Gives one byte at a time.
struct Trickle<'a>(&'a [u8]);
impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = into.len().min(1);
        self.0.read(&mut into[..length])
    }
}

#[test]
fn a_pipe_may_deliver_in_pieces() {
    assert_eq!(read_briefing(Trickle(&written())).unwrap(), briefing());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(at in 0..2000_usize, with in any::<u8>(), cut in 0..3000_usize) {
        let mut bytes = written();
        let length = bytes.len();
        bytes[at % length] = with;
        bytes.truncate(cut);
        // A changed byte may make another briefing; a missing one may not.
        prop_assert!(read_briefing(&bytes[..]).is_err() || bytes.len() == length);
    }

    #[test]
    fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = written()[..16].to_vec();
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(&body);
        prop_assert!(read_briefing(&bytes[..]).is_err());
    }
}
