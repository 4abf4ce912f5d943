//! Whole recipes: what they expand to.

mod desk;

use desk::Desk;
use std::path::Path;

fn repository(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes").join(name);
    std::fs::read_to_string(path).expect("a recipe of this repository")
}

#[test]
fn the_quickstart_compares_two_strategies_five_times() {
    let plan = Desk::with(&repository("quickstart.toml"))
        .plan()
        .unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    println!("{plan:#?}");
    assert_eq!(plan.arms.len(), 2);
    assert_eq!(plan.cells.len(), 2);
    assert_eq!(plan.runs.len(), 10);
    assert!(plan.arms[0].baseline && !plan.arms[1].baseline);
    println!("{}", plan.expanded);
    let again = Desk::with(&plan.expanded)
        .plan()
        .unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    assert_eq!(again.cells, plan.cells);
    assert_eq!(again.expanded, plan.expanded);
}
