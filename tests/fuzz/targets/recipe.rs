//! Whatever a recipe says, planning it ends with a plan or with problems, and both can be written down.
//!
//! The text before the first NUL is the recipe; behind it come `--set`, `--sweep` and `--only` arguments, each
//! ended by a NUL. Good starting points for the corpus are the recipes of the repository.

#![no_main]

use bakeoff_fuzz::{Bound, bounded};
use libfuzzer_sys::fuzz_target;
use recipe::{FileProblem, Files, Machine, PlanRequest};
use std::path::{Path, PathBuf};

/// One file that extends nothing but itself.
struct Desk<'a> {
    text: &'a str,
}

impl Files for Desk<'_> {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        if path == Path::new("recipe.toml") { Ok(self.text.to_owned()) } else { Err(FileProblem::new("no such file")) }
    }

    fn exists(&self, _: &Path) -> bool {
        true
    }

    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/desk")
    }
}

/// A plan is not proportional to its recipe: a sweep multiplies. What bounds it is the largest sweep that is
/// planned at all, 10,000 runs; the factor is for what quotes the recipe, its problems.
const BOUND: Bound = Bound { factor: 4096, constant: 256 << 20 };

fuzz_target!(|input: &str| {
    bounded(input.as_bytes(), BOUND, |_| plan(input));
});

fn plan(input: &str) {
    let mut parts = input.split('\0');
    let text = parts.next().unwrap_or_default();
    let overrides: Vec<String> = parts.next().map(str::to_owned).into_iter().collect();
    let sweeps: Vec<String> = parts.next().map(str::to_owned).into_iter().collect();
    let only = parts.next();
    let path = Path::new("recipe.toml");
    let request = PlanRequest { path, overrides: &overrides, sweeps: &sweeps, only, repeats: None };
    match recipe::plan(&Desk { text }, &request, &Machine::new(4)) {
        Ok(plan) => drop(recipe::plan(&Desk { text: &plan.expanded }, &PlanRequest::new(path), &Machine::new(4))),
        Err(problems) => drop((problems.render(recipe::Colours::Ansi, 80), problems.to_json())),
    }
}
