//! Writes a page made from a made-up sweep, to look at: `cargo run -p reports --example sample_page -- page.html`. After the kind of
//! sweep may follow a folder for the page's figures.

use reports::sample::{
    GridAxis, Sample, SampleArm, Straggler, decided, on_grid, timelines, under_conditions,
};
use reports::{FigureStyle, Palette};
use std::time::Instant;
use store::{Commit, RunState, SweepRows};

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
    if what.as_deref() == Some("search") {
        let best = |arm: usize| if arm == 0 { 0.2_f64 } else { 0.8 };
        rows = decided(&[0.1, 0.2, 0.4, 0.8, 1.6], 2, |arm, rate, rung| {
            0.9 - (rate / best(arm)).ln().abs() / 100.0 + f64::from(rung) / 50.0
        });
    }
    if what.as_deref() == Some("rough") {
        roughen(&mut rows);
    }
    if let Some(known) = what.as_deref().and_then(known) {
        rows = known;
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
    if let Some(folder) = std::env::args().nth(3) {
        figures(&rows, &options, std::path::Path::new(&folder))?;
    }
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

/// Writes the figures of a page in colours and in greys.
fn figures(
    rows: &SweepRows,
    options: &reports::Options,
    folder: &std::path::Path,
) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    for name in reports::figures(rows, options)? {
        for (palette, end) in [(Palette::Colour, ""), (Palette::Grey, "-grey")] {
            let style = FigureStyle { palette, ..FigureStyle::default() };
            if let Ok(drawn) = reports::figure(rows, name, options, &style)
                && let Some(chart) = drawn.chart
            {
                std::fs::write(folder.join(format!("{name}{end}.svg")), chart.svg)?;
            }
        }
    }
    Ok(())
}

/// Sweeps of which it is known what has to be said, each by two to eight arms' times to the target in seconds.
fn known(what: &str) -> Option<SweepRows> {
    let base = [30.0, 30.9, 29.4, 30.3, 29.7, 30.6, 29.1, 30.0, 30.5, 29.5];
    let scaled = |count: usize, factor: f64| -> Vec<f64> {
        let wobble = [1.004, 0.996, 1.002, 0.998, 1.003];
        (0..count).map(|place| base[place] * factor * wobble[place % wobble.len()]).collect()
    };
    let mut missed = scaled(10, 1.0 / 3.0);
    missed[3] = f64::INFINITY;
    let duel = |repeats: u32| Sample { repeats, ..Sample::duel() };
    Some(match what {
        "three-times" => with_times(&duel(3), &[scaled(3, 1.0), scaled(3, 1.0 / 3.0)]),
        "four-percent" => with_times(&duel(5), &[scaled(5, 1.0), scaled(5, 1.0 / 1.04)]),
        "miss" => with_times(&duel(10), &[scaled(10, 1.0), missed]),
        "eight" => {
            let mut eight = duel(5);
            for number in 2..8 {
                eight.arms.push(SampleArm { name: format!("arm-{number}"), ..eight.arms[1].clone() });
            }
            let fast = (1..8).map(|arm| scaled(5, 0.5 + f64::from(arm) / 50.0));
            with_times(&eight, &std::iter::once(scaled(5, 1.0)).chain(fast).collect::<Vec<_>>())
        }
        "diverged" => {
            let mut rows = Sample { target: None, ..Sample::duel() }.rows();
            let second = rows.runs.iter_mut().filter(|run| run.cell == 1);
            second.for_each(|run| run.state = RunState::Diverged);
            rows
        }
        "reused" => {
            let mut rows = with_times(&duel(5), &[scaled(5, 1.0), scaled(5, 1.0 / 1.08)]);
            for run in rows.runs.iter_mut().filter(|run| run.cell == 0) {
                run.reused = true;
                if let Some(attempt) = &mut run.attempt {
                    attempt.started -= 7 * 86_400;
                }
            }
            rows
        }
        _ => return None,
    })
}

/// The sample with these times to the target, by arm and repeat; an infinite one did not reach it within a minute.
fn with_times(sample: &Sample, times: &[Vec<f64>]) -> SweepRows {
    let mut rows = sample.rows();
    let nanos = |seconds: f64| record::Nanos((seconds * 1e9) as u64);
    for run in &mut rows.runs {
        let time = times[rows.plan.cells[run.cell].arm][run.repeat as usize];
        let Some(attempt) = &mut run.attempt else { continue };
        let watched = if time.is_finite() { time } else { 60.0 };
        attempt.training = Some(nanos(watched));
        attempt.mean_step_time = Some(nanos(watched / 480.0));
        attempt.step_time = attempt.mean_step_time;
        attempt.metrics.retain(|row| row.metric == recipe::Metric::TestAccuracy);
        for (place, row) in attempt.metrics.iter_mut().enumerate() {
            row.samples = place as u64 * 2_400;
            row.at = nanos(watched * place as f64 / 20.0);
            row.value = match place {
                20 if time.is_finite() => 0.975,
                _ => 0.96 - 0.86 / (1.0 + place as f64),
            };
        }
    }
    rows
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
        "axes" => vec![workers(&[2.0, 4.0, 8.0]), parameters(&[1e4, 1e6, 1e8]), latency(&[0.0, 5e-3])],
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
    rows.commit = Some(Commit { hash: "3618d28f0c1e2a4b5968".to_owned(), is_changed: true });
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
