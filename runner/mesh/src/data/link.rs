//! A link: sends the messages to one peer, cut into frames.

use super::frame::{Frame, HEADER, encode_description, encode_reference};
use super::presence::Presence;
use super::requests::LinkRequest;
use super::shared::Shared;
use crate::socket::Proven;
use bytes::Bytes;
use record::{Nanos, Rank};
use strategies::{Packet, Tag};
use tokio::sync::mpsc::UnboundedReceiver;
use zeromq::{DealerSocket, SocketRecv, SocketSend, ZmqMessage, ZmqResult};

/// The largest payload of a frame.
pub(super) const CHUNK: usize = 1 << 20;

/// The largest message that is sent together with its announcement: the time of its transfer is negligible.
const WHOLE: usize = 64 << 10;

/// Sends the queued messages and receives credits until the peer has confirmed the goodbye or is gone.
pub(super) async fn run(
    mut proven: Proven,
    mut queue: UnboundedReceiver<LinkRequest>,
    peer: Rank,
    shared: &Shared,
) {
    let mut writer = Writer { number: 0, peer, shared };
    let window = shared.window(peer);
    let mut queued = true;
    if writer.introduce_memory(&mut proven.dealer).await.is_err() {
        return shared.depart(peer, Presence::Lost);
    }
    loop {
        tokio::select! {
            message = proven.dealer.recv() => match message.map(|message| decode(&message)) {
                Ok(Some(Frame::Credit { bytes })) => window.credit(bytes),
                Ok(Some(Frame::Farewell)) => return window.farewell(),
                Ok(_) => {}
                Err(_) => return shared.depart(peer, Presence::Lost),
            },
            request = queue.recv(), if queued => match request {
                None => queued = false,
                Some(request) => {
                    if writer.send(&mut proven.dealer, request).await.is_err() {
                        return shared.depart(peer, Presence::Lost);
                    }
                }
            },
            _ = proven.gone.recv() => return shared.depart(peer, Presence::Lost),
        }
    }
}

fn decode(message: &ZmqMessage) -> Option<Frame> {
    let (frame, _) = Frame::decode(message.get(0)?, 0).ok()?;
    Some(frame)
}

/// Numbers and sends frames.
struct Writer<'a> {
    number: u64,
    peer: Rank,
    shared: &'a Shared,
}

impl Writer<'_> {
    /// Says where the shared memory is, if there is any.
    async fn introduce_memory(&mut self, dealer: &mut DealerSocket) -> ZmqResult<()> {
        let Some(sharing) = &self.shared.sharing else { return Ok(()) };
        let mut message = self.frame(Frame::Memory);
        message.push_back(Bytes::copy_from_slice(&encode_description(sharing.description())));
        dealer.send(message).await
    }

    async fn send(&mut self, dealer: &mut DealerSocket, request: LinkRequest) -> ZmqResult<()> {
        match request {
            LinkRequest::Message { tag, packet: Packet(bytes), departed } => {
                self.message(dealer, tag, departed, bytes).await
            }
            LinkRequest::Credits => dealer.send(self.frame(Frame::Want)).await,
            LinkRequest::Goodbye => dealer.send(self.frame(Frame::Goodbye)).await,
        }
    }

    async fn message(
        &mut self,
        dealer: &mut DealerSocket,
        tag: Tag,
        departed: Option<Nanos>,
        bytes: Bytes,
    ) -> ZmqResult<()> {
        let size = bytes.len() as u64;
        let sharing = self.shared.sharing.as_ref();
        if let Some(place) = sharing.and_then(|sharing| sharing.lend(self.peer, &bytes)) {
            let mut message = self.frame(Frame::Lent { tag, size, departed });
            message.push_back(Bytes::copy_from_slice(&encode_reference(place)));
            return dealer.send(message).await;
        }
        if bytes.len() <= WHOLE {
            let mut message = self.frame(Frame::Whole { tag, size, departed });
            message.push_back(bytes);
            return dealer.send(message).await;
        }
        dealer.send(self.frame(Frame::Announce { tag, size, departed })).await?;
        for offset in (0..bytes.len()).step_by(CHUNK) {
            let mut message = self.frame(Frame::Chunk { offset: offset as u64 });
            message.push_back(bytes.slice(offset..bytes.len().min(offset + CHUNK)));
            dealer.send(message).await?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> ZmqMessage {
        self.number += 1;
        let header: [u8; HEADER] = frame.encode(self.number);
        ZmqMessage::from(Bytes::copy_from_slice(&header))
    }
}
