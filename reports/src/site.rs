//! The pages around the pages of a site: an index with a card for each sweep, and a feed of them.

use crate::findings::Findings;
use crate::next_look;
use crate::number_format::plural;
use crate::view::{Picture, masthead};
use crate::{Options, ReportError, calendar, headline, render, verdict};
use serde::Serialize;
use std::collections::BTreeSet;
use store::SweepRows;

/// Where the files of a sweep are, relative to the index.
#[derive(Clone, Debug, Serialize)]
pub struct SiteLinks {
    /// Page of the sweep, an HTML file.
    pub page: String,
    /// Its runs as CSV.
    pub runs: String,
    /// Its verdicts as CSV.
    pub verdicts: String,
}

/// A sweep on the index.
#[derive(Debug, Serialize)]
pub struct Card {
    anchor: String,
    urn: String,
    links: SiteLinks,
    recipe: String,
    question: String,
    verdict: String,
    facts: String,
    note: String,
    machine: String,
    stamp: String,
    picture: Option<Picture>,
}

impl Card {
    /// The card of a sweep. The rows are those of its page, so that what the page leaves out is left out here.
    ///
    /// # Errors
    ///
    /// A baseline that is not in the plan.
    pub fn of(rows: &SweepRows, links: SiteLinks) -> Result<Self, ReportError> {
        let findings = Findings::of(rows, &Options::default())?;
        let plan = &rows.plan;
        let anchor = format!("sweep-{}", rows.id.to_lowercase());
        let counts = [plural(plan.arms.len(), "arm"), plural(next_look::made(rows), "run")];
        let tags = masthead::tagged(&rows.annotations);
        let facts: Vec<String> =
            [calendar::moment(rows.started)].into_iter().chain(counts).chain([tags]).collect();
        Ok(Self {
            urn: format!("urn:ulid:{}", rows.id),
            links,
            recipe: plan.name.clone(),
            question: if plan.question.is_empty() { plan.name.clone() } else { plan.question.clone() },
            verdict: headline::headline(&findings, &verdict::all(&findings)),
            facts: facts.into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(" · "),
            note: masthead::noted(&rows.annotations).unwrap_or_default(),
            machine: machine(rows),
            stamp: calendar::stamp(rows.started),
            picture: Picture::of(&findings, &anchor),
            anchor,
        })
    }
}

/// The first machine, and the number of the others.
fn machine(rows: &SweepRows) -> String {
    let Some(node) = rows.nodes.first() else { return String::new() };
    let parts = [node.host.as_str(), node.processor.as_str()];
    let mut parts: Vec<String> =
        parts.iter().filter(|part| !part.is_empty()).map(ToString::to_string).collect();
    if node.cores > 0 {
        parts.push(plural(node.cores as usize, "core"));
    }
    let hosts: BTreeSet<&str> = rows.nodes.iter().map(|node| node.host.as_str()).collect();
    if hosts.len() > 1 {
        parts.push(format!("and {}", plural(hosts.len() - 1, "other machine")));
    }
    parts.join(", ")
}

#[derive(Serialize)]
struct Index<'a> {
    generated_by: &'a str,
    sweeps: String,
    recipes: BTreeSet<&'a str>,
    cards: &'a [Card],
}

pub(crate) fn index(cards: &[Card], generated_by: &str) -> Result<String, ReportError> {
    let recipes = cards.iter().map(|card| card.recipe.as_str()).collect();
    let view = Index { generated_by, sweeps: plural(cards.len(), "sweep"), recipes, cards };
    render::text("site.html", &view)
}

#[derive(Serialize)]
struct Feed<'a> {
    urn: &'a str,
    updated: &'a str,
    entries: Vec<FeedEntry<'a>>,
}

#[derive(Serialize)]
struct FeedEntry<'a> {
    urn: &'a str,
    page: &'a str,
    title: String,
    summary: String,
    stamp: &'a str,
}

impl<'a> FeedEntry<'a> {
    fn of(card: &'a Card) -> Self {
        let Card { urn, links, question, verdict, stamp, .. } = card;
        Self { urn, page: &links.page, title: xml_text(question), summary: xml_text(verdict), stamp }
    }
}

pub(crate) fn feed(cards: &[Card]) -> Result<String, ReportError> {
    // The oldest sweep names the feed: it stays when others come.
    let oldest = cards.iter().min_by_key(|card| &card.stamp);
    let newest = cards.iter().max_by_key(|card| &card.stamp);
    let view = Feed {
        urn: oldest.map_or("urn:ulid:00000000000000000000000000", |card| &card.urn),
        updated: newest.map_or("1970-01-01T00:00:00Z", |card| &card.stamp),
        entries: cards.iter().map(FeedEntry::of).collect(),
    };
    render::text("feed.xml", &view)
}

/// Without the control characters that XML cannot hold, not even escaped.
fn xml_text(text: &str) -> String {
    let fits = |letter: &char| {
        matches!(letter, '\t' | '\n' | '\r' | ' '..)
            && !matches!(letter, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    };
    text.chars().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn card(rows: &SweepRows) -> Card {
        let links =
            SiteLinks { page: "sweeps/a.html".into(), runs: "r.csv".into(), verdicts: "v.csv".into() };
        Card::of(rows, links).unwrap()
    }

    #[test]
    fn texts_of_users_are_escaped() {
        let mut rows = Sample::duel().rows();
        rows.plan.question = "</title><script>alert(1)</script>&\"'\u{1b}[31m".to_owned();
        rows.plan.name = "<img src=x onerror=alert(2)>".to_owned();
        rows.plan.arms[1].name = "<b>arm</b>".to_owned();
        rows.nodes[0].host = "<i>host</i>".to_owned();
        rows.annotations.note = "<u>note</u>".to_owned();
        let cards = [card(&rows)];
        let index = index(&cards, "bakeoff").unwrap();
        let feed = feed(&cards).unwrap();
        for text in [&index, &feed] {
            assert!(text.contains("&lt;script&gt;alert(1)"));
            for hostile in ["<script>alert", "<img src=x", "<b>arm", "<i>host", "<u>note"] {
                assert!(!text.contains(hostile), "{hostile}");
            }
        }
        assert!(
            index.contains("&lt;i&gt;host")
                && index.contains("Note: &lt;u&gt;note")
                && index.contains("&lt;b&gt;arm")
        );
        assert!(!feed.contains('\u{1b}'));
    }

    #[test]
    fn a_card_has_a_picture_where_runs_were_evaluated() {
        let mut rows = Sample::duel().rows();
        assert_eq!(index(&[card(&rows)], "bakeoff").unwrap().matches("<svg class=\"chart").count(), 1);
        for run in &mut rows.runs {
            run.attempt = None;
        }
        let page = index(&[card(&rows)], "bakeoff").unwrap();
        assert!(page.contains("No run that counts was evaluated") && !page.contains("<svg class=\"chart"));
    }
}
