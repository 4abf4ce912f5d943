//! The real data sets, where `BAKEOFF_DATA` names a folder with `mnist`, `cifar-10` and `cifar-100` in it.

use crate::support::{described, mnist_mlp};
use crate::training::train;
use recipe::{Shape, Source};
use std::path::PathBuf;
use std::sync::Arc;
use worker::data::{DataSet, Example, Split};

fn folder(name: &str) -> Option<PathBuf> {
    let Some(data) = std::env::var_os("BAKEOFF_DATA") else {
        println!("skipped: BAKEOFF_DATA does not say where the real data sets are");
        return None;
    };
    Some(PathBuf::from(data).join(name))
}

fn counts(set: &DataSet, split: Split) -> Vec<usize> {
    let mut counts = vec![0; set.classes()];
    for label in &set.samples(split).labels {
        counts[*label as usize] += 1;
    }
    counts
}

#[test]
fn mnist_is_what_it_is_known_to_be() {
    let Some(path) = folder("mnist") else { return };
    let set = Arc::new(DataSet::load(&described(Source::Mnist { path })).unwrap());
    assert_eq!(counts(&set, Split::Training), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]);
    assert_eq!(counts(&set, Split::Test), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    assert_eq!(set.shape(), Shape::Image(1, 28, 28));
    let normal = set.normal()[0];
    assert!((normal.mean - 0.1307).abs() < 5e-5 && (normal.deviation - 0.3081).abs() < 5e-5, "{normal:?}");
    let found = train(mnist_mlp(), &set, 1, 0.1);
    assert!(found[0].accuracy > 0.94, "{:?}", found[0]);
}

#[test]
fn cifar_10_is_what_it_is_known_to_be() {
    let Some(path) = folder("cifar-10") else { return };
    let set = DataSet::load(&described(Source::Cifar10 { path })).unwrap();
    assert_eq!((set.shape(), set.classes()), (Shape::Image(3, 32, 32), 10));
    assert_eq!(set.labels()[..10], [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]);
    let Some(Example::Bytes(first)) = set.samples(Split::Training).example(0) else { panic!("no pixels") };
    assert_eq!((first[0], first[1024], first[2048]), (59, 62, 63));
    let known = [(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)];
    for (normal, (mean, deviation)) in set.normal().iter().zip(known) {
        assert!(
            (normal.mean - mean).abs() < 0.005 && (normal.deviation - deviation).abs() < 0.005,
            "{normal:?}"
        );
    }
}

#[test]
fn cifar_100_is_what_it_is_known_to_be() {
    let Some(path) = folder("cifar-100") else { return };
    let set = DataSet::load(&described(Source::Cifar100 { path })).unwrap();
    assert_eq!((set.shape(), set.classes()), (Shape::Image(3, 32, 32), 100));
    for split in [Split::Training, Split::Test] {
        let counts = counts(&set, split);
        assert!(counts.iter().all(|count| *count == counts[0] && *count > 0), "{counts:?}");
    }
}
