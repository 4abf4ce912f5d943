//! Lazy SGD: an example of a strategy of another crate.
//!
//! Each worker adds up the gradients of `period` steps at the same weights; then one all-reduce averages the sums over all
//! workers, and the mean gradient is applied. A period of 1 is D-Sync. Sent per step: nothing; every `period` steps, and after
//! the last one, one all-reduce of the gradient.

use strategies::{
    CustomRank, CustomStrategy, Evaluated, Loss, Rank, Roles, StepError, Trainer, Vector, WorkerContext,
};

/// Builds the workers of Lazy SGD. Setting: `period`, local steps from one all-reduce to the next.
pub struct LazySgd;

impl CustomStrategy for LazySgd {
    fn roles(&self, rank: &CustomRank<'_>) -> Result<Roles, StepError> {
        let period = rank.setting("period")?.max(1.0) as u64;
        let evaluated = (rank.rank.index() == 0).then(|| Evaluated::judged("rank 0"));
        Ok(Roles::trainer(Worker { period, sum: None, steps: 0 }, evaluated))
    }

    fn own_vectors(&self) -> u64 {
        // The sum of the gradients.
        1
    }

    fn replica_group(&self, _rank: Rank, _workers: usize) -> Option<u32> {
        // After the last all-reduce all have applied the same gradients to the same weights.
        Some(0)
    }
}

struct Worker {
    period: u64,
    /// The gradients since the last all-reduce, each weighted by its samples.
    sum: Option<Vector>,
    /// Number of steps whose gradients are in `sum`.
    steps: u64,
}

impl Trainer for Worker {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        let g = ctx.weighted(g);
        match &mut self.sum {
            Some(sum) => sum.add(&g),
            None => self.sum = Some(g),
        }
        self.steps += 1;
        if self.steps == self.period {
            self.update(ctx)?;
        }
        Ok(loss)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.update(ctx)
    }
}

impl Worker {
    /// Applies the mean of the gradients since the last update.
    fn update(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let Some(mut sum) = self.sum.take() else { return Ok(()) };
        sum.scale(1.0 / self.steps as f32);
        self.steps = 0;
        let workers = ctx.trainers().clone();
        let mean = ctx.all_reduce_mean_over(&workers, sum)?;
        ctx.apply_gradient(mean);
        Ok(())
    }
}
