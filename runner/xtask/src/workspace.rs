//! Where the working tree is, and what of it the chores need to know.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::child::Child;

/// The working tree this program belongs to.
pub(crate) struct Workspace {
    root: PathBuf,
    libtorch_variable: Option<OsString>,
}

impl Workspace {
    /// The tree that holds this package's manifest.
    pub(crate) fn find() -> Result<Self> {
        // Cargo sets the variable at run time; the compiled-in value serves a direct call of the binary.
        let manifest =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = PathBuf::from(manifest);
        let root =
            manifest.ancestors().nth(2).filter(|root| root.join("Cargo.lock").is_file()).with_context(
                || format!("{} is not inside a working tree of this project", manifest.display()),
            )?;
        Ok(Self::new(root, std::env::var_os("LIBTORCH")))
    }

    /// A tree at `root`, seen by a process whose `LIBTORCH` is the given one.
    pub(crate) fn new(root: &Path, libtorch_variable: Option<OsString>) -> Self {
        Self { root: root.to_owned(), libtorch_variable }
    }

    /// The folder with the workspace's manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where `setup` puts libtorch, and where `.cargo/config.toml` makes Cargo look for it.
    pub(crate) fn own_libtorch(&self) -> PathBuf {
        self.root.join("libtorch")
    }

    /// The libtorch that the *user* names in `LIBTORCH`.
    ///
    /// `.cargo/config.toml` sets the same variable for everything that `cargo run` starts, this program included, so
    /// a value that leads to our own folder is Cargo's and not the user's.
    pub(crate) fn users_libtorch(&self) -> Option<&Path> {
        let value = Path::new(self.libtorch_variable.as_deref()?);
        (value != self.own_libtorch()).then_some(value)
    }

    /// A child process in the root of the tree.
    pub(crate) fn child(&self, program: &str) -> Child {
        Child::new(program).folder(&self.root)
    }

    /// Cargo's folder for built things, wherever the user's settings put it.
    pub(crate) fn target_folder(&self) -> Result<PathBuf> {
        let output = self
            .child("cargo")
            .arguments(&["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .read()?;
        let metadata: serde_json::Value =
            serde_json::from_str(&output).context("cannot read what `cargo metadata` says")?;
        let folder =
            metadata["target_directory"].as_str().context("`cargo metadata` names no target folder")?;
        Ok(PathBuf::from(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_folder_is_the_users_libtorch() {
        let tree = |value: Option<&str>| Workspace::new(Path::new("/clone"), value.map(OsString::from));
        for (value, expected) in [
            (None, None),
            (Some("/clone/libtorch"), None),
            (Some("/clone/libtorch/"), None),
            (Some("/opt/libtorch"), Some("/opt/libtorch")),
            (Some("/clone/libtorch/other"), Some("/clone/libtorch/other")),
        ] {
            assert_eq!(tree(value).users_libtorch(), expected.map(Path::new), "{value:?}");
        }
    }

    #[test]
    fn the_real_tree_is_found() {
        let workspace = Workspace::find().expect("this package is in its tree");
        assert!(workspace.root().join("runner/xtask/Cargo.toml").is_file());
        assert!(workspace.target_folder().expect("cargo metadata").is_absolute());
    }
}
