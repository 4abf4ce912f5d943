//! `bakeoff-worker`: one rank of a run, or the evaluator of its snapshots. Started by `bakeoff run` only.

fn main() {
    worker::main_with(&strategies::Registry::default())
}
