//! The commit that a recipe belongs to, for the record.

use std::path::Path;
use std::process::{Command, Stdio};
use store::Commit;

/// The commit of the repository that the recipe lies in; `None` where there is no repository, or no `git` to ask.
pub(crate) fn commit(recipe: &Path) -> Option<Commit> {
    let folder = recipe.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hash = git(folder, &["rev-parse", "--verify", "HEAD"])?;
    let changes = git(folder, &["status", "--porcelain"])?;
    Some(Commit { hash: hash.trim().to_owned(), is_changed: !changes.trim().is_empty() })
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_repository_has_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(commit(&folder.path().join("recipe.toml")), None);
    }
}
