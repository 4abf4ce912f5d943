//! Whether a peer is connected.

/// Whether a peer is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// No end of its connection was seen.
    Here,
    /// It said goodbye, and sends nothing more.
    Left,
    /// Its connection broke without a goodbye.
    Lost,
}

impl Presence {
    /// Records an end. The first one counts: a peer that said goodbye is not lost when its connection ends.
    pub(super) fn depart(&mut self, presence: Self) {
        if *self == Self::Here {
            *self = presence;
        }
    }

    pub(super) fn gone(self) -> bool {
        self != Self::Here
    }
}
