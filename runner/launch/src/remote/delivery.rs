//! Files that a host is sent: the worker program with its libraries, data sets, and the files of checkpoints.

use super::error::{HostError, HostFault};
use super::libraries::{FileUse, LocalFile, local, worker_files};
use super::link::HostLink;
use super::start::Upload;
use crate::channel::{CachedFile, Reply, Request};
use crate::data_files;
use crate::local::environment::{self, library_path};
use crate::{LaunchError, WorkerBinary};
use recipe::{Access, Source};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::UnboundedSender;

/// The worker program and its libraries, digested once for all hosts.
pub(super) type WorkerFiles = Arc<OnceCell<Vec<LocalFile>>>;

/// The worker program on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostedWorker {
    pub(crate) program: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
    /// That of the bytes that are there, and of the libtorch that they find.
    pub(crate) identity: String,
}

/// Makes the worker program and its libraries ready on a host, for ranks that compute with `threads` threads; none where no rank is to start.
pub(super) async fn hosted_worker(
    link: &HostLink,
    worker: &WorkerBinary,
    files: &WorkerFiles,
    uploads: &UnboundedSender<Upload>,
    threads: Option<u32>,
) -> Result<HostedWorker, LaunchError> {
    let node = &link.node;
    let mut hosted = match (&node.access, &node.worker) {
        (Access::Local, None) => {
            let environment = library_path(node.libtorch.as_ref());
            HostedWorker { program: worker.path.clone(), environment, ..HostedWorker::default() }
        }
        (_, Some(program)) => {
            let environment = library_path(node.libtorch.as_ref());
            HostedWorker { program: program.clone(), environment, ..HostedWorker::default() }
        }
        (Access::Ssh { .. } | Access::Slurm { .. }, None) => {
            let digested = files.get_or_try_init(async || {
                let path = worker.path.clone();
                let failed = |error| unread_worker(&worker.path, io::Error::other(error));
                tokio::task::spawn_blocking(move || worker_files(&path)).await.map_err(failed)?
            });
            let all = digested.await?;
            // Where the host has libtorch, only the program is sent.
            let sent = if node.libtorch.is_some() { &all[..1] } else { &all[..] };
            let folder = send(link, sent, uploads).await?;
            let program = folder.join(&all[0].file.name);
            let libraries = node.libtorch.clone().unwrap_or(folder);
            let environment = library_path(Some(&libraries));
            HostedWorker { program, environment, ..HostedWorker::default() }
        }
    };
    environment::add(&mut hosted.environment, &node.environment);
    let program = hosted.program.clone();
    let environment = hosted.environment.clone();
    let examine = Request::Examine { program, threads, environment };
    let Reply::Examined(identity) = link.request(examine, Vec::new()).await? else {
        let what = "its agent does not say which worker program it has".to_owned();
        return Err(link.fault(HostFault::Refused { what }).into());
    };
    Ok(HostedWorker { identity, ..hosted })
}

fn unread_worker(path: &Path, source: io::Error) -> LaunchError {
    LaunchError::File { path: path.to_owned(), what: "read", source }
}

/// A data set that a host should have.
pub(super) struct DataWish {
    pub(super) source: Source,
    /// Its digest on this machine.
    pub(super) expected: String,
    /// Whether to bring it there.
    pub(super) copy: bool,
}

