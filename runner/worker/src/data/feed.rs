//! The batches that a learner trains on, made ready before it asks for them where that takes time.
//!
//! Pictures in files are decoded while the step before is computed: the strategy's context says which batches come next, a thread
//! of this rank makes their values, and what the step waits for is the rest, in the phase `data`. A ready batch is only ever
//! *found* here: one that was not announced is made when it is asked for, with the same values.

use super::{DataError, DataSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use strategies::Batch;
use tch::Tensor;

/// Batches that are made ahead. One is being made while one is waiting: more would help only where steps are uneven, and
/// each takes the memory of its pictures.
const AHEAD: usize = 2;

/// The training batches of a data set, as they are in the run of one seed.
pub struct Feed {
    data: Arc<DataSet>,
    seed: u64,
    ahead: Option<Ahead>,
}

type Values = Result<Vec<f32>, DataError>;

/// Batches on their way through another thread.
struct Ahead {
    wishes: Sender<Batch>,
    ready: Receiver<Values>,
    /// Batches whose values `ready` will bring, in this order.
    coming: VecDeque<Batch>,
}

impl Feed {
    /// The batches of `data` in the run of `seed`.
    pub fn new(data: Arc<DataSet>, seed: u64) -> Self {
        // Without a thread, which the system may refuse, batches are made when they are asked for.
        let ahead = if data.is_decoded() { Ahead::start(data.clone(), seed) } else { None };
        Self { data, seed, ahead }
    }

    /// The data set whose batches it makes.
    pub fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    /// Number of batches that are worth announcing ahead; 0 where none is made ahead.
    pub fn looks_ahead(&self) -> usize {
        if self.ahead.is_some() { AHEAD } else { 0 }
    }

    /// Says which batches are loaded next, in this order.
    pub fn announce(&mut self, next: &[Batch]) {
        let Some(ahead) = &mut self.ahead else { return };
        for batch in next.iter().take(AHEAD) {
            if ahead.coming.len() < AHEAD && !ahead.coming.contains(batch) {
                ahead.ask(batch);
            }
        }
    }

    /// The values of a batch as they are trained on, `[examples, ...]`: normalised, and changed where the recipe says so.
    pub fn load(&mut self, batch: &Batch) -> Result<Tensor, DataError> {
        let found = self.ahead.as_mut().and_then(|ahead| ahead.find(batch));
        let values = match found {
            Some(values) => values?,
            None => self.data.training_values(batch, self.seed)?,
        };
        self.data.tensor(&values, batch.examples.len())
    }
}

impl Ahead {
    fn start(data: Arc<DataSet>, seed: u64) -> Option<Self> {
        let (wishes, wished) = channel::<Batch>();
        let (made, ready) = channel();
        let work = move || {
            for batch in wished {
                if made.send(data.training_values(&batch, seed)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("pictures".to_owned()).spawn(work);
        thread.ok().map(|_| Self { wishes, ready, coming: VecDeque::new() })
    }

    fn ask(&mut self, batch: &Batch) {
        if self.wishes.send(batch.clone()).is_ok() {
            self.coming.push_back(batch.clone());
        }
    }

    /// The values of a batch that was asked for; those before it will not be needed any more.
    fn find(&mut self, batch: &Batch) -> Option<Values> {
        let place = self.coming.iter().position(|other| other == batch);
        // Where it was not asked for, what was asked for is something that never came.
        let passed = place.unwrap_or(self.coming.len());
        for _ in 0..passed {
            self.coming.pop_front();
            // It is not missed, not even where it failed.
            drop(self.ready.recv().ok()?);
        }
        place?;
        self.coming.pop_front();
        self.ready.recv().ok()
    }
}
