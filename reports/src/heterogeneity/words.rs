//! Sentences on who waited for whom.

use super::{Heterogeneity, Links, SlowLink, SlowRank, longest};
use crate::digits::{self, plural};
use crate::findings::Findings;
use record::Rank;
use std::collections::BTreeSet;

/// What can be said of an arm: the rank or the link that stands out, with what it cost the others, or that none does.
pub(crate) fn sentence(found: &Heterogeneity, arm: &str) -> String {
    let ranks = found.slow.map(|slow| slow_rank(found, slow, arm));
    let links = match found.links {
        Links::Slow(link) => Some(slow_link(found, link, arm)),
        Links::Even | Links::EvenWorkers | Links::Shared | Links::Unseen => None,
    };
    let said: Vec<String> = ranks.into_iter().chain(links).collect();
    let aside = match found.links {
        Links::Shared => " Two ranks share one link, so that neither can be named for it.",
        Links::Unseen => " Too few transfers were seen from their beginning to compare links.",
        Links::EvenWorkers => " The link of a server that all of them exchange with cannot be compared.",
        Links::Slow(_) | Links::Even => "",
    };
    let said = if said.is_empty() { nobody(found, arm) } else { said.join(" ") };
    format!("{said}{aside}{}", runs(found))
}

fn slow_rank(found: &Heterogeneity, slow: SlowRank, arm: &str) -> String {
    let SlowRank { rank, factor, last, waited, share, others } = slow;
    let factor = times(factor);
    let count = found.workers.len() - 1;
    let (company, each) = company(count, waited);
    let (amount, part) = (digits::seconds(waited), digits::percent(share));
    if found.rounds > 0 {
        return format!(
            "Rank {rank} was last in {} of {arm}: it computed {factor} times as long as the others; waiting for it cost \
             {company} {amount} ({part} of their time){each}.",
            rounds(found, last),
        );
    }
    let kept = digits::seconds(others);
    let pace = if found.held_back {
        format!("for their turns or for who was behind, too, and took {kept} per step")
    } else {
        format!("and kept {kept} per step")
    };
    format!(
        "Rank {rank} of {arm} computed {factor} times as long as the others; {company} waited {amount} ({part} of their \
         time){each}, {pace}."
    )
}

/// `the other 3 workers`, and what each of them has of so many seconds.
fn company(count: usize, seconds: f64) -> (String, String) {
    if count == 1 {
        return ("the other worker".to_owned(), String::new());
    }
    let each = format!(", {} each", digits::seconds(seconds / count as f64));
    (format!("the other {count} workers"), each)
}

/// `97 of 97 steps`, `24 of 24 rounds of 4 steps`.
fn rounds(found: &Heterogeneity, last: u64) -> String {
    let all = found.rounds as usize;
    let noun = if found.period > 1 { "round" } else { "step" };
    let aside = if found.period > 1 { format!(" of {} steps", found.period) } else { String::new() };
    format!("{} of {}{aside}", digits::count(last), plural(all, noun))
}

fn slow_link(found: &Heterogeneity, link: SlowLink, arm: &str) -> String {
    let SlowLink { rank, factor, waited, communicated } = link;
    let others = found.workers.iter().filter(|worker| worker.rank != rank).count();
    let company = match company(others, waited.0).0 {
        company if others < found.workers.len() => company,
        _ => format!("all {others} workers"),
    };
    format!(
        "The link of rank {rank} was slow under {arm}: a byte took {} times as long over it as between the others. It cost \
         {company} at most what they waited, {} ({} of their time), and what they communicated while they did not compute, {} ({}).",
        times(factor),
        digits::seconds(waited.0),
        digits::percent(waited.1),
        digits::seconds(communicated.0),
        digits::percent(communicated.1),
    )
}

fn nobody(found: &Heterogeneity, arm: &str) -> String {
    let most = longest(&found.workers).map_or_else(String::new, |(worker, factor)| {
        format!(" the longest, rank {}, computed {} times as long as the others.", worker.rank, times(factor))
    });
    let links = match found.links {
        Links::Even => " or link",
        Links::EvenWorkers => " and no worker's link",
        Links::Slow(_) | Links::Shared | Links::Unseen => "",
    };
    format!("No rank{links} stands out under {arm};{most}")
}

/// Whether other runs say the same.
fn runs(found: &Heterogeneity) -> String {
    let (same, all) = found.runs;
    if all < 2 {
        return String::new();
    }
    format!(" The same in {same} of {}.", plural(all, "run"))
}

/// A factor with three significant digits, two decimals at most.
fn times(factor: f64) -> String {
    digits::fixed(factor, digits::decimals_of(factor).min(2))
}

