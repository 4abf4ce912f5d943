//! The driver's end of the channel to a host's agent.

use super::error::{HostError, HostFault};
use super::start::{AgentProgram, Said, Started, Upload, start};
use crate::channel::{
    Destination, Frame, FromAgent, Greeting, LEASE, Opener, Outlet, Patient, Reply, Request, SIGN_OF_LIFE,
    StreamMessage, Streams, ToAgent, Urgency, outlet, read_frame, urgency,
};
use crate::log::log_file;
use crate::{ProcessExit, digest};
use bytes::Bytes;
use mesh::Member;
use recipe::Node;
use record::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

/// Pieces of a fetched file that wait for the disk.
const PIECES: usize = 64;
/// For the agent's greeting after its start.
const GREETING: Duration = Duration::from_secs(30);
/// For the rest of a file to be written after its last piece was sent.
const WRITTEN: Duration = Duration::from_mins(10);
/// For an agent to end after its input has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// Connection to a host through its agent.
pub(crate) struct HostLink {
    pub(crate) node: Node,
    pub(crate) greeting: Greeting,
    outlet: Outlet<ToAgent>,
    state: Arc<LinkState>,
    writer: JoinHandle<io::Result<()>>,
    signs: JoinHandle<()>,
    child: Mutex<Option<Child>>,
}

/// State that the reader of a channel and the channel's users share.
struct LinkState {
    host: String,
    table: Mutex<Table>,
    streams: Streams<ToAgent>,
}

#[derive(Default)]
struct Table {
    next: u32,
    replies: BTreeMap<u32, oneshot::Sender<Result<Reply, HostFault>>>,
    files: BTreeMap<u32, mpsc::Sender<Bytes>>,
    attempts: BTreeMap<u64, AttemptEnd>,
    /// Why the channel ended.
    lost: Option<HostFault>,
}

/// The driver's end of an attempt on a host.
pub(crate) struct AttemptEnd {
    /// Receives the exits of its processes.
    pub(crate) exits: UnboundedSender<(Member, ProcessExit)>,
    /// The attempt's directory on this machine, for the logs.
    pub(crate) directory: PathBuf,
    /// The socket of the driver's control plane.
    pub(crate) control: PathBuf,
    /// The hosts of its ranks, for connections that travel through the driver.
    pub(crate) hosts: BTreeMap<Rank, Weak<HostLink>>,
    /// Receives sentences for its record.
    pub(crate) notes: UnboundedSender<String>,
    /// Members whose processes run on the host.
    pub(crate) running: BTreeSet<Member>,
}

impl HostLink {
    /// Starts an agent on a node and waits for its greeting.
    pub(crate) async fn connect(
        node: &Node,
        program: &AgentProgram,
        uploads: &UnboundedSender<Upload>,
    ) -> Result<Arc<Self>, HostError> {
        let fault = |fault| HostError { host: node.name.clone(), fault };
        let Started { mut child, input, mut output, errors } =
            start(node, program, uploads).await.map_err(fault)?;
        let greeting = match timeout(GREETING, read_frame::<FromAgent>(&mut output)).await {
            Err(_) => return Err(fault(HostFault::Silent { waited: GREETING })),
            Ok(Ok(Some(Frame { message: FromAgent::Greeting(greeting), .. }))) => greeting,
            Ok(_) => {
                let ended = timeout(FAREWELL, child.wait()).await;
                let code = ended.ok().and_then(Result::ok).map_or(String::new(), |status| status.to_string());
                let said = errors.last().await;
                return Err(fault(HostFault::NoAgent { said: if said.is_empty() { code } else { said } }));
            }
        };
        let expected = (env!("CARGO_PKG_VERSION"), mesh::PROTOCOL, mesh::wire_format());
        if (greeting.version.as_str(), greeting.protocol, greeting.format) != expected {
            return Err(fault(HostFault::Version { version: greeting.version }));
        }
        let (outlet, writer) = outlet::<ToAgent>(input);
        let streams = Streams::new(outlet.clone(), Opener::Driver);
        let state = Arc::new(LinkState { host: node.name.clone(), table: Mutex::default(), streams });
        tokio::spawn(read(output, errors, state.clone()));
        let alive = outlet.clone();
        let signs = tokio::spawn(async move {
            let mut ticks = interval(SIGN_OF_LIFE);
            loop {
                ticks.tick().await;
                alive.tell(ToAgent::Alive);
            }
        });
        let child = Mutex::new(Some(child));
        Ok(Arc::new(Self { node: node.clone(), greeting, outlet, state, writer, signs, child }))
    }

