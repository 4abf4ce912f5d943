//! The words of a comparison: for people, for programs, and below the headline of its page.

use super::Compared;
use super::gate::Fault;
use crate::ending;
use crate::exit::Failure;
use crate::output::paint::{FAINT, ODD, PLAIN, paint};
use crate::output::{self, human};
use crate::page;
use crate::reuse::short;
use crate::selected::Selected;
use anstyle::Style;
use recipe::{AxisValue, ChangedSetting, Configurations, changed_settings};
use reports::setting_words;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write;

impl Compared {
    /// The settings in which the sides differ, each once.
    fn differences(&self) -> Vec<ChangedSetting> {
        let mut all: Vec<ChangedSetting> = Vec::new();
        let [first, second] = [0, 1].map(|side| Configurations::of(&self.sides[side].rows.plan));
        let mut known = BTreeSet::new();
        let plans = self.sides.each_ref().map(|side| &side.rows.plan);
        let differ = |[one, other]: &&[usize; 2]| plans[0].cells[*one].spec != plans[1].cells[*other].spec;
        for [one, other] in self.joined.pairs.iter().filter(differ) {
            let pair = first.of_cell(*one).zip(second.of_cell(*other));
            for difference in pair.map(|(one, other)| changed_settings(&one, &other)).unwrap_or_default() {
                if known.insert(difference.words()) {
                    all.push(difference);
                }
            }
        }
        all
    }

    /// Settings that the arms of a side chose by their search, in the order of the plan's arms; empty without one.
    fn chosen(&self, side: usize) -> Vec<Chosen> {
        let plan = &self.sides[side].rows.plan;
        let of_pair = |pair: &[usize; 2]| {
            let trial = plan.search.as_ref()?.trial_of(pair[side])?;
            let arm = plan.cells.get(trial.cell)?.arm;
            let name = &plan.arms.get(arm)?.name;
            let at =
                if trial.condition.is_empty() { String::new() } else { format!(" at {}", trial.condition) };
            Some((arm, Chosen { of: format!("{name}{at}"), setting: trial.setting.clone() }))
        };
        let mut chosen: Vec<(usize, Chosen)> = self.joined.pairs.iter().filter_map(of_pair).collect();
        chosen.sort_by_key(|(arm, _)| *arm);
        chosen.into_iter().map(|(_, chosen)| chosen).collect()
    }

    /// The two sides, and the differences beside the settings compared, with the style of each.
    fn facts(&self) -> Vec<(Style, String)> {
        let side = |(name, side): (&String, &Selected)| (PLAIN, format!("{name}: {}", described(side)));
        let mut facts: Vec<(Style, String)> = self.names.iter().zip(&self.sides).map(side).collect();
        facts.extend(
            [0, 1]
                .into_iter()
                .filter_map(|side| Some((PLAIN, chosen_words(&self.names[side], &self.chosen(side))?))),
        );
        let told: Vec<String> = self.differences().iter().map(ChangedSetting::words).collect();
        if !told.is_empty() {
            facts.push((PLAIN, format!("settings: {}", told.join("; "))));
        }
        if !self.surroundings.is_empty() {
            let told = self.surroundings.iter().map(|part| format!("the {part}"));
            facts.push((ODD, format!("not the same on both sides: {}", told.collect::<Vec<_>>().join(", "))));
        }
        for (alone, name) in self.joined.alone.iter().zip(&self.names).filter(|(alone, _)| !alone.is_empty())
        {
            facts.push((FAINT, format!("not compared, because {name} alone has it: {}", alone.join(", "))));
        }
        facts.extend(self.joined.doubts.iter().map(|doubt| (ODD, doubt.to_string())));
        facts
    }

    /// Remarks below the headline of the page; nothing of a user's text where names are to be left out.
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
                "chosen": self.chosen(number),
            })
        };
        let setting = |difference: ChangedSetting| json!({ "key": difference.key, "first": difference.before, "second": difference.now });
        let faults = self
            .faults(&Fault::ALL)?
            .into_iter()
            .map(|(fault, cells)| (fault.name().to_owned(), json!(cells)));
        Ok(json!({
            "first": side(0),
            "second": side(1),
            "settings": self.differences().into_iter().map(setting).collect::<Vec<_>>(),
            "surroundings": self.surroundings,
            "doubts": self.doubts(),
            "verdicts": reports::verdict_rows(&self.joined.rows, &page::options())?,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
        }))
    }
}

/// A setting that an arm found for itself.
#[derive(Serialize)]
struct Chosen {
    /// The arm, and its condition.
    of: String,
    setting: Vec<AxisValue>,
}

/// `last~1 chose lr=0.05 for ps-sync, lr=0.1 for d-sync`; arms with the same setting stand together.
fn chosen_words(name: &str, chosen: &[Chosen]) -> Option<String> {
    let mut settings: Vec<(String, Vec<&str>)> = Vec::new();
    for one in chosen {
        let words = setting_words(&one.setting);
        match settings.iter_mut().find(|(setting, _)| *setting == words) {
            Some((_, of)) => of.push(&one.of),
            None => settings.push((words, vec![&one.of])),
        }
    }
    let told: Vec<String> =
        settings.iter().map(|(setting, of)| format!("{setting} for {}", of.join(" and "))).collect();
    (!told.is_empty()).then(|| format!("{name} chose {}", told.join(", ")))
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
    if let Some(commit) = &rows.commit {
        let _ = write!(
            out,
            ", commit {}{}",
            commit.hash.get(..12).unwrap_or(&commit.hash),
            if commit.is_changed { " with changes" } else { "" }
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::verbs::compare::tests::{compared, compared_rows, plain, slower};
    use reports::sample::decided;

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

    /// The second arm does best at a smaller rate.
    #[test]
    fn what_each_side_chose_is_named() {
        let rows = decided(&[0.1, 0.2, 0.4], 2, |arm, rate, _| {
            let best = if arm == 0 { 0.2 } else { 0.1 };
            0.9 - (rate - best).abs()
        });
        let compared = compared_rows(rows, slower(1.2, 0.01));
        let said = compared.words(100).unwrap();
        for name in ["last~1", "last"] {
            let told = format!("{name} chose lr=0.2 for ps-sync, lr=0.1 for d-sync");
            assert!(said.contains(&told), "{said}");
        }
        let document = compared.document().unwrap();
        let chosen = &document["second"]["chosen"][1];
        assert_eq!(
            (chosen["of"].as_str(), chosen["setting"][0]["number"].as_f64()),
            (Some("d-sync"), Some(0.1))
        );
        let plain = compared_rows(plain().rows(), slower(1.2, 0.01)).words(100).unwrap();
        assert!(!plain.contains("chose"), "{plain}");
    }
}
