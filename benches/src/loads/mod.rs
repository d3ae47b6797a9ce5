//! The scheduler loads. Each runs a number of operations on one runtime, started from a thread that is no
//! worker.
//!
//! - here: spawning, yielding, channels, the blocking threads;
//! - [`channels`]: one task and many others;
//! - [`streams`]: lines, buffers and a relay;
//! - [`sets`]: sets of tasks, and tasks that stay on a thread;
//! - [`files`]: files that are in memory;
//! - [`sockets`]: messages to another task and back;
//! - [`processes`]: children that are started and end;
//! - [`storm`]: many parked tasks that are woken at once;
//! - [`timers`]: timers that are dropped, that fire, that are put off;
//! - [`latency`]: how long a runtime that sleeps takes to answer.
//!
//! [`chained_spawn`], [`ping_pong`], [`spawn_many`] and [`yield_many`] are those with which Tokio's 2019
//! scheduler was introduced; the descriptions are in <https://tokio.rs/blog/2019-10-scheduler>.

pub mod channels;
pub mod files;
pub mod latency;
pub mod processes;
pub mod sets;
pub mod sockets;
pub mod storm;
pub mod streams;
pub mod timers;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crate::peer::{Peer, Service};

/// A load runs a number of operations on a runtime, and returns when the last is done.
pub type Load<P> = fn(&P, usize);

/// Every load that needs no more than tasks, with its name and the number of operations in one iteration.
pub fn all<P: Peer>() -> [(&'static str, usize, Load<P>); 10] {
    [
        ("chained_spawn", 1_000, chained_spawn),
        ("ping_pong", 1_000, ping_pong),
        ("spawn_many", 10_000, spawn_many),
        ("spawn_many_worker", 10_000, spawn_many_worker),
        ("spawn_await", 1_000, spawn_await),
        ("yield_many", 200_000, yield_many),
        ("self_wake", 100_000, self_wake),
        ("mpsc_ping", 10_000, mpsc_ping),
        ("mpsc_stream", 100_000, mpsc_stream),
        ("wake_storm_task", 10_000, storm::by_task),
    ]
}

/// The loads that need threads, timers or blocking threads besides.
pub fn service<P: Service>() -> [(&'static str, usize, Load<P>); 6] {
    [
        ("wake_storm_thread", 10_000, storm::by_thread),
        ("blocking_from_one", 20_000, blocking_from_one),
        ("blocking_from_many", 16 * 1_000, blocking_from_many),
        ("timer_drop", 1_000_000, timers::create_and_drop),
        ("timers_pending", 10_000, timers::pending),
        ("idle_timeout", 100_000, timers::put_off),
    ]
}

/// One task spawns the next, `depth` times: the cost of a spawn on a worker, when a second worker is of no
/// use.
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

/// `pairs` pairs of tasks: one sends the other a message and waits for the answer, each over a oneshot
/// channel.
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

/// `tasks` tasks that do nothing, spawned by a task.
pub fn spawn_many_worker<P: Peer>(peer: &P, tasks: usize) {
    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(tasks);
        P::spawn(async move {
            for _ in 0..tasks {
                let finish = finish.clone();
                P::spawn(async move { finish.one() });
            }
        });
        all_done.await.expect("the last task sends");
    });
}

/// A task spawns a task that does nothing, and waits for it, `tasks` times.
pub fn spawn_await<P: Peer>(peer: &P, tasks: usize) {
    in_task(peer, async move {
        for _ in 0..tasks {
            P::spawn_and_wait(async {}).await;
        }
    });
}

/// A task that wakes itself while it is polled, `wakes` times. Unlike a yield, nothing says that others
/// should go first.
pub fn self_wake<P: Peer>(peer: &P, wakes: usize) {
    let mut left = wakes;
    in_task(
        peer,
        poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }),
    );
}

/// Two tasks that send each other a number `rounds` times, over two channels with room for one.
pub fn mpsc_ping<P: Peer>(peer: &P, rounds: usize) {
    let (ping, mut pinged) = P::channel(1);
    let (pong, mut ponged) = P::channel(1);
    in_task(peer, async move {
        P::spawn(async move {
            for _ in 0..rounds {
                let number = P::take(&mut pinged).await;
                P::post(&pong, number).await;
            }
        });
        for number in 0..rounds {
            P::post(&ping, number).await;
            assert_eq!(P::take(&mut ponged).await, number);
        }
    });
}

/// A task sends another `messages` numbers, over a channel with room for 128.
pub fn mpsc_stream<P: Peer>(peer: &P, messages: usize) {
    let (outbox, mut inbox) = P::channel(128);
    in_task(peer, async move {
        P::spawn(async move {
            for number in 0..messages {
                P::post(&outbox, number).await;
            }
        });
        for number in 0..messages {
            assert_eq!(P::take(&mut inbox).await, number);
        }
    });
}

/// Runs `future` in a task, and waits for it outside.
pub(crate) fn in_task<P: Peer>(peer: &P, future: impl Future<Output = ()> + Send + 'static) {
    peer.block_on(async {
        let (done, is_done) = P::oneshot();
        P::spawn(async move {
            future.await;
            P::send(done);
        });
        is_done.await.expect("the task sends");
    });
}

/// 200 tasks that share `yields` yields: a task goes behind the other runnable tasks.
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

/// `closures` empty closures for the blocking threads, submitted and awaited by one thread that is no worker.
pub fn blocking_from_one<P: Service>(peer: &P, closures: usize) {
    submit_and_wait(peer, closures);
}

/// `closures` empty closures for the blocking threads, submitted and awaited by 16 threads that are no
/// workers.
pub fn blocking_from_many<P: Service>(peer: &P, closures: usize) {
    std::thread::scope(|scope| {
        for _ in 0..SUBMITTERS {
            scope.spawn(|| submit_and_wait(peer, closures / SUBMITTERS));
        }
    });
}

/// Threads of [`blocking_from_many`].
const SUBMITTERS: usize = 16;

fn submit_and_wait<P: Service>(peer: &P, closures: usize) {
    let closures: Vec<_> = (0..closures).map(|_| peer.spawn_blocking()).collect();
    peer.block_on(async {
        for closure in closures {
            closure.await;
        }
    });
}

/// Sends one message when a number of tasks have finished.
pub(crate) struct Countdown<P: Peer>(Arc<(AtomicUsize, std::sync::Mutex<Option<P::Sender>>)>);

impl<P: Peer> Countdown<P> {
    pub(crate) fn new(count: usize) -> (Self, P::Receiver) {
        let (sender, receiver) = P::oneshot();
        (Self(Arc::new((AtomicUsize::new(count), Some(sender).into()))), receiver)
    }

    pub(crate) fn one(&self) {
        let (left, sender) = &*self.0;
        // Relaxed: only the count matters, the tasks hand over nothing.
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let sender = sender.lock().expect("no thread panics with the lock").take();
            P::send(sender.expect("the last one finishes once"));
        }
    }
}

impl<P: Peer> Clone for Countdown<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
