//! Panics as Tokio has them, for programs that compare their texts or expect them from a setter: the feature
//! `tokio-panics`. Without it, this does nothing.

use std::fmt::Display;

/// Tokio's text in front of ours.
pub fn text(theirs: &str, ours: impl Display) -> String {
    match cfg!(feature = "tokio-panics") {
        true => format!("{theirs}: {ours}"),
        false => ours.to_string(),
    }
}

/// A setter was given a value. Tokio's setter panics if the value is wrong; ours leaves it to
/// [`build`](crate::Builder::build), which returns an error.
#[track_caller]
pub fn setter(is_right: bool, theirs: &str) {
    assert!(is_right || !cfg!(feature = "tokio-panics"), "{theirs}");
}
