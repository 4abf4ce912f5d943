//! Readers of data sets take memory for the content of a file, never for what its header promises.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use recipe::{ArrayProfile, ArrayValues, Dataset, Partition, Shape, Source};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use worker::data::DataSet;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which notes the largest number of bytes held at once.
struct Noting;

#[expect(unsafe_code, reason = "an allocator is unsafe by its nature")]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

/// The most that was held at once while MNIST was read from `path`, beyond what was held before.
fn peak_of_reading(path: &Path) -> (usize, bool) {
    peak(Source::Mnist { path: path.to_owned() })
}

fn peak(source: Source) -> (usize, bool) {
    let described = Dataset {
        source,
        sampling: recipe::Sampling::Permutation,
        augment: recipe::Augmentation::NONE,
        partition: Partition::Shared,
        validation: 0.0,
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = DataSet::load(&described).is_ok();
    (PEAK.load(Relaxed) - before, read)
}

/// An array whose header says `shape`, with as many elements as there are.
fn npy(element: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

fn arrays_hold_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let features = vec![0; 4 * 250_000];
    for half in ["train", "test"] {
        let path = |what: &str| folder.path().join(format!("{half}_{what}.npy"));
        fs::write(path("x"), npy("<f4", "(1000, 250)", &features)).unwrap();
        fs::write(path("y"), npy("|u1", "(1000,)", &[[0_u8, 1].repeat(500)].concat())).unwrap();
    }
    let arrays = ArrayProfile {
        train: 1000,
        test: 1000,
        classes: 2,
        shape: Shape::Flat(250),
        values: ArrayValues::Floats,
    };
    let source = Source::Npy { path: folder.path().to_owned(), arrays };
    let (most, read) = peak(source.clone());
    // Both halves once, and a piece of a file.
    assert!(read && most < 2 * features.len() + (1 << 18), "{most}");

    for (file, element, shape) in [
        ("train_x.npy", "<f4", "(4000000000, 9000000000000000000)"),
        ("train_x.npy", "<f8", "(9000000000000000000, 1)"),
        ("test_y.npy", "<i8", "(4000000000,)"),
    ] {
        let path = folder.path().join(file);
        let before = fs::read(&path).unwrap();
        fs::write(&path, npy(element, shape, &features[..4000])).unwrap();
        let (most, read) = peak(source.clone());
        assert!(!read && most < 64 * 1024, "{file} says {shape}: {most}");
        fs::write(&path, before).unwrap();
    }
}

#[test]
fn memory_is_bounded_by_the_files() {
    // One after the other: the allocator counts for the whole process.
    arrays_hold_what_is_in_them();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let images: Vec<u8> = [2051_u32, 1000, 28, 28].into_iter().flat_map(u32::to_be_bytes).collect();
    let images = [images, vec![7; 1000 * 28 * 28]].concat();
    let labels: Vec<u8> = [2049_u32, 1000].into_iter().flat_map(u32::to_be_bytes).collect();
    let labels = [labels, vec![1; 1000]].concat();
    for stem in ["train", "t10k"] {
        fs::write(path.join(format!("{stem}-images-idx3-ubyte")), &images).unwrap();
        fs::write(path.join(format!("{stem}-labels-idx1-ubyte")), &labels).unwrap();
    }
    let (peak, read) = peak_of_reading(path);
    // Two sets of images, and while the second is read its file and a buffer that has grown to twice the size.
    assert!(read && peak < 5 * images.len(), "{peak}");

    let small = &images[..4000];
    for field in [4, 8, 12] {
        let mut lying = small.to_vec();
        lying[field..field + 4].fill(0xff);
        fs::write(path.join("train-images-idx3-ubyte"), &lying).unwrap();
        let (peak, read) = peak_of_reading(path);
        assert!(!read && peak < 64 * 1024, "a header that lies at {field}: {peak}");
    }
    let mut lying = labels[..100].to_vec();
    lying[4..8].fill(0xff);
    let mut equal = small.to_vec();
    equal[4..8].fill(0xff);
    fs::write(path.join("train-labels-idx1-ubyte"), &lying).unwrap();
    fs::write(path.join("train-images-idx3-ubyte"), &equal).unwrap();
    let (peak, read) = peak_of_reading(path);
    assert!(!read && peak < 64 * 1024, "{peak}");
}
