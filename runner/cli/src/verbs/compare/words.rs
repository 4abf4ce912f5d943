//! What a comparison says: to people, to programs, and below the headline of its page.

use super::Compared;
use super::gate::Fault;
use crate::differences::{self, Difference};
use crate::ending;
use crate::exit::Failure;
use crate::output::paint::{FAINT, ODD, PLAIN, paint};
use crate::output::{self, human};
use crate::page;
use crate::reuse::short;
use crate::selected::Selected;
use anstyle::Style;
use serde_json::json;
use std::fmt::Write;

impl Compared {
    /// The settings in which the sides differ, each once.
    fn differences(&self) -> Vec<Difference> {
        let mut all: Vec<Difference> = Vec::new();
        let [first, second] = &self.sides;
        for [one, other] in &self.joined.pairs {
            let specs = [&first.rows.plan.cells[*one].spec, &second.rows.plan.cells[*other].spec];
            for difference in differences::of_specs(specs[0], specs[1]) {
                if !all.contains(&difference) {
                    all.push(difference);
                }
            }
        }
        all
    }

    /// The two sides, and the differences beside the settings compared, with the style of each.
    fn facts(&self) -> Vec<(Style, String)> {
        let side = |(name, side): (&String, &Selected)| (PLAIN, format!("{name}: {}", described(side)));
        let mut facts: Vec<(Style, String)> = self.names.iter().zip(&self.sides).map(side).collect();
        let told: Vec<String> = self.differences().iter().map(Difference::words).collect();
        if !told.is_empty() {
            facts.push((PLAIN, format!("settings: {}", told.join("; "))));
        }
        for (alone, name) in self.joined.alone.iter().zip(&self.names).filter(|(alone, _)| !alone.is_empty())
        {
            facts.push((FAINT, format!("not compared, because {name} alone has it: {}", alone.join(", "))));
        }
        facts.extend(self.joined.doubts.iter().map(|doubt| (ODD, doubt.to_string())));
        facts
    }

    /// What the page says below its headline; nothing of a user's text where names are to be left out.
    pub(super) fn remarks(&self) -> Vec<String> {
        if self.joined.rows.plan.report.redact.is_empty() {
            self.facts().into_iter().map(|(_, text)| text).collect()
        } else {
            self.doubts()
        }
    }

    fn doubts(&self) -> Vec<String> {
        self.joined.doubts.iter().map(ToString::to_string).collect()
    }

    pub(super) fn words(&self, width: usize) -> Result<String, Failure> {
        let mut out = String::new();
        for (style, text) in self.facts() {
            for line in output::fold(&text, width) {
                let _ = writeln!(out, "{}", paint(style, line));
            }
        }
        let results = ending::results(&self.joined.rows, &page::options(), width)?;
        Ok(out + results.trim_end())
    }

    pub(super) fn document(&self) -> Result<serde_json::Value, Failure> {
        let side = |number: usize| {
            json!({
                "name": self.names[number],
                "selection": self.sides[number].selection.to_string(),
                "sweep": self.sides[number].rows.id,
                "alone": self.joined.alone[number],
            })
        };
        let setting = |difference: Difference| json!({ "key": difference.key, "first": difference.before, "second": difference.now });
        let faults = self
            .faults(&Fault::ALL)?
            .into_iter()
            .map(|(fault, cells)| (fault.name().to_owned(), json!(cells)));
        Ok(json!({
            "first": side(0),
            "second": side(1),
            "settings": self.differences().into_iter().map(setting).collect::<Vec<_>>(),
            "doubts": self.doubts(),
            "verdicts": reports::verdict_rows(&self.joined.rows, &page::options())?,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
        }))
    }
}

/// `5 runs of quickstart, begun 2026-11-26 07:00, bakeoff 0.1.0, commit 1632f3a8`.
fn described(side: &Selected) -> String {
    let rows = &side.rows;
    let mut out = format!(
        "{} of {} (sweep {}), begun {}, bakeoff {}",
        human::count(reports::made(rows), "run"),
        rows.plan.name,
        short(&rows.id),
        human::moment(rows.started),
        rows.version
    );
    if let Some((commit, changed)) = &rows.commit {
        let _ = write!(
            out,
            ", commit {}{}",
            commit.get(..12).unwrap_or(commit),
            if *changed { " with changes" } else { "" }
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::verbs::compare::tests::{compared, plain, slower};

    #[test]
    fn a_page_without_names_has_the_doubts_alone() {
        let mut compared = compared(&plain(), slower(1.2, 0.01));
        let all = compared.remarks();
        assert!(
            all[0].starts_with("last~1: 10 runs of ") && all.len() > compared.joined.doubts.len(),
            "{all:?}"
        );
        compared.joined.rows.plan.report.redact.push(recipe::Redaction::Hosts);
        assert_eq!(compared.remarks(), compared.doubts());
    }
}