/// The folder of a data set on a host, which is the same as on this machine.
pub(super) async fn hosted_data(
    link: &HostLink,
    wish: &DataWish,
    uploads: &UnboundedSender<Upload>,
) -> Result<PathBuf, LaunchError> {
    let DataWish { source, expected, copy } = wish;
    let path = source.path().unwrap_or(Path::new(""));
    let place = match (&link.node.data, path.file_name()) {
        (Some(folder), Some(kind)) => folder.join(kind),
        _ => path.to_owned(),
    };
    let differs = |place: &Path| {
        let what = format!("its data in {} differ from those of this machine", place.display());
        LaunchError::from(link.fault(HostFault::Data { what }))
    };
    match data_digest_at(link, source, &place).await {
        Ok(digest) if digest == *expected => Ok(place),
        Err(HostError { fault: HostFault::Refused { .. }, .. }) | Ok(_) if *copy => {
            let files = data_files::files(source).map_err(LaunchError::Data)?;
            let files: Result<Vec<_>, _> = files.iter().map(|path| local(path, FileUse::Data)).collect();
            let place = send(link, &files?, uploads).await?;
            // Files that were sent for another run may have been changed since.
            match data_digest_at(link, source, &place).await? {
                digest if digest == *expected => Ok(place),
                _ => Err(differs(&place)),
            }
        }
        Ok(_) => Err(differs(&place)),
        Err(HostError { fault: HostFault::Refused { what }, .. }) => {
            Err(link.fault(HostFault::Data { what }).into())
        }
        Err(error) => Err(error.into()),
    }
}

async fn data_digest_at(link: &HostLink, source: &Source, place: &Path) -> Result<String, HostError> {
    match link.request(Request::Data { source: source.at(place) }, Vec::new()).await? {
        Reply::Digest(digest) => Ok(digest),
        _ => Err(link.fault(HostFault::Refused { what: "an unexpected reply".into() })),
    }
}

/// Sends the files of a checkpoint into the directory of an attempt on a host, and returns their folder there.
///
/// # Errors
/// A file cannot be read, or the host does not take it.
pub(super) async fn hosted_state(
    link: &HostLink,
    attempt: u64,
    files: Vec<PathBuf>,
    uploads: &UnboundedSender<Upload>,
) -> Result<PathBuf, LaunchError> {
    let digested = tokio::task::spawn_blocking(move || {
        files.iter().map(|path| local(path, FileUse::Data)).collect::<Result<Vec<_>, _>>()
    });
    let files = digested.await.map_err(|source| LaunchError::Fetch { source })??;
    let files = send_missing(link, &files, uploads).await?;
    folder_of(link, Request::Adopt { attempt, files }).await
}

/// Sends the files that a host's cache lacks. Returns the folder in which they stand under their names.
async fn send(
    link: &HostLink,
    files: &[LocalFile],
    uploads: &UnboundedSender<Upload>,
) -> Result<PathBuf, LaunchError> {
    let cached = send_missing(link, files, uploads).await?;
    let mut digest = Sha256::new();
    for file in &cached {
        digest.update(format!("{} {}\n", file.name, file.sha256));
    }
    let folder = recipe::hex(&digest.finalize()[..16]);
    folder_of(link, Request::Assemble { folder, files: cached }).await
}

/// The folder that a request makes on a host.
async fn folder_of(link: &HostLink, request: Request) -> Result<PathBuf, LaunchError> {
    let refused = |what: &str| link.fault(HostFault::Cache { what: what.into() });
    match link.request(request, Vec::new()).await {
        Ok(Reply::Assembled(folder)) => Ok(folder),
        Ok(_) => Err(refused("it made no folder").into()),
        Err(HostError { fault: HostFault::Refused { what }, .. }) => Err(refused(&what).into()),
        Err(error) => Err(error.into()),
    }
}

/// Sends the files that a host's cache lacks.
async fn send_missing(
    link: &HostLink,
    files: &[LocalFile],
    uploads: &UnboundedSender<Upload>,
) -> Result<Vec<CachedFile>, LaunchError> {
    let cached: Vec<CachedFile> = files.iter().map(|file| file.file.clone()).collect();
    let missing = match link.request(Request::Missing { files: cached.clone() }, Vec::new()).await? {
        Reply::Missing(missing) => missing,
        _ => Vec::new(),
    };
    for LocalFile { path, file } in missing.into_iter().filter_map(|index| files.get(index)) {
        let told = |sent| {
            let upload =
                Upload { host: link.node.name.clone(), file: file.name.clone(), sent, size: file.size };
            // Fails if no progress is shown.
            let _ = uploads.send(upload);
        };
        link.put(file.clone(), path, told).await?;
    }
    Ok(cached)
}
