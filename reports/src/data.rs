//! The numbers behind the page as files inside it: nobody has to read them off a chart.

use crate::findings::Findings;
use crate::view::Download;
use std::fmt::Write;
use store::{AttemptRow, RunRow, RunState};

/// One CSV of runs, one of evaluations, one of phases, one of links, one of paces; of transfers, staleness and averagings
/// where there are any.
pub(crate) fn downloads(findings: &Findings) -> Vec<Download> {
    let name = file_stem(&findings.rows().plan.name);
    let file = |part: &str, what: &str, text: String| Download {
        file: format!("{name}-{part}.csv"),
        what: what.to_owned(),
        href: format!("data:text/csv;charset=utf-8,{}", percent_encoded(&text)),
    };
    let mut files = vec![
        file("runs", "one line for each run", runs(findings)),
        file("metrics", "every evaluation", metrics(findings)),
        file("phases", "time per rank, lane and phase", phases(findings)),
        file("links", "bytes per pair of ranks", links(findings)),
    ];
    files.push(file("paces", "how each worker compares with the others", paces(findings)));
    let any = |has: fn(&AttemptRow) -> bool| {
        findings.rows().runs.iter().filter_map(|run| run.attempt.as_ref()).any(has)
    };
    if any(|attempt| !attempt.transfers.is_empty()) {
        files.push(file("transfers", "how fast bytes moved between ranks", transfers(findings)));
    }
    if any(|attempt| !attempt.staleness.is_empty()) {
        files.push(file("staleness", "gradients by server, worker and staleness", staleness(findings)));
    }
    if any(|attempt| !attempt.averagings.is_empty()) {
        files.push(file("averagings", "averagings per pair of ranks", averagings(findings)));
    }
    files
}

fn runs(findings: &Findings) -> String {
    let mut csv = Csv::new(&[
        "run",
        "id",
        "arm",
        "condition",
        "repeat",
        "seed",
        "state",
        "reused",
        "attempt",
        "training_ns",
        "wall_ns",
        "step_time_ns",
        "steps",
        "samples",
        "bytes_out",
        "target_ns",
        "target_samples",
        "weights_sha256",
        "detail",
        "ranks_lost",
    ]);
    for run in &findings.rows().runs {
        let attempt = run.attempt.as_ref();
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let trials = findings.study.conditions.iter().flat_map(|c| &c.entries).flat_map(|e| &e.trials);
        let hit = trials.into_iter().find(|trial| trial.run.index == run.index).and_then(|trial| trial.hit);
        let weights = attempt.and_then(|a| a.weights.as_ref()).and_then(|weights| weights.as_ref().ok());
        csv.line(&[
            &run.index.to_string(),
            &run.id,
            arm(findings, run),
            condition(findings, run),
            &run.repeat.to_string(),
            &run.seed.to_string(),
            RunState::name(run.state),
            &run.reused.to_string(),
            &number(attempt.map(|a| u64::from(a.number))),
            &number(attempt.and_then(|a| a.training).map(|time| time.0)),
            &number(attempt.and_then(|a| a.wall).map(|time| time.0)),
            &number(attempt.and_then(|a| a.step_time).map(|time| time.0)),
            &number(attempt.map(|a| a.steps)),
            &number(attempt.map(|a| a.samples)),
            &number(attempt.map(|a| a.ranks.iter().fold(0, |sum, rank| rank.bytes_out.saturating_add(sum)))),
            &number(hit.map(|row| row.at.0)),
            &number(hit.map(|row| row.samples)),
            weights.map_or("", String::as_str),
            attempt.map_or("", |a| &a.detail),
            &number(attempt.map(|a| a.lost.len() as u64)),
        ]);
    }
    csv.text
}

fn metrics(findings: &Findings) -> String {
    let mut csv =
        Csv::new(&["run", "metric", "model", "step", "samples", "epoch", "at_ns", "value", "judged"]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        let judged = run.attempt.iter().flat_map(|attempt| &attempt.metrics).map(|row| (row, "1"));
        let beside = run.attempt.iter().flat_map(|attempt| &attempt.beside).map(|row| (row, "0"));
        for (row, judged) in judged.chain(beside) {
            csv.line(&[
                &number,
                row.metric.name(),
                &row.model,
                &row.step.to_string(),
                &row.samples.to_string(),
                &row.epoch.to_string(),
                &row.at.0.to_string(),
                &row.value.to_string(),
                judged,
            ]);
        }
    }
    csv.text
}

