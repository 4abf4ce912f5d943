//! `cargo xtask faults --count 200 --seed 7`: runs that go wrong, drawn by a seed, and a table of their
//! outcomes. `--first N` begins with the N-th case, so that many cases can be run in pieces.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the program is for")]

use anyhow::{Context, Result, bail};
use e2e::fault::{self, Case, FaultAftermath, ProcessFault};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

struct Wish {
    count: u64,
    seed: u64,
    first: u64,
}

impl Wish {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut wish = Self { count: 20, seed: 1, first: 0 };
        let words: Vec<String> = words.collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { bail!("`{}` needs a number", pair[0]) };
            let value = value.parse().with_context(|| format!("`{name} {value}`"))?;
            match name.as_str() {
                "--count" => wish.count = value,
                "--seed" => wish.seed = value,
                "--first" => wish.first = value,
                _ => bail!("`{name}` is none of --count, --seed, --first"),
            }
        }
        Ok(wish)
    }
}

fn main() -> Result<ExitCode> {
    let Wish { count, seed, first } = Wish::parse(std::env::args().skip(1))?;
    let disks = fault::can_mount();
    println!("| # | fault | moment | strategy | rank | ended | exit | over | clean | database | told |");
    println!("|--:|---|---|---|--:|---|--:|--:|--:|---|---|");
    let mut rows = Vec::new();
    let mut left_out = 0;
    let mut offences = Vec::new();
    for number in first..first + count {
        let case = Case::random(seed, number);
        if case.fault == ProcessFault::FullDisk && !disks {
            left_out += 1;
            continue;
        }
        match case.play() {
            Ok(row) => {
                println!("{}", line(number, &row));
                offences.extend(row.offences.iter().map(|what| format!("{number}: {case}: {what}")));
                rows.push(row);
            }
            Err(error) => offences.push(format!("{number}: {case}: {error:#}")),
        }
    }
    println!("\n{}", sums(&rows));
    if left_out > 0 {
        println!("NOT RUN: {left_out} full disks, because a disk of one's own can be mounted by root only");
    }
    for offence in &offences {
        eprintln!("offence {offence}");
    }
    println!("{} runs, {} offences", rows.len(), offences.len());
    Ok(if offences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(number: u64, row: &FaultAftermath) -> String {
    let FaultAftermath { case, too_late, state, exit, over, clean, intact, told, .. } = row;
    let Case { fault, moment, strategy, rank, .. } = case;
    let exit = exit.map_or_else(|| "killed".into(), |code| code.to_string());
    let late = if *too_late { " (too late)" } else { "" };
    let rank =
        if matches!(fault, ProcessFault::Kill | ProcessFault::Stop) { rank.to_string() } else { "-".into() };
    let over = over.as_secs_f64();
    let clean = clean.as_secs_f64();
    let sound = if *intact { "intact" } else { "DAMAGED" };
    let told = told.replace('|', "/");
    format!(
        "| {number} | {fault} | {moment}{late} | {strategy} | {rank} | {state} | {exit} | {over:.2} s \
         | {clean:.2} s | {sound} | {told} |"
    )
}

/// By fault: how many, how they ended, and the longest times.
fn sums(rows: &[FaultAftermath]) -> String {
    let mut lines = vec![
        "| fault | runs | ended | longest until over | longest until clean | database | offences |"
            .to_owned(),
        "|---|--:|---|--:|--:|---|--:|".to_owned(),
    ];
    for fault in ProcessFault::ALL {
        let own: Vec<&FaultAftermath> = rows.iter().filter(|row| row.case.fault == fault).collect();
        let mut states: BTreeMap<&str, u32> = BTreeMap::new();
        for row in &own {
            *states.entry(&row.state).or_default() += 1;
        }
        let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let longest = |of: fn(&FaultAftermath) -> Duration| {
            own.iter().map(|row| of(row).as_secs_f64()).fold(0.0, f64::max)
        };
        let intact = own.iter().filter(|row| row.intact).count();
        let offences: usize = own.iter().map(|row| row.offences.len()).sum();
        lines.push(format!(
            "| {fault} | {} | {} | {:.2} s | {:.2} s | {intact} intact | {offences} |",
            own.len(),
            states.join(", "),
            longest(|row| row.over),
            longest(|row| row.clean),
        ));
    }
    lines.join("\n")
}
