//! The process that is measured: queries on all workers, beside a service.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, process};

use axum::serve::ListenerExt;
use axum::{Json, Router, extract::State, routing::get};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::queries::Database;
use crate::setup::{Layout, Service};

/// The workers of each runtime.
const WORKERS: usize = 2;
/// The tasks that run queries without a pause.
const LOOPS: usize = 2;

/// Prints the answers and the address, then serves until the standard input ends. For each line of it, prints
/// how many queries are done.
pub fn run(folder: &Path, service: Service, layout: Layout) -> Result<(), Failure> {
    let serving = runtime()?;
    let second = if layout == Layout::Two { Some(runtime()?) } else { None };
    let querying = second.as_ref().unwrap_or(&serving);

    let folder = folder.to_owned();
    let database =
        querying.block_on(querying.spawn(async move { Database::open(&folder, WORKERS).await }))??;
    for answer in database.answers() {
        println!("{answer}");
    }
    let done = Arc::new(AtomicU64::new(0));
    let listener = serving.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("{}", listener.local_addr()?);
    let served = done.clone();
    serving.spawn(async move {
        let result = match service {
            Service::Echo => echo(listener).await,
            Service::Axum => answer_http(listener, served).await,
        };
        give_up(result.map_err(Failure::from))
    });
    if layout != Layout::Idle {
        for number in 0..LOOPS {
            let (database, done) = (database.clone(), done.clone());
            // The loops are at different queries.
            querying.spawn(async move { give_up(database.repeat(3 * number, done).await) });
        }
    }

    for line in io::stdin().lines() {
        line?;
        println!("{}", done.load(Ordering::Relaxed));
    }
    // Not by dropping the runtimes: a query that is cancelled looks like one that has failed.
    process::exit(0);
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()
}

/// What must not end has ended, so the measurement is worth nothing.
fn give_up(result: Result<(), Failure>) {
    if let Err(error) = result {
        eprintln!("{error}");
    }
    process::exit(1);
}

async fn echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(echo_one(stream));
    }
}

async fn echo_one(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}

#[derive(Serialize)]
struct Status {
    service: &'static str,
    queries: u64,
}

async fn answer_http(listener: TcpListener, done: Arc<AtomicU64>) -> io::Result<()> {
    let status = async |State(done): State<Arc<AtomicU64>>| {
        Json(Status { service: "queries", queries: done.load(Ordering::Relaxed) })
    };
    let router = Router::new().route("/status", get(status)).with_state(done);
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            eprintln!("a small answer may wait: {error}");
        }
    });
    axum::serve(listener, router).await
}
