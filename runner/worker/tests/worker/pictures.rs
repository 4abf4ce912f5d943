//! Folders of pictures: decoded by any number of threads, ahead or not, with the same values; and images that change at random.

use crate::support::{described, drawn, linear, place};
use pictures::{Offset, Picture, PictureFolder};
use recipe::{Augmentation, Dataset, Layer, LayeredModel, ModelKind, PictureProfile, Source};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use strategies::{Batch, Learner};
use worker::data::{Change, DataError, DataSet, Feed, Split};
use worker::model::{ScriptLearner, TorchLearner, TrainedModel, describe};

const BOTH: Augmentation = Augmentation { crop: true, flip: true };
const RESIZE: u32 = 12;
const CROP: u32 = 8;

/// A picture of no particular kind, larger than the part seen of it.
fn picture(seed: u32) -> Picture {
    let width = 12 + seed as usize % 7;
    let height = 12 + seed as usize % 5;
    let mut state = seed;
    let pixels = (0..3 * width * height).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    Picture { width, height, pixels: pixels.collect() }
}

/// Three classes of ten pictures to train on and of two to test with.
fn write(root: &Path) {
    for (split, count) in [("train", 10), ("test", 2)] {
        for class in 0..3 {
            let folder = root.join(split).join(format!("class-{class}"));
            fs::create_dir_all(&folder).unwrap();
            for number in 0..count {
                let png = picture(class * 100 + number + count).png().unwrap();
                fs::write(folder.join(format!("{number}.png")), png).unwrap();
            }
        }
    }
}

fn source(root: &Path) -> Source {
    let counts = PictureFolder::list(root).unwrap().counts();
    Source::ImageFolder { path: root.to_owned(), pictures: PictureProfile::of(counts, RESIZE, CROP) }
}

fn loaded(root: &Path, augment: Augmentation) -> Arc<DataSet> {
    Arc::new(DataSet::load(&Dataset { augment, ..described(source(root)) }).unwrap())
}

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(f32::to_bits).collect()
}

fn batch(epoch: u64, examples: std::ops::Range<u32>) -> Batch {
    Batch { epoch, examples: examples.collect() }
}

#[test]
fn what_is_seen_is_the_middle_normalised_by_the_constants_of_imagenet() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let data = loaded(folder.path(), BOTH);
    assert_eq!((data.classes(), data.training_ids().len(), data.positions(Split::Test).len()), (3, 30, 6));
    assert_eq!(data.labels_at(Split::Test, &[0, 2, 5]).unwrap(), [0, 1, 2]);
    for (position, seed) in [(0, 2), (5, 203)] {
        let picture = picture(seed);
        let (width, height) = pictures::scaled_sides(picture.width, picture.height, RESIZE as usize);
        let side = CROP as usize;
        // As `int(round(room / 2.0))` of torchvision.
        let half = |room: usize| (room as f64 / 2.0).round_ties_even() as usize;
        let corner = Offset { across: half(width - side), down: half(height - side) };
        let middle = picture.window(RESIZE as usize, side, corner);
        let mut expected = Vec::new();
        for (channel, (mean, deviation)) in
            middle.chunks(side * side).zip([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)])
        {
            expected
                .extend(channel.iter().map(|pixel| ((f64::from(*pixel) / 255.0 - mean) / deviation) as f32));
        }
        // Evaluations see the file's picture, whatever the recipe changes in training.
        assert_eq!(bits(data.values(Split::Test, &[position]).unwrap()), bits(expected), "{position}");
    }
}

#[test]
fn values_do_not_depend_on_threads_or_on_what_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let data = loaded(folder.path(), BOTH);
    let steps: Vec<Batch> = [batch(0, 0..7), batch(0, 7..14), batch(0, 14..30), batch(1, 0..7)].to_vec();
    worker::threads::compute_with(1);
    let plain: Vec<_> = steps.iter().map(|step| bits(data.training_values(step, 5).unwrap())).collect();
    worker::threads::compute_with(4);
    let read = |feed: &mut Feed, step: &Batch| {
        let tensor = feed.load(step).unwrap();
        assert_eq!(tensor.size(), [step.examples.len() as i64, 3, 8, 8]);
        bits(Vec::try_from(tensor.reshape([-1])).unwrap())
    };
    let mut feed = Feed::new(data.clone(), 5);
    assert_eq!(feed.looks_ahead(), 2);
    for (place, step) in steps.iter().enumerate() {
        assert_eq!(read(&mut feed, step), plain[place]);
        feed.announce(&steps[place + 1..]);
    }
    // Announced and passed over, not announced, announced twice, and more than it looks ahead.
    feed.announce(&steps);
    feed.announce(&steps[1..]);
    for place in [1, 3, 0, 0, 2] {
        assert_eq!(read(&mut feed, &steps[place]), plain[place]);
        feed.announce(&steps[..1]);
    }
}

