//! How the program ends: documented exit codes, and failures that know theirs.

use launch::LaunchError;
use reports::{CombineError, FigureError, JoinError, ReportError};
use std::io;
use std::process::ExitCode;
use store::{AnnotationError, BundleError, SelectionError, StoreError};

/// The exit codes; `bakeoff --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// A fault of this program.
    Internal = 1,
    /// The command line or the recipe is wrong.
    Usage = 2,
    /// Nothing fits the selection.
    Empty = 3,
    /// The machine cannot run the plan.
    Preflight = 4,
    /// The sweep is finished, but runs failed, diverged, continued without a rank, or missed their target.
    Short = 5,
    /// A comparison found what it was to fail at.
    Broken = 6,
    /// The store cannot be used.
    Store = 7,
    /// The terminal went away; the same command resumes.
    HungUp = 129,
    /// Interrupted by Ctrl-C; the same command resumes.
    Interrupted = 130,
    /// Ended by SIGTERM or `bakeoff stop`; the same command resumes.
    Terminated = 143,
}

impl Exit {
    /// Of a file that cannot be written: a place that is none was named, or the machine has no room.
    pub(crate) fn of_file(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename => Self::Usage,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Preflight,
            _ => Self::Internal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Everything has been said already.
    Told(Exit),
    /// Still to be said.
    Fault {
        exit: Exit,
        /// The error and its place, for the user.
        error: anyhow::Error,
        /// The cure, if the error does not name it.
        cure: Option<String>,
    },
}

impl Failure {
    /// A failure with a sentence of its own.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self::Fault { exit, error: anyhow::Error::msg(what.into()), cure: None }
    }

    /// Sets the cure, in place of any before; a failure that was told already stays as it is.
    pub(crate) fn cure(self, what: impl Into<String>) -> Self {
        match self {
            Self::Fault { exit, error, .. } => Self::Fault { exit, error, cure: Some(what.into()) },
            told @ Self::Told(_) => told,
        }
    }

    fn of(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self::Fault { exit, error: error.into(), cure: None }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match error {
            StoreError::Empty { .. } | StoreError::Unknown { .. } => Exit::Empty,
            StoreError::Ambiguous { .. } => Exit::Usage,
            _ => Exit::Store,
        };
        Self::of(exit, error)
    }
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Store(error) => error.into(),
            BundleError::Unwritable { .. } => Self::of(Exit::Internal, error),
            BundleError::NoJournal { .. } | BundleError::Unbundled { .. } => Self::of(Exit::Store, error),
            error => Self::of(Exit::Preflight, error),
        }
    }
}

impl From<AnnotationError> for Failure {
    fn from(error: AnnotationError) -> Self {
        Self::of(Exit::Usage, error)
    }
}

impl From<SelectionError> for Failure {
    fn from(error: SelectionError) -> Self {
        Self::of(Exit::Usage, error)
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Host(error) => {
                let cure = error.cure();
                Self::of(Exit::Preflight, error).cure(cure)
            }
            error => Self::of(Exit::Preflight, error),
        }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        let cure = match &error {
            JoinError::NothingInCommon { .. } => {
                "select one arm on each side, or sweeps of one recipe: `bakeoff list` shows arms and conditions"
            }
            JoinError::MeasuredOnce { .. } => {
                "measure it again with `bakeoff run RECIPE --fresh`, or leave its arm out: `last and not arm=NAME`"
            }
            JoinError::SameRun { .. } => "select other runs: `last~1` is the sweep before the last",
            JoinError::OtherWork { what: "data set", .. } => {
                "compare the time of a step, `--metric step-time`, or runs on the same data"
            }
            JoinError::OtherWork { .. } => {
                "give the recipe a target, and compare the time to it; or select runs of the same work"
            }
            JoinError::OtherTarget { .. } => "compare the time of a step: `--metric step-time`",
        };
        let exit = if matches!(error, JoinError::NothingInCommon { .. }) { Exit::Empty } else { Exit::Usage };
        Self::of(exit, error).cure(cure)
    }
}

impl From<CombineError> for Failure {
    fn from(error: CombineError) -> Self {
        match error {
            CombineError::Join(error) => error.into(),
            CombineError::SameSweep { .. } => Self::of(Exit::Usage, error)
                .cure("join selections of one sweep by `or`: \"(last and arm=a) or (last and arm=b)\""),
        }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        let exit = match error {
            ReportError::UnknownBaseline(_) | ReportError::TooLarge { .. } => Exit::Usage,
            _ => Exit::Internal,
        };
        Self::of(exit, error)
    }
}

impl From<FigureError> for Failure {
    fn from(error: FigureError) -> Self {
        let cure = match error {
            FigureError::Report(error) => return error.into(),
            FigureError::Malformed(_) | FigureError::NoSize { .. } => return Self::of(Exit::Internal, error),
            FigureError::Absent { .. } => "`bakeoff figure` lists the figures of a sweep",
            FigureError::SeveralConditions { .. } => {
                "select one of them, as in `bakeoff figure accuracy \"last and workers=4\" -o fig.pdf`"
            }
            FigureError::NoSuchAxis { .. } => "name one of those, or leave it out",
            FigureError::TooNarrow { .. } => "take a column of 85 mm and letters of 8 pt, or more of both",
        };
        Self::of(Exit::Usage, error).cure(cure)
    }
}

impl From<io::Error> for Failure {
    /// Errors of standard output: a closed pipe is no failure, because its reader may stop early.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Told(Exit::Done),
            _ => Self::new(Exit::Internal, format!("the output cannot be written: {error}"))
                .cure("write it to another place, or free some space there"),
        }
    }
}
