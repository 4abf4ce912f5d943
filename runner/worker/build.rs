//! Tells the linker where the worker finds libtorch when it runs.
//!
//! Programs and tests of this package then start without an environment variable, under Cargo or not. A program that is
//! copied to another machine looks beside itself first: `bin/bakeoff-worker` takes `lib/libtorch_cpu.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Set by the build script of `torch-sys`, which is a direct dependency for this reason.
    if let Ok(libraries) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib:{libraries}");
    }
}
