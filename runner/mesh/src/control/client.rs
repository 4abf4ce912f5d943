//! The member's side of the control plane.

use super::conversation::{Conversation, Side, Taken};
use super::encode;
use crate::handshake::{End, Plane};
use crate::socket::{Endpoint, Proven, introduce};
use crate::thread::PlaneThread;
use crate::{Briefing, MeshError, ToDriver, ToMember, directory};
use bytes::Bytes;
use record::Nanos;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use zeromq::{SocketRecv, SocketSend, ZmqMessage};

/// Messages in flight at once: beyond them the queue in this process grows, not the socket's.
const WINDOW: u64 = 1024;

/// A member's connection to the driver. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct ControlClient(Arc<Handle>);

struct Handle {
    queue: UnboundedSender<ToDriver>,
    state: Arc<State>,
    thread: PlaneThread,
    end: CancellationToken,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// The driver's messages to a member.
pub struct ControlInbox {
    messages: mpsc::Receiver<ToMember>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// Messages handed to the connection.
    said: u64,
    /// Messages acknowledged by the driver.
    acknowledged: u64,
    /// Whether the connection has ended.
    lost: bool,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes all waits when the connection ends, whatever the reason.
struct Connected(Arc<State>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.lock().lost = true;
        self.0.changed.notify_all();
    }
}

impl ControlClient {
    /// Connects to the driver and proves to belong to the attempt, within `deadlines.start_up`.
    pub fn connect(briefing: &Briefing) -> Result<(Self, ControlInbox), MeshError> {
        let path = directory::control_socket(&briefing.sockets)?;
        let member = briefing.member;
        let secret = briefing.secret.clone();
        let patience = briefing.deadlines.start_up;
        let state = Arc::new(State::default());
        let (queue, queued) = unbounded_channel();
        let (inbox, messages) = mpsc::channel();
        let (connected, connection) = mpsc::sync_channel(1);
        let mine = state.clone();
        let end = CancellationToken::new();
        let ended = end.clone();
        let thread = PlaneThread::spawn("control", move || async move {
            let mine = Connected(mine);
            let endpoint = Endpoint::Ipc(path);
            let introduction =
                introduce(&endpoint, &secret, Plane::Control, End::Member(member), End::Driver);
            let late = || MeshError::Late { who: member, peers: Vec::new(), waited: patience };
            let proven = tokio::time::timeout(patience, introduction).await.unwrap_or_else(|_| Err(late()));
            let proven = match proven {
                Ok(proven) => proven,
                Err(error) => return drop(connected.send(Err(error))),
            };
            if connected.send(Ok(())).is_ok() {
                ended.run_until_cancelled(converse(proven, queued, &inbox, &mine.0)).await;
            }
        })?;
        connection.recv().unwrap_or_else(|_| Err(MeshError::Lost(End::Driver.to_string())))?;
        let client = Self(Arc::new(Handle { queue, state: state.clone(), thread, end }));
        Ok((client, ControlInbox { messages, state }))
    }

    /// Queues a message and returns at once. A message after [`close`](Self::close), or to a driver that is gone, is
    /// dropped.
    pub fn send(&self, message: ToDriver) {
        // Counted first, so that it is never acknowledged before it was counted.
        self.0.state.lock().said += 1;
        // Fails when the connection has ended, which `close` reports.
        let _ = self.0.queue.send(message);
    }

    /// Returns when the driver has acknowledged all messages, and ends the connection.
    pub fn close(&self, deadline: Duration) -> Result<(), MeshError> {
        let settled = self.settle(deadline);
        self.0.end.cancel();
        self.0.thread.join();
        settled
    }

    /// Processor time of the thread that sends the messages.
    pub fn cpu_time(&self) -> Nanos {
        self.0.thread.cpu_time()
    }

    /// Returns when the driver has acknowledged all messages that were handed over.
    pub fn settle(&self, deadline: Duration) -> Result<(), MeshError> {
        let begin = Instant::now();
        let open = |progress: &mut Progress| !progress.lost && progress.acknowledged < progress.said;
        let (progress, _) = self
            .0
            .state
            .changed
            .wait_timeout_while(self.0.state.lock(), deadline, open)
            .unwrap_or_else(PoisonError::into_inner);
        match progress.said - progress.acknowledged {
            0 => Ok(()),
            _ if progress.lost => Err(MeshError::Lost(End::Driver.to_string())),
            missing => Err(MeshError::Unsettled {
                missing: format!("{missing} of {} control messages", progress.said),
                waited: begin.elapsed(),
            }),
        }
    }
}

impl ControlInbox {
    /// The next message; `None` if none came in time, or, at once, if none can come any more (see
    /// [`lost`](Self::lost)).
    pub fn recv_timeout(&self, patience: Duration) -> Option<ToMember> {
        self.messages.recv_timeout(patience).ok()
    }

    /// Whether the connection has ended, so that nothing can come any more.
    pub fn lost(&self) -> bool {
        self.state.lock().lost
    }
}

/// Carries messages until one side ends the connection.
async fn converse(
    mut proven: Proven,
    mut queued: UnboundedReceiver<ToDriver>,
    inbox: &mpsc::Sender<ToMember>,
    state: &State,
) {
    let mut conversation = Conversation::new(proven.key, Side::Member);
    let dealer = &mut proven.dealer;
    loop {
        let frame = tokio::select! {
            message = dealer.recv() => {
                let Ok(message) = message else { return };
                if !hear(&mut conversation, message.get(0), inbox) {
                    return;
                }
                let mut progress = state.lock();
                if progress.acknowledged < conversation.acknowledged() {
                    progress.acknowledged = conversation.acknowledged();
                    state.changed.notify_all();
                }
                drop(progress);
                conversation.acknowledge()
            }
            message = queued.recv(), if conversation.open() < WINDOW => {
                let Some(message) = message else { return };
                match encode(&message) {
                    Ok(body) => Some(conversation.say(&body)),
                    // Plain data always has an encoding; if it had none, ending the connection shows the loss.
                    Err(error) => return tracing::error!(%error, "a message to the driver"),
                }
            }
            _ = proven.gone.recv() => return,
        };
        if let Some(frame) = frame
            && dealer.send(ZmqMessage::from(frame)).await.is_err()
        {
            return;
        }
    }
}

/// Passes on a message of the driver; false if messages are missing and the connection has to end.
fn hear(conversation: &mut Conversation, frame: Option<&Bytes>, inbox: &mpsc::Sender<ToMember>) -> bool {
    let Some(frame) = frame else { return true };
    match conversation.take(frame) {
        Taken::Message(body) => match rmp_serde::from_slice(&body) {
            // Fails if the member has dropped its inbox, and so wants no more messages.
            Ok(message) => drop(inbox.send(message)),
            Err(error) => tracing::error!(%error, "a message of the driver cannot be decoded"),
        },
        Taken::Acknowledgement => {}
        Taken::Ignored => tracing::warn!("a frame without the driver's code was ignored"),
        Taken::Gap { expected, got } => {
            tracing::error!(expected, got, "messages of the driver are missing");
            return false;
        }
    }
    true
}
