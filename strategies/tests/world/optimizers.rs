//! Every optimizer in every strategy that takes it: against one process, and through servers, schedules and averages.

use crate::reference::gradient;
use crate::scene::{Scene, common_digests};
use recipe::{Collective, Extent, LrShape, OptimizerSettings, Schedule, Strategy, StrategyKind, UpdateRule};
use strategies::matrices::Matrix;
use strategies::{Learner, Optimizer, Vector};

/// Each optimizer but plain SGD, which all other tests have.
pub(crate) fn all() -> [OptimizerSettings; 3] {
    let sgd = OptimizerSettings { weight_decay: 0.0625, ..OptimizerSettings::sgd(0.125) };
    [
        OptimizerSettings { momentum: 0.5, rule: UpdateRule::Nesterov, ..sgd },
        OptimizerSettings {
            lr: 0.0625,
            clip: Some(2.0),
            rule: UpdateRule::Adamw { beta1: 0.5, beta2: 0.75, epsilon: 1e-3 },
            ..sgd
        },
        OptimizerSettings { momentum: 0.5, rule: UpdateRule::Lars { trust: 0.25 }, ..sgd },
    ]
}

/// Whether the optimizer acts in the strategy, as a recipe is checked for it: a group that splits matrices has no norms of them,
/// nor of a whole gradient.
pub(crate) fn acts(strategy: &Strategy, settings: &OptimizerSettings) -> bool {
    let needs_norms = settings.clip.is_some() || matches!(settings.rule, UpdateRule::Lars { .. });
    let splits = strategy.parts() > 1;
    strategy.kind().own_rule().is_none() && !(splits && needs_norms)
}

fn scene(strategy: Strategy, workers: u32, settings: OptimizerSettings) -> Scene {
    Scene::new(strategy, workers).rank_order().widths(&[6, 7, 5, 4]).change(|spec| {
        spec.train.optimizer = settings;
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(14);
        spec.train.schedule.shape = LrShape::Cosine { floor: 0.25 };
        spec.train.schedule.warmup = Extent::Steps(3);
    })
}

/// An optimizer of one process, whose bits are those of formulas in other tests.
fn optimizer(scene: &Scene) -> Optimizer {
    let learner = scene.learner();
    let layers = learner.layout().layers().iter().zip(scene.widths.windows(2));
    let matrix = |(layer, widths): (&strategies::LayoutLayer, &[usize])| Matrix {
        at: layer.span.start,
        rows: widths[1],
        columns: widths[0] + 1,
    };
    Optimizer::new(scene.spec.train.optimizer, layers.map(matrix).collect::<Vec<_>>().into())
}

/// Final model of workers with an optimizer each that average their models each `period` steps and at the end.
fn averaged(scene: &Scene, period: u64) -> Vector {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let mut models = vec![learner.initial(); plan.workers()];
    let mut optimizers = vec![optimizer(scene); plan.workers()];
    for t in 1..=plan.budget.steps() {
        let rate = plan.learning_rate.at(plan.budget.samples_after(t - 1));
        for (k, (w, optimizer)) in models.iter_mut().zip(&mut optimizers).enumerate() {
            let g = gradient(&mut learner, w, &plan.sampler.batch(t, k));
            optimizer.apply_gradient(w, &mut g.into(), rate);
        }
        if t % period == 0 || t == plan.budget.steps() {
            let mut mean = Vector::zeros(models[0].len());
            for w in &models {
                mean.add(w);
            }
            mean.scale(1.0 / models.len() as f32);
            models.fill(mean);
        }
    }
    models.remove(0)
}

