//! Settings of the allocator, so that freed memory is used again.
//!
//! Every step takes and frees the same activations, packets and gradients, often more than 100 MiB, and the socket library
//! takes fresh memory for every frame. By default glibc maps large pieces one by one, gives the end of the heap back to
//! the system as soon as it is free, and lets threads other than the first allocate from heaps of 64 MiB that come and
//! go. Each of these costs a page fault for every 4 KiB that is used next: some ten thousand in a step of a small
//! convolutional net, or a tenth of its time.

/// Keeps freed memory in the process and lets all threads allocate from one heap, so that each step reuses the memory of
/// the step before.
///
/// To be called before any other thread is started. Without glibc it does nothing.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        /// Allocations from this size on, which no step repeats, are still mapped one by one.
        const MAPPED: libc::c_int = 1 << 30;
        /// Of the free memory at the end of the heap.
        const ALL: libc::c_int = -1;
        let settings =
            [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, MAPPED), (libc::M_TRIM_THRESHOLD, ALL)];
        for (parameter, value) in settings {
            if !set(parameter, value) && parameter == libc::M_MMAP_THRESHOLD {
                // Older versions refuse more than half of a thread's heap.
                set(parameter, 32 << 20);
            }
        }
    }
}

/// Gives freed memory back to the system once, in spite of [`keep_freed_memory`]: after a start-up that took more than the
/// run will. Without glibc it does nothing.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the allocator gives memory back by a C function only")]
        // SAFETY: takes a number and no memory; locks the allocator for itself.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// Sets a parameter of the allocator; false if it refuses the value.
#[cfg(target_env = "gnu")]
fn set(parameter: libc::c_int, value: libc::c_int) -> bool {
    #[expect(unsafe_code, reason = "the allocator's parameters are set by a C function only")]
    // SAFETY: takes two numbers and no memory; locks the allocator for itself.
    let accepted = unsafe { libc::mallopt(parameter, value) };
    accepted == 1
}
