//! Cargo wants a build script where there is `links`; nothing is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
