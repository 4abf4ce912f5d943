//! Decides which rank is to blame for the end of an attempt, and words it.

use super::fault::{Cause, Fault};
use super::input::{AttemptReport, Rules};
use super::rank::{RankState, list};
use super::{SILENT_BEATS, nanos};
use crate::{End, FaultOrigin, LostRank, ProcessExit, Whereabouts};
use mesh::Member;
use recipe::PlannedFault;
use record::{Nanos, Rank, RankEnd};
use std::collections::BTreeSet;
use std::time::Duration;

/// Heartbeats without a message after which an accusation is believed.
const SUSPICIOUS_BEATS: u32 = 3;

/// Reason for which an attempt ended early.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Conclusion {
    /// The target was reached.
    TargetReached { at: Nanos, value: f64 },
    /// A loss or weights stopped being finite.
    Diverged { rank: Rank, step: u64, loss: String },
    /// It could not continue.
    Failed(Fault),
    /// The time limit passed.
    TimedOut,
    /// The user stopped it.
    Interrupted,
}

/// The conclusion when the run cannot continue: the earliest fault that a rank caused itself, else the rank at the end of
/// the chain of accusations that begins with the first.
pub(super) fn decide(ranks: &[RankState], now: Nanos, heartbeat: Duration) -> Conclusion {
    let limit = nanos(heartbeat * SILENT_BEATS);
    let own = ranks
        .iter()
        .enumerate()
        .filter_map(|(number, state)| own_cause(Rank(number as u32), state, now, limit));
    if let Some((_, conclusion)) = own.min_by_key(|(at, _)| *at) {
        return conclusion;
    }
    let complaints = ranks.iter().enumerate().filter_map(|(number, state)| {
        complaint(state).map(|(at, peer, reason)| (at, Rank(number as u32), peer, reason))
    });
    let Some((_, by, peer, reason)) = complaints.min_by_key(|(at, ..)| *at) else {
        // Without evidence the run ends without a culprit.
        let cause = Cause::Reported("a rank left the run".into());
        return Conclusion::Failed(Fault { culprit: None, place: None, cause });
    };
    let culprit = end_of_chain(ranks, by, peer);
    let state = &ranks[culprit.index()];
    let silence = state.silence(now);
    let cause = if culprit == by {
        Cause::Reported(reason.into())
    } else if silence > nanos(heartbeat * SUSPICIOUS_BEATS) {
        Cause::Silent(silence)
    } else {
        Cause::Accused { by, reason: reason.into() }
    };
    Conclusion::Failed(Fault { culprit: Some(culprit), place: state.place(), cause })
}

/// A fault that this rank caused itself, and when.
fn own_cause(rank: Rank, state: &RankState, now: Nanos, limit: Nanos) -> Option<(Nanos, Conclusion)> {
    let failed = |cause| Conclusion::Failed(Fault { culprit: Some(rank), place: state.place(), cause });
    if state.lost.is_some() {
        return None;
    }
    match (&state.ended, &state.exit) {
        (Some((at, RankEnd::Diverged { step, loss })), _) => {
            Some((*at, Conclusion::Diverged { rank, step: *step, loss: loss.clone() }))
        }
        (Some((at, RankEnd::Failed { peer: None, reason, .. })), _) => {
            Some((*at, failed(Cause::Reported(reason.clone()))))
        }
        (Some((_, RankEnd::Failed { peer: Some(_), .. })), _) => None,
        (_, Some((at, exit))) if !state.left_in_order() => Some((*at, failed(Cause::Exited(exit.clone())))),
        _ => {
            let silence = state.silence(now);
            let missed = state.missed.as_ref();
            match missed.filter(|_| state.ended.is_none()) {
                _ if silence > limit => Some((now - silence, failed(Cause::Silent(silence)))),
                Some((at, missed)) => {
                    let by = missed.rank;
                    let reason = missed.reason.clone();
                    Some((*at, failed(Cause::Missed { by, reason })))
                }
                None => None,
            }
        }
    }
}

