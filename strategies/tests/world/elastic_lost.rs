//! Elastic methods whose ranks die: without a worker they go on, without their master they do not; all at once they
//! need everyone.

use crate::asynchronous::scene;
use crate::lost_workers::{DEADLINE, all_fail, exchanging, first_failures, go_wrong, gone, lost, survivors};
use crate::sharding::judged;
use recipe::{ExchangeThrough, Extent, MovingRate, StepPace, Strategy, StrategyKind};
use record::{LaneId, Nanos, Rank};
use strategies::StepError;
use strategies::sim::{Fault, LaneEnd};

fn at_their_own_pace() -> Vec<Strategy> {
    exchanging(StepPace::Own, |through| through == ExchangeThrough::Centre)
}

fn together() -> Vec<Strategy> {
    exchanging(StepPace::Common, |through| through == ExchangeThrough::Centre)
}

#[test]
fn a_run_goes_on_without_a_worker_that_fails() {
    for strategy in at_their_own_pace() {
        for seed in 0..8 {
            for fault in [Fault::Kill, Fault::Stop] {
                let scene = scene(strategy.clone(), 4, 1, seed);
                let when = Nanos(scene.run().time.0 / 3 + 1_000 * seed);
                let after = go_wrong(&scene, &[(when, fault(Rank(1)))]);
                let what = format!("{strategy:?}, seed {seed}");
                assert!(
                    survivors(&after, Rank(1)).all(|ending| ending.end == LaneEnd::Finished),
                    "{what}: {:?}",
                    after.endings
                );
                let outcome = after.outcome;
                let lost = lost(&outcome);
                assert!(matches!(&lost[..], [lost] if lost.peer == Rank(1)), "{what}: {lost:?}");
                let steps = |rank: usize| outcome.ranks[rank].steps(LaneId::Compute).len() as u64;
                assert!(lost[0].step <= steps(1) + 4 && lost[0].step > 1, "{what}: {}", lost[0].step);
                // Other workers make up for the samples of the lost one, unless they had already ended.
                let last = judged(&outcome).last().cloned().unwrap();
                assert!(last.1 == "centre" && last.3, "{what}: {last:?}");
                assert!((180..210).contains(&last.2), "{what}: {} samples", last.2);
            }
        }
    }
}

#[test]
fn no_run_goes_on_without_its_master() {
    for strategy in
        at_their_own_pace().into_iter().chain(together()).filter(|strategy| strategy.servers() > 0)
    {
        let after = go_wrong(&scene(strategy.clone(), 2, 1, 1), &[(Nanos(30_000), Fault::Kill(Rank(2)))]);
        assert!(gone(&after, Rank(2)), "{strategy:?}: {:?}", after.endings);
        all_fail(&after, Rank(2), "died");
    }
}

#[test]
fn all_at_once_is_nothing_without_one() {
    for strategy in together() {
        for seed in 0..5 {
            let scene = scene(strategy.clone(), 4, strategy.servers() as usize, seed);
            let after = go_wrong(&scene, &[(Nanos(scene.run().time.0 / 2), Fault::Kill(Rank(1)))]);
            assert!(gone(&after, Rank(1)), "{strategy:?}: {:?}", after.endings);
            all_fail(&after, Rank(1), "died");
        }
    }
}

#[test]
fn a_run_without_a_single_worker_has_failed() {
    for strategy in at_their_own_pace() {
        let scene = scene(strategy.clone(), 2, 1, 1);
        let after = go_wrong(&scene, &[0, 1].map(|rank| (Nanos(30_000), Fault::Kill(Rank(rank)))));
        assert!(
            first_failures(&after)
                .iter()
                .all(|(rank, error)| *rank == Rank(2) && matches!(error, StepError::Gone { .. })),
            "{strategy:?}: {:?}",
            after.endings
        );
    }
}

/// Seven steps without a word take longer than a peer may be silent, and each by itself does not.
#[test]
fn a_long_period_is_no_silence() {
    for mut strategy in at_their_own_pace() {
        match &mut strategy {
            Strategy::EasgdAsync { period, .. }
            | Strategy::MeasgdAsync { period, .. }
            | Strategy::EasgdHogwild { period, .. }
            | Strategy::Eamsgd { period, .. } => *period = 7,
            other => assert_eq!(other.kind(), StrategyKind::EasgdOriginal, "the only one without a period"),
        }
        if strategy.period() == 1 {
            continue;
        }
        let mut scene = scene(strategy.clone(), 3, 1, 1);
        scene.world.jitter = 0.0;
        scene.world.slow.clear();
        scene.world.costs.forward = vec![Nanos(DEADLINE.0 / 4), Nanos(0)];
        let after = go_wrong(&scene, &[]);
        assert!(after.endings.iter().all(|ending| ending.end == LaneEnd::Finished), "{strategy:?}");
        assert_eq!(lost(&after.outcome), [], "{strategy:?}");
    }
}

/// Two turns would be enough for all samples; the other workers have one each, and no worker is left waiting.
#[test]
fn a_training_shorter_than_a_round_gives_each_worker_a_turn() {
    for overlap in [true, false] {
        let strategy = Strategy::EasgdOriginal { moving_rate: MovingRate::Fixed(0.25), overlap };
        let scene = scene(strategy, 4, 1, 1).change(|spec| spec.train.length = Extent::Epochs(0.004));
        let outcome = scene.run();
        let steps = |rank: usize| {
            outcome.ranks[rank].steps(LaneId::Compute).iter().filter(|step| !step.drain).count()
        };
        assert!((0..4).all(|rank| steps(rank) == 1), "overlap {overlap}");
    }
}
