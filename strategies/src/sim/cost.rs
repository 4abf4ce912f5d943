//! Costs of work in a simulated world.

use record::{BatchShare, Nanos, Work};

/// Time that each kind of work takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Time to load a batch, or a micro-batch.
    pub data: Nanos,
    /// Forward pass, layer by layer; a layer beyond the list costs nothing.
    pub forward: Vec<Nanos>,
    /// Backward pass, layer by layer.
    pub backward: Vec<Nanos>,
    /// Time to compute the loss and its gradient.
    pub loss: Nanos,
    /// Nanoseconds per updated weight.
    pub update: f64,
    /// Nanoseconds per added element.
    pub reduce: f64,
    /// Nanoseconds per encoded or decoded element.
    pub code: f64,
    /// More nanoseconds per decoded element.
    pub decode: f64,
    /// Nanoseconds per element that is copied aside.
    pub snapshot: f64,
}

impl Costs {
    /// The cost of some work, rounded down. Passes over a part of a batch cost their part.
    pub fn of(&self, work: Work) -> Nanos {
        let of_layer = |costs: &[Nanos], layer: usize| costs.get(layer).copied().unwrap_or_default();
        let part = |whole: Nanos, share: BatchShare| Nanos(share.times(whole.0 as f64) as u64);
        let elements = |each: f64, count: usize| Nanos((each * count as f64) as u64);
        match work {
            Work::Data => self.data,
            Work::Forward { layer, share } => part(of_layer(&self.forward, layer), share),
            Work::Loss(share) => part(self.loss, share),
            Work::Backward { layer, share } => part(of_layer(&self.backward, layer), share),
            Work::Update(n) => elements(self.update, n),
            Work::Reduce(n) => elements(self.reduce, n),
            Work::Encode(n) => elements(self.code, n),
            Work::Decode(n) => elements(self.code + self.decode, n),
            Work::Snapshot(n) | Work::Transfer(n) => elements(self.snapshot, n),
        }
    }
}
