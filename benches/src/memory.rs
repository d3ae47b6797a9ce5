//! The memory that a parked task takes.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::peer::Peer;
use crate::usage::resident_bytes;

/// How many of the tasks have been polled.
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// A future of so many words that waits for ever; at least two.
#[derive(Debug)]
pub struct Parked<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Parked<WORDS> {
    fn new() -> Self {
        let mut words = [0; WORDS];
        words[0] = 1;
        Self(words)
    }
}

impl<const WORDS: usize> Future for Parked<WORDS> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // The values are used, so that the compiler cannot leave them out.
        let words = std::hint::black_box(&self.0);
        POLLED.fetch_add((words[0] - words[WORDS - 1]) as usize, Ordering::Relaxed);
        Poll::Pending
    }
}

/// The resident bytes of each of `tasks` tasks of so many `WORDS`, spawned and polled once. They stay until
/// the process ends, so that there can be only one such measurement in a process: another would live off what
/// the first has freed.
pub fn bytes_per_task<P: Peer, const WORDS: usize>(peer: &P, tasks: usize) -> f64 {
    let before = resident_bytes();
    peer.block_on(async {
        for _ in 0..tasks {
            P::spawn(Parked::<WORDS>::new());
        }
    });
    while POLLED.load(Ordering::Relaxed) < tasks {
        std::thread::sleep(Duration::from_millis(1));
    }
    resident_bytes().saturating_sub(before) as f64 / tasks as f64
}
