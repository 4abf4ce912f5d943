//! Tells the linker where the program finds libtorch when it runs.

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if let Ok(libtorch) = std::env::var("LIBTORCH") {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{libtorch}/lib");
    }
}
