//! The memory that an input makes the program hold: every fuzz target measures it, beside looking for panics.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with its books kept.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    fn more(bytes: usize) {
        let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(live, Relaxed);
    }

    fn fewer(bytes: usize) {
        LIVE.fetch_sub(bytes, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::more(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::more(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        Self::fewer(layout.size());
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there for a moment.
        Self::more(size);
        Self::fewer(layout.size());
        unsafe { System.realloc(place, layout, size) }
    }
}

/// The most bytes that an input may make the program hold at any moment, by the input's size.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes for each byte of the input.
    pub factor: usize,
    /// Bytes on top of that.
    pub constant: usize,
}

/// Runs `read`, and panics if at any moment it held more than the bound allows. With `BAKEOFF_FUZZ_PEAKS` in the
/// environment each new highest peak is printed, with the share of it that is proportional to the input.
pub fn bounded<T>(input: &[u8], bound: Bound, read: impl FnOnce(&[u8]) -> T) -> T {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let answer = read(input);
    let peak = PEAK.load(Relaxed) - before;
    tell(input.len(), peak, bound);
    let allowed = bound.factor * input.len() + bound.constant;
    assert!(peak <= allowed, "an input of {} bytes made the program hold {peak} bytes; {bound:?}", input.len());
    answer
}

fn tell(input: usize, peak: usize, bound: Bound) {
    static HIGHEST: AtomicUsize = AtomicUsize::new(0);
    static STEEPEST: AtomicUsize = AtomicUsize::new(0);
    static ASKED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("BAKEOFF_FUZZ_PEAKS").is_some());
    if !*ASKED {
        return;
    }
    let steepness = peak.saturating_sub(bound.constant).div_ceil(input.max(1));
    let higher = HIGHEST.fetch_max(peak, Relaxed) < peak;
    let steeper = STEEPEST.fetch_max(steepness, Relaxed) < steepness;
    if higher || steeper {
        eprintln!("peak: {input} bytes in, {peak} held; {steepness} per byte beyond {}", bound.constant);
    }
}
