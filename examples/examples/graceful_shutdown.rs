//! A server that stops without cutting off an answer: Ctrl-C or SIGTERM ends it.
//!
//! Start it by `cargo run --release --example graceful_shutdown`, then `nc 127.0.0.1 6142`. Each line that
//! you write is answered after a second. Press Ctrl-C at the server meanwhile: the answer still comes.

use std::io;
use std::pin::pin;
use std::time::Duration;

use runtime::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use runtime::net::{TcpListener, TcpStream};
use runtime::signal::unix::{Signal, SignalKind, signal};
use runtime::sync::watch;
use runtime::task::JoinSet;
use runtime::time::{sleep, timeout};

/// How long an answer takes.
const WORK: Duration = Duration::from_secs(1);

/// How long open requests have when the server stops.
const GRACE: Duration = Duration::from_secs(10);

#[runtime::main]
async fn main() -> io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6142".to_owned());
    // Made before anything else: a signal that comes from now on is not missed.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(&addr).await?;
    println!("listening on {}", listener.local_addr()?);

    // 1. Serve until a signal comes.
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    {
        let mut told = pin!(first_of(&mut interrupt, &mut terminate));
        loop {
            runtime::select! {
                () = &mut told => break,
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        connections.spawn(serve(socket, stopped.clone()));
                    }
                    Err(error) => {
                        eprintln!("cannot accept a connection: {error}");
                        sleep(Duration::from_millis(10)).await;
                    }
                },
                // Connections that have ended need no place in the set.
                Some(_) = connections.join_next() => {}
            }
        }
    }

    // 2. Accept no more. New clients are refused, and can turn to another server.
    drop(listener);
    println!("stopping with {} connections", connections.len());

    // 3. Tell the connections. Idle ones end at once, busy ones after their answer.
    stop.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };

    // 4. Wait for them, but not for ever: until the time is up, or a second signal comes.
    runtime::select! {
        result = timeout(GRACE, drained) => match result {
            Ok(()) => println!("every answer was sent"),
            Err(_) => println!("the time is up"),
        },
        () = first_of(&mut interrupt, &mut terminate) => println!("stopped by a second signal"),
    }
    // What is left in `connections` is aborted when it is dropped.
    Ok(())
}

async fn first_of(interrupt: &mut Signal, terminate: &mut Signal) {
    runtime::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Answers each line of a client, until the client leaves or the server stops.
async fn serve(mut socket: TcpStream, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    let (reader, mut writer) = socket.split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        // The connection may end between two requests, not within one. So only this wait looks at `stopped`.
        let line = runtime::select! {
            biased;
            _ = stopped.changed() => None,
            line = lines.next_line() => line?,
        };
        let Some(request) = line else { return Ok(()) };
        sleep(WORK).await;
        writer.write_all(format!("done: {request}\n").as_bytes()).await?;
    }
}
