//! Real handwritten digits, where the machine has them: `BAKEOFF_DATA` names the folder that holds `mnist/`.

use e2e::Desk;
use recipe::Metric;
use std::path::PathBuf;
use store::{Selection, Store};

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recipes/mnist.toml");

#[test]
fn four_workers_reach_97_5_percent_within_five_epochs() {
    let Some(data) = std::env::var_os("BAKEOFF_DATA") else {
        println!("not run: BAKEOFF_DATA is not set");
        return;
    };
    let path = format!("dataset.path={}", PathBuf::from(data).join("mnist").display());
    let target = "train.target={ metric = \"test-accuracy\", at-least = 0.975, stop = true }";
    let desk = Desk::new().unwrap();
    let changes = ["--set", path.as_str(), "--set", target, "--set", "train.epochs=5"];
    let choice = ["--only", "strategy.name == 'd-sync'", "--repeats", "1"];
    let ended = desk.run([&["run", RECIPE][..], &changes, &choice].concat()).unwrap().with_code(0).unwrap();
    assert!(desk.at(ended.page().unwrap()).is_file());

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rows = runtime.block_on(async {
        let store = Store::open_existing(&desk.at(".bakeoff")).await.unwrap();
        let rows = store.sweep_rows(&Selection::parse("last").unwrap()).await.unwrap();
        store.close().await;
        rows
    });
    let attempt = rows.runs[0].attempt.as_ref().unwrap();
    assert_eq!(attempt.ranks.len(), 4);
    assert!(attempt.weights.as_ref().is_some_and(Result::is_ok), "all ranks end with the same weights");
    let accuracy = attempt.metrics.iter().filter(|row| row.metric == Metric::TestAccuracy);
    let mut rows: Vec<(f64, f64)> = accuracy.map(|row| (row.epoch, row.value)).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (last, before) = rows.split_last().unwrap();
    assert!(last.0 <= 5.01 && last.1 >= 0.975, "{rows:?}");
    assert!(before.iter().all(|(_, value)| *value < 0.975), "{rows:?}");
}
