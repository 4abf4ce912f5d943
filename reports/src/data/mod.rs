//! The numbers behind the page as CSV files: inside the page, or in a folder beside it if they are large.

mod csv;
mod tables;

use crate::findings::Findings;
use crate::number_format;
use serde::Serialize;
use std::fmt::Write;
use store::AttemptRow;

/// Bytes of all CSV files together; larger ones are not embedded.
const EMBEDDED: usize = 512 << 10;

/// A file for the folder beside the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Name of the file in the folder.
    pub name: String,
    /// Whole text of the file, as CSV.
    pub text: String,
}

/// A link of the page to a CSV file.
#[derive(Debug, Serialize)]
pub(crate) struct Download {
    pub(crate) file: String,
    pub(crate) what: String,
    pub(crate) href: String,
}

/// Where the CSV files are.
pub(crate) struct Data {
    pub(crate) downloads: Vec<Download>,
    /// A sentence for the reader of the page.
    pub(crate) note: String,
    /// The files that the page does not embed.
    pub(crate) beside: Vec<DataFile>,
}

impl Data {
    /// `folder` is the name of the folder beside the page; without one everything is embedded.
    pub(crate) fn of(findings: &Findings, folder: Option<&str>) -> Self {
        let tables = tables(findings);
        let bytes = tables.iter().map(|table| table.file.text.len()).sum();
        match folder {
            Some(folder) if bytes > EMBEDDED => Self::beside(tables, folder, bytes),
            Some(_) | None => Self::embedded(tables),
        }
    }

    fn embedded(tables: Vec<Table>) -> Self {
        let download = |Table { file, what }: Table| Download {
            href: format!("data:text/csv;charset=utf-8,{}", percent_encoded(&file.text)),
            file: file.name,
            what: what.to_owned(),
        };
        Self {
            downloads: tables.into_iter().map(download).collect(),
            note: "The numbers behind this page are inside it; nothing is fetched.".to_owned(),
            beside: Vec::new(),
        }
    }

    fn beside(tables: Vec<Table>, folder: &str, bytes: usize) -> Self {
        let download = |Table { file, what }: &Table| Download {
            // The leading dot keeps a colon in the name from being read as a scheme.
            href: format!("./{}/{}", percent_encoded(folder), percent_encoded(&file.name)),
            file: file.name.clone(),
            what: (*what).to_owned(),
        };
        Self {
            downloads: tables.iter().map(download).collect(),
            note: format!(
                "The numbers behind this page ({}) are in the folder {folder} beside it: keep the two together.",
                number_format::bytes(bytes as f64)
            ),
            beside: tables.into_iter().map(|table| table.file).collect(),
        }
    }
}

struct Table {
    file: DataFile,
    /// One line on its content.
    what: &'static str,
}

/// Runs, evaluations, phases, links and paces; transfers, staleness and averagings if there are any.
fn tables(findings: &Findings) -> Vec<Table> {
    let name = file_stem(&findings.rows().plan.name);
    let table = |part: &str, what: &'static str, text: String| Table {
        file: DataFile { name: format!("{name}-{part}.csv"), text },
        what,
    };
    let mut files = vec![
        table("runs", "one line for each run", tables::runs(findings)),
        table("metrics", "every evaluation", tables::metrics(findings)),
        table("phases", "time per rank, lane and phase", tables::phases(findings)),
        table("links", "bytes per pair of ranks", tables::links(findings)),
        table("paces", "how each worker compares with the others", tables::paces(findings)),
    ];
    let any = |has: fn(&AttemptRow) -> bool| {
        findings.rows().runs.iter().filter_map(|run| run.attempt.as_ref()).any(has)
    };
    if any(|attempt| !attempt.transfers.is_empty()) {
        files.push(table("transfers", "how fast bytes moved between ranks", tables::transfers(findings)));
    }
    if any(|attempt| !attempt.staleness.is_empty()) {
        files.push(table(
            "staleness",
            "gradients by server, worker and staleness",
            tables::staleness(findings),
        ));
    }
    if any(|attempt| !attempt.averagings.is_empty()) {
        files.push(table("averagings", "averagings per pair of ranks", tables::averagings(findings)));
    }
    files
}

/// The parts of a sweep's data, which the names of their files end in.
const PARTS: [&str; 8] =
    ["runs", "metrics", "phases", "links", "paces", "transfers", "staleness", "averagings"];

/// Whether a page may have written a file of this name into its folder: `quickstart-runs.csv`.
pub fn is_data_file(name: &str) -> bool {
    let part = name.strip_suffix(".csv").and_then(|stem| stem.rsplit_once('-'));
    part.is_some_and(|(stem, part)| !stem.is_empty() && stem == file_stem(stem) && PARTS.contains(&part))
}

/// Encodes all bytes that have a meaning in HTML or in a URL.
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

/// A name that is valid in every file system.
fn file_stem(name: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '-' };
    let stem: String = name.chars().map(safe).take(60).collect();
    if stem.is_empty() { "bakeoff".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;

    #[test]
    fn large_tables_lie_beside_the_page() {
        let rows = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let beside = Data::beside(tables(&findings), "my page-data", 1 << 20);
        assert_eq!(beside.beside.len(), beside.downloads.len());
        assert_eq!(beside.downloads[0].href, "./my%20page-data/quickstart-runs.csv");
        assert!(beside.beside[0].text.starts_with("run,id,arm,"), "{}", beside.beside[0].text);
        assert!(beside.note.contains("MiB) are in the folder my page-data beside it"), "{}", beside.note);
        let small = Data::of(&findings, Some("data"));
        assert!(small.beside.is_empty() && small.downloads[0].href.starts_with("data:text/csv"));
    }

    #[test]
    fn nothing_with_a_meaning_survives_encoding() {
        assert_eq!(percent_encoded("a,1.5\n<b>\"&'#%é"), "a,1.5%0A%3Cb%3E%22%26%27%23%25%C3%A9");
    }

    #[test]
    fn a_page_knows_its_files_by_their_names() {
        let mut rows = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
        let attempt = rows.runs[0].attempt.as_mut().unwrap();
        let rank = record::Rank(0);
        attempt.staleness.push(store::StalenessRow { server: rank, worker: rank, staleness: 0, count: 1 });
        attempt.averagings.push(store::AveragingRow { rank, peer: rank, count: 1 });
        let bytes = 1;
        let time = record::Nanos(1);
        attempt.transfers =
            vec![store::TransferRow { from: rank, to: rank, bytes, time, cut_bytes: 0, cut_time: time }];
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let files = tables(&findings);
        assert_eq!(files.len(), PARTS.len());
        assert!(files.iter().all(|table| is_data_file(&table.file.name)));
        for name in ["notes.csv", "my-runs.txt", "-runs.csv", "a/b-runs.csv", "quickstart-runs.csv.bak"] {
            assert!(!is_data_file(name), "{name}");
        }
    }

    #[test]
    fn stems() {
        assert_eq!(file_stem("pipe/../x y"), "pipe----x-y");
        assert_eq!(file_stem(""), "bakeoff");
    }
}
