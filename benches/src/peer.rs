//! What the loads need from a runtime.

use std::fmt::Debug;
use std::net::TcpListener;

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
    fn start(workers: usize) -> Self;

    /// Runs `future` on the calling thread, which is no worker.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task on the current runtime and drops its handle.
    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F);

    /// Lets the other tasks run first.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// A channel for one unit.
    fn oneshot() -> (Self::Sender, Self::Receiver);

    /// Sends the unit.
    fn send(sender: Self::Sender);

    /// Sends back what each client of `listener` sends, for ever.
    fn serve_echo(&self, listener: TcpListener);

    /// Answers every HTTP request on `listener` with `Hello, World!`, for ever.
    fn serve_http(&self, listener: TcpListener);
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

            fn start(workers: usize) -> Self {
                let runtime = ::$rt::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
                Self(runtime.expect("a runtime starts"))
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.0.block_on(future)
            }

            fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
                drop(::$rt::spawn(future));
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

            fn serve_echo(&self, listener: TcpListener) {
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
