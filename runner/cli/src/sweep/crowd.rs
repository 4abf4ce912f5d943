//! Several futures that are waited for together, each known by what it is about.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type Running<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// Futures under way. They are few, and each wake looks at all of them.
pub(super) struct Crowd<'f, K, T> {
    members: Vec<(K, Running<'f, T>)>,
}

impl<'f, K, T> Crowd<'f, K, T> {
    pub(super) fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// Adds a future, which makes progress only within [`next`](Self::next).
    pub(super) fn begin(&mut self, about: K, future: impl Future<Output = T> + 'f) {
        self.members.push((about, Box::pin(future)));
    }

    /// Keys of the futures under way, in the order in which they began.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &K> {
        self.members.iter().map(|(about, _)| about)
    }

    /// Waits for the next that ends; `None` if none is under way.
    pub(super) async fn next(&mut self) -> Option<(K, T)> {
        if self.members.is_empty() {
            return None;
        }
        let (place, result) = poll_fn(|context| {
            for (place, (_, future)) in self.members.iter_mut().enumerate() {
                if let Poll::Ready(result) = future.as_mut().poll(context) {
                    return Poll::Ready((place, result));
                }
            }
            Poll::Pending
        })
        .await;
        let (about, _) = self.members.remove(place);
        Some((about, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::channel;

    #[tokio::test]
    async fn whichever_ends_first_is_next() {
        let mut crowd = Crowd::new();
        let (first, one) = channel::<u32>();
        let (second, two) = channel::<u32>();
        crowd.begin("one", one);
        crowd.begin("two", two);
        second.send(2).unwrap();
        assert_eq!(crowd.next().await, Some(("two", Ok(2))));
        assert_eq!(crowd.under_way().copied().collect::<Vec<_>>(), ["one"]);
        first.send(1).unwrap();
        assert_eq!(crowd.next().await, Some(("one", Ok(1))));
        assert_eq!(crowd.next().await, None);
    }
}
