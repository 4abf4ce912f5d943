//! Memory that the ranks of a machine share, in real processes: the same weights as through sockets, and nothing left behind.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::train;
use recipe::CollectiveKind;

const TRANSPORTS: [&str; 2] = ["zeromq", "shared-memory"];

fn recipe(strategy: &str, communication: &str) -> String {
    format!(
        r#"
schema = 1
name = "shared"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 300
test = 100
[train]
global-batch = 30
steps = 6
optimizer = {{ kind = "sgd", lr = 0.05, momentum = 0.5 }}
evaluate = "6 steps"
[nodes]
use = ["local*3"]
[strategy]
{strategy}
[communication]
{communication}
[measure]
weight-hash = "step"
[repeats]
count = 1
"#
    )
}

/// Fails unless each transport ends each step with the same weights.
fn same_weights(strategy: &str, communication: &str) {
    let digests = TRANSPORTS.map(|transport| {
        let communication = format!("transport = \"{transport}\"\n{communication}");
        let trained = train(&recipe(strategy, &communication)).unwrap().done().unwrap();
        trained.common_digests().unwrap()
    });
    assert_eq!(digests[0].len(), 7);
    assert_eq!(digests[0], digests[1], "{strategy} with {communication}");
}

#[test]
fn every_collective_ends_with_the_weights_that_it_has_over_sockets() {
    for kind in CollectiveKind::ALL {
        let more = match kind {
            CollectiveKind::PipelinedRing => ", segments = 3",
            CollectiveKind::Hierarchical => ", group-size = 2",
            _ => "",
        };
        same_weights("kind = \"d-sync\"", &format!("collective = {{ kind = \"{kind}\"{more} }}"));
    }
}

#[test]
fn a_server_and_a_ring_in_rank_order_too() {
    same_weights("kind = \"ps-sync\"", "");
    same_weights("kind = \"d-sync\"", "reduce-order = \"rank\"");
}
