//! The command line.

use std::ffi::OsString;
use std::fmt;

/// What `--help` prints.
pub const USAGE: &str = "\
An HTTP/1.1 server on `runtime`.

Usage: server [--addr HOST:PORT] [--workers N]

  --addr HOST:PORT  where to listen (default 127.0.0.1:8080; port 0 takes a free one)
  --workers N       worker threads (default: one for each core this process may use)
  --help            print this text

Routes: GET /   POST /echo   GET /sleep?ms=50   GET /block?ms=50
        GET /mandelbrot.png?width=600   GET /metrics";

/// What the command line asks for.
pub enum Command {
    /// Print [`USAGE`].
    Help,
    /// Run the server.
    Serve(Options),
}

/// How to run the server.
pub struct Options {
    /// `HOST:PORT` to listen on. The host is looked up when the server binds it.
    pub addr: String,
    /// Number of worker threads; the runtime's default if `None`.
    pub workers: Option<usize>,
}

/// A command line that cannot be understood.
pub enum Error {
    /// Neither an option nor the value of one.
    Unknown(String),
    /// An option at the end of the line without the value it needs.
    NoValue(&'static str),
    /// A value that the option cannot take.
    BadValue { option: &'static str, wanted: &'static str, got: String },
}

/// Parses what follows the program's name. An option may be given twice; the last one counts.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Error> {
    // No option takes a value that is not text, so what is not UTF-8 is only ever shown in an error.
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let mut options = Options { addr: "127.0.0.1:8080".to_owned(), workers: None };

    while let Some(argument) = arguments.next() {
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let mut value = |name| attached.clone().or_else(|| arguments.next()).ok_or(Error::NoValue(name));
        match name {
            "--addr" => options.addr = addr(value("--addr")?)?,
            "--workers" => options.workers = Some(workers(value("--workers")?)?),
            "--help" | "-h" if attached.is_none() => return Ok(Command::Help),
            _ => return Err(Error::Unknown(argument)),
        }
    }
    Ok(Command::Serve(options))
}

/// Checks the shape only; whether the host exists and the port is free is found out by binding.
fn addr(text: String) -> Result<String, Error> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text),
        _ => Err(Error::BadValue { option: "--addr", wanted: "HOST:PORT", got: text }),
    }
}

fn workers(text: String) -> Result<usize, Error> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(Error::BadValue { option: "--workers", wanted: "a whole number of at least 1", got: text }),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(argument) => write!(f, "unknown option {argument:?}"),
            Self::NoValue(option) => write!(f, "{option} needs a value"),
            Self::BadValue { option, wanted, got } => write!(f, "{option} must be {wanted}, got {got:?}"),
        }
    }
}
