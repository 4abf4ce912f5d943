//! The sample ids of a run: which samples each rank used in each step, in the order of the batch.
//!
//! As CSV: `step,rank,position,sample_id`, by step, rank and position. A position counts from 0 within the rank's
//! batch; a sample id is a position in the original training file.

use super::table::Lines;
use super::{fitting, never_begun};
use crate::exit::{Exit, Failure};
use crate::reuse::short;
use std::io::Write;
use std::path::Path;
use store::{SampleIds, Selection, Store, Value, recorded_samples};

/// The columns of the table.
pub(crate) const COLUMNS: [&str; 4] = ["step", "rank", "position", "sample_id"];

/// The sample ids of the only run that fits: their rows do not name a run.
pub(crate) async fn of_selection(store: &Store, selection: &Selection) -> Result<SampleIds, Failure> {
    let found = fitting(store, selection).await?;
    let [run] = found.as_slice() else {
        let what = format!("{} runs fit, and sample ids are of one", found.len());
        return Err(Failure::new(Exit::Usage, what).cure("name a run by its id; `bakeoff list` shows them"));
    };
    let id = store.find_run(&run.id).await?;
    let directory = store.shown_directory(&id).await?.ok_or_else(|| never_begun(run))?;
    of_run(&run.id, &directory)
}

/// The rows of the table.
pub(crate) fn values(samples: &SampleIds) -> impl Iterator<Item = Vec<Value>> {
    samples.iter().flat_map(|((step, rank), ids)| {
        let row = |(position, id): (usize, &u32)| {
            let numbers = [*step as i64, i64::from(rank.0), position as i64, i64::from(*id)];
            numbers.map(Value::Integer).to_vec()
        };
        ids.iter().enumerate().map(row)
    })
}

/// The sample ids of the run whose attempt left `directory`.
pub(crate) fn of_run(run: &str, directory: &Path) -> Result<SampleIds, Failure> {
    let samples = recorded_samples(directory)?;
    if samples.is_empty() {
        let what = format!("run {} stored no sample ids", short(run));
        let cure = "run the recipe again with --set measure.samples=true: its numbers stay the same";
        return Err(Failure::new(Exit::Empty, what).cure(cure));
    }
    Ok(samples)
}

/// Writes a line for each sample, by step, rank and position in the batch; CSV begins with the columns' names.
pub(crate) fn write(samples: &SampleIds, lines: Lines, out: &mut dyn Write) -> std::io::Result<()> {
    if lines == Lines::Csv {
        out.write_all(b"step,rank,position,sample_id\n")?;
    }
    for ((step, rank), ids) in samples {
        for (position, id) in ids.iter().enumerate() {
            match lines {
                Lines::Csv => writeln!(out, "{step},{rank},{position},{id}")?,
                Lines::Json => {
                    let rank = rank.0;
                    let step = *step;
                    let row = serde_json::json!({
                        "step": step, "rank": rank, "position": position, "sample_id": id
                    });
                    writeln!(out, "{row}")?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Rank;

    #[test]
    fn rows_come_by_step_rank_and_position() {
        let ids = [((2, Rank(0)), vec![7]), ((1, Rank(1)), vec![]), ((1, Rank(0)), vec![9, 4])];
        let samples: SampleIds = ids.into_iter().collect();
        let written = |lines| {
            let mut out = Vec::new();
            write(&samples, lines, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Lines::Csv), "step,rank,position,sample_id\n1,0,0,9\n1,0,1,4\n2,0,0,7\n");
        let json = written(Lines::Json);
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(first, serde_json::json!({"step": 1, "rank": 0, "position": 0, "sample_id": 9}));
    }
}
