//! When each group's message begins and ends: MG-WFBP Eq. 6 to 8, and with merged layers Eq. 19 to 21.

use super::{Grouping, GroupingError, MessageCost, StepProfile};
use std::ops::Range;

/// The message of one group; times in seconds from the start of the forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMessage {
    /// Its layers, in the order of the backward pass.
    pub layers: Range<usize>,
    /// Size of their gradients.
    pub bytes: u64,
    /// tau_c: its last layer is finished and the message before it has ended (Eq. 7, 20).
    pub begin: f64,
    /// mu_c: begin plus its cost (Eq. 9, 17). A group without weights sends nothing and ends as it begins.
    pub end: f64,
}

/// The messages of one iteration, and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeLine {
    /// The groups' messages in order.
    pub messages: Vec<GroupMessage>,
    /// t_f + t_b: the end of the backward pass, in seconds.
    pub computed: f64,
    /// t_iter: the end of the last message, in seconds (Eq. 8, 21); of the backward pass where there is none.
    pub iteration: f64,
}

impl TimeLine {
    /// The time line of a grouping. A group that reaches across sections costs what one of its last layer's section does.
    ///
    /// # Errors
    /// The grouping is of another number of layers.
    pub fn of(
        profile: &StepProfile,
        cost: impl MessageCost,
        grouping: &Grouping,
    ) -> Result<Self, GroupingError> {
        Self::timed(profile, grouping, |section, bytes| cost.of_section(section).time(bytes))
    }

    /// The same for messages whose time follows no line: `seconds` is the time of one of this many bytes in a section, counted from 0.
    ///
    /// # Errors
    /// The grouping is of another number of layers.
    pub fn timed(
        profile: &StepProfile,
        grouping: &Grouping,
        seconds: impl Fn(usize, u64) -> f64,
    ) -> Result<Self, GroupingError> {
        let grouped = grouping.ends().last().copied().unwrap_or(0);
        if grouped != profile.layers() {
            return Err(GroupingError::Layers { grouped, layers: profile.layers() });
        }
        let mut free = 0.0_f64;
        let mut messages = Vec::with_capacity(grouping.ends().len());
        for layers in grouping.groups() {
            let bytes = profile.bytes(layers.start, layers.end);
            let begin = free.max(profile.finished(layers.end - 1));
            free = begin + seconds(profile.section(layers.end - 1), bytes);
            messages.push(GroupMessage { layers, bytes, begin, end: free });
        }
        let computed = profile.computed();
        Ok(Self { messages, computed, iteration: free.max(computed) })
    }

    /// t_c^no: what the backward pass does not hide of the communication, in seconds.
    pub fn exposed(&self) -> f64 {
        self.iteration - self.computed
    }
}
