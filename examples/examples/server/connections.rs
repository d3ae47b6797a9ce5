//! Accepting connections and serving each until its client, or the server, has had enough.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::{mpsc, oneshot};

use crate::{complain, routes};

/// How long to wait after a failed accept: long enough not to spin, short enough to be there when descriptors
/// return.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The least time between two reports of failed accepts.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client may take to send the head of a request, and how long it may stay idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts connections until this future is dropped, which also tells every connection to finish.
///
/// `open` is cloned into each connection: when the last clone is gone, nothing is being served any more.
pub async fn accept(listener: TcpListener, open: mpsc::Sender<Infallible>) {
    let mut stops = Stops::default();
    let mut failures = Failures::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                runtime::spawn(serve(stream, stops.add(), open.clone()));
            }
            // Out of descriptors or memory, or a client that left the queue: none is a reason to stop
            // serving.
            Err(error) => {
                failures.report(&error);
                runtime::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one client; when `stop` resolves, finishes the request that is open and closes.
async fn serve(stream: TcpStream, mut stop: oneshot::Receiver<Infallible>, open: mpsc::Sender<Infallible>) {
    // Without this option a response that is written in two pieces could wait for the client's delayed
    // acknowledgement. An error means that the client is gone already, which the first read tells just as
    // well.
    let _ = stream.set_nodelay(true);
    let mut connection = pin!(
        http1::Builder::new()
            .timer(runtime::hyper::Timer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(stream, service_fn(routes::answer))
    );
    // A client may go away, time out or talk nonsense at any point. That is its business and hyper has dealt
    // with it.
    let _ = runtime::select! {
        result = connection.as_mut() => result,
        _ = &mut stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    drop(open);
}

/// The means to tell every connection to stop: dropping a sender resolves its receiver.
///
/// Each connection has a channel of its own, rather than all one: a connection looks at its receiver each
/// time it is polled, and with one word of its own it shares no cache line and no lock with the others.
#[derive(Default)]
struct Stops {
    senders: Vec<oneshot::Sender<Infallible>>,
    /// At this number of senders, `add` drops those of closed connections. So there are never more senders
    /// than 64 or about twice the connections, at a constant cost for each connection.
    prune_at: usize,
}

impl Stops {
    fn add(&mut self) -> oneshot::Receiver<Infallible> {
        if self.senders.len() >= self.prune_at {
            self.senders.retain(|sender| !sender.is_closed());
            self.prune_at = (2 * self.senders.len()).max(64);
        }
        let (sender, receiver) = oneshot::channel();
        self.senders.push(sender);
        receiver
    }
}

/// Failed accepts, told at most once in a [`REPORT_INTERVAL`].
#[derive(Default)]
struct Failures {
    reported_at: Option<Instant>,
    /// Failures since the last report.
    untold: u64,
}

impl Failures {
    fn report(&mut self, error: &io::Error) {
        self.untold += 1;
        if self.reported_at.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return;
        }
        complain(&format!("cannot accept a connection: {error} ({} since the last report)", self.untold));
        self.reported_at = Some(Instant::now());
        self.untold = 0;
    }
}