fn complaint(state: &RankState) -> Option<(Nanos, Rank, &str)> {
    match &state.ended {
        Some((at, RankEnd::Failed { peer: Some(peer), reason, .. })) if state.lost.is_none() => {
            Some((*at, *peer, reason))
        }
        _ => None,
    }
}

/// Follows the chain of accusations to its end. In a cycle, falls back to the peer that the first accuser named.
fn end_of_chain(ranks: &[RankState], by: Rank, peer: Rank) -> Rank {
    let mut seen = BTreeSet::from([by]);
    let mut accused = peer;
    loop {
        let Some(state) = ranks.get(accused.index()) else { return by };
        if !seen.insert(accused) {
            return peer;
        }
        match complaint(state) {
            Some((_, next, _)) => accused = next,
            None => return accused,
        }
    }
}

/// The lost ranks of a run that began at `begun`, in the order of their loss.
fn lost_ranks(ranks: &[RankState], rules: &Rules, begun: Nanos) -> Vec<LostRank> {
    let lost =
        (0..).map(Rank).zip(ranks).filter_map(|(rank, state)| Some((rank, state, state.lost.as_ref()?)));
    let mut lost_ranks: Vec<LostRank> = lost
        .map(|(rank, state, (since, fault))| {
            let missed = state.missed.as_ref().map(|(_, missed)| (missed.step, missed.at));
            let seen = fault.place.map_or(0, |place| place.step);
            let (step, at) = missed.unwrap_or_else(|| (seen, since.since(begun)));
            let step = if step == 0 { seen } else { step };
            LostRank { rank, step, at, reason: fault.sentence(rules) }
        })
        .collect();
    lost_ranks.sort_by_key(|lost| (lost.at, lost.rank));
    lost_ranks
}

/// The report on an attempt whose run began at `begun`.
pub(super) fn report_of(
    conclusion: Option<&Conclusion>,
    ranks: &[RankState],
    rules: &Rules,
    begun: Nanos,
) -> AttemptReport {
    let lost_ranks = lost_ranks(ranks, rules, begun);
    let report = report_of_end(conclusion, ranks, rules);
    let AttemptReport { end, mut suspects, mut detail, .. } = report;
    if !lost_ranks.is_empty() {
        let reasons: Vec<&str> = lost_ranks.iter().map(|lost| lost.reason.as_str()).collect();
        let them = if lost_ranks.len() == 1 { "it" } else { "them" };
        let went_on = format!("{}; the run went on without {them}", reasons.join("; "));
        detail = if detail.is_empty() { went_on } else { format!("{detail} (before: {went_on})") };
        if matches!(end, End::Done | End::TargetReached { .. }) {
            suspects = lost_ranks.iter().map(|lost| Member::Rank(lost.rank)).collect();
        }
    }
    if matches!(end, End::Done | End::TargetReached { .. }) {
        let never = never_came(ranks, rules).chain(links_without_loss(ranks));
        detail = [detail]
            .into_iter()
            .filter(|detail| !detail.is_empty())
            .chain(never)
            .collect::<Vec<_>>()
            .join("; ");
    }
    let as_ordered = is_as_ordered(conclusion, ranks);
    AttemptReport { end, suspects, detail, lost_ranks, as_ordered }
}

/// The faults of the recipe whose steps their ranks never came to.
fn never_came(ranks: &[RankState], rules: &Rules) -> impl Iterator<Item = String> {
    let came = |fault: &PlannedFault| {
        ranks.get(fault.rank as usize).is_some_and(|rank| rank.happened.contains(fault))
    };
    let never = rules.faults.iter().filter(move |fault| !came(fault));
    never.map(|fault| {
        format!("rank {} ended before step {}, at which the recipe has a fault", fault.rank, fault.step)
    })
}

