//! What it takes to do it again: recipe, commands, machines, digests, and the data itself.

use super::condition_title;
use super::masthead::short;
use crate::Options;
use crate::chart::Table;
use crate::data;
use crate::digits;
use crate::findings::Findings;
use crate::paragraph;
use crate::study::Entry;
use serde::Serialize;
use std::collections::BTreeMap;
use store::RunState;

/// The section.
#[derive(Debug, Serialize)]
pub(crate) struct Reproduce {
    pub(crate) commands: String,
    pub(crate) expanded: String,
    pub(crate) source: String,
    pub(crate) facts: Vec<Fact>,
    pub(crate) nodes: Table,
    /// What the digests of the final weights say about the arms, one sentence for each condition.
    pub(crate) weights: Vec<String>,
    pub(crate) digests: Table,
    pub(crate) downloads: Vec<Download>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A file inside the page.
#[derive(Debug, Serialize)]
pub(crate) struct Download {
    pub(crate) file: String,
    pub(crate) what: String,
    pub(crate) href: String,
}

impl Reproduce {
    pub(crate) fn of(findings: &Findings, options: &Options) -> Self {
        let rows = findings.rows();
        let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
        let commit =
            rows.commit.as_ref().map_or("not under version control".to_owned(), |(commit, dirty)| {
                format!("{commit}{}", if *dirty { ", with uncommitted changes" } else { "" })
            });
        let mut facts = vec![
            fact("sweep", rows.id.clone()),
            fact("recipe", format!("{} (SHA-256 {})", rows.recipe_path, rows.recipe_sha256)),
            fact("commit", commit),
            fact("version", rows.version.clone()),
        ];
        if !options.generated_by.is_empty() {
            facts.push(fact("page by", options.generated_by.clone()));
        }
        Self {
            commands: commands(findings),
            expanded: rows.plan.expanded.clone(),
            source: rows.plan.source.clone(),
            facts,
            nodes: nodes(findings),
            weights: shared_weights(findings),
            digests: digests(findings),
            downloads: data::downloads(findings),
        }
    }
}

fn commands(findings: &Findings) -> String {
    let rows = findings.rows();
    if rows.argv.is_empty() {
        return format!("bakeoff run {}", quoted(&rows.recipe_path));
    }
    rows.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn nodes(findings: &Findings) -> Table {
    let mut table = Table::new(["node", "host", "system", "processor", "cores", "memory"]);
    for node in &findings.rows().nodes {
        table.rows.push(vec![
            node.name.clone(),
            node.host.clone(),
            node.system.clone(),
            node.processor.clone(),
            node.cores.to_string(),
            digits::bytes(node.memory as f64),
        ]);
    }
    table
}

/// The final weights' digests of one arm, by seed.
type Digests<'a> = BTreeMap<u64, &'a str>;

/// Where several arms ended with equal weights for equal seeds, whatever they differ in is only speed.
fn shared_weights(findings: &Findings) -> Vec<String> {
    let mut sentences = Vec::new();
    for condition in &findings.study.conditions {
        let mut classes: Vec<(Digests, Vec<&str>)> = Vec::new();
        for entry in &condition.entries {
            let own = final_digests(entry);
            let name = findings.study.arm_name(entry.arm);
            match classes.iter_mut().find(|(head, _)| agree(head, &own)) {
                Some((head, arms)) => {
                    head.retain(|seed, _| own.contains_key(seed));
                    arms.push(name);
                }
                None => classes.push((own, vec![name])),
            }
        }
        for (digests, arms) in classes.iter().filter(|(_, arms)| arms.len() > 1) {
            let seeds = match digests.len() {
                1 => "their seed".to_owned(),
                many => format!("each of {many} seeds"),
            };
            sentences.push(format!(
                "{}: {} ended with the same weights, bit for bit, for {seeds} ({}). What they differ in is only speed.",
                condition_title(condition),
                paragraph::listed(arms),
                digests.values().next().map(|digest| short(digest)).unwrap_or_default(),
            ));
        }
    }
    sentences
}

fn final_digests<'a>(entry: &Entry<'a>) -> Digests<'a> {
    let done = entry.trials.iter().filter(|trial| trial.run.state == RunState::Done);
    done.filter_map(|trial| match &trial.attempt.weights {
        Some(Ok(digest)) => Some((trial.run.seed, digest.as_str())),
        _ => None,
    })
    .collect()
}

/// Whether two arms have seeds in common and equal digests for all of them.
fn agree(left: &Digests, right: &Digests) -> bool {
    let mut shared = left.iter().filter_map(|(seed, digest)| Some((digest, right.get(seed)?))).peekable();
    shared.peek().is_some() && shared.all(|(left, right)| left == right)
}

fn digests(findings: &Findings) -> Table {
    let mut table = Table::new(["arm", "condition", "repeat", "seed", "SHA-256 of the final weights"]);
    for condition in &findings.study.conditions {
        for entry in &condition.entries {
            for trial in &entry.trials {
                let digest = match &trial.attempt.weights {
                    Some(Ok(digest)) => digest.clone(),
                    Some(Err(lines)) => format!("ranks differ: {}", lines.join("; ")),
                    None => continue,
                };
                table.rows.push(vec![
                    findings.study.arm_name(entry.arm).to_owned(),
                    condition_title(condition),
                    (trial.run.repeat + 1).to_string(),
                    trial.run.seed.to_string(),
                    digest,
                ]);
            }
        }
    }
    table.cut(100);
    table
}