fn phases(findings: &Findings) -> String {
    let mut csv = Csv::new(&[
        "run", "rank", "role", "lane", "phase", "steps", "total_ns", "p50_ns", "p95_ns", "max_ns",
    ]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        for rank in run.attempt.iter().flat_map(|attempt| &attempt.ranks) {
            for row in &rank.phases {
                csv.line(&[
                    &number,
                    &rank.rank.to_string(),
                    rank.role.name(),
                    &row.lane.to_string(),
                    row.phase.name(),
                    &row.count.to_string(),
                    &row.total.0.to_string(),
                    &row.p50.0.to_string(),
                    &row.p95.0.to_string(),
                    &row.max.0.to_string(),
                ]);
            }
        }
    }
    csv.text
}

fn links(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "from", "to", "bytes", "messages"]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        for link in run.attempt.iter().flat_map(|attempt| &attempt.links) {
            csv.line(&[
                &number,
                &link.from.to_string(),
                &link.to.to_string(),
                &link.bytes.to_string(),
                &link.messages.to_string(),
            ]);
        }
    }
    csv.text
}

fn paces(findings: &Findings) -> String {
    let mut csv = Csv::new(&[
        "run",
        "rank",
        "steady_steps",
        "steady_ns",
        "exposed_ns",
        "own_p50_ns",
        "rounds",
        "last",
        "imposed_ns",
    ]);
    for run in &findings.rows().runs {
        for (attempt, rank) in
            run.attempt.iter().flat_map(|attempt| attempt.ranks.iter().map(move |rank| (attempt, rank)))
        {
            let Some(pace) = rank.pace else { continue };
            csv.line(&[
                &run.index.to_string(),
                &rank.rank.to_string(),
                &rank.steady.steps.to_string(),
                &rank.steady.time.0.to_string(),
                &rank.exposed.0.to_string(),
                &pace.own.0.to_string(),
                &attempt.rounds.to_string(),
                &pace.last.to_string(),
                &pace.imposed.0.to_string(),
            ]);
        }
    }
    csv.text
}

fn transfers(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "from", "to", "bytes", "time_ns", "cut_bytes", "cut_time_ns"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.transfers) {
            csv.line(&[
                &run.index.to_string(),
                &row.from.to_string(),
                &row.to.to_string(),
                &row.bytes.to_string(),
                &row.time.0.to_string(),
                &row.cut_bytes.to_string(),
                &row.cut_time.0.to_string(),
            ]);
        }
    }
    csv.text
}

fn staleness(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "server", "worker", "staleness", "gradients"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.staleness) {
            csv.line(&[
                &run.index.to_string(),
                &row.server.to_string(),
                &row.worker.to_string(),
                &row.staleness.to_string(),
                &row.count.to_string(),
            ]);
        }
    }
    csv.text
}

fn averagings(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "rank", "peer", "averagings"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.averagings) {
            csv.line(&[
                &run.index.to_string(),
                &row.rank.to_string(),
                &row.peer.to_string(),
                &row.count.to_string(),
            ]);
        }
    }
    csv.text
}

fn arm<'a>(findings: &Findings<'a>, run: &RunRow) -> &'a str {
    findings.rows().plan.cells.get(run.cell).map_or("", |cell| findings.study.arm_name(cell.arm))
}

fn condition<'a>(findings: &Findings<'a>, run: &RunRow) -> &'a str {
    findings.rows().plan.cells.get(run.cell).map_or("", |cell| &cell.condition)
}

/// Lines of RFC 4180, with bare line feeds.
struct Csv {
    text: String,
}

impl Csv {
    fn new(columns: &[&str]) -> Self {
        let mut csv = Self { text: String::new() };
        csv.line(columns);
        csv
    }

    fn line(&mut self, fields: &[&str]) {
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            if field.contains([',', '"', '\n', '\r']) {
                let _ = write!(self.text, "\"{}\"", field.replace('"', "\"\""));
            } else {
                self.text.push_str(field);
            }
        }
        self.text.push('\n');
    }
}

/// What a data URL may hold as it is stays; nothing that HTML or a URL gives a meaning does.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + text.len() / 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.,~:;=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A name that every file system takes.
fn file_stem(name: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '-' };
    let stem: String = name.chars().map(safe).take(60).collect();
    if stem.is_empty() { "bakeoff".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_lines_are_quoted() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.line(&["x,y", "say \"no\"\nnow"]);
        assert_eq!(csv.text, "a,b\n\"x,y\",\"say \"\"no\"\"\nnow\"\n");
    }

    #[test]
    fn nothing_with_a_meaning_survives_encoding() {
        assert_eq!(percent_encoded("a,1.5\n<b>\"&'#%é"), "a,1.5%0A%3Cb%3E%22%26%27%23%25%C3%A9");
    }

    #[test]
    fn stems() {
        assert_eq!(file_stem("pipe/../x y"), "pipe----x-y");
        assert_eq!(file_stem(""), "bakeoff");
    }
}
