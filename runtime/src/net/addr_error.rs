//! An I/O error that says which address it is about.

use std::error::Error;
use std::fmt;
use std::io;

/// What was tried, with which address, and what came of it.
#[derive(Debug)]
struct AddrError {
    /// A verb: `bind`, `connect`, `lookup`.
    what: &'static str,
    addr: String,
    source: io::Error,
}

/// Adds the address to an error, which keeps its kind. An `io::Error` cannot have both a number and a text, so the
/// number goes to the source.
pub(super) fn with_addr(what: &'static str, addr: impl ToString, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), AddrError { what, addr: addr.to_string(), source })
}

impl fmt::Display for AddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.what, self.addr, self.source)
    }
}

impl Error for AddrError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
