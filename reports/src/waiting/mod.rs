//! Who waited for whom: the rank that computes slowly, the rank whose link is slow, and the cost to the others.

use comparison::statistics;
use comparison::study::{ArmCell, Condition, JudgedRun};
use recipe::Role;
use record::{Category, LaneId, Nanos, Rank};
use store::RunState;
use store::{AttemptRow, PaceRow, RankRow, Steady, TransferRow};

/// A rank computes slowly if it takes this many times as long as the others; smaller differences are noise of a shared
/// machine.
pub(crate) const SLOW_RANK: f64 = 1.5;

/// A rank's link is slow if bytes take this many times as long over it, with every rank that it exchanges with.
pub(crate) const SLOW_LINK: f64 = 2.0;

/// Links with fewer bytes on either side are not compared.
pub(crate) const FEWEST_BYTES: u64 = 64 << 10;

/// The workers of the median run of a cell.
pub(crate) struct Waiting {
    /// Index of the run into the runs of its cell: the median run.
    pub(crate) run: usize,
    pub(crate) workers: Vec<Share>,
    /// Rounds in which they were compared; 0 if they step independently.
    pub(crate) rounds: u64,
    /// Steps of a round.
    pub(crate) period: u64,
    /// Whether they step independently, but wait for others.
    pub(crate) held_back: bool,
    pub(crate) slow: Option<SlowRank>,
    pub(crate) links: Links,
    /// Runs that did not diverge in which the same rank computes slowly or has a slow link, and all.
    pub(crate) runs: (usize, usize),
}

/// The mean steady step of a worker's compute lane, in seconds; the parts add up to its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) rank: Rank,
    pub(crate) busy: f64,
    /// Communication that the lane did itself.
    pub(crate) communicating: f64,
    pub(crate) waiting: f64,
    pub(crate) steps: u64,
    pub(crate) pace: PaceRow,
}

impl Share {
    pub(crate) fn length(&self) -> f64 {
        self.busy + self.communicating + self.waiting
    }

    fn total(&self, part: impl Fn(&Self) -> f64) -> f64 {
        part(self) * self.steps as f64
    }
}

/// A rank that computes slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlowRank {
    pub(crate) rank: Rank,
    /// How many times as long as the others it computes.
    pub(crate) factor: f64,
    /// Rounds in which it was the last one.
    pub(crate) last: u64,
    /// Seconds that the others waited, added up: for it, or, if they step independently, for any reason.
    pub(crate) waited: f64,
    /// The same as a share of their time.
    pub(crate) share: f64,
    /// Length of the others' mean step, the one in the middle.
    pub(crate) others: f64,
}

/// The finding on the links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Links {
    /// One link is slow.
    Slow(SlowLink),
    /// No link is slow.
    Even,
    /// No worker's link is slow; that of a server that all exchange with cannot be compared.
    EvenWorkers,
    /// The two ranks share the only link.
    Shared,
    /// Too few bytes were seen.
    Unseen,
}

/// The rank whose link is slow, and what the other workers did meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlowLink {
    pub(crate) rank: Rank,
    /// How many times as long a byte takes over it.
    pub(crate) factor: f64,
    /// Seconds that the other workers waited, all together, and the share of their time.
    pub(crate) waited: (f64, f64),
    /// The same of communication that was exposed.
    pub(crate) communicated: (f64, f64),
}

impl Waiting {
    /// The rank that computes slowly, or else the one whose link is slow.
    pub(crate) fn named(&self) -> Option<Rank> {
        named(self.slow, self.links)
    }
}

fn named(slow: Option<SlowRank>, links: Links) -> Option<Rank> {
    let link = if let Links::Slow(link) = links { Some(link.rank) } else { None };
    slow.map(|slow| slow.rank).or(link)
}

