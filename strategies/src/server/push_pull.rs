//! The worker's end of the push-pull protocol: gradients up, weights down.

use crate::message::{Message, Signal};
use crate::plan::Progress;
use crate::server::client::{Note, part};
use crate::server::shards::Shards;
use crate::vector::Vector;
use crate::worker_context::WorkerContext;
use crate::{Kind, StepError, Tag};

impl Shards {
    /// Sends each server its part of a gradient.
    pub fn push(&self, ctx: &mut WorkerContext, g: &Vector) -> Result<(), StepError> {
        let push = Tag::new(Kind::Push, ctx.t());
        for server in 0..self.servers() {
            let span = self.span(server);
            ctx.wire().send(self.place(server), push, span.start, &g[span])?;
        }
        Ok(())
    }

    /// Exchanges a gradient for weights with servers that serve one worker at a time: with one after the other, so that
    /// no server waits for another. Encoding before a turn and decoding after it keep the turn short.
    pub fn exchange_in_turn(&self, ctx: &mut WorkerContext, g: &Vector) -> Result<Progress, StepError> {
        let push = Tag::new(Kind::Push, ctx.t());
        let pull = Tag::new(Kind::Pull, ctx.t());
        let mut progress = Progress { samples: 0, over: false };
        for server in 0..self.servers() {
            let place = self.place(server);
            let span = self.span(server);
            let slot = ctx.wire().slot(place, push, span.start);
            let gradient = ctx.wire().encode(slot, &g[span.clone()]);
            let service = ctx.service();
            service.wire().exact().send_packet(place, push, Signal::Ask.packet())?;
            service.recv_patiently(self.silences(), |service| {
                service.wire().recv_packet(place, pull.part(part::TURN))
            })?;
            service.wire().send_packet(place, push.part(part::VECTOR), gradient)?;
            // A worker that is too far ahead waits here for the slowest.
            let held_back = self.most_silences();
            let note =
                service.recv_patiently(held_back, |service| service.wire().recv_packet(place, pull))?;
            let note = Note::decode(&note, service.info.rank)?;
            let follow = || service.wire().recv_packet(place, pull.part(part::VECTOR));
            let weights = note.weights.then(follow).transpose()?;
            service.wire().exact().send_packet(place, push.part(part::TURN), Signal::Received.packet())?;
            if server == 0 {
                progress = Progress { samples: note.samples, over: !note.weights };
            }
            if let Some(weights) = weights {
                ctx.decode_weights_of(&weights, span)?;
            }
        }
        Ok(progress)
    }

    /// Receives the weights of the step from all servers.
    pub fn pull(&self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let pull = Tag::new(Kind::Pull, ctx.t());
        (0..self.servers())
            .try_for_each(|server| ctx.recv_weights_of(self.place(server), pull, self.span(server)))
    }

    /// Receives the replies of servers that send the progress of the run before the weights. The first server decides when
    /// training is over; then no weights follow.
    pub fn pull_with_notes(&self, ctx: &mut WorkerContext) -> Result<Progress, StepError> {
        let pull = Tag::new(Kind::Pull, ctx.t());
        let mut progress = Progress { samples: 0, over: false };
        for server in 0..self.servers() {
            let place = self.place(server);
            let note: Note = ctx.service().recv_message(place, pull)?;
            if server == 0 {
                progress = Progress { samples: note.samples, over: !note.weights };
            }
            if note.weights {
                ctx.recv_weights_of(place, pull.part(part::VECTOR), self.span(server))?;
            }
        }
        Ok(progress)
    }

    /// Tells all servers that no gradient follows.
    pub fn leave_servers(&self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let push = Tag::new(Kind::Push, ctx.t() + 1);
        (0..self.servers())
            .try_for_each(|server| ctx.wire().send_packet(self.place(server), push, Signal::Goodbye.packet()))
    }
}
