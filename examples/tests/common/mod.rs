//! What the tests of several examples need.

use std::path::PathBuf;

/// The program of an example, which `cargo test` builds before it runs the tests.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // …/deps/server-0123456789abcdef → …/examples/server
    let folder = test.parent().and_then(|deps| deps.parent()).expect("a test is in `deps`");
    let program = folder.join("examples").join(name);
    assert!(program.exists(), "{} is missing: run `cargo build -p examples --examples`", program.display());
    program
}