/// The whole page in a sentence; nothing where nobody stands out.
pub(crate) fn summary(findings: &Findings) -> Option<String> {
    let placed = findings.study.entries().filter_map(|placed| {
        let found = super::of(placed.condition, placed.entry)?;
        Some((findings.label(&placed), found))
    });
    let all: Vec<(String, Heterogeneity)> = placed.collect();
    let named: Vec<(&str, &Heterogeneity, Rank)> =
        all.iter().filter_map(|(label, found)| Some((label.as_str(), found, found.named()?))).collect();
    let links = named.iter().filter(|(_, found, _)| found.slow.is_none()).count();
    let what = match links {
        0 => "computed slowly",
        links if links == named.len() => "had a slow link",
        _ => "computed slowly or had a slow link",
    };
    let ranks: BTreeSet<Rank> = named.iter().map(|(.., rank)| *rank).collect();
    let who = match ranks.first() {
        Some(rank) if ranks.len() == 1 => {
            let part = format!(" in {} of {}", named.len(), plural(all.len(), "comparison"));
            let part = if named.len() < all.len() { part } else { String::new() };
            format!("One rank was slow: rank {rank} {what}{part}")
        }
        _ => format!("One rank {what} in {} of {}", named.len(), plural(all.len(), "comparison")),
    };
    // Who waits for its turn waits without a slow rank, too.
    let costly = named.iter().filter(|(_, found, _)| !found.held_back);
    let mut costs: Vec<(f64, &str)> = costly.map(|(label, found, _)| (cost(found), *label)).collect();
    costs.sort_by(|left, right| left.0.total_cmp(&right.0));
    let amount =
        |(share, label): &(f64, &str)| format!("{} of their time ({label})", digits::percent(*share));
    let range = match costs.as_slice() {
        [] => return (!named.is_empty()).then(|| format!("{who}.")),
        [only] => amount(only),
        [least, .., most] => format!("from {} to {}", amount(least), amount(most)),
    };
    Some(format!("{who}; the others waited {range}."))
}

/// The share of their time that the others waited.
fn cost(found: &Heterogeneity) -> f64 {
    match (found.slow, found.links) {
        (Some(slow), _) => slow.share,
        (None, Links::Slow(link)) => link.waited.1,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::findings::Findings;
    use crate::sample::{Sample, SampleArm, Straggler};
    use record::Rank;

    fn said(sample: &Sample) -> String {
        let rows = sample.rows();
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let sentences = findings.study.entries().filter_map(|placed| {
            let found = crate::heterogeneity::of(placed.condition, placed.entry)?;
            Some(super::sentence(&found, findings.study.arm_name(placed.entry.arm)))
        });
        let lines: Vec<String> = sentences.chain(super::summary(&findings)).collect();
        lines.join("\n").replace(['\u{a0}', '\u{202f}'], " ")
    }

    /// Nobody is last among them, and yet they wait for each other.
    #[test]
    fn who_waits_for_turns_or_within_a_bound_keeps_nothing() {
        let own_pace = Sample::held_up().arms.pop().unwrap();
        let arm = |name: &str, strategy| SampleArm { name: name.to_owned(), strategy, ..own_pace.clone() };
        let moving_rate = recipe::MovingRate::Fixed(0.2);
        let arms = vec![
            arm(
                "bounded",
                recipe::Strategy::AsyncSgd { serve: recipe::Serve::All, staleness_bound: Some(2) },
            ),
            arm("in turn", recipe::Strategy::EasgdOriginal { moving_rate, overlap: true }),
        ];
        let bound = said(&Sample { arms: arms.clone(), ..Sample::held_up() });
        assert_eq!(
            bound.matches("for their turns or for who was behind, too, and took").count(),
            2,
            "{bound}"
        );
        assert!(!bound.contains("kept") && bound.ends_with("rank 3 computed slowly."), "{bound}");
        let free =
            arm("free", recipe::Strategy::AsyncSgd { serve: recipe::Serve::All, staleness_bound: None });
        let free = said(&Sample { arms: vec![free, arms[1].clone()], ..Sample::held_up() });
        assert!(free.contains("and kept") && free.contains("of their time (free)."), "{free}");
    }

    #[test]
    fn sentences() {
        let link = Straggler { rank: Rank(1), compute: 1.0, link: 10.0 };
        let both = Straggler { rank: Rank(2), compute: 4.0, link: 3.0 };
        let samples = [
            Sample::held_up(),
            Sample {
                workers: vec![2, 8],
                straggler: Straggler { rank: Rank(1), ..both },
                ..Sample::held_up()
            },
            Sample { straggler: link, ..Sample::duel() },
            Sample { straggler: both, ..Sample::duel() },
            Sample::duel(),
        ];
        insta::assert_snapshot!(samples.map(|sample| said(&sample)).join("\n\n"));
    }
}
