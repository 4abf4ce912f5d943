//! Through servers: ranks that take part in no sum send their vectors to ranks that add them.
//!
//! ```text
//!            0   1   2            0   1   2
//!             \  |  /              ^  ^  ^
//!   push       v v v     then       \ | /     reply
//!             servers              servers
//! ```
//!
//! Each server has a piece of every vector. It adds in the order of the group, from zero: with exact codes the same bits as
//! [`RankOrder`](super::RankOrder), which encodes its sums, too.
//!
//! Cost: each place sends its n elements once, in one message for each server.
//!
//! Time: 2 (alpha + p n beta / s) for s servers, whose links carry everything; a sum that costs adds n gamma / s.

use super::{CollectiveAlgorithm, Cost, Rates};
use crate::lane::Content;
use crate::vector::piece;
use crate::{Group, GroupRank, Kind, StepError, Tag, Wire};
use record::Rank;
use std::sync::Arc;

/// Sums by servers behind the workers.
#[derive(Clone, Debug)]
pub struct ThroughServers {
    everyone: Arc<[Rank]>,
    workers: usize,
    parts: usize,
}

impl ThroughServers {
    /// Of `everyone`, the first `workers` ranks send and the others add. The groups that sum are all workers, or each
    /// `parts`-th one.
    pub fn new(everyone: Arc<[Rank]>, workers: usize, parts: usize) -> Self {
        Self { everyone, workers, parts }
    }

    fn servers(&self) -> usize {
        self.everyone.len() - self.workers
    }
}

impl CollectiveAlgorithm for ThroughServers {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        if group.size() == 1 {
            return Ok(());
        }
        let me = group.rank(group.me());
        let everyone = Group::new(&self.everyone, me).ok_or_else(|| StepError::Transport {
            rank: me,
            reason: "a rank that no server knows cannot send to one".to_owned(),
        })?;
        let whole = group.size() == self.workers;
        let members = if whole { 0 } else { 1 + me.index() % self.parts };
        let request = SumRequest { members, content: wire.content(), lane: tag.kind };
        let servers = self.servers();
        let spans = || (0..servers).map(|server| (server, piece(x.len(), servers, server)));
        let spans: Vec<_> = spans().filter(|(_, span)| !span.is_empty()).collect();
        let mut wire = wire.over(&everyone);
        for (server, span) in &spans {
            let to = GroupRank(self.workers + server);
            wire.send(to, request.tag(tag), span.start, &x[span.clone()])?;
        }
        let mut wire = wire.exact();
        for (server, span) in spans {
            wire.recv_into(GroupRank(self.workers + server), request.reply(tag), &mut x[span])?;
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, _place: usize) -> Cost {
        if places == 1 {
            return Cost::default();
        }
        Cost { messages: self.servers().min(elements), elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        if places == 1 {
            return 0.0;
        }
        let share = elements.div_ceil(self.servers().max(1));
        2.0 * rates.message(places * share) + rates.sum(share)
    }
}

/// Request to a server for a sum: how to add a vector and how to reply. It travels in the part of the message's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SumRequest {
    /// 0 for all workers, else one more than the part of the model that the members hold.
    pub(crate) members: usize,
    /// How the vector is coded; the sum is not.
    pub(crate) content: Content,
    /// The kind of the call, by which its lane is known.
    pub(crate) lane: Kind,
}

impl SumRequest {
    /// The tag of the request of a call.
    pub(crate) fn tag(self, call: Tag) -> Tag {
        let overlap = u32::from(self.lane == Kind::Overlap);
        let part = (self.members as u32) << 8 | self.content.number() << 1 | overlap;
        Tag { kind: Kind::Push, part, ..call }
    }

    /// The tag of the reply: on a kind of its own for each lane of a worker.
    pub(crate) fn reply(self, call: Tag) -> Tag {
        let kind = if self.lane == Kind::Overlap { Kind::Answer } else { Kind::Pull };
        Tag { kind, part: 0, ..call }
    }

    pub(crate) fn read(tag: Tag) -> Option<Self> {
        let content = Content::of_number(tag.part >> 1 & 0x7f)?;
        let lane = if tag.part & 1 == 1 { Kind::Overlap } else { Kind::Reduce };
        Some(Self { members: (tag.part >> 8) as usize, content, lane })
    }
}
