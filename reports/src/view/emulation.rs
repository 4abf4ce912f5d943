//! Emulation, and how accurate it was: a page never shows an emulated time as if the machine had measured it.

use super::trust_mark::TrustMark;
use crate::findings::Findings;
use crate::number_format;
use record::{Emulated, EmulationRecord, Nanos};

/// Largest median error of a timing.
const ERROR_LIMIT: Nanos = Nanos(100_000);

/// Largest share of steps that took longer than stated.
const OVERRUN_LIMIT: f64 = 0.05;

/// The mark at the head of the page; `None` if nothing was emulated.
pub(crate) fn mark(findings: &Findings) -> Option<TrustMark> {
    let pretended = pretended(findings)?;
    let records = records(findings);
    let kept = [Emulated::Network, Emulated::Compute].map(|what| Kept::of(&records, what));
    let said: Vec<String> = kept.iter().flatten().map(Kept::words).collect();
    let good = kept.iter().flatten().all(Kept::is_good);
    let text = if said.is_empty() { pretended } else { format!("{pretended}. {}", said.join("; ")) };
    Some(TrustMark::new("emulated", good, text))
}

/// The text of the section on methods; `None` if nothing was emulated.
pub(crate) fn method(findings: &Findings) -> Option<String> {
    let pretended = pretended(findings)?;
    Some(format!(
        "{pretended}. Each rank has an emulated full-duplex network card that serialises its messages; a message is delivered \
         when its last byte would have arrived, never earlier. If computing takes a stated time, the real arithmetic runs \
         within it; a step counts as too long if it exceeded its stated time by more than a twentieth. A timing error is the \
         delay of an event after its due time."
    ))
}

/// Everything that is emulated in any cell, in words.
fn pretended(findings: &Findings) -> Option<String> {
    let words = findings.rows().plan.emulated();
    (!words.is_empty()).then(|| words.join("; "))
}

fn records<'a>(findings: &'a Findings) -> Vec<&'a EmulationRecord> {
    let attempts = findings.rows().runs.iter().filter_map(|run| run.attempt.as_ref());
    attempts.flat_map(|attempt| &attempt.emulation).collect()
}

/// The accuracy of one kind of emulation on the worst rank of any run.
struct Kept {
    what: Emulated,
    median: Nanos,
    steps: u64,
    overruns: u64,
    longest: Nanos,
}

impl Kept {
    fn of(records: &[&EmulationRecord], what: Emulated) -> Option<Self> {
        let mut kept: Option<Self> = None;
        for record in records.iter().filter(|record| record.what == what) {
            let all =
                kept.get_or_insert(Self { what, median: Nanos(0), steps: 0, overruns: 0, longest: Nanos(0) });
            all.median = all.median.max(record.p50);
            all.steps += record.steps;
            all.overruns += record.overruns;
            all.longest = all.longest.max(record.longest);
        }
        kept
    }

    fn is_good(&self) -> bool {
        self.median <= ERROR_LIMIT && self.overruns as f64 <= OVERRUN_LIMIT * self.steps as f64
    }

    fn words(&self) -> String {
        let error = format!("median timing error {}", number_format::seconds(self.median.seconds()));
        match self.what {
            Emulated::Network => format!("network: {error} on the worst rank"),
            Emulated::Compute if self.overruns == 0 => {
                format!("computing: {error} on the worst rank, fitted into every step")
            }
            Emulated::Compute => format!(
                "computing: {error} on the worst rank, did not fit into {} of {} by up to {}",
                self.overruns,
                number_format::plural(self.steps as usize, "step"),
                number_format::seconds(self.longest.seconds())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;

    fn record(what: Emulated, p50: u64, overruns: u64) -> EmulationRecord {
        EmulationRecord {
            rank: record::Rank(0),
            what,
            count: 10,
            p50: Nanos(p50),
            p95: Nanos(p50),
            max: Nanos(p50),
            steps: 100,
            overruns,
            longest: Nanos(2_000_000),
        }
    }

    #[test]
    fn a_page_says_what_was_emulated_and_how_well() {
        let mut rows = Sample::duel().rows();
        let options = Options::default();
        assert!(mark(&Findings::of(&rows, &options).unwrap()).is_none());
        let network = recipe::Network { bandwidth: 125_000_000, latency: std::time::Duration::ZERO };
        rows.plan.cells[0].spec.emulation.network = Some(network);
        for attempt in rows.runs.iter_mut().filter_map(|run| run.attempt.as_mut()) {
            attempt.emulation.push(record(Emulated::Network, 20_000, 0));
        }
        let findings = Findings::of(&rows, &options).unwrap();
        let mark = mark(&findings).unwrap();
        assert!(mark.good && mark.text.starts_with("network of 1Gbit/s per rank"), "{}", mark.text);
        assert!(mark.text.contains("median timing error"), "{}", mark.text);
        assert!(method(&findings).unwrap().contains("network of 1Gbit/s per rank"));
    }

    #[test]
    fn the_worst_rank_speaks_for_all() {
        let one = record(Emulated::Network, 20_000, 0);
        let two = record(Emulated::Network, 120_000, 0);
        assert!(Kept::of(&[&one], Emulated::Network).unwrap().is_good());
        assert!(!Kept::of(&[&one, &two], Emulated::Network).unwrap().is_good());
        assert!(Kept::of(&[&one, &two], Emulated::Compute).is_none());
    }

    #[test]
    fn steps_that_were_too_long_are_said() {
        let fits = record(Emulated::Compute, 20_000, 0);
        assert!(Kept::of(&[&fits], Emulated::Compute).unwrap().words().ends_with("fitted into every step"));
        let over = record(Emulated::Compute, 20_000, 30);
        let kept = Kept::of(&[&fits, &over], Emulated::Compute).unwrap();
        assert!(kept.words().contains("did not fit into 30 of 200 steps by up to"), "{}", kept.words());
        assert!(!kept.is_good());
    }
}
