//! An HTTP/1.1 server: hyper over this crate's sockets, timers, blocking threads and computations.
//!
//! ```text
//! cargo run --release --example server -- --addr 127.0.0.1:8080 --workers 2
//! ```
//!
//! Read in this order: this file (start, stop), `options.rs`, `connections.rs` (accept, serve one client),
//! `routes.rs` (what is answered), `mandelbrot.rs` (a computation), `metrics.rs`.
//!
//! # How it ends
//!
//! Ctrl-C or SIGTERM closes the listener and tells every connection to finish: an idle one closes, a busy one
//! answers what it has begun and then closes. When all have closed, the exit status is 0. A second signal, or
//! the end of `GRACE` while a connection is open, ends the process with the requests that are left cut off:
//! status 1.

mod connections;
mod mandelbrot;
mod metrics;
mod options;
mod routes;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use options::{Command, Options};
use runtime::Builder;
use runtime::net::TcpListener;
use runtime::signal::unix::{Signal, SignalKind, signal};
use runtime::sync::mpsc;

/// How long open requests may take to finish once the server was told to stop.
const GRACE: Duration = Duration::from_secs(30);

/// Exit status for a command line that cannot be understood.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Help) => {
            say(options::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve(options)) => run(&options).unwrap_or_else(|error| {
            complain(&error.to_string());
            ExitCode::FAILURE
        }),
        Err(error) => {
            complain(&format!("{error}; see --help"));
            ExitCode::from(BAD_USAGE)
        }
    }
}

/// Builds the runtime, serves until told to stop, and leaves without waiting for work that no client waits
/// for.
fn run(options: &Options) -> io::Result<ExitCode> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all();
    if let Some(workers) = options.workers {
        builder.worker_threads(workers);
    }
    let runtime = builder.build().map_err(|error| explain("cannot start the runtime", error))?;
    let status = runtime.block_on(serve(&options.addr));
    // Open requests have had their time. A client that left may have left a blocking closure behind, for
    // which dropping the runtime would wait.
    runtime.shutdown_background();
    status
}

/// Listens on `addr` until a signal arrives, then gives open requests [`GRACE`] to finish.
async fn serve(addr: &str) -> io::Result<ExitCode> {
    // The error names the address.
    let listener = TcpListener::bind(addr).await.map_err(|error| explain("cannot listen", error))?;
    let mut signals = Signals::listen().map_err(|error| explain("cannot listen for signals", error))?;
    say(&format!("listening on http://{}", listener.local_addr()?));

    // The accept loop and every connection hold a sender; nothing is ever sent. `recv` ends with the last of
    // them.
    let (open, mut all_closed) = mpsc::channel(1);
    let accepting = runtime::spawn(connections::accept(listener, open));
    signals.next().await;

    accepting.abort();
    runtime::select! {
        _ = all_closed.recv() => Ok(ExitCode::SUCCESS),
        () = signals.next() => {
            complain("stopped by a second signal while requests were open");
            Ok(ExitCode::FAILURE)
        }
        () = runtime::time::sleep(GRACE) => {
            complain(&format!("stopped after {} s while requests were open", GRACE.as_secs()));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The signals that mean "stop".
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        runtime::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// `error`, led by what could not be done.
fn explain(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Prints a line to stdout. A reader that went away is no reason to stop serving, so errors are dropped;
/// `println!` would panic.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line to stderr, with the same forbearance.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "server: {text}");
}
