//! The file of a rank's checkpoint: the states of its lanes after one step of all ranks.
//!
//! ```text
//!   magic, 16 bytes | length of the table, u32 | table in MessagePack | floats of all vectors, 4 bytes each | SHA-256
//! ```
//! All numbers are little-endian. The digest is over everything before it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use strategies::state::Stored;
use strategies::{Checkpoint, State};

const MAGIC: &[u8; 16] = b"bakeoff-state-1\n";
/// Bytes of a digest.
const DIGEST: usize = 32;

/// A checkpoint that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    /// The file could not be written.
    #[error("checkpoint {} cannot be written: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    /// The file could not be read.
    #[error("checkpoint {} cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    /// The file is torn, or no checkpoint.
    #[error("checkpoint {} is damaged: {what}", file.display())]
    Damaged { file: PathBuf, what: String },
}

/// The table of the file: its rank and number, and the lanes with the shapes of their values.
#[derive(Serialize, Deserialize)]
struct Table {
    rank: record::Rank,
    number: u64,
    lanes: Vec<LaneTable>,
}

#[derive(Serialize, Deserialize)]
struct LaneTable {
    lane: record::LaneId,
    samples: u64,
    at: record::Nanos,
    values: Vec<ValueTable>,
}

#[derive(Serialize, Deserialize)]
struct ValueTable {
    name: String,
    shape: Shape,
}

#[derive(Serialize, Deserialize)]
enum Shape {
    Number(u64),
    /// Elements of a vector.
    Floats(u64),
}

impl Table {
    fn of(lanes: &[Checkpoint]) -> Self {
        let value = |(name, stored): (&str, Stored<'_>)| ValueTable {
            name: name.to_owned(),
            shape: match stored {
                Stored::Number(number) => Shape::Number(number),
                Stored::Floats(bits) => Shape::Floats(bits.len() as u64),
            },
        };
        let lane = |checkpoint: &Checkpoint| LaneTable {
            lane: checkpoint.lane,
            samples: checkpoint.samples,
            at: checkpoint.at,
            values: checkpoint.state.values().map(value).collect(),
        };
        let (rank, number) = lanes.first().map_or((record::Rank(0), 0), |one| (one.rank, one.number));
        Self { rank, number, lanes: lanes.iter().map(lane).collect() }
    }
}

/// Writes the checkpoint of a rank and returns the SHA-256 of the file. A reader of `file` finds all of it or nothing.
pub(crate) fn write(file: &Path, lanes: &[Checkpoint]) -> Result<String, CheckpointError> {
    let failed = |source| CheckpointError::Write { file: file.to_owned(), source };
    let part = file.with_extension("part");
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fill(&part, lanes));
    let named = written.and_then(|digest| fs::rename(&part, file).map(|()| digest));
    if named.is_err() {
        // The reason why writing failed is worth more than that of clearing up.
        let _ = fs::remove_file(&part);
    }
    named.map_err(failed)
}

fn fill(file: &Path, lanes: &[Checkpoint]) -> io::Result<String> {
    let table = rmp_serde::to_vec(&Table::of(lanes)).map_err(io::Error::other)?;
    let length = u32::try_from(table.len()).map_err(io::Error::other)?;
    let mut out = BufWriter::with_capacity(1 << 18, File::create(file)?);
    let mut digest = Sha256::new();
    let mut put = |bytes: &[u8]| {
        digest.update(bytes);
        out.write_all(bytes)
    };
    put(MAGIC)?;
    put(&length.to_le_bytes())?;
    put(&table)?;
    let mut bytes = Vec::with_capacity(1 << 16);
    for (_, stored) in lanes.iter().flat_map(|lane| lane.state.values()) {
        let Stored::Floats(bits) = stored else { continue };
        for piece in bits.chunks(1 << 14) {
            bytes.clear();
            bytes.extend(piece.iter().flat_map(|bits| bits.to_le_bytes()));
            put(&bytes)?;
        }
    }
    let own = digest.clone().finalize();
    digest.update(own);
    out.write_all(&own)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    // The event that calls it whole must not reach the disk before it.
    file.sync_data()?;
    Ok(recipe::hex(&digest.finalize()))
}

