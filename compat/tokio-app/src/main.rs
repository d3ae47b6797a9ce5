//! A server of well-known crates as they are published: axum, tonic, tower-http, reqwest, sqlx, rayon. All of
//! them run on the workers of `runtime`, and none of them knows: the two lines of `[patch.crates-io]` in
//! `Cargo.toml` put `runtime` in the place of Tokio and of rayon-core.
//!
//! ```sh
//! cargo run -- /tmp/app
//! ```
//!
//! It makes the folder, keeps a database there, serves the files below `files`, and prints its address.
//!
//! | request | what it shows |
//! |---|---|
//! | `GET /primes/{below}` | `runtime::compute` and rayon's `par_iter`; sqlx keeps the answer in SQLite |
//! | `GET /hurried/{below}` | the same with a time limit by tower-http, which ends the computation, too |
//! | `GET /kept` | the answers in the database |
//! | `GET /own/{below}` | reqwest and tonic as clients: this server asks itself over three protocols |
//! | `GET /files/{name}` | downloads by tower-http's `ServeDir` |
//! | `GET /socket` | a WebSocket that answers each number |
//! | `GET /last` | an answer that ends when the server is told to stop |
//! | `GET /numbers` | what the server knows of itself |
//! | gRPC `app.Primes/Count`, `/List` | tonic: one answer, a stream of answers |
//!
//! HTTP/1, HTTP/2 without TLS, WebSocket and gRPC share the port. A client that leaves ends the computation
//! that it asked for. On `SIGTERM` the server finishes the answers that it has begun, then ends.
//!
//! # Where else the runtime runs
//! The build script creates a database by sqlx. The macros `query!` ask that database about each query while
//! the program is compiled. So the runtime works in three processes: the build script, the compiler, the
//! program. Neither `sqlite3` nor `protoc` is needed. sqlx brings SQLite, which wants a C compiler. tonic's
//! code is made from the description in `build.rs`.
//!
//! # Threads
//! There are two workers, up to two threads of sqlx, and one thread of each other kind:
//!
//! | name | thread |
//! |---|---|
//! | `tokio-app` | the main thread, which waits in `block_on` |
//! | `app-worker` | a worker: all tasks, timers, sockets, computations, and rayon's jobs |
//! | `runtime-monitor` | looks for workers that are stuck |
//! | `sqlx-sqlite-wor…` | a connection to the database: sqlx starts a thread for each |
//!
//! Spare workers come when a worker is blocked or computes for long, threads for blocking closures when
//! something calls `spawn_blocking`. Both are named `app-worker` as well, and end a second after their last
//! use. There is no pool of Tokio's or Rayon's.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_app::{App, kept, web};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let folder = env::args_os().nth(1).ok_or("usage: tokio-app <folder>")?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("app-worker")
        .thread_keep_alive(Duration::from_secs(1))
        .enable_all()
        .build()?;
    // In a task, so that the server begins on a worker, too.
    runtime.block_on(async { tokio::spawn(serve(folder)).await? })?;
    drop(runtime);
    alone()?;
    println!("stopped");
    Ok(())
}

async fn serve(folder: OsString) -> Result<(), Failure> {
    let folder = Path::new(&folder);
    let files = folder.join("files");
    tokio::fs::create_dir_all(&files).await?;
    let database = kept::open(&folder.join("kept.db")).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let app = App::new(listener.local_addr()?, database);
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = app.stop.clone();
    app.tasks.spawn(async move {
        terminate.recv().await;
        stop.cancel();
    });
    println!("http://{}", app.address);

    let router = web::router(app.clone(), &files);
    axum::serve(listener, router).with_graceful_shutdown(app.stop.clone().cancelled_owned()).await?;
    app.tasks.close();
    app.tasks.wait().await;
    app.database.close().await;
    Ok(())
}

/// Waits until the main thread is the only one.
fn alone() -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        let threads = fs::read_dir("/proc/self/task")?.collect::<io::Result<Vec<_>>>()?;
        if threads.len() == 1 {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(30) {
            // A thread that ends while it is looked at has no name.
            let names = threads.iter().map(|thread| fs::read_to_string(thread.path().join("comm")));
            return Err(format!("threads are left: {:?}", names.flatten().collect::<Vec<_>>()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}
