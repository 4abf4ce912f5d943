//! A row, and what holds of each: the exit code, the words, and that nothing was lost.

use e2e::{Desk, DriverProcess, Ended, Sketch};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) const CHECK: &[&str] = &["check", "recipe.toml"];
pub(crate) const RUN: &[&str] = &["run", "recipe.toml"];

/// One row: the broken thing, the change that breaks it, the command line, the exit code, and words of the output.
pub(crate) type Row = (&'static str, fn(&Desk), &'static [&'static str], i32, &'static [&'static str]);

/// The recipe with one piece in place of another.
pub(crate) fn recipe(desk: &Desk, from: &str, to: &str) {
    let whole = Sketch::default().to_string();
    assert!(whole.contains(from), "{from}");
    desk.write("recipe.toml", &whole.replacen(from, to, 1)).unwrap();
}

pub(crate) fn database(desk: &Desk) -> PathBuf {
    desk.at(".bakeoff/bakeoff.db")
}

/// Types it, with the environment that it begins with.
pub(crate) fn typed(desk: &Desk, words: &[&str]) -> Ended {
    let settings = words.iter().take_while(|word| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
    });
    let settings: Vec<&&str> = settings.collect();
    let mut command = desk.command(&words[settings.len()..]).unwrap();
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        command.env(name, value);
    }
    command.env("RUST_BACKTRACE", "1");
    DriverProcess::start(command).unwrap().end(PATIENCE).unwrap()
}

/// A desk with a store in which one run is finished.
pub(crate) struct Template(pub(crate) Desk);

impl Template {
    pub(crate) fn new() -> Self {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", &Sketch::default().to_string()).unwrap();
        desk.run(RUN).unwrap().with_code(0).unwrap();
        Self(desk)
    }

    fn copy(&self) -> Desk {
        let desk = Desk::new().unwrap();
        for name in [".bakeoff", "recipe.toml"] {
            copy(&self.0.at(name), &desk.at(name));
        }
        desk
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// The finished run as it is listed and exported.
pub(crate) fn kept(desk: &Desk) -> String {
    let list = desk.run(["list", "state=done", "--format", "json"]).unwrap().with_code(0).unwrap().stdout;
    let steps = desk.run(["export", "state=done", "--format", "csv", "--what", "steps"]).unwrap();
    list + &steps.with_code(0).unwrap().stdout
}

pub(crate) fn hold(rows: &[Row]) {
    let template = Template::new();
    let before = kept(&template.0);
    let mut faults = Vec::new();
    for (name, ruin, words, code, says) in rows {
        let desk = template.copy();
        ruin(&desk);
        let file = fs::read(database(&desk)).unwrap_or_default();
        let broken = file != fs::read(database(&template.0)).unwrap();
        let ended = typed(&desk, words);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        if ended.code != Some(*code) {
            faults.push(format!("{name}: exit code {:?}, not {code}:\n{said}", ended.code));
        }
        faults.extend(
            says.iter()
                .filter(|what| !said.contains(**what))
                .map(|what| format!("{name}: `{what}` is not in\n{said}")),
        );
        let rude = ["panicked", "RUST_BACKTRACE", "stack backtrace", "a fault of bakeoff itself"];
        faults.extend(
            rude.iter()
                .filter(|what| said.contains(**what))
                .map(|what| format!("{name}: `{what}` is in\n{said}")),
        );
        let lost = if broken {
            fs::read(database(&desk)).unwrap_or_default() != file
        } else {
            kept(&desk) != before
        };
        if lost {
            faults.push(format!("{name}: something was lost"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