/// The workers of an arm's median run; `None` unless the pace of at least two is known, if all runs diverged, and of a run that lost a
/// rank: the steps of one that was killed are not those of the others.
pub(crate) fn of(condition: &Condition, cell: &ArmCell) -> Option<Waiting> {
    let run = cell.median_index(condition.measure())?;
    let judged = cell.runs.get(run).filter(|judged| !judged.has_diverged())?;
    if judged.run.state == RunState::Degraded {
        return None;
    }
    let workers = shares(judged.attempt);
    if workers.len() < 2 {
        return None;
    }
    let slow = slow_rank(&workers, judged.attempt.rounds);
    let links = links(judged.attempt, &workers);
    let same = |other: &&JudgedRun| {
        let workers = shares(other.attempt);
        let own = named(slow_rank(&workers, other.attempt.rounds), self::links(other.attempt, &workers));
        own == named(slow, links)
    };
    Some(Waiting {
        run,
        rounds: judged.attempt.rounds,
        period: cell.period,
        held_back: cell.held_back,
        slow,
        links,
        runs: (cell.sound_runs().filter(same).count(), cell.sound_runs().count()),
        workers,
    })
}

/// The workers of an attempt by rank.
fn shares(attempt: &AttemptRow) -> Vec<Share> {
    attempt.ranks.iter().filter(|rank| rank.role == Role::Worker).filter_map(share).collect()
}

fn share(rank: &RankRow) -> Option<Share> {
    let Steady { time, steps } = rank.steady;
    let spent = |kind: Category| {
        let rows = rank.phases.iter().filter(|row| row.lane == LaneId::Compute);
        rows.filter(|row| row.phase.category() == kind).map(|row| row.total.seconds()).sum::<f64>()
    };
    let communicating = spent(Category::Communication);
    let waiting = spent(Category::Waiting);
    let pace = rank.pace.filter(|_| steps > 0)?;
    Some(Share {
        rank: rank.rank,
        busy: (time.seconds() - communicating - waiting).max(0.0) / steps as f64,
        communicating: communicating / steps as f64,
        waiting: waiting / steps as f64,
        steps,
        pace,
    })
}

/// Seconds that the workers but one spent on something, all together, and as a share of their time.
fn of_others(workers: &[Share], rank: Rank, part: impl Fn(&Share) -> f64) -> (f64, f64) {
    let others = || workers.iter().filter(|worker| worker.rank != rank);
    let spent: f64 = others().map(|worker| worker.total(&part)).sum();
    (spent, share_of(spent, others().map(|worker| worker.total(Share::length)).sum()))
}

fn share_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The worker that computes longest, by how much longer than the one in the middle of the others.
pub(crate) fn longest(workers: &[Share]) -> Option<(&Share, f64)> {
    let factor = |worker: &Share| {
        let others: Vec<f64> =
            workers.iter().filter(|other| other.rank != worker.rank).map(|other| other.busy).collect();
        let usual = statistics::median(&others).filter(|usual| *usual > 0.0)?;
        Some(worker.busy / usual)
    };
    let factors = workers.iter().filter_map(|worker| Some((worker, factor(worker)?)));
    factors.max_by(|left, right| left.1.total_cmp(&right.1).then(right.0.rank.cmp(&left.0.rank)))
}

fn slow_rank(workers: &[Share], rounds: u64) -> Option<SlowRank> {
    let (worker, factor) = longest(workers).filter(|(_, factor)| *factor >= SLOW_RANK)?;
    let rank = worker.rank;
    let (all, of_all) = of_others(workers, rank, |other| other.waiting);
    let time = of_others(workers, rank, Share::length).0;
    let (waited, share) = if rounds > 0 {
        let imposed = worker.pace.imposed.seconds();
        (imposed, share_of(imposed, time))
    } else {
        (all, of_all)
    };
    let others: Vec<f64> = workers.iter().filter(|other| other.rank != rank).map(Share::length).collect();
    let others = statistics::median(&others)?;
    Some(SlowRank { rank, factor, last: worker.pace.last, waited, share, others })
}

/// Seconds per byte of some transfers, if enough of them were seen whole.
fn whole<'a>(rows: impl Iterator<Item = &'a TransferRow>) -> Option<f64> {
    per_byte(rows.map(|row| (row.bytes, row.time)))
}

fn per_byte(rows: impl Iterator<Item = (u64, Nanos)>) -> Option<f64> {
    let (bytes, time) = rows.fold((0_u64, 0.0), |(bytes, time), (more, took)| {
        (bytes.saturating_add(more), time + took.seconds())
    });
    (bytes >= FEWEST_BYTES).then(|| time / bytes as f64)
}

