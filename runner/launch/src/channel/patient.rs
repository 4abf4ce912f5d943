//! A reader that gives up after silence. Slow bytes are no silence, nor is the time in which its owner does not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Reads from `R`; fails with [`io::ErrorKind::TimedOut`] when a read has waited for `patience` without a byte.
pub(crate) struct Patient<R> {
    inner: R,
    patience: Duration,
    /// Runs while a read waits.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<R> Patient<R> {
    pub(crate) fn new(inner: R, patience: Duration) -> Self {
        Self { inner, patience, limit: None }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Patient<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.inner).poll_read(context, buffer) {
            this.limit = None;
            return Poll::Ready(read);
        }
        let limit = this.limit.get_or_insert_with(|| Box::pin(sleep(this.patience)));
        ready!(limit.as_mut().poll(context));
        this.limit = None;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const PATIENCE: Duration = Duration::from_secs(2);

    fn wait(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(future);
    }

    #[test]
    fn silence_ends_a_read_and_slow_bytes_do_not() {
        wait(async {
            let (mut near, far) = duplex(64);
            let mut patient = Patient::new(far, PATIENCE);
            let reading = tokio::spawn(async move {
                let mut bytes = [0; 25];
                patient.read_exact(&mut bytes).await.unwrap();
                (bytes.last().copied(), patient.read_u8().await.unwrap_err().kind())
            });
            for byte in 1..=25 {
                sleep(PATIENCE / 20).await;
                near.write_all(&[byte]).await.unwrap();
            }
            assert_eq!(reading.await.unwrap(), (Some(25), io::ErrorKind::TimedOut));
        });
    }

    #[test]
    fn the_time_between_two_reads_does_not_count() {
        wait(async {
            let (mut near, far) = duplex(64);
            let mut patient = Patient::new(far, PATIENCE);
            near.write_all(&[1]).await.unwrap();
            assert_eq!(patient.read_u8().await.unwrap(), 1);
            sleep(PATIENCE * 5 / 4).await;
            let late = tokio::spawn(async move {
                sleep(PATIENCE / 20).await;
                near.write_all(&[2]).await.unwrap();
                near
            });
            assert_eq!(patient.read_u8().await.unwrap(), 2);
            drop(late.await.unwrap());
        });
    }
}