    /// Sends a request and waits for its reply, as long as the host is there and no longer than such a request takes.
    pub(crate) async fn request(&self, what: Request, payload: impl Into<Bytes>) -> Result<Reply, HostError> {
        let patience = what.patience();
        let mut expected = LinkState::expect(&self.state, None)?;
        let request = expected.request;
        self.outlet.tell(Frame { message: ToAgent::Request { request, what }, payload: payload.into() });
        let late = |_| self.fault(HostFault::Late { waited: patience });
        timeout(patience, self.replied(&mut expected)).await.map_err(late)?
    }

    /// Fetches a file of an attempt to `path`, where it appears whole and with this digest or not at all.
    pub(crate) async fn fetch(
        &self,
        attempt: u64,
        name: String,
        path: PathBuf,
        sha256: String,
    ) -> io::Result<()> {
        let (pieces, mut arriving) = mpsc::channel::<Bytes>(PIECES);
        let mut expected = LinkState::expect(&self.state, Some(pieces)).map_err(io::Error::other)?;
        let what = Request::Fetch { attempt, name };
        let patience = what.patience();
        self.outlet.tell(ToAgent::Request { request: expected.request, what });
        let fresh = path.with_extension("part");
        let partial = fresh.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::create(&partial)?;
            // An empty piece is the end; a channel that is closed has lost it.
            while let Some(bytes) = arriving.blocking_recv() {
                if bytes.is_empty() {
                    return Ok(());
                }
                file.write_all(&bytes)?;
            }
            Err(io::Error::from(io::ErrorKind::UnexpectedEof))
        });
        let late = |_| io::Error::other(self.fault(HostFault::Late { waited: patience }));
        timeout(patience, self.replied(&mut expected)).await.map_err(late)?.map_err(io::Error::other)?;
        // The reply may have overtaken the last pieces.
        writing.await.map_err(io::Error::other)??;
        drop(expected);
        let checked = tokio::task::spawn_blocking(move || {
            digest::check(&fresh, &sha256).and_then(|()| std::fs::rename(&fresh, &path))
        });
        checked.await.map_err(io::Error::other)?
    }

    /// Sends a file to the host's cache; `sent` is called with the bytes so far.
    pub(crate) async fn put(
        &self,
        file: crate::channel::CachedFile,
        path: &Path,
        mut sent: impl FnMut(u64),
    ) -> Result<(), HostError> {
        use tokio::io::AsyncReadExt;
        let unread = |error: io::Error| {
            self.fault(HostFault::Refused { what: format!("{}: {error}", path.display()) })
        };
        let mut source = tokio::fs::File::open(path).await.map_err(unread)?;
        let mut expected = LinkState::expect(&self.state, None)?;
        let request = expected.request;
        // Before its pieces, and so in the same queue.
        self.outlet.send(Urgency::Bulk, ToAgent::Request { request, what: Request::Put { file } }).await;
        let mut total = 0;
        loop {
            let mut piece = bytes::BytesMut::with_capacity(crate::channel::PIECE);
            let read = source.read_buf(&mut piece).await.map_err(unread)?;
            let frame = Frame { message: ToAgent::Piece { request }, payload: piece.freeze() };
            let open = self.outlet.send(Urgency::Bulk, frame).await;
            total += read as u64;
            sent(total);
            // A full disk is replied at once.
            if read == 0 || !open || !expected.reply.is_empty() {
                break;
            }
        }
        match timeout(WRITTEN, &mut expected.reply).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err(HostFault::Refused { what }))) => Err(self.fault(HostFault::Cache { what })),
            Ok(Ok(Err(fault))) => Err(self.fault(fault)),
            Ok(Err(_)) => Err(self.fault(self.state.reason())),
            Err(_) => Err(self.fault(HostFault::Late { waited: WRITTEN })),
        }
    }

    /// Whether the channel has ended.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().lost.is_some()
    }

    /// Takes part in an attempt: its exits, logs and connections arrive from now on.
    pub(crate) fn begin(&self, attempt: u64, end: AttemptEnd) {
        self.state.lock().attempts.insert(attempt, end);
    }

    /// Records that a member's process runs; if the connection is lost already, reports its exit instead.
    pub(crate) fn runs(&self, attempt: u64, member: Member) {
        let mut table = self.state.lock();
        let lost = table.lost.as_ref().map(|fault| self.state.exit_by(fault));
        let Some(end) = table.attempts.get_mut(&attempt) else { return };
        if let Some(lost) = lost {
            let _ = end.exits.send((member, lost));
        } else {
            end.running.insert(member);
        }
    }

    /// Ends an attempt on the host.
    pub(crate) fn finish(&self, attempt: u64) {
        self.state.lock().attempts.remove(&attempt);
        self.outlet.tell(ToAgent::Close { attempt });
    }

    /// Sends a message that is not replied to.
    pub(crate) fn tell(&self, message: ToAgent) {
        self.outlet.tell(message);
    }

    /// Opens a byte stream to the socket of a rank on the host.
    async fn open(&self, socket: UnixStream, attempt: u64, rank: Rank) {
        self.state.streams.open(socket, attempt, Destination::Rank(rank)).await;
    }

    /// Ends the agent, and waits for it.
    pub(crate) async fn close(&self) {
        self.end();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            // One that does not end is killed when it is dropped.
            let _ = timeout(FAREWELL, child.wait()).await;
        }
    }

    /// Ends the agent's input, at which it ends.
    fn end(&self) {
        self.signs.abort();
        self.writer.abort();
    }

    pub(crate) fn fault(&self, fault: HostFault) -> HostError {
        HostError { host: self.node.name.clone(), fault }
    }

    async fn replied(&self, expected: &mut Expected) -> Result<Reply, HostError> {
        match (&mut expected.reply).await {
            Ok(outcome) => outcome.map_err(|fault| self.fault(fault)),
            Err(_) => Err(self.fault(self.state.reason())),
        }
    }
}