/// The links that the recipe let drop and by which no rank was lost.
fn links_without_loss(ranks: &[RankState]) -> impl Iterator<Item = String> {
    let lost = |planned: &PlannedFault| {
        let by_link =
            |fault: &Fault| matches!(&fault.cause, Cause::Unlinked { planned: one, .. } if one == planned);
        ranks.iter().filter_map(|rank| rank.lost.as_ref()).any(|(_, fault)| by_link(fault))
    };
    let dropped = ranks.iter().flat_map(|rank| &rank.happened);
    let unfelt = dropped.filter(move |fault| !lost(fault));
    unfelt.filter_map(|fault| {
        let [one, other] = fault.link()?;
        let misses = |rank: u32, peer: u32| {
            ranks.get(rank as usize).is_some_and(|rank| rank.parted.contains(&Rank(peer)))
        };
        let what = if misses(one, other) || misses(other, one) {
            "both went on, each without the other"
        } else {
            "no rank missed a message"
        };
        Some(format!("{}; {what}", fault.struck()))
    })
}

/// Whether the recipe let every rank fail that the attempt lost or failed by, and there is one.
fn is_as_ordered(conclusion: Option<&Conclusion>, ranks: &[RankState]) -> bool {
    let lost = ranks.iter().filter_map(|rank| rank.lost.as_ref()).map(|(_, fault)| fault);
    let failed = match conclusion {
        Some(Conclusion::Failed(fault)) => Some(fault),
        _ => None,
    };
    let mut faults = lost.chain(failed).peekable();
    let is_ordered = |fault: &Fault| matches!(fault.cause, Cause::Ordered(_) | Cause::Unlinked { .. });
    faults.peek().is_some() && faults.all(is_ordered)
}

fn report_of_end(conclusion: Option<&Conclusion>, ranks: &[RankState], rules: &Rules) -> AttemptReport {
    let report = |end, suspects, detail| AttemptReport {
        end,
        suspects,
        detail,
        lost_ranks: Vec::new(),
        as_ordered: false,
    };
    match conclusion {
        None => report(End::Done, Vec::new(), String::new()),
        Some(Conclusion::TargetReached { at, value }) => {
            report(End::TargetReached { at: *at, value: *value }, Vec::new(), String::new())
        }
        Some(Conclusion::Diverged { rank, step, loss }) => {
            let end = End::Diverged { rank: *rank, step: *step, loss: loss.clone() };
            let detail = format!("rank {rank} diverged in step {step}: its loss is {loss}");
            report(end, vec![Member::Rank(*rank)], detail)
        }
        Some(Conclusion::Failed(fault)) => {
            let end =
                End::Failed { place: fault.place, cause: fault.cause_in_words(), origin: fault.origin() };
            report(end, fault.suspects(), fault.sentence(rules))
        }
        Some(Conclusion::TimedOut) => {
            let limit = rules.timeout.unwrap_or_default();
            let detail = format!(
                "the run took longer than its time limit of {:.1} s{}",
                limit.as_secs_f64(),
                furthest_behind(ranks)
            );
            report(End::TimedOut { limit }, Vec::new(), detail)
        }
        Some(Conclusion::Interrupted) => {
            let left = ranks.iter().filter(|rank| rank.lost.is_none());
            let step = left.map(RankState::last_step).min().unwrap_or(0);
            report(End::Interrupted { step }, Vec::new(), format!("stopped by the user after step {step}"))
        }
    }
}

impl Fault {
    /// A fault without a culprit among the ranks.
    pub(super) fn of_no_rank(cause: Cause) -> Self {
        Self { culprit: None, place: None, cause }
    }

    /// The rank that this fault removes. If the accused rank is alive, that is the accuser, which has exited.
    pub(super) fn gone(&self) -> Option<Rank> {
        match self.cause {
            Cause::Accused { by, .. } => Some(by),
            Cause::Unlinked { waiting, .. } => Some(waiting),
            _ => self.culprit,
        }
    }

