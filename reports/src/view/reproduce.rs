//! Means to repeat the sweep: recipe, commands, machines, digests, and the data itself.

use super::condition_title;
use super::trust_marks::short;
use crate::Options;
use crate::chart::Table;
use crate::data::{Data, Download};
use crate::findings::Findings;
use crate::headline;
use crate::number_format;
use comparison::study::ArmCell;
use serde::Serialize;
use std::collections::BTreeMap;
use store::RunState;

#[derive(Debug, Serialize)]
pub(crate) struct Reproduce {
    pub(crate) commands: String,
    pub(crate) expanded: String,
    pub(crate) source: String,
    pub(crate) facts: Vec<Fact>,
    pub(crate) nodes: Table,
    /// Sentences on arms with equal final weights, one per condition.
    pub(crate) weights: Vec<String>,
    pub(crate) digests: Table,
    /// Where the data is.
    pub(crate) data_note: String,
    pub(crate) downloads: Vec<Download>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Reproduce {
    pub(crate) fn of(findings: &Findings, options: &Options, data: Data) -> Self {
        let rows = findings.rows();
        let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
        let commit = rows.commit.as_ref().map_or("not under version control".to_owned(), |commit| {
            format!("{}{}", commit.hash, if commit.is_changed { ", with uncommitted changes" } else { "" })
        });
        let mut facts = vec![
            fact("sweep", rows.id.clone()),
            fact("recipe", format!("{} (SHA-256 {})", rows.recipe_path, rows.recipe_sha256)),
            fact("commit", commit),
            fact("version", rows.version.clone()),
        ];
        if !rows.annotations.tags.is_empty() {
            facts.push(fact("tags", rows.annotations.tags.join(", ")));
        }
        if !rows.annotations.note.is_empty() {
            facts.push(fact("note", rows.annotations.note.clone()));
        }
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
            data_note: data.note,
            downloads: data.downloads,
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

/// A word quoted for a POSIX shell.
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
            number_format::bytes(node.memory as f64),
        ]);
    }
    table
}

/// The final weights' digests of one arm, by seed.
type Digests<'a> = BTreeMap<u64, &'a str>;

/// Says which arms ended with equal weights for equal seeds, so that they differ only in speed.
fn shared_weights(findings: &Findings) -> Vec<String> {
    let mut sentences = Vec::new();
    for condition in &findings.study.conditions {
        let mut classes: Vec<(Digests, Vec<&str>)> = Vec::new();
        for cell in &condition.cells {
            let own = final_digests(cell);
            let name = findings.study.arm_name(cell.arm);
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
                headline::listed(arms),
                digests.values().next().map(|digest| short(digest)).unwrap_or_default(),
            ));
        }
    }
    sentences
}

fn final_digests<'a>(cell: &ArmCell<'a>) -> Digests<'a> {
    let done = cell.runs.iter().filter(|judged| judged.run.state == RunState::Done);
    done.filter_map(|judged| match &judged.attempt.weights {
        Some(Ok(digest)) => Some((judged.run.seed, digest.as_str())),
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
        for cell in &condition.cells {
            for judged in &cell.runs {
                let digest = match &judged.attempt.weights {
                    Some(Ok(digest)) => digest.clone(),
                    Some(Err(lines)) => format!("ranks differ: {}", lines.join("; ")),
                    None => continue,
                };
                table.rows.push(vec![
                    findings.study.arm_name(cell.arm).to_owned(),
                    condition_title(condition),
                    (judged.run.repeat + 1).to_string(),
                    judged.run.seed.to_string(),
                    digest,
                ]);
            }
        }
    }
    table.cut(100);
    table
}
