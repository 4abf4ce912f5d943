//! Writes a page made from a made-up sweep, to look at: `cargo run -p reports --example sample_page -- page.html`.

use reports::sample::{Sample, timelines};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "page.html".to_owned());
    let mut sample = Sample::duel();
    match std::env::args().nth(2).as_deref() {
        Some("large") => (sample.workers, sample.repeats, sample.epochs) = (vec![2, 4, 8, 16], 5, (4, 10)),
        Some("conditions") => sample.workers = vec![2, 4, 8],
        _ => {}
    }
    let rows = sample.rows();
    let spans = timelines(&rows);
    let begin = Instant::now();
    let options = reports::Options { generated_by: "bakeoff 0.1.0".to_owned(), ..Default::default() };
    let page = reports::page(&rows, &spans, &options)?;
    let took = begin.elapsed();
    std::fs::write(&path, &page.html)?;
    #[expect(clippy::print_stdout, reason = "says where the page is")]
    {
        println!("{path}: {} runs, {} bytes, made in {took:?}", rows.runs.len(), page.html.len());
    }
    Ok(())
}
