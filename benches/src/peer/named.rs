//! This project, and the crate with the same names.

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::{Peer, Service, Settings, Tunable, hello};
use crate::pin;

/// Implements [`Peer`] and what follows from it for `$peer` on the crate `$rt`, whose streams `$adapt` turns
/// into what hyper reads and writes.
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

            type Outbox = ::$rt::sync::mpsc::Sender<usize>;
            type Inbox = ::$rt::sync::mpsc::Receiver<usize>;

            fn start(workers: usize) -> Self {
                Self::start_with(workers, Settings::default())
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.0.block_on(future)
            }

            fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
                drop(::$rt::spawn(future));
            }

            fn spawn_and_wait<F: Future<Output = ()> + Send + 'static>(
                future: F,
            ) -> impl Future<Output = ()> + Send {
                let task = ::$rt::spawn(future);
                async move { task.await.expect("the task does not panic") }
            }

            fn yield_now() -> impl Future<Output = ()> + Send {
                ::$rt::task::yield_now()
            }

            fn oneshot() -> (Self::Sender, Self::Receiver) {
                ::$rt::sync::oneshot::channel()
            }

            fn send(sender: Self::Sender) {
                sender.send(()).expect("the receiver waits");
            }

            fn channel(capacity: usize) -> (Self::Outbox, Self::Inbox) {
                ::$rt::sync::mpsc::channel(capacity)
            }

            async fn post(outbox: &Self::Outbox, message: usize) {
                outbox.send(message).await.expect("the receiver is here");
            }

            async fn take(inbox: &mut Self::Inbox) -> usize {
                inbox.recv().await.expect("the sender is here")
            }
        }

        impl Service for $peer {
            type Sleep = ::$rt::time::Sleep;

            fn spawn_blocking(&self) -> impl Future<Output = ()> + Send + 'static {
                let closure = self.0.spawn_blocking(|| {});
                async move { closure.await.expect("the closure does nothing") }
            }

            fn sleep_until(time: Instant) -> Self::Sleep {
                ::$rt::time::sleep_until(time.into())
            }

            fn reset(sleep: Pin<&mut Self::Sleep>, time: Instant) {
                sleep.reset(time.into());
            }

            fn serve_echo_after(
                &self,
                listener: TcpListener,
                handle: impl Fn(&[u8]) + Copy + Send + 'static,
            ) {
                use ::$rt::io::{AsyncReadExt, AsyncWriteExt};

                self.0.spawn(async move {
                    let listener = ::$rt::net::TcpListener::from_std(listener)
                        .expect("a listener can be registered");
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
                    let listener = ::$rt::net::TcpListener::from_std(listener)
                        .expect("a listener can be registered");
                    loop {
                        let (stream, _) = listener.accept().await.expect("a client connects");
                        stream.set_nodelay(true).expect("a socket takes the option");
                        ::$rt::spawn(async move {
                            let service =
                                hyper::service::service_fn(|_| async { Ok::<_, Infallible>(hello()) });
                            let http = hyper::server::conn::http1::Builder::new();
                            // An error is a client that was killed in mid-request.
                            let _ = http.serve_connection($adapt(stream), service).await;
                        });
                    }
                });
            }
        }

        impl Tunable for $peer {
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

            fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
                ::$rt::task::block_in_place(f)
            }
        }
    };
}

impl Ours {
    /// As [`Peer::start`], with each worker on a CPU of its own.
    pub fn start_pinned(workers: usize) -> Self {
        let mut builder = ::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).pin_workers(true).enable_all().build();
        Self(runtime.expect("a runtime starts"))
    }
}

impl Tokio {
    /// As [`Peer::start`], with each worker on a CPU of its own. Threads that the runtime starts later, for
    /// closures that block, may run everywhere.
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
        // No other thread is to be taken for a worker.
        while STARTED.load(Relaxed) < workers {
            std::thread::yield_now();
        }
        peer
    }
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
