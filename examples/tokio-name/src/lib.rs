//! A program written for Tokio: an echo server, and a client of it.
//!
//! It names no crate but `tokio`. `Cargo.toml` decides what that is; here it is this workspace's runtime.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time;

/// What the server tells of a connection that ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    /// The client that was served.
    pub peer: SocketAddr,
    /// How many bytes went back; 0 if the connection failed.
    pub bytes: u64,
}

/// Echoes to each client that connects, until `stop` fires or its sender is gone.
///
/// Reports each connection that ends to `served`, and returns their number once all have ended.
///
/// # Errors
/// The error of an accept; connections that are open then go on. After the stop, the panic of a connection's
/// task that had not ended when the last client came. A connection that fails is no error: it is reported
/// with 0 bytes.
pub async fn serve(
    listener: TcpListener,
    served: mpsc::Sender<Served>,
    mut stop: oneshot::Receiver<()>,
) -> io::Result<usize> {
    let mut connections = Vec::new();
    let mut count = 0;
    loop {
        let (mut socket, peer) = tokio::select! {
            biased;
            _ = &mut stop => break,
            accepted = listener.accept() => accepted?,
        };
        count += 1;
        let served = served.clone();
        // Connections that ended need not be waited for.
        connections.retain(|connection: &JoinHandle<()>| !connection.is_finished());
        connections.push(tokio::spawn(async move {
            let (mut reader, mut writer) = socket.split();
            let bytes = tokio::io::copy(&mut reader, &mut writer).await.unwrap_or(0);
            // A caller that is no longer interested has dropped the receiver.
            let _ = served.send(Served { peer, bytes }).await;
        }));
    }
    for connection in connections {
        connection.await.map_err(io::Error::other)?;
    }
    Ok(count)
}

/// Sends `text` to an echo server and returns what comes back.
///
/// # Errors
/// [`TimedOut`](io::ErrorKind::TimedOut) after `limit`, those of the connection, and
/// [`InvalidData`](io::ErrorKind::InvalidData) if what comes back is not UTF-8.
pub async fn call(server: SocketAddr, text: &str, limit: Duration) -> io::Result<String> {
    let exchange = async {
        let mut socket = TcpStream::connect(server).await?;
        socket.write_all(text.as_bytes()).await?;
        socket.shutdown().await?;
        let mut echo = String::new();
        socket.read_to_string(&mut echo).await?;
        Ok(echo)
    };
    match time::timeout(limit, exchange).await {
        Ok(result) => result,
        Err(elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)),
    }
}

/// Counts the ticks of `period` until `work` is done. The tick at the start does not count.
///
/// # Panics
/// If `period` is zero.
pub async fn ticks_during<F: Future>(work: F, period: Duration) -> (F::Output, u32) {
    tokio::pin!(work);
    let mut interval = time::interval(period);
    // The first tick is at once.
    interval.tick().await;
    let mut ticks = 0;
    loop {
        tokio::select! {
            output = &mut work => return (output, ticks),
            _ = interval.tick() => ticks += 1,
        }
    }
}

/// The sum of the numbers below `n`, added up on a thread of the blocking pool.
///
/// # Errors
/// If the closure panicked or was cancelled.
pub async fn sum_below(n: u64) -> io::Result<u64> {
    Ok(tokio::task::spawn_blocking(move || (0..n).sum()).await?)
}
