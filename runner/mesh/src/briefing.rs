//! How a briefing travels: a preamble that tells a wrong version before anything is decoded, a size, and
//! MessagePack.

use crate::{Briefing, MeshError, PROTOCOL};
use std::io::{Read, Write};

const MAGIC: [u8; 4] = *b"BKOF";
/// No briefing comes near it; it bounds what is read before it can be decoded.
const LIMIT: u64 = 16 << 20;

/// A digest of the sources that say what travels. Programs of equal builds understand each other.
pub const BUILD: u64 = {
    let mut state = 0xcbf2_9ce4_8422_2325;
    state = fnv(state, include_bytes!("message.rs"));
    state = fnv(state, include_bytes!("../../record/src/event.rs"));
    state = fnv(state, include_bytes!("../../record/src/gossip.rs"));
    state = fnv(state, include_bytes!("../../record/src/phase.rs"));
    state = fnv(state, include_bytes!("../../record/src/snapshot.rs"));
    state = fnv(state, include_bytes!("../../record/src/units.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/plan.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/model.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/dataset.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/train.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/cluster.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/communication.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/emulation.rs"));
    state = fnv(state, include_bytes!("../../recipe/src/topology.rs"));
    fnv(state, include_bytes!("../../recipe/src/strategy.rs"))
};

/// FNV-1a.
const fn fnv(mut state: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        state = (state ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    state
}

/// Sends a briefing: 4 bytes `BKOF`, protocol (u32), [`BUILD`] (u64), length (u64), all little endian, then
/// MessagePack with named fields.
pub fn write_briefing(mut out: impl Write, briefing: &Briefing) -> Result<(), MeshError> {
    let body =
        rmp_serde::to_vec_named(briefing).map_err(|reason| MeshError::Encode { what: "briefing", reason })?;
    check_size(body.len() as u64)?;
    let mut message = Vec::with_capacity(24 + body.len());
    message.extend(MAGIC);
    message.extend(PROTOCOL.to_le_bytes());
    message.extend(BUILD.to_le_bytes());
    message.extend((body.len() as u64).to_le_bytes());
    message.extend(body);
    out.write_all(&message).and_then(|()| out.flush()).map_err(io)
}

/// Reads a briefing and not a byte more: the end of the input has a meaning of its own for a worker.
pub fn read_briefing(mut input: impl Read) -> Result<Briefing, MeshError> {
    let mut magic = [0; 4];
    if input.read_exact(&mut magic).is_err() || magic != MAGIC {
        return Err(MeshError::NoBriefing);
    }
    let protocol = u32::from_le_bytes(exact(&mut input)?);
    let build = u64::from_le_bytes(exact(&mut input)?);
    if (protocol, build) != (PROTOCOL, BUILD) {
        return Err(MeshError::Version { peer: "the driver".into(), protocol, build });
    }
    let length = u64::from_le_bytes(exact(&mut input)?);
    check_size(length)?;
    // `take` grows with what really comes, whatever the length promises.
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body).map_err(io)?;
    if (body.len() as u64) < length {
        return Err(io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    rmp_serde::from_slice(&body).map_err(|reason| MeshError::Decode { what: "briefing", reason })
}

fn exact<const N: usize>(input: &mut impl Read) -> Result<[u8; N], MeshError> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn check_size(bytes: u64) -> Result<(), MeshError> {
    if bytes > LIMIT {
        return Err(MeshError::TooLarge { what: "briefing", bytes, limit: LIMIT });
    }
    Ok(())
}

fn io(reason: std::io::Error) -> MeshError {
    MeshError::Io { what: "briefing", reason }
}
