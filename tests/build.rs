//! Tells the linker where end-to-end tests find libtorch, should they link the worker's library.
//!
//! The worker's own build script cannot: what it tells the linker stays in its package.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if let Ok(libtorch) = std::env::var("LIBTORCH") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    }
}
