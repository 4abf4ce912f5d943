//! How fast each codec is on one core, beside a plain copy in the same run:
//! `cargo run --release -p strategies --example codec_speed [MIB]`.
//!
//! Gigabytes (10^9) of uncompressed vector per second, the median of several rounds; the vector is 100 MiB of floats
//! unless told otherwise. Rounds of all rows take turns, so that a drift of the machine touches all alike.

use record::Rank;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;
use strategies::compress::{
    Bf16, Compressor, ErrorFeedback, Fp16, Identity, Origin, Qsgd, Quantize8, Sign, Slot, Terngrad, TopK,
    Truncate16,
};
use strategies::{Kind, Packet, StepError, rng::mix};

const ROUNDS: usize = 9;
const SLOT: Slot = Slot { kind: Kind::Reduce, at: 0, step: 1, peer: Rank(1) };

const ORIGIN: Origin = Origin { seed: 1, rank: Rank(0) };

/// The operation that is timed, and the seconds of each round.
struct Row<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<(), StepError> + 'a>,
    seconds: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    // Of all magnitudes, as gradients are.
    let scale = |bits: u64| f32::from_bits(((bits >> 32) as u32 & 0x0fff_ffff) + 0x3000_0000);
    let sign = |bits: u64| if bits & 1 == 0 { 1.0 } else { -1.0 };
    let x: Vec<f32> =
        (0..(mib as u64) << 18).map(|i| mix(7, i)).map(|bits| sign(bits) * scale(bits)).collect();
    let mut rows = Vec::new();
    let mut copy = vec![0.0_f32; x.len()];
    let source = &x;
    let copied = move || {
        copy.copy_from_slice(black_box(source));
        black_box(&mut copy);
        Ok(())
    };
    rows.push(Row { name: "memcpy".into(), run: Box::new(copied), seconds: vec![] });
    rows.extend(rows_of::<Identity>("none", &x));
    rows.extend(rows_of::<Truncate16>("truncate16", &x));
    rows.extend(rows_of::<Quantize8>("quantize8", &x));
    rows.extend(rows_of::<Fp16>("fp16", &x));
    rows.extend(rows_of::<Bf16>("bf16", &x));
    rows.extend(rows_of::<ErrorFeedback<Quantize8>>("quantize8, error feedback", &x).into_iter().take(1));
    rows.extend(rows_of::<Sign>("sign", &x));
    rows.extend(rows_by("top-k, 1 %", || TopK::new(0.01), &x));
    rows.extend(rows_by("terngrad", || Terngrad::new(512, ORIGIN), &x));
    rows.extend(rows_by("qsgd, 7 levels", || Qsgd::new(7, 512, ORIGIN), &x));
    // The first round touches all memory and is not counted.
    for round in 0..=ROUNDS {
        for row in &mut rows {
            let begin = Instant::now();
            (row.run)()?;
            let seconds = begin.elapsed().as_secs_f64();
            if round > 0 {
                row.seconds.push(seconds);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<40} {:>8} {:>8} {:>8}", format!("GB/s of {mib} MiB"), "median", "lowest", "highest")?;
    for row in &mut rows {
        row.seconds.sort_by(f64::total_cmp);
        let speed = |seconds: f64| (x.len() * 4) as f64 / seconds / 1e9;
        let median = speed(row.seconds[ROUNDS / 2]);
        let lowest = speed(row.seconds[ROUNDS - 1]);
        let highest = speed(row.seconds[0]);
        writeln!(out, "{:<40} {median:>8.2} {lowest:>8.2} {highest:>8.2}", row.name)?;
    }
    Ok(())
}

/// Encoding, decoding, and adding the decoded vector.
fn rows_of<'a, C: Compressor + Default + 'a>(name: &str, x: &'a [f32]) -> Vec<Row<'a>> {
    rows_by(name, C::default, x)
}

/// The same of a codec with settings.
fn rows_by<'a, C: Compressor + 'a>(name: &str, codec: impl Fn() -> C, x: &'a [f32]) -> Vec<Row<'a>> {
    let mut encoder = codec();
    let decoder = codec();
    let adder = codec();
    let packet: Packet = encoder.encode(SLOT, x);
    let row = |what: &str, run| Row { name: format!("{name}: {what}"), run, seconds: vec![] };
    let sent = packet.clone();
    let mut into = vec![0.0_f32; x.len()];
    let mut sum = vec![0.0_f32; x.len()];
    vec![
        row(
            "encode",
            Box::new(move || {
                black_box(encoder.encode(SLOT, black_box(x)));
                Ok(())
            }),
        ),
        row("decode", Box::new(move || decoder.decode(black_box(&packet), black_box(&mut into)))),
        row("decode and add", Box::new(move || adder.decode_add(black_box(&sent), black_box(&mut sum)))),
    ]
}
