//! Starts the echo server, calls it a few times, and ends it. Ctrl-C ends it early.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::{join, select, signal, task, try_join};
use tokio_name::{call, serve, sum_below, ticks_during};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> io::Result<()> {
    select! {
        result = program() => result,
        interrupted = signal::ctrl_c() => {
            interrupted?;
            println!("interrupted");
            Ok(())
        }
    }
}

async fn program() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("echoing on {address}");

    let (served, mut reports) = mpsc::channel(16);
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(listener, served, stopped));

    // Two calls at once, in this task.
    let (first, second) = try_join!(call(address, "hello", LIMIT), call(address, "world", LIMIT))?;
    println!("{first} {second}");

    // One from a thread that is no worker, through a handle.
    let handle = Handle::current();
    let third = task::spawn_blocking(move || handle.block_on(call(address, "from outside", LIMIT))).await??;
    println!("{third}");

    // One from a runtime of its own.
    let fourth = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(call(address, "from another runtime", LIMIT))
    });
    for _ in 0..4 {
        match reports.recv().await {
            Some(report) => println!("{} got {} bytes", report.peer, report.bytes),
            None => return Err(io::Error::other("the server is gone")),
        }
    }
    println!("{}", fourth.join().expect("the thread of the fourth call did not panic")?);

    // The timer ticks while other threads add.
    let sums = async { join!(sum_below(1_000_000), sum_below(2_000_000)) };
    let ((small, large), ticks) = ticks_during(sums, Duration::from_millis(1)).await;
    println!("{} and {}, in {ticks} ms", small?, large?);

    stop.send(()).expect("the server waits for this");
    println!("served {} connections", server.await??);
    Ok(())
}