impl Drop for HostLink {
    fn drop(&mut self) {
        self.end();
    }
}

/// A request that was not replied to yet. Dropping it forgets the request: a reply that comes later is passed over.
struct Expected {
    request: u32,
    reply: oneshot::Receiver<Result<Reply, HostFault>>,
    state: Arc<LinkState>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut table = self.state.lock();
        table.replies.remove(&self.request);
        table.files.remove(&self.request);
    }
}

impl LinkState {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new request, whose file, if it is one for a file, goes to `pieces`.
    fn expect(state: &Arc<Self>, pieces: Option<mpsc::Sender<Bytes>>) -> Result<Expected, HostError> {
        let mut table = state.lock();
        if let Some(fault) = &table.lost {
            return Err(HostError { host: state.host.clone(), fault: fault.clone() });
        }
        table.next = table.next.wrapping_add(1);
        let request = table.next;
        let (sender, reply) = oneshot::channel();
        table.replies.insert(request, sender);
        if let Some(pieces) = pieces {
            table.files.insert(request, pieces);
        }
        Ok(Expected { request, reply, state: state.clone() })
    }

    fn reason(&self) -> HostFault {
        let lost = self.lock().lost.clone();
        lost.unwrap_or(HostFault::Lost { said: "the driver ended it".into() })
    }

    /// How the host's processes exit when the channel ends.
    fn exit_by(&self, fault: &HostFault) -> ProcessExit {
        ProcessExit::HostLost { host: self.host.clone(), reason: fault.to_string() }
    }

    /// The channel has ended: ends everything that waits for the host.
    fn lose(&self, fault: HostFault) {
        let mut table = self.lock();
        for (_, reply) in std::mem::take(&mut table.replies) {
            let _ = reply.send(Err(fault.clone()));
        }
        table.files.clear();
        for end in table.attempts.values_mut() {
            for member in std::mem::take(&mut end.running) {
                let line = format!("host {}: {fault}\n", self.host);
                append(&end.directory, member, line.as_bytes());
                let _ = end.exits.send((member, self.exit_by(&fault)));
            }
        }
        table.lost = Some(fault);
        drop(table);
        self.streams.lose();
    }

