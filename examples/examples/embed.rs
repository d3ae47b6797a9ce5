//! A runtime inside a program that has threads of its own: build it, hand its [`Handle`] around, end it in
//! time.
//!
//! ```text
//! cargo run --release --example embed
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use runtime::sync::mpsc;
use runtime::{Builder, Handle};

/// How many threads of the program ask the runtime for something at once.
const THREADS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).thread_name("embedded").enable_all().build()?;

    // A service: one task that owns its state, and answers each thread that sends it a number.
    let (requests, service) = mpsc::channel(16);
    let service = runtime.spawn(running_total(service));

    // Threads that belong to the program. Each spawns, waits and receives through a clone of the handle.
    let threads: Vec<_> = (1..=THREADS)
        .map(|number| {
            let handle = runtime.handle().clone();
            let requests = requests.clone();
            thread::spawn(move || ask(&handle, &requests, number as u64))
        })
        .collect();
    for thread in threads {
        thread.join().expect("`ask` does not panic");
    }

    // The service ends when the last sender is gone; then its result is here.
    drop(requests);
    println!("the service counted up to {}", runtime.block_on(service)?);

    // A task that would never end is cancelled, a blocking closure gets until the deadline.
    runtime.spawn(std::future::pending::<()>());
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// Sends `number` to the service from a thread of the program.
fn ask(handle: &Handle, requests: &mpsc::Sender<u64>, number: u64) {
    // `block_on` runs a future on this very thread; timers and sockets are the runtime's.
    handle.block_on(async {
        runtime::time::sleep(Duration::from_millis(10 * number)).await;
        // The service outlives every sender, so this can only fail if it has panicked; its handle will tell.
        let _ = requests.send(number).await;
    });
    // Work for a thread that may block, started from outside of the runtime.
    let square = handle.spawn_blocking(move || number * number);
    match handle.block_on(square) {
        Ok(square) => println!("{number} squared is {square}"),
        Err(error) => println!("{number} was not squared: {error}"),
    }
}

/// Adds up what it receives until every sender is gone.
async fn running_total(mut numbers: mpsc::Receiver<u64>) -> u64 {
    let mut total = 0;
    while let Some(number) = numbers.recv().await {
        total += number;
        println!("the total is now {total}");
    }
    total
}
