//! The decoders of the control plane without a socket, for fuzzing.

use super::conversation::{Conversation, Side, Taken};
use crate::handshake::{End, Plane};
use crate::unproven::{Admission, Unproven};
use crate::{Secret, ToDriver, ToMember};
use bytes::Bytes;

/// Decodes bytes as two frames of an unproven connection, as a frame of a member, and as the body of a message in both
/// directions, though no stranger could have a body authenticated. Returns how many of these were valid.
pub fn control_message(input: &[u8]) -> usize {
    let key = [7; 32];
    let mut driver = Conversation::new(key, Side::Driver);
    let raw = driver.take(&Bytes::copy_from_slice(input)) != Taken::Ignored;
    let body = match driver.take(&Conversation::new(key, Side::Member).say(input)) {
        Taken::Message(body) => body,
        _ => Bytes::new(),
    };
    let said = rmp_serde::from_slice::<ToDriver>(&body).is_ok();
    let told = rmp_serde::from_slice::<ToMember>(&body).is_ok();
    [stranger(input), raw, said, told].into_iter().filter(|sense| *sense).count()
}

/// Whether one of two frames of an unproven connection got a reply.
fn stranger(input: &[u8]) -> bool {
    let mut unproven = Unproven::new(Secret([7; 32]), Plane::Control, End::Driver);
    let identity = Bytes::from_static(b"stranger");
    let (first, second) = input.split_at(input.len().min(input.len() / 2 + 1));
    let admissions = [input, first, second].map(|frame| unproven.take(&identity, frame));
    admissions.into_iter().any(|admission| !matches!(admission, Admission::Ignored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn true_messages_make_sense() {
        for (said, sense) in [
            (rmp_serde::to_vec_named(&ToDriver::Goodbye).unwrap(), 1),
            (rmp_serde::to_vec_named(&ToMember::Start { origin: 3 }).unwrap(), 1),
            (b"nothing".to_vec(), 0),
        ] {
            assert_eq!(control_message(&said), sense, "{said:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
            control_message(&input);
        }
    }
}
