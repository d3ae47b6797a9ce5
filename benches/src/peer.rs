//! What the loads need from a runtime.

use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::pin;

/// A multi-threaded runtime under test. Everything is handed straight to the crate that it stands for.
pub trait Peer: Send + Sync + Sized + 'static {
    /// The crate's name, for tables and command lines.
    const NAME: &'static str;

    /// The sending half of the crate's own oneshot channel.
    type Sender: Send + 'static;
    /// The receiving half.
    type Receiver: Future<Output = Result<(), Self::Closed>> + Send + 'static;
    /// What a receiver gets if its sender is dropped.
    type Closed: Debug;

    /// Starts a runtime with I/O, timers and `workers` threads.
    fn start(workers: usize) -> Self {
        Self::start_with(workers, Settings::default())
    }

    /// The same with other settings than the usual ones.
    fn start_with(workers: usize, settings: Settings) -> Self;

    /// Runs `future` on the calling thread, which is no worker.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task on the current runtime and drops its handle.
    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F);

    /// Runs a closure that does nothing on a thread for blocking ones; the result waits for it.
    fn spawn_blocking(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Lets the other tasks run first.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Runs `f`, which may block, in the task that calls this.
    fn block_in_place<R>(f: impl FnOnce() -> R) -> R;

    /// Waits until `time`.
    fn sleep_until(time: Instant) -> impl Future<Output = ()> + Send;

    /// Sends itself one message after the other over the crate's bounded channel, for ever; counts them.
    fn talk_to_oneself(count: Arc<AtomicU64>) -> impl Future<Output = ()> + Send + 'static;

    /// A channel for one unit.
    fn oneshot() -> (Self::Sender, Self::Receiver);

    /// Sends the unit.
    fn send(sender: Self::Sender);

    /// Sends back what each client of `listener` sends, for ever.
    fn serve_echo(&self, listener: TcpListener) {
        self.serve_echo_after(listener, |_| ());
    }

    /// The same, after `handle` has seen it.
    fn serve_echo_after(&self, listener: TcpListener, handle: impl Fn(&[u8]) + Copy + Send + 'static);

    /// Answers every HTTP request on `listener` with `Hello, World!`, for ever.
    fn serve_http(&self, listener: TcpListener);
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

/// Implements [`Peer`] for `$peer` on the crate `$rt`, whose streams `$adapt` turns into what hyper reads and writes.
macro_rules! peer {
    ($(#[$doc:meta])* $peer:ident, $rt:ident, $adapt:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $peer(::$rt::runtime::Runtime);

        impl Peer for $peer {
            const NAME: &'static str = stringify!($rt);

            type Sender = ::$rt::sync::oneshot::Sender<()>;
            type Receiver = ::$rt::sync::oneshot::Receiver<()>;
            type Closed = ::$rt::sync::oneshot::error::RecvError;

            fn start_with(workers: usize, settings: Settings) -> Self {
                let mut builder = ::$rt::runtime::Builder::new_multi_thread();
                builder.worker_threads(workers).enable_all();
                if let Some(keep_alive) = settings.keep_alive {
                    builder.thread_keep_alive(keep_alive);
                }
                if let Some(on_thread_start) = settings.on_thread_start {
                    builder.on_thread_start(on_thread_start);
                }
                Self(builder.build().expect("a runtime starts"))
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.0.block_on(future)
            }

            fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
                drop(::$rt::spawn(future));
            }

            fn spawn_blocking(&self) -> impl Future<Output = ()> + Send + 'static {
                let closure = self.0.spawn_blocking(|| {});
                async move { closure.await.expect("the closure does nothing") }
            }

            fn yield_now() -> impl Future<Output = ()> + Send {
                ::$rt::task::yield_now()
            }

            fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
                ::$rt::task::block_in_place(f)
            }

            fn sleep_until(time: Instant) -> impl Future<Output = ()> + Send {
                ::$rt::time::sleep_until(time.into())
            }

            async fn talk_to_oneself(count: Arc<AtomicU64>) {
                let (sender, mut receiver) = ::$rt::sync::mpsc::channel(1);
                loop {
                    sender.send(()).await.expect("the receiver is here");
                    receiver.recv().await.expect("the sender is here");
                    // Relaxed: a number by itself.
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }

            fn oneshot() -> (Self::Sender, Self::Receiver) {
                ::$rt::sync::oneshot::channel()
            }

            fn send(sender: Self::Sender) {
                sender.send(()).expect("the receiver waits");
            }

            fn serve_echo_after(&self, listener: TcpListener, handle: impl Fn(&[u8]) + Copy + Send + 'static) {
                use ::$rt::io::{AsyncReadExt, AsyncWriteExt};

                self.0.spawn(async move {
                    let listener = ::$rt::net::TcpListener::from_std(listener).expect("a listener can be registered");
                    loop {
                        let (mut stream, _) = listener.accept().await.expect("a client connects");
                        stream.set_nodelay(true).expect("a socket takes the option");
                        ::$rt::spawn(async move {
                            let mut buffer = [0; 1024];
                            // Until the client closes, or is killed with answers unread.
                            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                                handle(&buffer[..length]);
                                if stream.write_all(&buffer[..length]).await.is_err() {
                                    break;
                                }
                            }
                        });
                    }
                });
            }

            fn serve_http(&self, listener: TcpListener) {
                self.0.spawn(async move {
                    let listener = ::$rt::net::TcpListener::from_std(listener).expect("a listener can be registered");
                    loop {
                        let (stream, _) = listener.accept().await.expect("a client connects");
                        stream.set_nodelay(true).expect("a socket takes the option");
                        ::$rt::spawn(async move {
                            let service = hyper::service::service_fn(|_| async { Ok::<_, Infallible>(hello()) });
                            let http = hyper::server::conn::http1::Builder::new();
                            // An error is a client that was killed in mid-request.
                            let _ = http.serve_connection($adapt(stream), service).await;
                        });
                    }
                });
            }
        }
    };
}

