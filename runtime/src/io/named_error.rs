//! An I/O error that says what it is about.

use std::error::Error;
use std::fmt;
use std::io;

/// What was tried, with what, and what came of it.
#[derive(Debug)]
struct NamedError {
    /// A verb: `bind`, `connect`, `lookup`.
    what: &'static str,
    /// An address, a path, a descriptor.
    subject: String,
    source: io::Error,
}

/// Adds to an error what was tried, a verb, with what. It keeps its kind. An `io::Error` cannot have both a
/// number and a text, so the number goes to the source; with the feature `raw-os-errors` the error stays as
/// the system reports it.
pub(crate) fn named(what: &'static str, subject: impl ToString, source: io::Error) -> io::Error {
    if cfg!(feature = "raw-os-errors") {
        return source;
    }
    io::Error::new(source.kind(), NamedError { what, subject: subject.to_string(), source })
}

impl fmt::Display for NamedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.what, self.subject, self.source)
    }
}

impl Error for NamedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
