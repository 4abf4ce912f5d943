//! Writes inputs that make sense into the corpus of each target, for the fuzzer to begin with. It fuzzes nothing, but
//! is linked as all targets are: `cargo +nightly fuzz run seeds -- -runs=0`.

#![no_main]

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use mesh::{Heartbeat, ToDriver, ToMember};
use record::{Event, LaneId, Nanos, Phase, Rank, RankEnd, RankEnded, WeightHash};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

fuzz_target!(
    init: if let Err(error) = write_all() {
        panic!("{error}");
    },
    |bytes| {
        let _: &[u8] = bytes;
    }
);

fn write_all() -> Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let write = |target: &str, inputs: Vec<Vec<u8>>| -> Result<()> {
        let folder = here.join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        (0..).zip(inputs).try_for_each(|(number, input)| {
            std::fs::write(folder.join(format!("seed-{number}")), input)
        })
    };
    write("recipe", recipes(&here.join("../../recipes"))?)?;
    write("frame", frames())?;
    write("control", messages())?;
    write("idx", idx()?)?;
    write("cifar", cifar()?)
}

/// All recipes of the repository, alone and with arguments.
fn recipes(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == "toml") {
                let text = std::fs::read(path)?;
                let arguments = b"\0train.global-batch=64\0nodes.workers=1,2\0strategy.kind == 'd-sync'";
                texts.push([&text[..], arguments].concat());
                texts.push(text);
            }
        }
    }
    Ok(texts)
}

/// Sequences of frames: an empty message, one in chunks, a request for credits, an end message.
fn frames() -> Vec<Vec<u8>> {
    let frame = |word: u8, size: u64, offset: u64, payload: &[u8]| {
        let mut bytes = vec![3];
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(b"BKDF");
        bytes.extend((mesh::PROTOCOL as u16).to_le_bytes());
        bytes.extend([word, 1]);
        bytes.extend([0; 16]);
        bytes.extend(size.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    };
    let whole = frame(1, 3, 0, b"abc");
    let chunks = [frame(2, 6, 0, b""), frame(3, 0, 0, b"abcd"), frame(3, 0, 4, b"ef")].concat();
    let rest = [frame(1, 0, 0, b""), frame(4, 0, 0, b""), frame(5, 0, 0, b"")].concat();
    let giant = [frame(2, 1 << 32, 0, b""), frame(3, 0, 0, b"abcd")].concat();
    vec![whole.clone(), chunks.clone(), rest.clone(), giant, [whole, chunks, rest].concat()]
}

/// Messages in both directions.
fn messages() -> Vec<Vec<u8>> {
    let rank = Rank(1);
    let hash = WeightHash { rank, step: 4, sha256: "ab".repeat(32) };
    let reason = "out of memory".to_owned();
    let end = RankEnd::Failed { lane: LaneId::Compute, step: 3, phase: Phase::Forward, peer: Some(rank), reason };
    let events = vec![Event::WeightHash(hash), Event::Ended(RankEnded { rank, end })];
    let heartbeat = Heartbeat {
        lane: LaneId::Client(2),
        step: 7,
        phase: Phase::WaitPeer,
        since: Nanos(5),
        samples: 9,
        loss: Some(0.5),
    };
    let said = [
        ToDriver::Events(events),
        ToDriver::Heartbeat(heartbeat),
        ToDriver::Evaluated { file: "snapshots/rank-0-step-1.f32".into(), failure: None },
        ToDriver::Goodbye,
    ];
    let told = [ToMember::Start { origin: 12 }, ToMember::Stop, ToMember::Leave];
    let said = said.iter().filter_map(|message| rmp_serde::to_vec_named(message).ok());
    said.chain(told.iter().filter_map(|message| rmp_serde::to_vec_named(message).ok())).collect()
}

/// Three images with their labels, plain and packed.
fn idx() -> Result<Vec<Vec<u8>>> {
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let images = [numbers(&[2051, 3, 2, 2]), vec![9; 12]].concat();
    let labels = [numbers(&[2049, 3]), vec![1, 2, 3]].concat();
    let input = |packing: u8, images: &[u8], labels: &[u8]| {
        [&[packing][..], &(images.len() as u16).to_le_bytes(), images, labels].concat()
    };
    Ok(vec![input(0, &images, &labels), input(1, &gzip(&images)?, &gzip(&labels)?)])
}

/// Two records of each kind, plain and packed.
fn cifar() -> Result<Vec<Vec<u8>>> {
    let ten = [&[3][..], &[7; 3072]].concat().repeat(2);
    let hundred = [&[3, 99][..], &[7; 3072]].concat().repeat(2);
    let input = |choice: u8, bytes: &[u8]| [&[choice][..], bytes].concat();
    Ok(vec![input(0, &ten), input(2, &hundred), input(1, &gzip(&ten)?), input(3, &gzip(&hundred)?)])
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}
