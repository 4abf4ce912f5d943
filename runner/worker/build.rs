//! Tells the binaries and tests of this package where libtorch's libraries are at run time: beside a copied
//! tree's `bin/`, else where it was linked from.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let library = std::env::var("DEP_TCH_LIBTORCH_LIB").unwrap_or_default();
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib:{library}");
}
