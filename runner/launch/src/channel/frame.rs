//! Frames over a byte stream, with two queues to the writer: urgent frames overtake large ones.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

/// No message comes near it.
const LONGEST_MESSAGE: u32 = 1 << 20;
/// A briefing is at most as long.
const LONGEST_PAYLOAD: u32 = 17 << 20;
/// Large frames that wait for the writer.
const BULK: usize = 4;

/// A message with the bytes that belong to it.
#[derive(Debug)]
pub(crate) struct Frame<M> {
    pub(crate) message: M,
    pub(crate) payload: Bytes,
}

impl<M> From<M> for Frame<M> {
    fn from(message: M) -> Self {
        Self { message, payload: Bytes::new() }
    }
}

/// Reads a frame; `None` at the end of the stream.
///
/// # Errors
/// The stream fails, ends within a frame, or is none of frames (`InvalidData`). Nothing larger than a frame may be is allocated.
pub(crate) async fn read_frame<M: DeserializeOwned>(
    input: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<Frame<M>>> {
    let message = match input.read_u32_le().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let payload = input.read_u32_le().await?;
    if message > LONGEST_MESSAGE || payload > LONGEST_PAYLOAD {
        return Err(invalid(format!("a frame of {message} and {payload} bytes")));
    }
    let mut bytes = vec![0; message as usize];
    input.read_exact(&mut bytes).await?;
    let message = rmp_serde::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut bytes = vec![0; payload as usize];
    input.read_exact(&mut bytes).await?;
    Ok(Some(Frame { message, payload: bytes.into() }))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether a frame may wait behind others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It overtakes those that may wait. Frames of one urgency stay in order.
    Urgent,
    /// It is one of many, such as a piece of a file; the sender waits for room.
    Bulk,
}

/// The way to the writer of a channel. Clones share it; the writer ends with the last of them.
pub(crate) struct Outlet<M> {
    urgent: UnboundedSender<Frame<M>>,
    bulk: Sender<Frame<M>>,
}

impl<M> Clone for Outlet<M> {
    fn clone(&self) -> Self {
        Self { urgent: self.urgent.clone(), bulk: self.bulk.clone() }
    }
}

impl<M> Outlet<M> {
    /// Queues a frame that overtakes those that may wait. A frame for a channel that has ended is dropped.
    pub(crate) fn tell(&self, frame: impl Into<Frame<M>>) {
        let _ = self.urgent.send(frame.into());
    }

    /// Sends a frame; one that is not urgent waits for room. Returns whether the channel is open.
    pub(crate) async fn send(&self, urgency: Urgency, frame: impl Into<Frame<M>>) -> bool {
        match urgency {
            Urgency::Urgent => self.urgent.send(frame.into()).is_ok(),
            Urgency::Bulk => self.bulk.send(frame.into()).await.is_ok(),
        }
    }

    /// Sends a frame that may wait, from a thread that is not the runtime's. Returns whether the channel is open.
    pub(crate) fn send_blocking(&self, frame: impl Into<Frame<M>>) -> bool {
        self.bulk.blocking_send(frame.into()).is_ok()
    }
}

/// Starts the writer of a channel.
pub(crate) fn outlet<M: Serialize + Send + Sync + 'static>(
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> (Outlet<M>, JoinHandle<io::Result<()>>) {
    let (urgent, soon) = mpsc::unbounded_channel();
    let (bulk, later) = mpsc::channel(BULK);
    (Outlet { urgent, bulk }, tokio::spawn(write(output, soon, later)))
}

async fn write<M: Serialize>(
    mut output: impl AsyncWrite + Unpin,
    mut soon: UnboundedReceiver<Frame<M>>,
    mut later: Receiver<Frame<M>>,
) -> io::Result<()> {
    loop {
        let frame = tokio::select! { biased;
            Some(frame) = soon.recv() => frame,
            Some(frame) = later.recv() => frame,
            else => return Ok(()),
        };
        let message = rmp_serde::to_vec_named(&frame.message).map_err(|error| invalid(error.to_string()))?;
        let mut head = Vec::with_capacity(8 + message.len());
        head.extend((message.len() as u32).to_le_bytes());
        head.extend((frame.payload.len() as u32).to_le_bytes());
        head.extend(message);
        output.write_all(&head).await?;
        output.write_all(&frame.payload).await?;
        output.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn frames_arrive_in_order_with_their_bytes_and_the_urgent_first() {
        wait(async {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let (outlet, writer) = outlet::<u32>(near);
            assert!(
                outlet.send(Urgency::Bulk, Frame { message: 3, payload: b"abc".as_slice().into() }).await
            );
            outlet.tell(1);
            outlet.tell(2);
            drop(outlet);
            writer.await.unwrap().unwrap();
            let mut got = Vec::new();
            while let Some(frame) = read_frame::<u32>(&mut far).await.unwrap() {
                got.push((frame.message, frame.payload));
            }
            assert_eq!(got, [(1, Bytes::new()), (2, Bytes::new()), (3, Bytes::from_static(b"abc"))]);
        });
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_not_an_allocation() {
        let read = |bytes: &[u8]| wait(read_frame::<u32>(&mut &bytes[..]));
        assert!(read(b"").unwrap().is_none());
        let giant = [0xff; 8];
        assert_eq!(read(&giant).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&[1, 0, 0, 0, 0, 0, 0, 0, 0xc1]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&[9, 0, 0, 0, 0, 0, 0, 0, 5]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
