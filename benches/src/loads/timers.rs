//! Timers as servers use them: most of them never fire.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::storm::Gathering;
use super::{Countdown, in_task};
use crate::peer::Service;

/// Longer than any benchmark.
const FAR: Duration = Duration::from_secs(600);

/// Connections of [`put_off`].
const CONNECTIONS: usize = 10_000;

/// The timers of [`fire`] are due from this time on.
const FIRST: Duration = Duration::from_millis(200);
/// They are due within this time.
const SPREAD: Duration = Duration::from_millis(500);

/// Creates `timers` timers, polls each once and drops it: a time-out of something that ends in time.
pub fn create_and_drop<P: Service>(peer: &P, timers: usize) {
    in_task(peer, async move {
        let far = Instant::now() + FAR;
        for index in 0..timers {
            let sleep = pin!(P::sleep_until(far + micros(index)));
            poll_once(sleep).await;
        }
    });
}

/// The same with all of them pending at once.
pub fn pending<P: Service>(peer: &P, timers: usize) {
    in_task(peer, async move {
        let far = Instant::now() + FAR;
        let mut sleeps = Vec::with_capacity(timers);
        for index in 0..timers {
            let mut sleep = Box::pin(P::sleep_until(far + micros(index)));
            poll_once(sleep.as_mut()).await;
            sleeps.push(sleep);
        }
        drop(sleeps);
    });
}

/// 10,000 connections with an idle time-out that each message puts off: `messages` in all.
///
/// A message is a wake; its task sets the timer anew and polls it, as a `select` of both would.
pub fn put_off<P: Service>(peer: &P, messages: usize) {
    let rounds = messages.div_ceil(CONNECTIONS);
    in_task(peer, async move {
        let (finish, all_done) = Countdown::<P>::new(CONNECTIONS);
        let gathering = Arc::new(Gathering::new(CONNECTIONS));
        for _ in 0..CONNECTIONS {
            let (gathering, finish) = (gathering.clone(), finish.clone());
            P::spawn(async move {
                let mut idle = pin!(P::sleep_until(Instant::now() + FAR));
                for round in 1..=rounds {
                    poll_once(idle.as_mut()).await;
                    gathering.wait_for(round).await;
                    P::reset(idle.as_mut(), Instant::now() + FAR);
                }
                finish.one();
            });
        }
        for round in 1..=rounds {
            gathering.all_are_parked().await;
            gathering.wake_all(round);
        }
        all_done.await.expect("the last connection sends");
    });
}

/// Lets `timers` timers fire, each in a task of its own, evenly over half a second. Gives how late each was,
/// in nanoseconds.
pub fn fire<P: Service>(peer: &P, timers: usize) -> Vec<f64> {
    let late: Arc<[AtomicU64]> = (0..timers).map(|_| AtomicU64::new(0)).collect();
    let results = late.clone();
    in_task(peer, async move {
        let (finish, all_done) = Countdown::<P>::new(timers);
        let first = Instant::now() + FIRST;
        for index in 0..timers {
            let due = first + SPREAD.mul_f64(index as f64 / timers as f64);
            let (finish, late) = (finish.clone(), late.clone());
            P::spawn(async move {
                _ = P::sleep_until(due).await;
                // Relaxed: the end of all tasks hands them over.
                late[index].store(due.elapsed().as_nanos() as u64, Ordering::Relaxed);
                drop(late);
                finish.one();
            });
        }
        all_done.await.expect("the last timer sends");
    });
    results.iter().map(|late| late.load(Ordering::Relaxed) as f64).collect()
}

fn micros(index: usize) -> Duration {
    Duration::from_micros(index as u64)
}

/// Polls a timer that is not due.
async fn poll_once<S: Future>(mut sleep: Pin<&mut S>) {
    let is_due = poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context).is_ready())).await;
    assert!(!is_due, "a timer fired before its time");
}
