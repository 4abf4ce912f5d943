//! Makes a new migration reach the binary: the macro that embeds them cannot say that it reads a folder.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
