//! Sentences on who waited for whom.

use crate::findings::Findings;
use crate::number_format::{self, plural};
use crate::waiting::{Links, SlowLink, SlowRank, Waiting, longest};
use record::Rank;
use std::collections::BTreeSet;

/// The rank or the link that stands out under an arm with its cost to the others, or that none does.
pub(crate) fn sentence(found: &Waiting, arm: &str) -> String {
    let ranks = found.slow.map(|slow| slow_rank(found, slow, arm));
    let links = match found.links {
        Links::Slow(link) => Some(slow_link(found, link, arm)),
        Links::Even | Links::EvenWorkers | Links::Shared | Links::Unseen => None,
    };
    let said: Vec<String> = ranks.into_iter().chain(links).collect();
    let aside = match found.links {
        Links::Shared => " Two ranks share one link, so neither can be named.",
        Links::Unseen => " Too few transfers were seen from their beginning to compare links.",
        Links::EvenWorkers => " The link of a server that all of them exchange with cannot be compared.",
        Links::Slow(_) | Links::Even => "",
    };
    let said = if said.is_empty() { no_rank(found, arm) } else { said.join(" ") };
    format!("{said}{aside}{}", runs(found))
}

fn slow_rank(found: &Waiting, slow: SlowRank, arm: &str) -> String {
    let SlowRank { rank, factor, last, waited, share, others } = slow;
    let factor = times(factor);
    let count = found.workers.len() - 1;
    let (company, each) = company(count, waited);
    let amount = number_format::seconds(waited);
    let part = number_format::percent(share);
    if found.rounds > 0 {
        return format!(
            "Rank {rank} was last in {} of {arm}: it computed {factor} times as long as the others; waiting for it cost \
             {company} {amount} ({part} of their time){each}.",
            rounds(found, last),
        );
    }
    let kept = number_format::seconds(others);
    let pace = if found.held_back {
        format!("including waits for turns or for a staleness bound, and took {kept} per step")
    } else {
        format!("and kept {kept} per step")
    };
    format!(
        "Rank {rank} of {arm} computed {factor} times as long as the others; {company} waited {amount} ({part} of their \
         time){each}, {pace}."
    )
}

/// `the other 3 workers`, and the share of each in `seconds`.
fn company(count: usize, seconds: f64) -> (String, String) {
    if count == 1 {
        return ("the other worker".to_owned(), String::new());
    }
    let each = format!(", {} each", number_format::seconds(seconds / count as f64));
    (format!("the other {count} workers"), each)
}

/// `97 of 97 steps`, `24 of 24 rounds of 4 steps`.
fn rounds(found: &Waiting, last: u64) -> String {
    let all = found.rounds as usize;
    let noun = if found.period > 1 { "round" } else { "step" };
    let aside = if found.period > 1 { format!(" of {} steps", found.period) } else { String::new() };
    format!("{} of {}{aside}", number_format::count(last), plural(all, noun))
}

fn slow_link(found: &Waiting, link: SlowLink, arm: &str) -> String {
    let SlowLink { rank, factor, waited, communicated } = link;
    let others = found.workers.iter().filter(|worker| worker.rank != rank).count();
    let company = match company(others, waited.0).0 {
        company if others < found.workers.len() => company,
        _ => format!("all {others} workers"),
    };
    format!(
        "The link of rank {rank} was slow under {arm}: a byte took {} times as long over it as between the others. It cost \
         {company} at most their waiting time, {} ({} of their time), and their exposed communication, {} ({}).",
        times(factor),
        number_format::seconds(waited.0),
        number_format::percent(waited.1),
        number_format::seconds(communicated.0),
        number_format::percent(communicated.1),
    )
}

fn no_rank(found: &Waiting, arm: &str) -> String {
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
fn runs(found: &Waiting) -> String {
    let (same, all) = found.runs;
    if all < 2 {
        return String::new();
    }
    format!(" The same in {same} of {}.", plural(all, "run"))
}

/// A factor with three significant digits, two decimals at most.
fn times(factor: f64) -> String {
    number_format::fixed(factor, number_format::decimals_of(factor).min(2))
}

/// The whole page in a sentence; `None` if no rank stands out.
pub(crate) fn summary(findings: &Findings) -> Option<String> {
    let all: Vec<(String, &Waiting)> =
        findings.waiting().map(|(placed, found)| (findings.label(&placed), found)).collect();
    let ordered = findings.waiting().all(|(placed, found)| {
        let spec = &findings.rows().plan.cells[placed.cell.index].spec;
        found.named().is_none_or(|rank| match found.slow {
            Some(_) => spec.computes_slowly_on_purpose(rank.0),
            None => spec.has_slow_link_on_purpose(rank.0),
        })
    });
    let ordered = if ordered { ", as the recipe orders" } else { "" };
    let named: Vec<(&str, &Waiting, Rank)> =
        all.iter().filter_map(|(label, found)| Some((label.as_str(), *found, found.named()?))).collect();
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
            format!("One rank was slow{ordered}: rank {rank} {what}{part}")
        }
        _ => format!("One rank {what}{ordered} in {} of {}", named.len(), plural(all.len(), "comparison")),
    };
    // Workers that wait for turns do so without a slow rank as well.
    let costly = named.iter().filter(|(_, found, _)| !found.held_back);
    let mut costs: Vec<(f64, &str)> = costly.map(|(label, found, _)| (cost(found), *label)).collect();
    costs.sort_by(|left, right| left.0.total_cmp(&right.0));
    let amount =
        |(share, label): &(f64, &str)| format!("{} of their time ({label})", number_format::percent(*share));
    let range = match costs.as_slice() {
        [] => return (!named.is_empty()).then(|| format!("{who}.")),
        [only] => amount(only),
        [least, .., most] => format!("from {} to {}", amount(least), amount(most)),
    };
    Some(format!("{who}; the others waited {range}."))
}

/// The share of their time that the others waited.
fn cost(found: &Waiting) -> f64 {
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
        let sentences = findings
            .waiting()
            .map(|(placed, found)| super::sentence(found, findings.study.arm_name(placed.cell.arm)));
        let lines: Vec<String> = sentences.chain(super::summary(&findings)).collect();
        lines.join("\n").replace(['\u{a0}', '\u{202f}'], " ")
    }

    /// None of them is last, but they wait for each other.
    #[test]
    fn workers_that_wait_for_turns_or_a_bound_keep_no_pace() {
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
            bound.matches("including waits for turns or for a staleness bound, and took").count(),
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
    fn a_rank_that_the_recipe_slows_down_is_no_discovery() {
        let mut rows = Sample::held_up().rows();
        let said = |rows: &store::SweepRows| {
            super::summary(&Findings::of(rows, &Options::default()).unwrap()).unwrap()
        };
        assert!(said(&rows).starts_with("One rank was slow: rank 3 "), "{}", said(&rows));
        let slow =
            |rank| recipe::Slow { whom: recipe::Whom::Rank(rank), compute: 4.0, link: 1.0, probability: 1.0 };
        rows.plan.cells.iter_mut().for_each(|cell| cell.spec.emulation.slow = vec![slow(3)]);
        assert!(
            said(&rows).starts_with("One rank was slow, as the recipe orders: rank 3 "),
            "{}",
            said(&rows)
        );
        rows.plan.cells.iter_mut().for_each(|cell| cell.spec.emulation.slow = vec![slow(2)]);
        assert!(said(&rows).starts_with("One rank was slow: "), "{}", said(&rows));
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
