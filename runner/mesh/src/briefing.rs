//! How a briefing travels: a preamble by which another version is recognised before anything is decoded, a size, and
//! MessagePack.

use crate::{Briefing, MeshError, PROTOCOL, wire_format};
use std::io::{Read, Write};

const MAGIC: [u8; 4] = *b"BKOF";
/// No briefing comes near it; it bounds the bytes read before it can be decoded.
const LIMIT: u64 = 16 << 20;

/// Writes a briefing: 4 bytes `BKOF`, protocol (u32), [`wire_format`] (u64), length (u64), all little endian, then
/// MessagePack with named fields.
pub fn write_briefing(mut out: impl Write, briefing: &Briefing) -> Result<(), MeshError> {
    let body =
        rmp_serde::to_vec_named(briefing).map_err(|reason| MeshError::Encode { what: "briefing", reason })?;
    check_size(body.len() as u64)?;
    let mut message = Vec::with_capacity(24 + body.len());
    message.extend(MAGIC);
    message.extend(PROTOCOL.to_le_bytes());
    message.extend(wire_format().to_le_bytes());
    message.extend((body.len() as u64).to_le_bytes());
    message.extend(body);
    out.write_all(&message).and_then(|()| out.flush()).map_err(io)
}

/// Reads a briefing and not a byte more: a worker takes the end of its input as the end of the driver.
pub fn read_briefing(mut input: impl Read) -> Result<Briefing, MeshError> {
    let mut magic = [0; 4];
    if input.read_exact(&mut magic).is_err() || magic != MAGIC {
        return Err(MeshError::NoBriefing);
    }
    let protocol = u32::from_le_bytes(exact(&mut input)?);
    let format = u64::from_le_bytes(exact(&mut input)?);
    if (protocol, format) != (PROTOCOL, wire_format()) {
        return Err(MeshError::Version { peer: "the driver".into(), protocol, format });
    }
    let length = u64::from_le_bytes(exact(&mut input)?);
    check_size(length)?;
    // `take` grows with the bytes that arrive, whatever the length says.
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
