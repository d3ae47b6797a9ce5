//! The four channels: which one to take for what.
//!
//! ```text
//! cargo run --release --example channels
//! ```

use runtime::sync::{broadcast, mpsc, oneshot, watch};
use runtime::task::JoinSet;

#[runtime::main]
async fn main() {
    many_to_one().await;
    an_answer().await;
    to_all().await;
    the_latest().await;
}

/// `mpsc`: several tasks send, one receives. The room is bounded, so a sender waits for a slow receiver.
async fn many_to_one() {
    let (sender, mut receiver) = mpsc::channel(4);
    for task in 1..=3 {
        let sender = sender.clone();
        runtime::spawn(async move {
            for number in 1..=10 {
                // An error would mean that the receiver is gone, and would have the value in it.
                sender.send(task * number).await.expect("the receiver lives");
            }
        });
    }
    // `recv` says `None` when all senders are gone. This one would keep it waiting.
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    println!("mpsc: the sum is {sum}");
}

/// What the task of `an_answer` is asked.
enum Request {
    Add(u64),
    Total(oneshot::Sender<u64>),
}

/// `oneshot`: one value, once. With `mpsc` it makes a task that owns its state and answers questions.
async fn an_answer() {
    let (requests, mut received) = mpsc::channel(4);
    runtime::spawn(async move {
        let mut total = 0;
        while let Some(request) = received.recv().await {
            match request {
                Request::Add(number) => total += number,
                // An error would mean that the question was given up.
                Request::Total(answer) => _ = answer.send(total),
            }
        }
    });
    let gone = "the task ends after its last sender";
    for number in [20, 22] {
        requests.send(Request::Add(number)).await.expect(gone);
    }
    let (answer, total) = oneshot::channel();
    requests.send(Request::Total(answer)).await.expect(gone);
    println!("oneshot: the total is {}", total.await.expect(gone));
}

/// `broadcast`: each receiver gets each value. A receiver that falls behind misses the oldest ones, and is
/// told how many.
async fn to_all() {
    let (sender, _) = broadcast::channel(8);
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let mut receiver = sender.subscribe();
        readers.spawn(async move {
            let mut heard = Vec::new();
            while let Ok(word) = receiver.recv().await {
                heard.push(word);
            }
            heard.join(" ")
        });
    }
    for word in ["to", "all", "three"] {
        sender.send(word).expect("there are receivers");
    }
    drop(sender);
    println!("broadcast: {:?}", readers.join_all().await);

    let (sender, mut slow) = broadcast::channel(8);
    for number in 0..20 {
        sender.send(number).expect("there is a receiver");
    }
    println!("broadcast: a slow receiver is told {:?}", slow.recv().await);
    println!("broadcast: then it gets {:?}", slow.recv().await);
}

/// `watch`: the latest value only. For settings, states, and for a signal to stop.
async fn the_latest() {
    let (level, mut watching) = watch::channel(1);
    let watcher = runtime::spawn(async move {
        // Skips what was overwritten before it looked.
        *watching.wait_for(|&level| level >= 5).await.expect("the sender lives until then")
    });
    for new in 2..=5 {
        level.send_replace(new);
    }
    println!("watch: the level is {}", watcher.await.expect("the task does not panic"));
}
