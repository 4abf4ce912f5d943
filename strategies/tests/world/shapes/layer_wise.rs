//! Layers that travel together, as soon as they are ready.

use super::{comm_lane, run, trains};
use crate::scene::{Scene, common_digests};
use recipe::{Extent, Strategy as Kinds};
use record::Rank;
use strategies::*;

/// One all-reduce per bucket of neighbouring layers, as soon as the bucket is complete.
struct LayerWise {
    buckets: Vec<std::ops::Range<usize>>,
}

impl Trainer for LayerWise {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let loss = ctx.forward()?;
        let mut g = ctx.spare();
        let mut travelling = Vec::new();
        while let Some(done) = ctx.backward_next()? {
            let span = ctx.layout().layers()[done.layer].span.clone();
            g[span].copy_from_slice(&done.gradient);
            if let Some(bucket) = self.buckets.iter().find(|bucket| bucket.start == done.layer) {
                let span = ctx.layout().span(bucket.clone());
                travelling.push((span.clone(), ctx.start_all_reduce_mean(g[span].to_vec().into())?));
            }
        }
        for (span, pending) in travelling {
            g[span].copy_from_slice(&ctx.wait(pending)?);
        }
        ctx.apply_gradient(g);
        Ok(loss)
    }
}

#[test]
fn schedules_do_not_change_a_bit_in_rank_order() {
    let scene = Scene::new(Kinds::DSync, 3).rank_order().widths(&[6, 7, 5, 4]).change(|spec| {
        spec.train.optimizer.momentum = 0.5;
        spec.train.length = Extent::Steps(30);
    });
    let expected = common_digests(&scene.run());
    let cuts: [&[usize]; 3] = [&[0, 1, 2, 3], &[0, 2, 3], &[0, 3]];
    for cuts in cuts {
        let buckets: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        let roles = |_: Rank, _: &dyn Runtime, comm: &CommQueue| {
            trains(LayerWise { buckets: buckets.clone() }, vec![comm_lane(&scene, comm)])
        };
        let outcome = run(&scene, || Box::new(scene.learner()), roles).unwrap();
        assert_eq!(common_digests(&outcome), expected, "{buckets:?}");
    }
}
