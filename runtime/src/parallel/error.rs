//! Why a pool could not be built.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a pool could not be built.
///
/// Prior art: `rayon::ThreadPoolBuildError`, with the same texts.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: ErrorKind,
}

#[derive(Debug)]
pub enum ErrorKind {
    GlobalPoolAlreadyInitialized,
    CurrentThreadAlreadyInPool,
    Io(io::Error),
}

impl ErrorKind {
    fn text(&self) -> Option<&'static str> {
        match self {
            Self::GlobalPoolAlreadyInitialized => {
                Some("The global thread pool has already been initialized.")
            }
            Self::CurrentThreadAlreadyInPool => {
                Some("The current thread is already part of another thread pool.")
            }
            Self::Io(_) => None,
        }
    }
}

impl ThreadPoolBuildError {
    pub(super) fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Io(error) => error.fmt(f),
            kind => kind.text().unwrap_or_default().fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    #[allow(deprecated)]
    fn description(&self) -> &str {
        match &self.kind {
            ErrorKind::Io(error) => error.description(),
            kind => kind.text().unwrap_or_default(),
        }
    }

    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
