//! Makes a new migration reach the binary: the macro that embeds them cannot say that it reads a folder.

#[expect(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]
fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
