//! Compiles the bindings against the headers of the libtorch that `torch-sys` links.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    const SOURCES: [&str; 5] =
        ["src/build.cpp", "src/gpu.cpp", "src/gradients.cpp", "src/memory.cpp", "src/module.cpp"];
    println!("cargo::rerun-if-changed=build.rs");
    for file in SOURCES.into_iter().chain(["src/failure.h"]) {
        println!("cargo::rerun-if-changed={file}");
    }
    for variable in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI", "LIBTORCH_USE_PYTORCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // Set by the build script of `torch-sys`, which is a direct dependency for this reason.
    let Some(libraries) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo::error=torch-sys does not say where libtorch is; run `cargo xtask setup`");
        return;
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", libraries.display());
    let of_python = env::var_os("LIBTORCH_USE_PYTORCH").is_some();
    let named = |variable| env::var_os(variable).filter(|_| !of_python).map(PathBuf::from);
    let beside = || libraries.parent().map(PathBuf::from).unwrap_or_default();
    // In the order of `torch-sys`.
    let headers =
        named("LIBTORCH_INCLUDE").or_else(|| named("LIBTORCH")).unwrap_or_else(beside).join("include");
    let abi = named("LIBTORCH_CXX11_ABI").map_or_else(|| "1".into(), |abi| abi.display().to_string());
    // Clippy links nothing, and Cargo runs this script for it apart from builds: the C++ would be compiled once more.
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    if wrapper.is_some_and(|wrapper| wrapper.file_stem().is_some_and(|name| name == "clippy-driver")) {
        return;
    }
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").define("_GLIBCXX_USE_CXX11_ABI", abi.as_str()).files(SOURCES);
    // The compiler looks there anyway, and in its own order.
    if headers != Path::new("/usr/include") {
        build.flag("-isystem").flag(&headers);
    }
    build.compile("bakeoff-torch");
}