impl Ours {
    /// As [`Peer::start`], with each worker on a processor of its own.
    pub fn start_pinned(workers: usize) -> Self {
        let mut builder = ::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).pin_workers(true).enable_all().build();
        Self(runtime.expect("a runtime starts"))
    }
}

impl Tokio {
    /// As [`Peer::start`], with each worker on a processor of its own, the first time. Its blocking threads may run everywhere.
    pub fn start_pinned(workers: usize) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        static WORKERS: AtomicUsize = AtomicUsize::new(0);
        WORKERS.store(workers, Relaxed);
        STARTED.store(0, Relaxed);
        let on_thread_start = || match STARTED.fetch_add(1, Relaxed) {
            index if index < WORKERS.load(Relaxed) => pin::keep_on(index),
            // It was started by a worker.
            _ => pin::allow_all(),
        };
        let peer = Self::start_with(
            workers,
            Settings { on_thread_start: Some(on_thread_start), ..Settings::default() },
        );
        // Nobody else is to be taken for a worker.
        while STARTED.load(Relaxed) < workers {
            std::thread::yield_now();
        }
        peer
    }
}

use std::convert::Infallible;

type HelloResponse = hyper::Response<http_body_util::Full<bytes::Bytes>>;

fn hello() -> HelloResponse {
    HelloResponse::new(http_body_util::Full::new(bytes::Bytes::from_static(HELLO.as_bytes())))
}

peer!(
    /// This project.
    Ours, runtime, std::convert::identity
);
peer!(
    /// Tokio.
    Tokio, tokio, hyper_util::rt::TokioIo::new
);

impl Ours {
    /// The numbers that the runtime keeps of itself.
    pub fn metrics(&self) -> runtime::runtime::RuntimeMetrics {
        self.0.metrics()
    }
}
