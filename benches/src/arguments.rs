//! What the command line asks for, where criterion does not read it.

/// Whether the command line names `name`, or a part of it, or nothing at all.
pub fn asked_for(name: &str) -> bool {
    let mut filters = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    filters.peek().is_none() || filters.any(|filter| name.contains(&filter))
}

/// Whether this run is only to see that everything works.
///
/// The same rule as criterion's: only `cargo bench` says `--bench`, so `cargo test --benches` is a test.
pub fn is_test() -> bool {
    !has_argument("--bench") || has_argument("--test")
}

fn has_argument(wanted: &str) -> bool {
    std::env::args().any(|argument| argument == wanted)
}
