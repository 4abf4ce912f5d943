//! Who waited for whom, on the page.

use crate::checks::{changed, checked};
use record::Rank;
use reports::sample::{Sample, Straggler};

#[test]
fn a_straggler_is_named_with_what_it_cost() {
    let rows = Sample::held_up().rows();
    let page = checked(&rows);
    for words in [
        "<h2>Who waited for whom</h2>",
        "Rank 3 was last in 475 of 475 steps of d-sync: it computed",
        "Rank 3 of ad-psgd computed",
        "One rank was slow: rank 3 computed slowly; the others waited from",
        "rank 3: slow</text>",
        "-paces.csv",
        "-transfers.csv",
        "The same in 5 of 5 runs.",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert_eq!(page.matches("<rect class=\"outline\"").count(), 3);
    let even = checked(&Sample::duel().rows());
    assert!(even.contains("No rank or link stands out under d-sync;") && !even.contains("One rank was slow"));
    assert!(!even.contains("<rect class=\"outline\""));
}

#[test]
fn sixty_four_ranks_have_a_bar_each_and_labels_that_fit() {
    let straggler = Straggler { rank: Rank(40), compute: 3.0, link: 1.0 };
    let sample = Sample { workers: vec![64], repeats: 2, straggler, ..Sample::duel() };
    let page = checked(&sample.rows());
    let chart = page.split("id=\"heterogeneity-0-1-title\"").nth(1).unwrap().split("</svg>").next().unwrap();
    assert_eq!(chart.matches(", busy: ").count(), 64);
    assert_eq!(chart.matches("<text class=\"x\"").count(), 16);
    assert!(chart.contains("text-anchor=\"end\">rank 40: slow</text>"));
}

#[test]
fn what_was_recorded_before_paces_were_kept_has_no_section() {
    let forget = |rows: &mut store::SweepRows, arms: &[usize]| {
        for run in rows.runs.iter_mut().filter(|run| arms.contains(&run.cell)) {
            run.attempt.as_mut().unwrap().ranks.iter_mut().for_each(|rank| rank.pace = None);
        }
    };
    let page = changed(|rows| forget(rows, &[0, 1]));
    assert!(!page.contains("id=\"heterogeneity\"") && !page.contains("href=\"#heterogeneity\""));
    let page = changed(|rows| forget(rows, &[0]));
    assert!(
        page.contains("1 arm recorded before paces were kept; <code>bakeoff db rebuild</code> derives them.")
    );
    let one = Sample { workers: vec![1], ..Sample::duel() };
    assert!(!checked(&one.rows()).contains("id=\"heterogeneity\""));
}
