//! Checks before the start whether the worker binary has the strategies and codecs that a plan names.

use crate::{Concern, ConcernLevel, Inventory, WorkerBinary};
use recipe::RunSpec;
use std::collections::BTreeSet;

/// The strategy and the codec of another crate that a run needs, by name.
fn needs(spec: &RunSpec) -> impl Iterator<Item = Needed<'_>> {
    let strategy = spec.strategy.custom_name().map(Needed::Strategy);
    strategy.into_iter().chain(spec.custom_codec.as_ref().map(|codec| Needed::Codec(&codec.name)))
}

/// Strategy or codec that a worker binary must register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needed<'a> {
    Strategy(&'a str),
    Codec(&'a str),
}

impl Needed<'_> {
    fn missing(self, inventory: &Inventory) -> Option<String> {
        let (noun, name, known): (_, _, Vec<&str>) = match self {
            Self::Strategy(name) => {
                ("strategy", name, inventory.strategies.keys().map(String::as_str).collect())
            }
            Self::Codec(name) => ("codec", name, inventory.codecs.iter().map(String::as_str).collect()),
        };
        let known_words = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        (!known.contains(&name)).then(|| format!("no {noun} `{name}` (it has: {known_words})"))
    }
}

/// Whether a run needs a worker binary with a strategy or a codec of another crate.
pub fn needs_custom(spec: &RunSpec) -> bool {
    needs(spec).next().is_some()
}

/// Compares what these runs name with what the worker binary has. Returns a refusal for each strategy and codec that it lacks.
pub fn check_inventory(specs: &[&RunSpec], worker: &WorkerBinary) -> Vec<Concern> {
    let needed: BTreeSet<Needed<'_>> = specs.iter().flat_map(|spec| needs(spec)).collect();
    let missing = needed.into_iter().filter_map(|needed| needed.missing(&worker.inventory));
    let concern = |missing| {
        Concern {
        severity: ConcernLevel::Refusal,
        what: format!("the worker {} has {missing}", worker.path.display()),
        cure: "build a `bakeoff-worker` that registers it, and name it in BAKEOFF_WORKER; examples/own-strategy shows one".into(),
    }
    };
    missing.map(concern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::spec;
    use recipe::{CustomCodec, Strategy};

    fn worker(strategies: &[&str], codecs: &[&str]) -> WorkerBinary {
        let inventory = Inventory {
            strategies: strategies.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            codecs: codecs.iter().map(|name| (*name).to_owned()).collect(),
        };
        let version = String::new();
        let identity = String::new();
        WorkerBinary { path: "/w".into(), version, identity, inventory, forks: false }
    }

    #[test]
    fn what_the_worker_lacks_is_refused_by_name_and_once() {
        let mut custom = spec(2);
        custom.strategy = Strategy::Custom { name: "lazy".into(), settings: [].into() };
        custom.custom_codec = Some(CustomCodec { name: "coarse".into(), settings: [].into() });
        let plain = spec(2);
        assert!(needs_custom(&custom) && !needs_custom(&plain));
        let told = |worker: &WorkerBinary| {
            let concerns = check_inventory(&[&plain, &custom, &custom], worker);
            concerns.into_iter().map(|concern| concern.what).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&worker(&[], &[])),
            [
                "the worker /w has no strategy `lazy` (it has: none)",
                "the worker /w has no codec `coarse` (it has: none)"
            ]
        );
        // A codec is no strategy.
        let other = told(&worker(&["eager", "lazy"], &["fine", "lazy"]));
        assert_eq!(other, ["the worker /w has no codec `coarse` (it has: fine, lazy)"]);
        assert_eq!(told(&worker(&["lazy"], &["coarse"])), [""; 0]);
        assert_eq!(check_inventory(&[&plain], &worker(&[], &[])), []);
    }
}
