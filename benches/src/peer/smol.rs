//! smol: its executor on as many threads, its channels, its timers.

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use ::smol::channel::{self, RecvError};
use ::smol::io::{AsyncReadExt, AsyncWriteExt};
use ::smol::stream::Stream;
use ::smol::{Async, Executor, Timer, future};

use super::{Peer, Service, hello};

/// A static, as smol's own is: reaching it costs nothing then. So its threads are never ended.
static EXECUTOR: Executor<'static> = Executor::new();

/// smol. There can be only one in a process.
#[derive(Debug)]
pub struct Smol(());

impl Peer for Smol {
    const NAME: &'static str = "smol";

    type Sender = channel::Sender<()>;
    type Receiver = Once;
    type Closed = RecvError;
    type Outbox = channel::Sender<usize>;
    type Inbox = channel::Receiver<usize>;

    fn start(workers: usize) -> Self {
        for index in 0..workers {
            let worker = thread::Builder::new().name(format!("smol-{index}"));
            let run = || ::smol::block_on(EXECUTOR.run(future::pending::<()>()));
            worker.spawn(run).expect("a thread starts");
        }
        Self(())
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        ::smol::block_on(future)
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
        EXECUTOR.spawn(future).detach();
    }

    fn spawn_and_wait<F: Future<Output = ()> + Send + 'static>(future: F) -> impl Future<Output = ()> + Send {
        EXECUTOR.spawn(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }

    fn oneshot() -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = channel::bounded(1);
        (sender, Once { receiver })
    }

    fn send(sender: Self::Sender) {
        sender.try_send(()).expect("the receiver waits");
    }

    fn channel(capacity: usize) -> (Self::Outbox, Self::Inbox) {
        channel::bounded(capacity)
    }

    async fn post(outbox: &Self::Outbox, message: usize) {
        outbox.send(message).await.expect("the receiver is here");
    }

    async fn take(inbox: &mut Self::Inbox) -> usize {
        inbox.recv().await.expect("the sender is here")
    }
}

pin_project_lite::pin_project! {
    /// The one message of a channel.
    #[derive(Debug)]
    pub struct Once {
        #[pin]
        receiver: channel::Receiver<()>,
    }
}

impl Future for Once {
    type Output = Result<(), RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().receiver.poll_next(context).map(|message| message.ok_or(RecvError))
    }
}

impl Service for Smol {
    type Sleep = Timer;

    fn spawn_blocking(&self) -> impl Future<Output = ()> + Send + 'static {
        ::smol::unblock(|| {})
    }

    fn sleep_until(time: Instant) -> Timer {
        Timer::at(time)
    }

    fn reset(sleep: Pin<&mut Timer>, time: Instant) {
        sleep.get_mut().set_at(time);
    }

    fn serve_echo_after(&self, listener: TcpListener, handle: impl Fn(&[u8]) + Copy + Send + 'static) {
        accept(listener, move |mut stream| async move {
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

    fn serve_http(&self, listener: TcpListener) {
        accept(listener, |stream| async move {
            let service = hyper::service::service_fn(|_| async { Ok::<_, Infallible>(hello()) });
            let http = hyper::server::conn::http1::Builder::new();
            // An error is a client that was killed in mid-request.
            let _ = http.serve_connection(smol_hyper::rt::FuturesIo::new(stream), service).await;
        });
    }
}

/// Runs a task for each connection, for ever.
fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    serve: impl Fn(Async<std::net::TcpStream>) -> F + Send + 'static,
) {
    let listener = Async::new(listener).expect("a listener can be registered");
    let accept = async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client connects");
            stream.get_ref().set_nodelay(true).expect("a socket takes the option");
            EXECUTOR.spawn(serve(stream)).detach();
        }
    };
    EXECUTOR.spawn(accept).detach();
}
