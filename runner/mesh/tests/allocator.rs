//! Memory that a step freed is there for the next one. Alone in its process, whose allocator it changes.

#![cfg(target_env = "gnu")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

/// Activations of a small convolutional net, in bytes: together more than any heap of glibc but the first holds.
const PIECES: [usize; 24] = [8 << 20; 24];
/// Page faults that are not for these pieces; they have 49152 pages.
const OTHERS: u64 = 1000;

#[test]
fn a_second_step_touches_no_new_pages() {
    mesh::keep_freed_memory();
    let faults = std::thread::spawn(|| {
        step();
        let before = faults();
        step();
        faults() - before
    });
    let faults = faults.join().unwrap();
    assert!(faults < OTHERS, "{faults} page faults in the second step");
}

fn step() {
    let pieces: Vec<Vec<u8>> = PIECES.iter().map(|size| vec![1; *size]).collect();
    std::hint::black_box(&pieces);
}

/// Page faults of this thread so far that needed no disk.
fn faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name, which is the second field, may hold spaces; the tenth is the seventh after its bracket.
    let (_, fields) = text.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}