/// Reads the checkpoint of a rank.
pub(crate) fn read(file: &Path) -> Result<Vec<Checkpoint>, CheckpointError> {
    let failed = |source| CheckpointError::Read { file: file.to_owned(), source };
    let bytes = fs::read(file).map_err(failed)?;
    decode(&bytes).map_err(|what| CheckpointError::Damaged { file: file.to_owned(), what })
}

fn decode(bytes: &[u8]) -> Result<Vec<Checkpoint>, String> {
    let short = || "it ends too early".to_owned();
    let (content, digest) = bytes.split_at_checked(bytes.len().wrapping_sub(DIGEST)).ok_or_else(short)?;
    if Sha256::digest(content).as_slice() != digest {
        return Err("its digest is another".into());
    }
    let content = content.strip_prefix(MAGIC).ok_or("it is no checkpoint of this version")?;
    let (length, content) = content.split_at_checked(4).ok_or_else(short)?;
    let length = length.try_into().map(u32::from_le_bytes).map_err(|_| short())?;
    let (table, mut floats) = content.split_at_checked(length as usize).ok_or_else(short)?;
    let Table { rank, number, lanes } = rmp_serde::from_slice(table).map_err(|error| error.to_string())?;
    let mut checkpoints = Vec::with_capacity(lanes.len());
    for LaneTable { lane, samples, at, values } in lanes {
        let mut state = State::default();
        for ValueTable { name, shape } in values {
            state = match shape {
                Shape::Number(number) => state.with(&name, Stored::Number(number)),
                Shape::Floats(elements) => {
                    let size = usize::try_from(elements).ok().and_then(|elements| elements.checked_mul(4));
                    let (own, rest) =
                        size.and_then(|size| floats.split_at_checked(size)).ok_or_else(short)?;
                    floats = rest;
                    let bits: Vec<u32> =
                        own.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
                    state.with(&name, Stored::Floats(&bits))
                }
            };
        }
        checkpoints.push(Checkpoint { rank, lane, number, samples, at, state });
    }
    if floats.is_empty() { Ok(checkpoints) } else { Err(format!("{} bytes are left", floats.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::{LaneId, Nanos, Rank};

    fn checkpoints() -> Vec<Checkpoint> {
        let state = State::default()
            .with("weights", Stored::Floats(&[0, 1, f32::NAN.to_bits()]))
            .with("step", Stored::Number(7));
        let one = Checkpoint {
            rank: Rank(3),
            lane: LaneId::Compute,
            number: 2,
            samples: 400,
            at: Nanos(99),
            state,
        };
        let none = State::default().with("lane/memory", Stored::Floats(&[]));
        let two = Checkpoint { lane: LaneId::Communication, state: none, ..one.clone() };
        vec![one, two]
    }

    fn file_of(checkpoints: &[Checkpoint]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/rank-3.state");
        write(&file, checkpoints).unwrap();
        fs::read(file).unwrap()
    }

    #[test]
    fn what_is_written_is_read_bit_for_bit() {
        assert_eq!(decode(&file_of(&checkpoints())).unwrap(), checkpoints());
    }

    #[test]
    fn a_changed_or_torn_file_is_refused() {
        let whole = file_of(&checkpoints());
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(decode(&changed).is_err(), "byte {at} is changed");
            assert!(decode(&whole[..at]).is_err(), "{at} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_with_a_right_digest_are_more_than_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut content = MAGIC.to_vec();
            content.extend(3_u32.to_le_bytes());
            content.append(&mut bytes);
            let digest = Sha256::digest(&content);
            content.extend(digest);
            let _ = decode(&content);
        }
    }
}
