//! Why an attempt cannot be made at all.

use crate::FaultOrigin;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why an attempt cannot be made at all.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum LaunchError {
    /// There is no worker binary at the expected place.
    #[error(
        "no `bakeoff-worker` at {}; build it with `cargo build --release -p worker`, or name it in BAKEOFF_WORKER",
        .looked.display()
    )]
    NoWorker {
        /// Where it was looked for.
        looked: PathBuf,
    },
    /// The worker binary cannot be read or started.
    #[error(
        "worker {} cannot be started: {source}; build it with `cargo build --release -p worker`, or name another in \
         BAKEOFF_WORKER",
        .path.display()
    )]
    WorkerStart { path: PathBuf, source: io::Error },
    /// The worker binary starts, but does not say which protocol it speaks.
    #[error("worker {} does not say its protocol: {answer}; {}", .path.display(), cure(answer))]
    WorkerSilent {
        path: PathBuf,
        /// Its output, or how it exited.
        answer: String,
    },
    /// The task that fetches a snapshot failed.
    #[error("the task that fetches a snapshot for the evaluator failed: {source}")]
    Fetch { source: tokio::task::JoinError },
    /// The worker binary does not answer.
    #[error(
        "worker {} did not answer `--protocol` within {} s; build driver and worker from one state: `cargo build \
         --workspace`, or name another in BAKEOFF_WORKER",
        .path.display(), .waited.as_secs()
    )]
    WorkerHangs {
        path: PathBuf,
        /// How long the driver waited.
        waited: Duration,
    },
    /// Driver and worker are of different versions.
    #[error(
        "worker {} is version {version}, protocol {protocol}; this driver is version {} with protocol {}; \
         build driver and worker from one state: `cargo build --workspace`",
        .path.display(), env!("CARGO_PKG_VERSION"), mesh::PROTOCOL
    )]
    WorkerVersion {
        path: PathBuf,
        version: String,
        /// The protocol it speaks.
        protocol: String,
    },
    /// Driver and worker have one version, but were built from sources whose messages differ.
    #[error(
        "worker {} speaks wire format {format}, this driver {:016x}; build driver and worker from one state: \
         `cargo build --workspace`",
        .path.display(), mesh::wire_format()
    )]
    WorkerFormat {
        path: PathBuf,
        /// Its wire format in hexadecimal; `unknown` if it names none.
        format: String,
    },
    /// A file or directory of the attempt cannot be made.
    #[error("{} cannot be {what}: {source}", .path.display())]
    File {
        path: PathBuf,
        /// Participle of the operation that failed: `made`, `found`, `written`, `read`.
        what: &'static str,
        source: io::Error,
    },
    /// The directory of the sockets cannot be made.
    #[error("{0}; it lies in XDG_RUNTIME_DIR, or else in /tmp")]
    Sockets(io::Error),
    /// The channel to the workers cannot be opened.
    #[error("the channel to the workers: {0}; its sockets lie in XDG_RUNTIME_DIR, or else in /tmp")]
    Channel(mesh::MeshError),
    /// The channel to the workers ended before they did.
    #[error("the channel to the workers ended before they did")]
    ChannelLost,
    /// The thread that starts processes cannot be started.
    #[error("the thread that starts processes cannot be started: {0}")]
    Thread(io::Error),
    /// A host cannot be used.
    #[error(transparent)]
    Host(#[from] crate::HostError),
    /// A node is not connected.
    #[error("the node `{host}` is not connected")]
    NoHost { host: String },
    /// A data set of this machine cannot be read.
    #[error(transparent)]
    Data(crate::DataFilesError),
    /// The receiver of the updates is gone.
    #[error("the run was ended because its reports are no longer recorded{whereabouts}")]
    Unrecorded {
        /// The ranks' last known activity, as the end of a sentence.
        whereabouts: String,
    },
}

impl LaunchError {
    /// Whether another attempt may do better.
    pub fn origin(&self) -> FaultOrigin {
        match self {
            Self::Sockets(_)
            | Self::Channel(_)
            | Self::ChannelLost
            | Self::Thread(_)
            | Self::Fetch { .. }
            | Self::Host(_) => FaultOrigin::Infrastructure,
            Self::NoWorker { .. }
            | Self::WorkerStart { .. }
            | Self::WorkerSilent { .. }
            | Self::WorkerHangs { .. }
            | Self::WorkerVersion { .. }
            | Self::WorkerFormat { .. }
            | Self::File { .. }
            | Self::NoHost { .. }
            | Self::Data(_)
            | Self::Unrecorded { .. } => FaultOrigin::Program,
        }
    }
}

/// The cure for a worker that prints this in place of its protocol.
fn cure(answer: &str) -> &'static str {
    if answer.contains("shared librar") {
        "`cargo xtask setup` brings the libraries; a binary that was copied needs them where it was built"
    } else {
        "build driver and worker from one state: `cargo build --workspace`"
    }
}
