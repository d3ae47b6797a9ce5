//! What the loads need from a runtime, and the runtimes.
//!
//! - [`Ours`] and [`Tokio`], which can do everything;
//! - [`Smol`], which has no `block_in_place`;
//! - [`Bare`], one thread and no atomics: how little a task can cost.

mod bare;
mod channels;
mod files;
mod local;
mod named;
mod processes;
mod smol;
mod sockets;
mod streams;

use std::fmt::Debug;
use std::net::TcpListener;
use std::pin::Pin;
use std::time::{Duration, Instant};

pub use self::bare::Bare;
pub use self::channels::Channels;
pub use self::files::Files;
pub use self::local::Local;
pub use self::named::{Ours, Tokio};
pub use self::processes::Processes;
pub use self::smol::Smol;
pub use self::sockets::Sockets;
pub use self::streams::Streams;

/// A runtime under test: tasks and channels. Everything is handed straight to the crate that it stands for.
pub trait Peer: Send + Sync + Sized + 'static {
    /// The crate's name, for tables and command lines.
    const NAME: &'static str;

    /// The sending half of the crate's own oneshot channel.
    type Sender: Send + 'static;
    /// The receiving half.
    type Receiver: Future<Output = Result<(), Self::Closed>> + Send + 'static;
    /// What a receiver gets if its sender is dropped.
    type Closed: Debug;

    /// The sending half of the crate's own bounded channel.
    type Outbox: Send + Sync + 'static;
    /// The receiving half.
    type Inbox: Send + 'static;

    /// Starts a runtime with `workers` threads.
    fn start(workers: usize) -> Self;

    /// Runs `future` on the calling thread, which is no worker.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task on the current runtime and drops its handle.
    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F);

    /// Spawns a task; the result waits for it.
    fn spawn_and_wait<F: Future<Output = ()> + Send + 'static>(future: F) -> impl Future<Output = ()> + Send;

    /// Lets the other tasks run first.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// A channel for one unit.
    fn oneshot() -> (Self::Sender, Self::Receiver);

    /// Sends the unit.
    fn send(sender: Self::Sender);

    /// A channel for many numbers.
    fn channel(capacity: usize) -> (Self::Outbox, Self::Inbox);

    /// Sends a number, and waits for room.
    fn post(outbox: &Self::Outbox, message: usize) -> impl Future<Output = ()> + Send;

    /// Receives a number; the outbox must be there.
    fn take(inbox: &mut Self::Inbox) -> impl Future<Output = usize> + Send;
}

/// A runtime with what a server needs.
pub trait Service: Peer {
    /// The crate's own timer.
    type Sleep: Future + Send + 'static;

    /// Runs an empty closure on a blocking thread; the result waits for it.
    fn spawn_blocking(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Waits until `time`.
    fn sleep_until(time: Instant) -> Self::Sleep;

    /// Lets `sleep` wait until another `time`.
    fn reset(sleep: Pin<&mut Self::Sleep>, time: Instant);

    /// Sends back what each client of `listener` sends, for ever.
    fn serve_echo(&self, listener: TcpListener) {
        self.serve_echo_after(listener, |_| ());
    }

    /// The same, after `handle` has seen what was sent.
    fn serve_echo_after(&self, listener: TcpListener, handle: impl Fn(&[u8]) + Copy + Send + 'static);

    /// Answers every HTTP request on `listener` with `Hello, World!`, for ever.
    fn serve_http(&self, listener: TcpListener);
}

/// A runtime that takes settings, and whose workers may block.
pub trait Tunable: Service {
    /// As [`Peer::start`] with other settings than the usual ones.
    fn start_with(workers: usize, settings: Settings) -> Self;

    /// Runs `f`, which may block, in the task that calls this.
    fn block_in_place<R>(f: impl FnOnce() -> R) -> R;
}

/// What a runtime may be built with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How long a thread that is not needed stays.
    pub keep_alive: Option<Duration>,
    /// Called on each thread of the runtime.
    pub on_thread_start: Option<fn()>,
}

/// What each HTTP request is answered with.
pub const HELLO: &str = "Hello, World!";

type HelloResponse = hyper::Response<http_body_util::Full<bytes::Bytes>>;

fn hello() -> HelloResponse {
    HelloResponse::new(http_body_util::Full::new(bytes::Bytes::from_static(HELLO.as_bytes())))
}