/// Whether one worker trains as one process does: an update of its own gradient in each step, and nothing beside it.
fn alone_is_one_process(strategy: &Strategy) -> bool {
    match strategy {
        Strategy::PsSync
        | Strategy::DSync
        | Strategy::LocalSgd { .. }
        | Strategy::DPsgd { .. }
        | Strategy::Sgp
        | Strategy::AdPsgd { .. }
        | Strategy::AsyncSgd { .. } => true,
        Strategy::Gmp { mp, .. } => *mp == 1,
        // Stale gradients, and steps of an outer optimizer; rules of their own, of which `acts` is false.
        Strategy::PipeSgd { .. }
        | Strategy::Slowmo { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::EasgdSync { .. }
        | Strategy::Eamsgd { .. }
        | Strategy::Custom { .. } => false,
    }
}

#[test]
fn one_worker_is_one_process() {
    for settings in all() {
        let alone = Strategy::samples().into_iter().filter(alone_is_one_process);
        let mut kinds: Vec<StrategyKind> = Vec::new();
        for strategy in alone.filter(|strategy| acts(strategy, &settings)) {
            kinds.push(strategy.kind());
            let scene = scene(strategy.clone(), 1, settings);
            let expected = averaged(&scene, 1).sha256();
            let outcome = scene.run();
            // A server that only adds holds no model.
            let holds = outcome
                .ranks
                .iter()
                .rev()
                .map(strategies::sim::RankOutcome::model)
                .find(|model| !model.is_empty());
            assert_eq!(holds.unwrap().sha256(), expected, "{strategy:?}, {settings:?}");
        }
        kinds.dedup();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }
}

#[test]
fn a_parameter_server_is_an_all_reduce_bit_for_bit() {
    for settings in all() {
        for workers in 1..=4 {
            let digests = [Strategy::DSync, Strategy::PsSync]
                .map(|strategy| common_digests(&scene(strategy, workers, settings).run()));
            assert_eq!(digests[0].len(), 15);
            assert_eq!(digests[0], digests[1], "{workers} workers, {settings:?}");
        }
    }
}

/// Of several servers each has the moments and the count of its part. None knows a norm, so that nothing is clipped.
#[test]
fn several_servers_are_one() {
    for settings in all().into_iter().filter(|settings| !matches!(settings.rule, UpdateRule::Lars { .. })) {
        let settings = OptimizerSettings { clip: None, ..settings };
        let ended = |servers: usize, schedule| {
            let mut scene = scene(Strategy::PsSync, 2, settings);
            let server = scene.spec.cluster.placements.last().unwrap().clone();
            scene.spec.cluster.placements.extend(vec![server; servers - 1]);
            let scene = scene.change(|spec| spec.communication.schedule = schedule);
            scene.run().ranks[0].model().sha256()
        };
        let expected = ended(1, Schedule::Single);
        for schedule in [Schedule::Single, Schedule::PerLayer, Schedule::MergedExact] {
            assert_eq!(ended(3, schedule), expected, "{settings:?}, {schedule:?}");
        }
    }
}

#[test]
fn no_schedule_changes_a_bit() {
    let pipe = |depth, segments| Strategy::PipeSgd { depth, warmup: Extent::Steps(3), segments };
    let schedules = [
        Schedule::PerLayer,
        Schedule::Fixed { bytes: 1 },
        Schedule::Fixed { bytes: 200 },
        Schedule::Merged,
        Schedule::MergedExact,
    ];
    for settings in all() {
        for strategy in [Strategy::DSync, Strategy::PsSync, pipe(2, 1), pipe(3, 1)] {
            // A server that updates layers before the others arrive cannot clip.
            let clip = settings.clip.filter(|_| strategy != Strategy::PsSync);
            let settings = OptimizerSettings { clip, ..settings };
            for workers in [2, 3] {
                let run = |schedule| {
                    let scene = scene(strategy.clone(), workers, settings);
                    common_digests(&scene.change(|spec| spec.communication.schedule = schedule).run())
                };
                let single = run(Schedule::Single);
                for schedule in schedules {
                    assert_eq!(run(schedule), single, "{strategy:?}, {workers}, {schedule:?}, {settings:?}");
                }
            }
        }
        // Pieces end inside of matrices.
        let pieces = |segments| common_digests(&scene(pipe(2, segments), 3, settings).run());
        assert_eq!(pieces(5), pieces(1), "{settings:?}");
    }
}

#[test]
fn workers_with_models_of_their_own_have_optimizers_of_their_own() {
    for settings in all() {
        for period in [1, 3, 100] {
            let scene = scene(Strategy::LocalSgd { period }, 3, settings)
                .change(|spec| spec.communication.collective = Collective::Star);
            let expected = averaged(&scene, period).sha256();
            for rank in &scene.run().ranks {
                assert_eq!(rank.model().sha256(), expected, "period {period}, {settings:?}");
            }
        }
    }
}

/// The optimizers of this file change a run by more than rounding: no two end alike.
#[test]
fn optimizers_differ() {
    let plain = [OptimizerSettings { momentum: 0.5, weight_decay: 0.0625, ..OptimizerSettings::sgd(0.125) }];
    let ended =
        |settings: OptimizerSettings| scene(Strategy::DSync, 2, settings).run().ranks[0].model().clone();
    let models: Vec<Vector> = plain.into_iter().chain(all()).map(ended).collect();
    for (number, one) in models.iter().enumerate() {
        assert!(one.iter().all(|w| w.is_finite()), "{number}");
        for other in &models[..number] {
            let apart = one.iter().zip(other.iter()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart > 1e-3, "{number}: {apart}");
        }
    }
}