    async fn take(self: &Arc<Self>, frame: Frame<FromAgent>) {
        match frame.message {
            FromAgent::Greeting(_) | FromAgent::Alive => {}
            FromAgent::Reply { request, outcome } => {
                if let Some(reply) = self.lock().replies.remove(&request) {
                    let _ = reply.send(outcome.map_err(|what| HostFault::Refused { what }));
                }
            }
            FromAgent::Piece { request } => {
                let pieces = self.lock().files.get(&request).cloned();
                if let Some(pieces) = pieces {
                    // Fails when its writer has failed, which says so.
                    let _ = pieces.send(frame.payload).await;
                }
            }
            FromAgent::Exited { attempt, member, exit } => {
                if let Some(end) = self.lock().attempts.get_mut(&attempt)
                    && end.running.remove(&member)
                {
                    let _ = end.exits.send((member, exit));
                }
            }
            FromAgent::Log { attempt, member } => {
                if let Some(end) = self.lock().attempts.get(&attempt) {
                    append(&end.directory, member, &frame.payload);
                }
            }
            FromAgent::Note { attempt, text } => {
                if let Some(end) = self.lock().attempts.get(&attempt) {
                    let _ = end.notes.send(format!("{}: {text}", self.host));
                }
            }
            FromAgent::Stream(StreamMessage::Data { stream }) => self.streams.take(stream, frame.payload),
            FromAgent::Stream(StreamMessage::End { stream }) => self.streams.ended(stream),
            FromAgent::Stream(StreamMessage::Open { stream, attempt, to }) => self.lead(stream, attempt, to),
        }
    }

    /// Leads a byte stream that the agent opened: to the driver's control plane, or to another host.
    fn lead(self: &Arc<Self>, stream: u32, attempt: u64, to: Destination) {
        let incoming = self.streams.accept(stream);
        let (control, host) = match self.lock().attempts.get(&attempt) {
            Some(end) => {
                let host = match to {
                    Destination::Rank(rank) => end.hosts.get(&rank).and_then(Weak::upgrade),
                    Destination::Control => None,
                };
                (Some(end.control.clone()), host)
            }
            None => (None, None),
        };
        let state = self.clone();
        tokio::spawn(async move {
            let socket = match (to, control, host) {
                (Destination::Control, Some(control), _) => UnixStream::connect(control).await.ok(),
                (Destination::Rank(rank), _, Some(host)) => UnixStream::pair().ok().map(|(near, far)| {
                    tokio::spawn(async move { host.open(far, attempt, rank).await });
                    near
                }),
                _ => None,
            };
            match socket {
                Some(socket) => state.streams.carry(stream, socket, incoming, urgency(to)).await,
                None => state.streams.end(stream, urgency(to)).await,
            }
        });
    }
}

/// Reads an agent's messages until the channel ends.
async fn read(output: impl AsyncRead + Send + Unpin, errors: Said, state: Arc<LinkState>) {
    let mut output = Patient::new(output, LEASE);
    let fault = loop {
        match read_frame::<FromAgent>(&mut output).await {
            Ok(Some(frame)) => state.take(frame).await,
            Ok(None) => break HostFault::Lost { said: or(errors.last().await, "it was closed") },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                break HostFault::Silent { waited: LEASE };
            }
            Err(error) => break HostFault::Lost { said: or(errors.last().await, &error.to_string()) },
        }
    };
    tracing::debug!(host = state.host, %fault, "a host's channel ended");
    state.lose(fault);
}

fn or(said: String, otherwise: &str) -> String {
    if said.is_empty() { otherwise.to_owned() } else { said }
}

/// Appends to a member's log on this machine. What cannot be kept of a log is no reason to end a run.
fn append(directory: &Path, member: Member, bytes: &[u8]) {
    let file = OpenOptions::new().create(true).append(true).open(log_file(directory, member));
    if let Err(error) = file.and_then(|mut file| file.write_all(bytes)) {
        tracing::warn!(%member, %error, "a log cannot be kept");
    }
}
