//! The scheduler loads. Each runs a number of operations on one runtime, started from a thread that is no worker.
//!
//! The four are those with which Tokio's 2019 scheduler was introduced; the descriptions are in
//! <https://tokio.rs/blog/2019-10-scheduler>.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::peer::Peer;

/// A load: runs so many operations on a runtime and returns when the last is done.
pub type Load<P> = fn(&P, usize);

/// Every load with its name and the number of operations in one iteration.
pub fn all<P: Peer>() -> [(&'static str, usize, Load<P>); 4] {
    [
        ("chained_spawn", 1_000, chained_spawn),
        ("ping_pong", 1_000, ping_pong),
        ("spawn_many", 10_000, spawn_many),
        ("yield_many", 200_000, yield_many),
    ]
}

/// One task spawns the next, `depth` times: the cost of a spawn on a worker, when a second worker is of no use.
pub fn chained_spawn<P: Peer>(peer: &P, depth: usize) {
    fn link<P: Peer>(left: usize, done: P::Sender) {
        P::spawn(async move {
            match left {
                0 => P::send(done),
                _ => link::<P>(left - 1, done),
            }
        });
    }

    peer.block_on(async {
        let (done, all_done) = P::oneshot();
        link::<P>(depth, done);
        all_done.await.expect("the last link sends");
    });
}

/// `pairs` pairs of tasks: one sends the other a message and waits for the answer, each over a oneshot channel.
pub fn ping_pong<P: Peer>(peer: &P, pairs: usize) {
    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(pairs);
        // The pairs are made on a worker.
        P::spawn(async move {
            for _ in 0..pairs {
                let finish = finish.clone();
                P::spawn(async move {
                    let (ping, pinged) = P::oneshot();
                    let (pong, ponged) = P::oneshot();
                    P::spawn(async move {
                        pinged.await.expect("the first task pings");
                        P::send(pong);
                    });
                    P::send(ping);
                    ponged.await.expect("the second task pongs");
                    finish.one();
                });
            }
        });
        all_done.await.expect("the last pair sends");
    });
}

/// `tasks` tasks that do nothing, spawned from a thread that is no worker: the way through the injector.
pub fn spawn_many<P: Peer>(peer: &P, tasks: usize) {
    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(tasks);
        for _ in 0..tasks {
            let finish = finish.clone();
            P::spawn(async move { finish.one() });
        }
        all_done.await.expect("the last task sends");
    });
}

/// 200 tasks that share `yields` yields: a task that wakes itself.
pub fn yield_many<P: Peer>(peer: &P, yields: usize) {
    const TASKS: usize = 200;

    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(TASKS);
        for _ in 0..TASKS {
            let finish = finish.clone();
            P::spawn(async move {
                for _ in 0..yields / TASKS {
                    P::yield_now().await;
                }
                finish.one();
            });
        }
        all_done.await.expect("the last task sends");
    });
}

/// `closures` closures that do nothing for the blocking threads, submitted and awaited by one thread that is no worker.
pub fn blocking_from_one<P: Peer>(peer: &P, closures: usize) {
    submit_and_wait(peer, closures);
}

/// `closures` closures that do nothing for the blocking threads, submitted and awaited by 16 threads that are no workers.
pub fn blocking_from_many<P: Peer>(peer: &P, closures: usize) {
    std::thread::scope(|scope| {
        for _ in 0..SUBMITTERS {
            scope.spawn(|| submit_and_wait(peer, closures / SUBMITTERS));
        }
    });
}

/// Threads of [`blocking_from_many`].
const SUBMITTERS: usize = 16;

fn submit_and_wait<P: Peer>(peer: &P, closures: usize) {
    let closures: Vec<_> = (0..closures).map(|_| peer.spawn_blocking()).collect();
    peer.block_on(async {
        for closure in closures {
            closure.await;
        }
    });
}

/// Sends one message when a number of tasks have finished.
struct Countdown<P: Peer>(Arc<(AtomicUsize, std::sync::Mutex<Option<P::Sender>>)>);

impl<P: Peer> Countdown<P> {
    fn new(count: usize) -> (Self, P::Receiver) {
        let (sender, receiver) = P::oneshot();
        (Self(Arc::new((AtomicUsize::new(count), Some(sender).into()))), receiver)
    }

    fn one(&self) {
        let (left, sender) = &*self.0;
        // Relaxed: only the count matters, the tasks hand over nothing.
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let sender = sender.lock().expect("nobody panics with the lock").take();
            P::send(sender.expect("the last one finishes once"));
        }
    }
}

impl<P: Peer> Clone for Countdown<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
