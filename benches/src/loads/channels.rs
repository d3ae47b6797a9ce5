//! One task and many others: broadcast and watch channels, and locks for readers and writers.

use std::future::poll_fn;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::{Countdown, Load, in_task};
use crate::peer::Channels;

/// Receivers in the loads whose name ends with `_100`.
const MANY: usize = 100;

/// Numbers that a streaming sender sends before it waits until all receivers have them.
const BURST: usize = 128;

/// Tasks that share a lock or a watch channel.
const SHARERS: usize = 8;

/// The loads, with the number of operations in one iteration: numbers that are received, or accesses.
pub fn all<P: Channels>() -> [(&'static str, usize, Load<P>); 10] {
    [
        ("broadcast_wake", 10_000, broadcast_wake),
        ("broadcast_wake_100", 100_000, broadcast_wake_many),
        ("broadcast_stream", 128_000, broadcast_stream),
        ("broadcast_stream_100", 1_280_000, broadcast_stream_many),
        ("watch_wake", 10_000, watch_wake),
        ("watch_wake_100", 100_000, watch_wake_many),
        ("watch_send_read", 100_000, watch_send_read),
        ("watch_shared", 400_000, watch_shared),
        ("rwlock_read_mostly", 100_000, rwlock_read_mostly),
        ("rwlock_contended", 40_000, rwlock_contended),
    ]
}

/// A task sends the next number to another task once the last one was received: over a broadcast channel.
pub fn broadcast_wake<P: Channels>(peer: &P, numbers: usize) {
    broadcast(peer, 1, 1, numbers);
}

/// The same to 100 others; `receptions` in all.
pub fn broadcast_wake_many<P: Channels>(peer: &P, receptions: usize) {
    broadcast(peer, MANY, 1, receptions);
}

/// A task sends another 128 numbers at once, again and again.
pub fn broadcast_stream<P: Channels>(peer: &P, numbers: usize) {
    broadcast(peer, 1, BURST, numbers);
}

/// The same to 100 others; `receptions` in all.
pub fn broadcast_stream_many<P: Channels>(peer: &P, receptions: usize) {
    broadcast(peer, MANY, BURST, receptions);
}

fn broadcast<P: Channels>(peer: &P, receivers: usize, burst: usize, receptions: usize) {
    in_task(peer, async move {
        let speaker = P::broadcast(burst);
        let audience = Arc::new(Audience::new(receivers));
        for _ in 0..receivers {
            let (mut listener, audience) = (P::listen(&speaker), audience.clone());
            P::spawn(async move {
                let mut heard = 0;
                while let Some(number) = P::hear(&mut listener).await {
                    assert_eq!(number, heard);
                    heard += 1;
                    if heard % burst == 0 {
                        audience.one_has_all();
                    }
                }
            });
        }
        for round in 0..receptions / receivers / burst {
            (0..burst).for_each(|number| P::speak(&speaker, round * burst + number));
            audience.all_have_all().await;
        }
    });
}

/// A task announces the next number to another task once that task saw the last one: over a watch channel.
pub fn watch_wake<P: Channels>(peer: &P, numbers: usize) {
    watch(peer, 1, numbers);
}

/// The same to 100 others; `receptions` in all.
pub fn watch_wake_many<P: Channels>(peer: &P, receptions: usize) {
    watch(peer, MANY, receptions);
}

fn watch<P: Channels>(peer: &P, receivers: usize, receptions: usize) {
    in_task(peer, async move {
        let (announcer, watcher) = P::watch();
        let audience = Arc::new(Audience::new(receivers));
        for _ in 0..receivers {
            let (mut watcher, audience) = (watcher.clone(), audience.clone());
            P::spawn(async move {
                let mut seen = 0;
                while let Some(number) = P::changed(&mut watcher).await {
                    seen += 1;
                    assert_eq!(number, seen);
                    audience.one_has_all();
                }
            });
        }
        for number in 1..=receptions / receivers {
            P::announce(&announcer, number);
            audience.all_have_all().await;
        }
    });
}

/// A task replaces a number that no task waits for, and looks at it.
pub fn watch_send_read<P: Channels>(peer: &P, numbers: usize) {
    in_task(peer, async move {
        let (announcer, watcher) = P::watch();
        for number in 0..numbers {
            P::announce(&announcer, number);
            assert_eq!(P::look(&watcher), number);
        }
    });
}

/// 8 tasks look at one number again and again.
pub fn watch_shared<P: Channels>(peer: &P, looks: usize) {
    let (_announcer, watcher) = P::watch();
    shared(peer, looks, move |_| {
        let watcher = watcher.clone();
        async move {
            black_box(P::look(&watcher));
        }
    });
}

/// 8 tasks read a number in a lock; every 100th access writes it.
pub fn rwlock_read_mostly<P: Channels>(peer: &P, accesses: usize) {
    access(peer, accesses, 100, false);
}

/// The same where every fourth access writes, and lets others run before it is done.
pub fn rwlock_contended<P: Channels>(peer: &P, accesses: usize) {
    access(peer, accesses, 4, true);
}

fn access<P: Channels>(peer: &P, accesses: usize, write_each: usize, yields: bool) {
    let lock = Arc::new(P::lock());
    shared(peer, accesses, move |turn| {
        let lock = lock.clone();
        async move {
            if turn % write_each == 0 {
                P::write(&lock, yields).await;
            } else {
                black_box(P::read(&lock).await);
            }
        }
    });
}

/// 8 tasks call `what`, `times` times in all. After every 50 calls a task yields to the others.
fn shared<P: Channels, F>(peer: &P, times: usize, what: impl Fn(usize) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(SHARERS);
        for task in 0..SHARERS {
            let (finish, what) = (finish.clone(), what.clone());
            P::spawn(async move {
                for turn in 0..times / SHARERS {
                    // Each task writes at another time.
                    what(turn + task * 13).await;
                    if turn % 50 == 49 {
                        P::yield_now().await;
                    }
                }
                finish.one();
            });
        }
        all_done.await.expect("the last task sends");
    });
}

/// The receiving tasks, and the task that waits until all have received what it has sent.
struct Audience {
    receivers: usize,
    /// How many receivers have not received everything yet.
    left: AtomicUsize,
    sender: Mutex<Option<Waker>>,
}

impl Audience {
    fn new(receivers: usize) -> Self {
        Self { receivers, left: AtomicUsize::new(receivers), sender: Mutex::new(None) }
    }

    fn one_has_all(&self) {
        // AcqRel: pairs with the load of `all_have_all`, so that what all receivers did comes before it. The
        // waker is ordered by its lock.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let sender = self.sender.lock().expect("no thread panics with the lock").take();
            if let Some(sender) = sender {
                sender.wake();
            }
        }
    }

    /// Waits until all have received everything, and begins anew.
    async fn all_have_all(&self) {
        poll_fn(|context| {
            let mut sender = self.sender.lock().expect("no thread panics with the lock");
            // Acquire: pairs with `one_has_all`.
            if self.left.load(Ordering::Acquire) == 0 {
                return Poll::Ready(());
            }
            *sender = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        // Relaxed: no task counts before the next numbers are sent.
        self.left.store(self.receivers, Ordering::Relaxed);
    }
}