/// Seconds per byte of the transfers that a rank takes part in: no less than this. What was seen in part only can make
/// it longer, never shorter.
fn at_least<'a>(rows: impl Iterator<Item = &'a TransferRow> + Clone) -> Option<f64> {
    let cut = per_byte(rows.clone().map(|row| (row.cut_bytes, row.cut_time)));
    whole(rows).into_iter().chain(cut).reduce(f64::max)
}

fn links(attempt: &AttemptRow, workers: &[Share]) -> Links {
    if attempt.ranks.len() < 3 {
        return Links::Shared;
    }
    let rows = &attempt.transfers;
    let factor = |rank: Rank| {
        let has = move |row: &&TransferRow| row.from == rank || row.to == rank;
        let others = whole(rows.iter().filter(move |row| !has(row))).filter(|time| *time > 0.0)?;
        let own = at_least(rows.iter().filter(has))?;
        let pairs = rows.iter().filter(has).filter_map(|row| whole(std::iter::once(row)));
        // A slow card is slow with everybody; one slow pair among many is not a rank's.
        let own = pairs.fold(own, |own, pair| if pair < SLOW_LINK * others { own.min(pair) } else { own });
        Some((rank, own / others))
    };
    let factors = attempt.ranks.iter().filter_map(|rank| factor(rank.rank));
    let largest = factors.max_by(|left, right| left.1.total_cmp(&right.1).then(right.0.cmp(&left.0)));
    let Some((rank, factor)) = largest.filter(|(_, factor)| *factor >= SLOW_LINK) else {
        // A server that everything passes cannot be compared; each worker must be, to say that none is slow.
        let workers_are = workers.iter().all(|worker| factor(worker.rank).is_some());
        let all_are = attempt.ranks.iter().all(|rank| factor(rank.rank).is_some());
        return match (workers_are, all_are) {
            (true, true) => Links::Even,
            (true, false) => Links::EvenWorkers,
            (false, _) => Links::Unseen,
        };
    };
    Links::Slow(SlowLink {
        rank,
        factor,
        waited: of_others(workers, rank, |other| other.waiting),
        communicated: of_others(workers, rank, |other| other.communicating),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, Straggler};
    use comparison::study::Study;
    use store::SweepRows;

    /// The finding on each arm under the only condition.
    fn seen(rows: &SweepRows, each: impl Fn(&Waiting)) {
        let study = Study::new(rows, None).unwrap();
        study
            .arm_cells()
            .filter_map(|placed| of(placed.condition, placed.cell))
            .for_each(|found| each(&found));
    }

    fn transfer(from: u32, to: u32, [bytes, time, cut_bytes, cut_time]: [u64; 4]) -> TransferRow {
        TransferRow {
            from: Rank(from),
            to: Rank(to),
            bytes,
            time: Nanos(time),
            cut_bytes,
            cut_time: Nanos(cut_time),
        }
    }

    /// The finding on the links of four workers with these transfers.
    fn linked(transfers: &[TransferRow]) -> Links {
        let mut rows = Sample { arms: Sample::duel().arms[1..].to_vec(), ..Sample::duel() }.rows();
        let attempt = rows.runs[0].attempt.as_mut().unwrap();
        attempt.transfers = transfers.to_vec();
        let attempt = rows.runs[0].attempt.as_ref().unwrap();
        links(attempt, &shares(attempt))
    }

    const KIB: u64 = 1024;

    /// A ring of four with a slow card at rank 2; `cut` is what was seen of it in part: bytes and nanoseconds.
    fn ring(cut: [u64; 2]) -> Vec<TransferRow> {
        let whole = |from, to, each| transfer(from, to, [100 * KIB, 100 * KIB * each, 0, 0]);
        let slow = transfer(2, 3, [100 * KIB, 1_000 * KIB, cut[0], cut[1]]);
        vec![whole(0, 1, 1), whole(1, 2, 10), slow, whole(3, 0, 1)]
    }

    /// Who has a slow link, and by how many hundredths.
    fn slow_link(links: Links) -> Option<(u32, u64)> {
        if let Links::Slow(link) = links {
            Some((link.rank.0, (link.factor * 100.0).round() as u64))
        } else {
            None
        }
    }

    #[test]
    fn the_rank_between_all_slow_transfers_is_named() {
        assert_eq!(slow_link(linked(&ring([0, 0]))), Some((2, 1000)));
        // Messages that were there before they were looked for make no link fast.
        assert_eq!(slow_link(linked(&ring([9_000 * KIB, 3]))), Some((2, 1000)));
        // The part that was seen of a transfer from a slow card is enough to name it, where nothing was seen whole.
        let cut = transfer(2, 3, [0, 0, 100 * KIB, 500 * KIB]);
        let rows = [ring([0, 0])[0], cut, ring([0, 0])[3]];
        assert_eq!(slow_link(linked(&rows)), Some((2, 500)));
        // But not to say how fast the others are.
        let rest = |from, to| transfer(from, to, [0, 0, 100 * KIB, 3]);
        assert_eq!(linked(&[rest(0, 1), ring([0, 0])[1], rest(3, 0)]), Links::Unseen);
    }

    #[test]
    fn of_a_server_that_everything_passes_nothing_is_said() {
        let star: Vec<TransferRow> =
            (0..4).map(|worker| transfer(worker, 4, [100 * KIB, 1_000 * KIB, 0, 0])).collect();
        let mut rows = Sample::duel().rows();
        let attempt = rows.runs[0].attempt.as_mut().unwrap();
        assert_eq!(attempt.ranks.len(), 5);
        attempt.transfers = star;
        let attempt = rows.runs[0].attempt.as_ref().unwrap();
        assert_eq!(links(attempt, &shares(attempt)), Links::EvenWorkers);
    }

    #[test]
    fn a_link_that_is_fast_with_one_rank_is_not_slow() {
        let mut rows = ring([0, 0]);
        rows[2].time = Nanos(100 * KIB);
        // Only one of the two pairs of rank 2 is slow, and of rank 1.
        assert_eq!(linked(&rows), Links::Even);
        let nearly: Vec<TransferRow> = ring([0, 0])
            .into_iter()
            .map(|row| TransferRow { time: Nanos(row.time.0.min(199 * KIB)), ..row })
            .collect();
        assert_eq!(linked(&nearly), Links::Even);
        let few: Vec<TransferRow> =
            ring([0, 0]).into_iter().map(|row| TransferRow { bytes: row.bytes / 4, ..row }).collect();
        assert_eq!(linked(&few), Links::Unseen);
        assert_eq!(linked(&[]), Links::Unseen);
    }

    #[test]
    fn two_ranks_have_one_link() {
        let two = Sample { workers: vec![2], arms: Sample::duel().arms[1..].to_vec(), ..Sample::duel() };
        seen(&two.rows(), |found| assert_eq!(found.links, Links::Shared));
        let one = Sample { workers: vec![1], ..two };
        seen(&one.rows(), |_| panic!("a single worker waits for no other"));
    }

    #[test]
    fn who_computes_slowly_is_named_with_what_the_others_waited() {
        seen(&Sample::held_up().rows(), |found| {
            let slow = found.slow.unwrap();
            assert_eq!((slow.rank, found.named(), found.runs), (Rank(3), Some(Rank(3)), (5, 5)));
            assert!((9.0..=10.5).contains(&slow.factor), "{}", slow.factor);
            if found.rounds > 0 {
                assert_eq!(slow.last, found.rounds);
                assert!((0.7..0.95).contains(&slow.share), "{}", slow.share);
            } else {
                assert!(slow.share < 0.05, "{}", slow.share);
            }
            // The waiting that is charged is at most the waiting that was measured.
            let all: f64 = found.workers.iter().map(|share| share.total(|share| share.waiting)).sum();
            assert!(slow.waited <= all * 1.000_001);
        });
        seen(&Sample::duel().rows(), |found| assert_eq!((found.slow, found.named()), (None, None)));
    }

    #[test]
    fn a_slow_link_is_told_from_slow_computing() {
        let straggler = Straggler { rank: Rank(1), compute: 1.0, link: 10.0 };
        seen(&Sample { straggler, ..Sample::duel() }.rows(), |found| {
            assert_eq!((found.slow, found.named()), (None, Some(Rank(1))));
            assert_eq!(slow_link(found.links), Some((1, 1000)));
        });
    }
}
