//! A meeting of all workers that ends everywhere at the same moment.

use super::WorkerContext;
use crate::message::Signal;
use crate::{GroupRank, Kind, StepError};

/// The signals of a meeting.
mod part {
    pub(super) const HERE: usize = 0;
    pub(super) const ALL_HERE: usize = 1;
    pub(super) const BEGIN: usize = 2;
}

impl WorkerContext {
    /// Waits until all workers are here. The first one knows it first, and tells the others, who know it a latency later; what they send then
    /// comes to all at the same moment. With two workers, where there is no third to tell the second, the second ends a latency early.
    ///
    /// # Errors
    /// A message to or from another worker fails.
    pub(super) fn meet(&mut self) -> Result<(), StepError> {
        let tag = self.tag(Kind::Reduce);
        let group = self.trainers.clone();
        let me = group.me();
        let [first, second, third] = [0, 1, 2].map(GroupRank);
        let mut wire = self.wire_over(&group).exact();
        if me == first {
            for worker in group.others() {
                wire.recv_packet(worker, tag.part(part::HERE))?;
            }
            for worker in group.others() {
                wire.send_packet(worker, tag.part(part::ALL_HERE), Signal::Here.packet())?;
            }
        } else {
            wire.send_packet(first, tag.part(part::HERE), Signal::Here.packet())?;
            wire.recv_packet(first, tag.part(part::ALL_HERE))?;
        }
        let begin = tag.part(part::BEGIN);
        if me == second {
            for worker in group.others() {
                wire.send_packet(worker, begin, Signal::Here.packet())?;
            }
        } else if me == third {
            wire.send_packet(second, begin, Signal::Here.packet())?;
        }
        let teller = if me == second { third } else { second };
        if teller.0 < group.size() {
            wire.recv_packet(teller, begin)?;
        }
        Ok(())
    }
}
