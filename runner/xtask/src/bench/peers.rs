//! The peers' software: found, or brought to where no root is needed, or reported as missing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::child::Child;
use crate::workspace::Workspace;

/// The version that our own libtorch has.
const TORCH: &str = "torch==2.11.0";

/// The peers that are measured beside ours, as far as they could be installed.
pub(super) struct Peers {
    folder: PathBuf,
    /// A Python that imports torch, or why there is none.
    python: Result<PathBuf, String>,
    /// The compiled MPI program, or why there is none.
    mpi: Result<PathBuf, String>,
}

impl Peers {
    /// Looks for the peers, and installs what can be installed under `target/peers`.
    pub(super) fn find(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target_folder()?.join("peers");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let python = python(&folder).map_err(|error| format!("{error:#}"));
        let mpi = mpi(workspace, &folder).map_err(|error| format!("{error:#}"));
        Ok(Self { folder, python, mpi })
    }

    /// Where the measurements may leave files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A Python that imports torch.
    pub(super) fn python(&self) -> Option<&Path> {
        self.python.as_deref().ok()
    }

    /// The compiled MPI program.
    pub(super) fn mpi(&self) -> Option<&Path> {
        self.mpi.as_deref().ok()
    }

    /// A sentence for each peer that is not there.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Err(reason) = &self.python {
            sentences.push(format!(
                "PyTorch is not installed: `python3 -m venv` and `pip install {TORCH}` must work, or `python3` must import \
                 torch ({reason})"
            ));
        }
        if let Err(reason) = &self.mpi {
            sentences.push(format!(
                "Open MPI is not installed: the packages libopenmpi-dev and openmpi-bin bring it on Debian and Ubuntu \
                 ({reason})"
            ));
        }
        sentences
    }
}

fn imports_torch(python: &Path) -> Result<()> {
    Child::new(&python.to_string_lossy()).arguments(&["-c", "import torch.distributed"]).read().map(drop)
}

/// The machine's own Python if it has torch, else one under `folder`.
fn python(folder: &Path) -> Result<PathBuf> {
    let own = PathBuf::from("python3");
    if imports_torch(&own).is_ok() {
        return Ok(own);
    }
    let environment = folder.join("python");
    let private = environment.join("bin/python");
    if imports_torch(&private).is_err() {
        eprintln!("installing {TORCH} into {} (several GB, once)", environment.display());
        Child::new("python3").arguments(&["-m", "venv"]).argument(&environment).run()?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", TORCH, "numpy"];
        Child::new(&private.to_string_lossy()).arguments(&install).run()?;
        imports_torch(&private)?;
    }
    Ok(private)
}

fn mpi(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("all_reduce");
    let source = workspace.root().join("tests/peers/all_reduce.c");
    Child::new("mpicc")
        .arguments(&["-O3", "-march=native", "-o"])
        .argument(&program)
        .argument(source)
        .run()?;
    Child::new("mpirun").argument("--version").read()?;
    Ok(program)
}
