//! Child processes: each error names its command, and none is run by a shell.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};

/// A child process to be.
pub(crate) struct Child {
    /// Its name in messages, in place of the command line.
    title: Option<String>,
    command: Command,
}

impl Child {
    /// `program`, looked up in `PATH`, with this process's standard streams.
    pub(crate) fn new(program: &str) -> Self {
        Self { title: None, command: Command::new(program) }
    }

    /// Sets its name in messages, in place of the command line.
    pub(crate) fn called(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Starts the program in `folder`.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The command line, or the name in its place.
    pub(crate) fn name(&self) -> String {
        if let Some(title) = &self.title {
            return title.clone();
        }
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }

    /// Runs to the end with inherited output, and returns how it ended.
    pub(crate) fn status(mut self) -> Result<ExitStatus> {
        self.command.status().map_err(|error| self.cannot_start(error))
    }

    /// Runs to the end, output passing through; anything but success is an error.
    pub(crate) fn run(self) -> Result<()> {
        let name = self.name();
        expect_success(&name, self.status()?)
    }

    /// Runs to the end and returns its standard output.
    pub(crate) fn read(mut self) -> Result<String> {
        let output = self.command.stdin(Stdio::null()).output().map_err(|error| self.cannot_start(error))?;
        let words = String::from_utf8_lossy(&output.stderr);
        expect_success(&self.name(), output.status).with_context(|| words.trim().to_owned())?;
        String::from_utf8(output.stdout).with_context(|| format!("`{}` wrote no text", self.name()))
    }

    /// Runs to the end with `input` on its standard input; anything but success is an error.
    pub(crate) fn feed(mut self, input: &str) -> Result<()> {
        let name = self.name();
        let mut child =
            self.command.stdin(Stdio::piped()).spawn().map_err(|error| self.cannot_start(error))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).with_context(|| format!("cannot write to `{name}`"))?;
        }
        expect_success(&name, child.wait().with_context(|| format!("cannot wait for `{name}`"))?)
    }

    fn cannot_start(&self, error: std::io::Error) -> anyhow::Error {
        let program = self.command.get_program().to_string_lossy();
        match error.kind() {
            ErrorKind::NotFound => anyhow!("`{program}` is not installed, or not in PATH"),
            _ => anyhow::Error::new(error).context(format!("cannot start `{program}`")),
        }
    }
}

fn expect_success(name: &str, status: ExitStatus) -> Result<()> {
    if status.success() { Ok(()) } else { Err(anyhow!("`{name}` failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_failures_name_the_program() {
        assert_eq!(Child::new("echo").arguments(&["one", "two"]).read().expect("echo"), "one two\n");
        let failed = Child::new("ls").argument("/no/such/folder").read().expect_err("no such folder");
        let failed = format!("{failed:#}");
        assert!(failed.starts_with("ls: ") && failed.contains("`ls /no/such/folder` failed"), "{failed}");
        let missing = Child::new("no-such-program").run().expect_err("no such program");
        assert_eq!(missing.to_string(), "`no-such-program` is not installed, or not in PATH");
    }

    #[test]
    fn input_reaches_the_child() {
        Child::new("grep").arguments(&["-q", "needle"]).feed("hay\nneedle\n").expect("grep finds it");
        Child::new("grep").arguments(&["-q", "needle"]).feed("hay\n").expect_err("grep finds nothing");
    }
}
