//! A site as a commit on a branch, made with git's plumbing: work tree, index and HEAD of the repository stay as they are.

use crate::exit::{Exit, Failure};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Outcome of a commit to the branch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It has a new commit, of this id.
    New(String),
    /// Its last commit has the same files already.
    Same,
}

/// A repository and the branch that a site goes to.
pub(crate) struct SiteBranch {
    folder: PathBuf,
    name: String,
    reference: String,
    index: PathBuf,
}

impl Drop for SiteBranch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.index);
    }
}

impl SiteBranch {
    /// The branch in the repository that contains `site`, else in that of the current folder; found before anything is written.
    pub(crate) fn find(site: &Path, name: &str) -> Result<Self, Failure> {
        // The site's folder may not exist yet.
        let above = std::path::absolute(site).unwrap_or_else(|_| site.to_owned());
        let near = above.ancestors().find(|folder| folder.is_dir()).map(Path::to_owned);
        let places = near.into_iter().chain([PathBuf::from(".")]);
        let found = places.into_iter().find_map(|folder| {
            let asked = git(&folder, &["rev-parse", "--absolute-git-dir"], None, None).ok()?;
            Some((folder, PathBuf::from(asked)))
        });
        let (folder, directory) = found.ok_or_else(|| {
            Failure::new(
                Exit::Preflight,
                format!("no git repository contains {} or the current folder", site.display()),
            )
            .cure("run `git init` there, or leave out --gh-pages")
        })?;
        let reference = format!("refs/heads/{name}");
        git(&folder, &["check-ref-format", &reference], None, None).map_err(|_| {
            Failure::new(Exit::Usage, format!("`{name}` cannot be the name of a branch"))
                .cure("take --gh-pages alone")
        })?;
        let trees = git(&folder, &["worktree", "list", "--porcelain"], None, None).map_err(refused)?;
        if trees.lines().any(|line| line == format!("branch {reference}")) {
            let what =
                format!("branch {name} is checked out, and its files would differ from the new commit");
            return Err(Failure::new(Exit::Usage, what)
                .cure("check out another branch, or name one: --gh-pages=BRANCH"));
        }
        let index = directory.join(format!("bakeoff-publish-{}.index", std::process::id()));
        Ok(Self { folder, name: name.to_owned(), reference, index })
    }

    /// Commits the files. Those that the branch has beside them stay, except `gone`.
    pub(crate) fn commit(
        &self,
        files: &[(String, Vec<u8>)],
        gone: &[String],
        message: &str,
    ) -> Result<Committed, Failure> {
        let parent = self
            .ask(&["rev-parse", "--verify", "--quiet", &format!("{}^{{commit}}", self.reference)], None)
            .ok();
        match &parent {
            Some(parent) => self.do_it(&["read-tree", parent], None)?,
            None => self.do_it(&["read-tree", "--empty"], None)?,
        };
        let mut entries = Vec::new();
        for (path, content) in files {
            let blob = self.do_it(&["hash-object", "-w", "--stdin"], Some(content))?;
            entries.extend_from_slice(format!("100644 {blob}\t{path}\0").as_bytes());
        }
        for path in gone {
            entries.extend_from_slice(format!("0 {}\t{path}\0", "0".repeat(40)).as_bytes());
        }
        self.do_it(&["update-index", "-z", "--index-info"], Some(&entries))?;
        let tree = self.do_it(&["write-tree"], None)?;
        if let Some(parent) = &parent
            && self.do_it(&["rev-parse", &format!("{parent}^{{tree}}")], None)? == tree
        {
            return Ok(Committed::Same);
        }
        let mut arguments = vec!["commit-tree", &tree, "-m", message];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent]);
        }
        let commit = self.do_it(&arguments, None)?;
        // The former value is named, so that a commit made meanwhile is not lost; an empty one means that there is none.
        let former = parent.unwrap_or_default();
        self.do_it(&["update-ref", "-m", "bakeoff publish", &self.reference, &commit, &former], None)?;
        Ok(Committed::New(commit))
    }

    /// Command that publishes the branch, for the user; it says `REMOTE` where the repository has no remote.
    pub(crate) fn push_command(&self) -> String {
        let remotes = self.ask(&["remote"], None).unwrap_or_default();
        let remote =
            remotes.lines().find(|name| *name == "origin").or(remotes.lines().next()).unwrap_or("REMOTE");
        format!("git push {remote} {}", self.name)
    }

    fn ask(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, String> {
        git(&self.folder, arguments, input, Some(&self.index))
    }

    fn do_it(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, Failure> {
        self.ask(arguments, input).map_err(refused)
    }
}

fn refused(why: String) -> Failure {
    Failure::new(Exit::Preflight, why).cure("the folder of the site is written; the branch is as it was")
}

/// Runs git. Returns its standard output without the last ends of lines, or the reason why it failed.
fn git(
    folder: &Path,
    arguments: &[&str],
    input: Option<&[u8]>,
    index: Option<&Path>,
) -> Result<String, String> {
    let failed = |why: &str| format!("git {}: {why}", arguments.join(" "));
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("GIT_OPTIONAL_LOCKS", "0").env_remove("GIT_INDEX_FILE");
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(&error.to_string()))?;
    let pipe = child.stdin.take().zip(input);
    let fed = pipe.map_or(Ok(()), |(mut pipe, input)| pipe.write_all(input));
    let output = child.wait_with_output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
    }
    fed.map_err(|error| failed(&error.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}
