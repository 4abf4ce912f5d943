//! `cargo xtask kills --count 300 --seed 7`: small sweeps whose drivers are killed at drawn moments and started again until the
//! sweeps are done, and how many kills each one took.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the program is for")]

use anyhow::{Context, Result, bail};
use e2e::repeated_kills::{killed_again_and_again, undisturbed};
use std::process::ExitCode;
use strategies::rng::mix;

struct Wish {
    count: u32,
    seed: u64,
}

impl Wish {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut wish = Self { count: 20, seed: 1 };
        let words: Vec<String> = words.collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else { bail!("`{}` needs a number", pair[0]) };
            let parse = || format!("`{name} {value}`");
            match name.as_str() {
                "--count" => wish.count = value.parse().with_context(parse)?,
                "--seed" => wish.seed = value.parse().with_context(parse)?,
                _ => bail!("`{name}` is none of --count, --seed"),
            }
        }
        Ok(wish)
    }
}

fn main() -> Result<ExitCode> {
    let Wish { count, seed } = Wish::parse(std::env::args().skip(1))?;
    let expected = undisturbed()?;
    println!("| sweep | kills | continued from a checkpoint | numbers |");
    println!("|--:|--:|--:|---|");
    let mut kills = 0;
    let mut offences = 0;
    for sweep in 0.. {
        match killed_again_and_again(mix(seed, sweep), &expected) {
            Ok(killed) => {
                let equal = killed.numbers == expected.numbers;
                let words = if equal { "equal" } else { "OTHER" };
                println!("| {sweep} | {} | {} | {words} |", killed.kills, killed.continued);
                kills += killed.kills;
                offences += u32::from(!equal);
            }
            Err(error) => {
                eprintln!("offence in sweep {sweep}: {error:#}");
                offences += 1;
            }
        }
        if kills >= count || offences > 3 {
            println!("{} sweeps, {kills} kills, {offences} offences", sweep + 1);
            break;
        }
    }
    Ok(if offences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