#[test]
fn a_sample_changes_by_seed_pass_and_number_in_whatever_batch_it_is() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for data in [loaded(folder.path(), BOTH), changing(&drawn(40, 4, 0.0), BOTH)] {
        let all = data.training_values(&batch(3, 0..30), 9).unwrap();
        let size = data.shape().size();
        let one = |seed, epoch, sample: u32| {
            let batch = Batch { epoch, examples: vec![sample] };
            bits(data.training_values(&batch, seed).unwrap())
        };
        for sample in [0, 11, 29] {
            let same = bits(all[sample * size..][..size].to_vec());
            assert_eq!(one(9, 3, sample as u32), same);
        }
        let differ =
            |seed, epoch| (0..30).filter(|sample| one(seed, epoch, *sample) != one(9, 3, *sample)).count();
        assert_eq!(differ(9, 3), 0);
        assert!(differ(8, 3) > 20 && differ(9, 4) > 20);
    }
}

/// The drawn data set with images that change.
fn changing(plain: &DataSet, augment: Augmentation) -> Arc<DataSet> {
    let train = plain.training_ids().len() as u32;
    let source = Source::Synthetic { train, test: 4, seed: 1 };
    Arc::new(DataSet::load(&Dataset { augment, ..described(source) }).unwrap())
}

#[test]
fn images_in_memory_are_moved_and_mirrored_as_the_change_says() {
    let plain = drawn(40, 4, 0.0);
    let moved = changing(&plain, BOTH);
    let found = moved.training_values(&batch(2, 0..40), 7).unwrap();
    let size = plain.shape().size();
    for sample in 0..40 {
        let mut expected = plain.values(Split::Training, &[sample]).unwrap();
        Change::of(BOTH, 7, 2, sample).apply(plain.shape(), &mut expected);
        assert_eq!(found[sample as usize * size..][..size], expected);
    }
    for split in [Split::Training, Split::Test] {
        let positions: Vec<u32> = (0..4).collect();
        assert_eq!(moved.values(split, &positions).unwrap(), plain.values(split, &positions).unwrap());
    }
}

fn model(data: &DataSet) -> LayeredModel {
    place(ModelKind::Sequential, data.shape(), &[Layer::Flatten, linear(12), Layer::Relu, linear(10)])
}

#[test]
fn a_script_trains_on_what_layers_train_on() {
    worker::threads::compute_with(1);
    let data = changing(&drawn(60, 4, 0.0), BOTH);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-model/model.pt");
    let layout = describe(&file, data.shape()).unwrap();
    let mut script = ScriptLearner::new(recipe::ModelFile { file, layout }, data.clone(), 7).unwrap();
    let weights = script.initial();
    let mut loss = |data: &Arc<DataSet>, epoch| {
        assert!(Arc::ptr_eq(script.data(), data));
        let batch = batch(epoch, 0..20);
        script.load(&batch).unwrap();
        for layer in 0..script.layout().layers().len() {
            script.forward(&weights, layer).unwrap();
        }
        script.loss(&batch).unwrap().0
    };
    let first = loss(&data, 0);
    let second = loss(&data, 1);
    assert_eq!(first.to_bits(), loss(&data, 0).to_bits());
    assert_ne!(first.to_bits(), second.to_bits(), "another pass, other images");
}

#[test]
fn models_learn_from_pictures_and_are_evaluated_on_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    worker::threads::compute_with(2);
    let trained = |augment: Augmentation| {
        let data = loaded(folder.path(), augment);
        let mut learner = TorchLearner::new(model(&data), data.clone(), 1).unwrap();
        let weights = learner.initial();
        learner.evaluate(&weights, Split::Test).unwrap().unwrap()
    };
    let plain = trained(Augmentation::NONE);
    assert_eq!(plain.samples, 6);
    assert_eq!(trained(BOTH), plain);
}

#[test]
fn files_that_change_or_go_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root);
    let data = loaded(root, Augmentation::NONE);
    let expected = source(root);
    let file = root.join("train/class-1/3.png");
    let read = || data.training_values(&batch(0, 0..30), 1).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read(), Ok(()));
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let told = read().unwrap_err();
    assert!(told.starts_with(&format!("{} is cut off", file.display())), "{told}");
    assert!(told.ends_with("; replace or remove this file"), "{told}");
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle..middle + 8].fill(0);
    fs::write(&file, damaged).unwrap();
    assert!(read().unwrap_err().contains("3.png cannot be decoded: "), "{:?}", read());
    fs::remove_file(&file).unwrap();
    assert!(read().unwrap_err().contains("3.png cannot be read: "), "{:?}", read());
    let mut feed = Feed::new(data.clone(), 1);
    feed.announce(&[batch(0, 10..20)]);
    assert!(matches!(feed.load(&batch(0, 10..20)), Err(DataError::Pictures { .. })));
    assert!(feed.load(&batch(0, 0..10)).is_ok(), "others can still be read");
    let error = DataSet::load(&described(expected)).unwrap_err().to_string();
    assert!(error.contains("then 30 and 6 of 3 classes, now 29 and 6 of 3"), "{error}");
    assert!(matches!(
        data.training_values(&batch(0, 30..31), 1),
        Err(DataError::Position { position: 30, samples: 30 })
    ));
}
