//! A chat server, which computes and stops gracefully. The book's tutorial builds it step by step, in
//! `docs/src/tutorial.md`.
//!
//! Start it by `cargo run --release --example chat`, then `nc 127.0.0.1 6142` in two terminals. What one
//! client writes goes to the others. `/primes 10000000` counts primes on all workers, `/stall` blocks a
//! worker on purpose, `/metrics` tells what the runtime has seen, and Ctrl-C stops the server.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use runtime::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::broadcast::{self, error::RecvError};
use runtime::sync::watch;
use runtime::task::{JoinError, JoinSet};
use runtime::{Builder, Compute, Handle, Stall, parallel};

/// How many messages wait for a client that reads slowly, before it misses the oldest ones.
const BACKLOG: usize = 100;

/// How long the clients have to leave when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// So many numbers are tested without a split: some ten microseconds of work.
const GRAIN: u64 = 100;

/// What a client has said.
#[derive(Clone)]
struct Message {
    from: SocketAddr,
    text: String,
}

fn main() -> io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6142".to_owned());
    let runtime = Builder::new_multi_thread().enable_all().on_stall(report).build()?;
    runtime.block_on(serve(&addr))
}

/// Is called with a task that holds its worker while other work waits.
fn report(stall: &Stall) {
    let line = stall.spawned_at().line();
    eprintln!("stall: the task of line {line} has held its worker for {:.1?}", stall.held_for());
}

/// Accepts clients until Ctrl-C is pressed, then tells them to leave.
async fn serve(addr: &str) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    println!("listening on {}", listener.local_addr()?);

    let (messages, _) = broadcast::channel(BACKLOG);
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    let mut interrupt = pin!(runtime::signal::ctrl_c());
    loop {
        runtime::select! {
            result = &mut interrupt => break result?,
            accepted = listener.accept() => match accepted {
                Ok((socket, from)) => {
                    clients.spawn(client(socket, from, messages.clone(), stopped.clone()));
                }
                // No descriptor is left, for instance. There may be one soon.
                Err(error) => {
                    eprintln!("cannot accept a client: {error}");
                    runtime::time::sleep(Duration::from_millis(10)).await;
                }
            },
            // The task of a client that has left.
            Some(_) = clients.join_next() => {}
        }
    }

    drop(listener);
    println!("stopping, clients: {}", clients.len());
    stop.send_replace(true);
    let all_left = async { while clients.join_next().await.is_some() {} };
    match runtime::time::timeout(GRACE, all_left).await {
        Ok(()) => println!("all clients have left"),
        Err(_) => println!("some clients did not leave in time"),
    }
    Ok(())
}

/// Serves one client until it leaves or the server stops.
async fn client(
    mut socket: TcpStream,
    from: SocketAddr,
    messages: broadcast::Sender<Message>,
    mut stopped: watch::Receiver<bool>,
) {
    runtime::select! {
        result = chat(&mut socket, from, messages) => {
            if let Err(error) = result {
                eprintln!("lost {from}: {error}");
            }
        }
        // `select!` has dropped the chat, and with it a computation that was running.
        _ = stopped.changed() => {
            let _ = socket.write_all(b"the server is stopping\n").await;
        }
    }
}

/// Sends a client's lines to the others and their lines to the client, until the client leaves.
async fn chat(
    socket: &mut TcpStream,
    from: SocketAddr,
    messages: broadcast::Sender<Message>,
) -> io::Result<()> {
    let mut received = messages.subscribe();
    let (reader, mut writer) = socket.split();
    let mut lines = BufReader::new(reader).lines();
    let mut primes = None;
    loop {
        runtime::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                if let Some(limit) = line.strip_prefix("/primes ") {
                    match limit.parse::<u32>() {
                        // A computation that is running already is dropped here, which cancels it.
                        Ok(limit) => primes = Some(runtime::compute(move || count_primes(0..limit.into()))),
                        Err(error) => writer.write_all(format!("{error}\n").as_bytes()).await?,
                    }
                } else if line == "/metrics" {
                    writer.write_all(metrics().as_bytes()).await?;
                } else {
                    let is_stall = line == "/stall";
                    // There is a receiver: this client's own.
                    let _ = messages.send(Message { from, text: line });
                    if is_stall {
                        // A mistake, on purpose: it blocks the thread, not the task.
                        std::thread::sleep(Duration::from_secs(2));
                    }
                }
            }
            message = received.recv() => match message {
                Ok(message) if message.from == from => {}
                Ok(Message { from, text }) => {
                    writer.write_all(format!("{from}: {text}\n").as_bytes()).await?;
                }
                Err(RecvError::Lagged(missed)) => {
                    writer.write_all(format!("you missed {missed} messages\n").as_bytes()).await?;
                }
                Err(RecvError::Closed) => return Ok(()),
            },
            result = finished(&mut primes) => {
                let answer = match result {
                    Ok(count) => format!("{count} primes\n"),
                    Err(error) => format!("the computation failed: {error}\n"),
                };
                writer.write_all(answer.as_bytes()).await?;
            }
        }
    }
}

/// Waits for the computation; for ever, if there is none.
async fn finished<T>(computation: &mut Option<Compute<T>>) -> Result<T, JoinError> {
    let result = match computation {
        Some(running) => running.await,
        None => pending().await,
    };
    *computation = None;
    result
}

/// Counts the primes among `numbers`, both halves in parallel.
fn count_primes(numbers: Range<u64>) -> usize {
    if numbers.end - numbers.start <= GRAIN {
        return numbers.filter(|&number| is_prime(number)).count();
    }
    let middle = numbers.start.midpoint(numbers.end);
    let (low, high) =
        parallel::join(|| count_primes(numbers.start..middle), || count_primes(middle..numbers.end));
    low + high
}

fn is_prime(number: u64) -> bool {
    let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
    number >= 2 && divisors.all(|divisor| number % divisor != 0)
}

/// A line with what the runtime has seen.
fn metrics() -> String {
    let metrics = Handle::current().metrics();
    format!(
        "tasks {}, stalls {}, rescued tasks {}, spare workers {}\n",
        metrics.num_alive_tasks(),
        metrics.stall_count(),
        metrics.rescued_task_count(),
        metrics.num_spare_workers(),
    )
}
