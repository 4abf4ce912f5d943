//! Compiles the binding against the headers of the libtorch that `torch-sys` links.

use std::env;
use std::path::PathBuf;

fn main() {
    const SOURCE: &str = "src/gradients.cpp";
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo::rerun-if-env-changed=LIBTORCH_CXX11_ABI");
    // Set by the build script of `torch-sys`, which is a direct dependency for this reason.
    let Some(libraries) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo::error=torch-sys does not say where libtorch is; run `cargo xtask setup`");
        return;
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", libraries.display());
    let beside = libraries.parent().map(PathBuf::from).unwrap_or_default();
    let headers = env::var_os("LIBTORCH_INCLUDE").map_or(beside, PathBuf::from).join("include");
    let abi = env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".to_owned());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-isystem")
        .flag(&headers)
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .warnings_into_errors(true)
        .file(SOURCE)
        .compile("gradients");
}
