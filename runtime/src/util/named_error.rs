//! An I/O error that names its subject.

use std::error::Error;
use std::fmt;
use std::io;

/// The operation, its subject, and the error.
#[derive(Debug)]
struct NamedError {
    /// A verb: `bind`, `connect`, `lookup`; or `could not start`.
    what: &'static str,
    /// An address, a path, a descriptor.
    subject: String,
    source: io::Error,
}

/// As [`always_named`], but with the feature `raw-os-errors` the error stays as the system reports it.
pub fn named(what: &'static str, subject: impl ToString, source: io::Error) -> io::Error {
    if cfg!(feature = "raw-os-errors") {
        return source;
    }
    always_named(what, subject, source)
}

/// Adds to an error the operation, a verb, and its subject. The error keeps its kind. An `io::Error` cannot
/// have both a number and a text, so the source has the number.
pub fn always_named(what: &'static str, subject: impl ToString, source: io::Error) -> io::Error {
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
