//! Writes a page made from a made-up sweep, to look at: `cargo run -p reports --example sample_page -- page.html`.

use reports::sample::{GridAxis, Sample, SampleArm, Straggler, on_grid, timelines, under_conditions};
use std::time::Instant;
use store::{RunState, SweepRows};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "page.html".to_owned());
    let what = std::env::args().nth(2);
    let mut sample = if what.as_deref() == Some("held-up") { Sample::held_up() } else { Sample::duel() };
    match what.as_deref() {
        Some("slow-link") => sample.straggler = Straggler { rank: record::Rank(1), compute: 1.0, link: 10.0 },
        Some("many") => many(&mut sample),
        Some("large") => (sample.workers, sample.repeats, sample.epochs) = (vec![4, 3], 10, (5, 8)),
        Some("conditions") => sample.workers = vec![2, 4, 8],
        Some("rough") => add_arms(&mut sample),
        _ => {}
    }
    let mut rows = sample.rows();
    if what.as_deref() == Some("cells") {
        let one = Sample { repeats: 1, epochs: (1, 1), workers: vec![1], ..Sample::duel() }.rows();
        rows = under_conditions(&one, 5_000);
    }
    if let Some(points) = what.as_deref().and_then(grid) {
        rows = on_grid(&Sample { epochs: (4, 4), repeats: 3, ..sample.clone() }.rows(), &points, step);
    }
    if what.as_deref() == Some("rough") {
        roughen(&mut rows);
    }
    let spans = timelines(&rows);
    let begin = Instant::now();
    let options = reports::Options {
        generated_by: "bakeoff 0.1.0".to_owned(),
        allow_large: true,
        data_folder: Some("page-data".to_owned()),
        ..Default::default()
    };
    let page = reports::page(&rows, &spans, &options)?;
    let took = begin.elapsed();
    std::fs::write(&path, &page.html)?;
    #[expect(clippy::print_stdout, reason = "reports the page")]
    {
        let data: usize = page.data.iter().map(|file| file.text.len()).sum();
        println!(
            "{path}: {} runs, {} bytes, {data} bytes of data beside it, made in {took:?}",
            rows.runs.len(),
            page.html.len()
        );
    }
    Ok(())
}

/// The axes of a sweep with this number of conditions.
fn grid(conditions: &str) -> Option<Vec<GridAxis>> {
    let workers = |values: &[f64]| GridAxis::new("nodes.workers", values);
    let parameters = |values: &[f64]| GridAxis::new("model.parameters", values);
    let latency = |values: &[f64]| GridAxis::new("network.latency", values);
    Some(match conditions {
        "2" => vec![workers(&[2.0, 8.0])],
        "6" => vec![parameters(&[1e4, 3e4, 1e5, 3e5, 1e6, 3e6])],
        "12" => vec![workers(&[2.0, 4.0, 8.0]), parameters(&[1e4, 1e5, 1e6, 1e7])],
        "100" => vec![
            workers(&[2.0, 4.0, 8.0, 16.0, 32.0]),
            parameters(&[1e4, 1e5, 1e6, 1e7, 1e8]),
            latency(&[0.0, 1e-3, 5e-3, 2e-2]),
        ],
        _ => return None,
    })
}

/// The first arm pays for its workers and parameters, the others for their rounds.
fn step(arm: usize, at: &[f64]) -> f64 {
    let workers = if at.len() == 1 && at[0] > 100.0 { 4.0 } else { at[0] };
    let parameters = if at.len() == 1 { at[0] } else { at[1] };
    let latency = at.get(2).copied().unwrap_or(1e-3);
    if arm == 0 {
        6e-3 + 2.0 * latency + 4e-10 * workers * parameters
    } else {
        7e-3 + 2.0 * latency * (workers - 1.0) + 8e-10 * parameters
    }
}

/// More arms than there are colours, with names that do not fit, on more workers than there is room for labels.
fn many(sample: &mut Sample) {
    let like = sample.arms[1].clone();
    for number in 3..=20 {
        let name = format!("d-sync compression.kind=top-k density=0.{number:02} feedback=on");
        sample.arms.push(SampleArm { name, communicate: 2.6 + 0.1 * f64::from(number), ..like.clone() });
    }
    (sample.workers, sample.repeats) = (vec![64], 2);
    sample.straggler = Straggler { rank: record::Rank(40), compute: 3.0, link: 1.0 };
}

/// Arms that are like the second one, slower, and never good enough.
fn add_arms(sample: &mut Sample) {
    let like = sample.arms[1].clone();
    for (name, communicate, ceiling) in
        [("d-sync star", 2.62, 0.9815), ("d-sync slow link", 4.9, 0.981), ("d-sync rough", 1.2, 0.962)]
    {
        sample.arms.push(SampleArm { name: name.to_owned(), communicate, ceiling, ..like.clone() });
    }
}

/// A run that failed, one that diverged, some not begun.
fn roughen(rows: &mut SweepRows) {
    rows.commit = Some(("3618d28f0c1e2a4b5968".to_owned(), true));
    for (place, state) in [(3, RunState::Failed), (9, RunState::Diverged), (23, RunState::Pending)] {
        let run = &mut rows.runs[place];
        run.state = state;
        if state == RunState::Pending {
            run.attempt = None;
        }
        if let Some(attempt) = &mut run.attempt {
            attempt.detail.push_str("rank 2 ended without a word in step 31, phase transfer");
            attempt.culprit = Some(record::Rank(2));
            attempt.last_lines.extend(["INFO step 30", "killed by signal 9"].map(str::to_owned));
        }
    }
}
