//! Files that exist only in a test.

use recipe::{FileProblem, Files, Machine, Plan, PlanRequest, Problems};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files by name; everything is relative to `/desk`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk {
    files: BTreeMap<PathBuf, String>,
}

/// Four cores, whatever this machine has.
pub(crate) const MACHINE: Machine = Machine::new(4);

impl Desk {
    /// A desk with one recipe, `recipe.toml`.
    pub(crate) fn with(text: &str) -> Self {
        Self::default().and("recipe.toml", text)
    }

    /// One more file.
    pub(crate) fn and(mut self, name: &str, text: &str) -> Self {
        self.files.insert(PathBuf::from(name), text.to_owned());
        self
    }

    /// Plans `recipe.toml`.
    pub(crate) fn plan(&self) -> Result<Plan, Problems> {
        recipe::plan(self, &PlanRequest::new(Path::new("recipe.toml")), &MACHINE)
    }

    /// Plans `recipe.toml` with `--set` arguments.
    pub(crate) fn plan_with(&self, overrides: &[&str]) -> Result<Plan, Problems> {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let request = PlanRequest { overrides: &overrides, ..PlanRequest::new(Path::new("recipe.toml")) };
        recipe::plan(self, &request, &MACHINE)
    }
}

impl Files for Desk {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        self.files
            .get(path.strip_prefix("/desk").unwrap_or(path))
            .cloned()
            .ok_or_else(|| FileProblem::new("no such file"))
    }

    fn exists(&self, path: &Path) -> bool {
        path.starts_with("/desk/data")
    }

    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/desk")
    }
}