    /// The fault as a sentence without its full stop. It names the host of the rank, where there are several.
    pub(super) fn sentence(&self, rules: &Rules) -> String {
        let cause = self.cause_in_words();
        let Some(rank) = self.culprit else { return cause };
        let place = self.place.map_or_else(|| "while starting up".into(), place_in_words);
        let named = rules.rank_in_words(rank);
        match &self.cause {
            Cause::NotReady { .. } | Cause::Ordered(_) => cause,
            Cause::Unlinked { planned, reason, .. } => format!("{reason} ({place}): {}", planned.struck()),
            Cause::Reported(_) => format!("{named} failed {place}: {cause}"),
            Cause::Silent(_) => format!("{named} {cause}; it was last seen {place}"),
            // The cause itself names the host.
            Cause::Exited(ProcessExit::HostLost { .. }) => format!("rank {rank} {cause} ({place})"),
            _ => format!("{named} {cause} ({place})"),
        }
    }

    /// Whether another attempt may do better.
    fn origin(&self) -> FaultOrigin {
        match &self.cause {
            Cause::Exited(exit) | Cause::EvaluatorExited(exit) => exit.origin(),
            Cause::Silent(_)
            | Cause::Accused { .. }
            | Cause::NoGoodbye
            | Cause::Missed { .. }
            | Cause::NotReady { .. } => FaultOrigin::Infrastructure,
            Cause::Ordered(_) | Cause::Unlinked { .. } => FaultOrigin::Recipe,
            Cause::Reported(_) | Cause::Unbidden | Cause::Differ { .. } | Cause::Evaluator(_) => {
                FaultOrigin::Program
            }
        }
    }

    fn cause_in_words(&self) -> String {
        match &self.cause {
            Cause::Exited(exit) => exit.to_string(),
            Cause::EvaluatorExited(exit) => format!("the evaluator {exit}"),
            Cause::Reported(words) | Cause::Evaluator(words) => words.clone(),
            Cause::Silent(silence) => {
                format!("hangs: it gave no sign of life for {:.1} s", silence.seconds())
            }
            Cause::Accused { by, reason } => format!("let rank {by} wait in vain: {reason}"),
            Cause::Missed { by, reason } => format!("did not answer rank {by}: {reason}"),
            Cause::NoGoodbye => "ended, but did not say that all its records were sent".into(),
            Cause::Ordered(planned) | Cause::Unlinked { planned, .. } => planned.struck(),
            Cause::Unbidden => "stopped without being asked to".into(),
            Cause::NotReady { missing, mute, waited } => {
                let verb = if missing.len() == 1 { "was" } else { "were" };
                let words = format!("{} {verb} not ready after {:.1} s", list(missing), waited.seconds());
                let silent = |rank| format!("{words}: rank {rank} gave no sign of life while starting up");
                mute.map_or(words.clone(), silent)
            }
            Cause::Differ { what, values: [(one, value), (other, another)] } => format!(
                "the ranks do not start alike: {what} of rank {one}: {value}, of rank {other}: {another}"
            ),
        }
    }

    fn suspects(&self) -> Vec<Member> {
        match (&self.cause, self.culprit) {
            (_, Some(rank)) => vec![Member::Rank(rank)],
            (Cause::NotReady { missing, .. }, None) => missing.iter().copied().map(Member::Rank).collect(),
            (Cause::Evaluator(_) | Cause::EvaluatorExited(_), None) => vec![Member::Evaluator],
            (Cause::Differ { values, .. }, None) => {
                values.iter().map(|(rank, _)| Member::Rank(*rank)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn place_in_words(place: Whereabouts) -> String {
    let Whereabouts { lane, step, phase } = place;
    match step {
        0 => format!("before its first step, phase {phase}, lane {lane}"),
        _ => format!("in step {step}, phase {phase}, lane {lane}"),
    }
}

/// The activity of the rank that is furthest behind, as the end of a sentence.
pub(super) fn furthest_behind(ranks: &[RankState]) -> String {
    let left = ranks.iter().enumerate().filter(|(_, state)| state.lost.is_none());
    left.filter_map(|(number, state)| Some((number, state.place()?)))
        .min_by_key(|(_, place)| place.step)
        .map(|(number, place)| format!("; rank {number} was furthest behind, {}", place_in_words(place)))
        .unwrap_or_default()
}
