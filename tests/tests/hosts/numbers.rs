//! Ranks on several hosts end with the weights that they have on one machine, and their clocks are compared.

use crate::{APART, HOSTS, desk_of, trained};
use e2e::Lab;
use std::collections::BTreeMap;

/// Through doors, in a tunnel, and with this machine as one of the hosts.
#[test]
fn ranks_on_several_hosts_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let places =
        [HOSTS, "use = [\"lab1*2\", \"lab2*2\"]\ntunnel = \"ssh\"", "use = [\"local*2\", \"lab2*2\"]"];
    for (strategy, places) in [("d-sync", &places[..]), ("ps-sync", &places[..1])] {
        let here = trained(None, strategy, "use = [\"local*4\"]");
        assert!(!here.is_empty());
        for place in places {
            assert_eq!(trained(Some(&lab), strategy, place), here, "{strategy} on {place}");
        }
    }
}

/// Doors at the addresses of the hosts' own cards.
#[test]
fn ranks_in_network_namespaces_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let lab = Lab::in_namespaces().unwrap();
    for strategy in ["d-sync", "ps-sync"] {
        let here = trained(None, strategy, "use = [\"local*4\"]\nthreads = 1");
        assert!(!here.is_empty());
        assert_eq!(trained(Some(&lab), strategy, APART), here, "{strategy}");
    }
    assert_eq!(lab.processes().unwrap(), [""; 0]);
}

#[test]
fn strategies_that_wait_for_nothing_train_on_several_hosts() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    for strategy in ["ad-psgd", "easgd-async"] {
        assert!(!trained(Some(&lab), strategy, HOSTS).is_empty(), "{strategy}");
    }
}

/// All hosts here have the clock of this machine: it lies within the error that is stated.
#[test]
fn the_clocks_of_hosts_are_compared_and_the_page_says_how_exactly() {
    if !Lab::is_possible() {
        return;
    }
    let desk = desk_of(Some(&Lab::start().unwrap()), "d-sync", HOSTS);
    let exported = desk
        .run(["export", "last", "--format", "csv", "--what", "hosts"])
        .unwrap()
        .with_code(0)
        .unwrap()
        .stdout;
    let mut lines = exported.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|other| other == name).unwrap();
    let (node, error) = (column("node"), column("clock_error_ns"));
    let read: BTreeMap<String, u64> =
        lines.map(|line| (line[node].clone(), line[error].parse().unwrap())).collect();
    assert_eq!(read.keys().collect::<Vec<_>>(), ["0", "1"], "{exported}");
    assert!(read.values().all(|error| (1..1_000_000_000).contains(error)), "{exported}");
    let page = desk.run(["report", "last", "-o", "page.html"]).unwrap().with_code(0);
    page.unwrap();
    let page = std::fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("The clocks of its 2 machines differ by at most "), "no bound on the page");
}
