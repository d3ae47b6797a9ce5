//! A task that is always ready does not starve the others, wherever they wait.

mod support;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use runtime::Runtime;
use runtime::sync::Notify;
use runtime::task::coop;
use support::{build, builder, watchdog};

/// Runtimes with one thread for tasks: what starves there, starves.
fn single(test: impl Fn(&Runtime)) {
    for workers in [0, 1] {
        test(&builder(workers).spare_workers(0).build().unwrap());
    }
}

/// Tasks that are always ready: `yields` tasks that yield, and `pairs` pairs whose tasks wake each other by
/// turns.
fn keep_busy(runtime: &Runtime, yields: usize, pairs: usize) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..yields {
        let stop = stop.clone();
        runtime.spawn(async move {
            while !stop.load(SeqCst) {
                runtime::task::yield_now().await;
            }
        });
    }
    for _ in 0..pairs {
        let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        for (own, other, begins) in [(ping.clone(), pong.clone(), true), (pong, ping, false)] {
            let stop = stop.clone();
            runtime.spawn(async move {
                if begins {
                    other.notify_one();
                }
                while !stop.load(SeqCst) {
                    own.notified().await;
                    other.notify_one();
                }
                other.notify_one();
            });
        }
    }
    stop
}

#[test]
fn a_task_in_the_ring_runs_beside_a_pair_in_the_lifo_slot() {
    let _watchdog = watchdog();
    single(|runtime| {
        let stop = keep_busy(runtime, 0, 1);
        let third = runtime.spawn(async {
            // Comes from within, so into the ring.
            let inner = runtime::spawn(async {
                runtime::task::yield_now().await;
                runtime::task::yield_now().await;
                5
            });
            inner.await.unwrap()
        });
        assert_eq!(runtime.block_on(third).unwrap(), 5);
        stop.store(true, SeqCst);
    });
}

#[test]
fn a_task_from_outside_runs_beside_a_busy_queue() {
    let _watchdog = watchdog();
    single(|runtime| {
        let stop = keep_busy(runtime, 100, 1);
        let handle = runtime.handle().clone();
        let (send, receive) = runtime::sync::oneshot::channel();
        let outside = std::thread::spawn(move || drop(handle.spawn(async move { send.send(5).unwrap() })));
        assert_eq!(runtime.block_on(receive).unwrap(), 5);
        outside.join().unwrap();
        stop.store(true, SeqCst);
    });
}

#[test]
fn timers_fire_beside_a_busy_queue() {
    let _watchdog = watchdog();
    single(|runtime| {
        let stop = keep_busy(runtime, 3, 1);
        let timer = runtime.spawn(async { runtime::time::sleep(Duration::from_millis(2)).await });
        runtime.block_on(timer).unwrap();
        stop.store(true, SeqCst);
    });
}

#[test]
fn sockets_are_served_beside_a_busy_queue() {
    use runtime::io::{AsyncReadExt, AsyncWriteExt};
    use runtime::net::{TcpListener, TcpStream};
    let _watchdog = watchdog();
    single(|runtime| {
        let stop = keep_busy(runtime, 3, 1);
        let echo = runtime.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4];
            for _ in 0..10 {
                client.write_all(b"ping").await.unwrap();
                server.read_exact(&mut buffer).await.unwrap();
            }
            buffer
        });
        assert_eq!(&runtime.block_on(echo).unwrap(), b"ping");
        stop.store(true, SeqCst);
    });
}

#[test]
fn a_task_that_yields_does_not_starve_the_others() {
    let _watchdog = watchdog();
    single(|runtime| {
        let counts: Vec<_> = (0..4).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let stop = Arc::new(AtomicBool::new(false));
        for count in &counts {
            let (count, stop) = (count.clone(), stop.clone());
            runtime.spawn(async move {
                while !stop.load(SeqCst) {
                    count.fetch_add(1, SeqCst);
                    runtime::task::yield_now().await;
                }
            });
        }
        runtime.block_on(async {
            while counts.iter().any(|count| count.load(SeqCst) < 1000) {
                runtime::task::yield_now().await;
                if runtime.metrics().num_workers() == 1 {
                    std::thread::yield_now();
                }
            }
        });
        stop.store(true, SeqCst);
    });
}

#[test]
fn the_future_of_block_on_and_the_tasks_share_the_thread() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let stop = keep_busy(&runtime, 10, 1);
    let task = runtime.spawn(async { runtime::time::sleep(Duration::from_millis(1)).await });
    runtime.block_on(async {
        // The future of `block_on` is always ready, too.
        while !task.is_finished() {
            runtime::task::yield_now().await;
        }
    });
    stop.store(true, SeqCst);
}

/// A leaf that is always ready, as a full channel is, and takes part in the budget.
async fn always_ready(polls: &AtomicU64) {
    poll_fn(|cx| {
        let coop = ready!(coop::poll_proceed(cx));
        polls.fetch_add(1, SeqCst);
        coop.made_progress();
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_leaf_that_is_always_ready_yields_when_the_budget_is_spent() {
    let _watchdog = watchdog();
    single(|runtime| {
        let polls = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, stopped) = (polls.clone(), stop.clone());
        let greedy = runtime.spawn(async move {
            while !stopped.load(SeqCst) {
                always_ready(&count).await;
            }
        });
        let other = runtime.spawn(async move { runtime::task::yield_now().await });
        runtime.block_on(other).unwrap();
        stop.store(true, SeqCst);
        runtime.block_on(greedy).unwrap();
        // Each poll has a budget of its own.
        let begun = polls.load(SeqCst);
        let count = polls.clone();
        let mut task = Box::pin(async move {
            for _ in 0..1000 {
                always_ready(&count).await;
            }
        });
        let task = runtime.spawn(async move {
            let mut pendings = 0;
            poll_fn(move |cx| {
                let polled = task.as_mut().poll(cx);
                pendings += polled.is_pending() as u32;
                polled.map(|()| pendings)
            })
            .await
        });
        let pendings = runtime.block_on(task).unwrap();
        assert_eq!(pendings, 1000 / 128);
        assert_eq!(polls.load(SeqCst) - begun, 1000);
    });
}

#[test]
fn channels_and_timers_that_are_always_ready_yield() {
    let _watchdog = watchdog();
    single(|runtime| {
        let (send, mut receive) = runtime::sync::mpsc::unbounded_channel();
        (0..10_000).for_each(|i| send.send(i).unwrap());
        let ran = Arc::new(AtomicBool::new(false));
        let seen = ran.clone();
        let task = runtime.spawn(async move {
            let told = ran.clone();
            runtime::spawn(async move { told.store(true, SeqCst) });
            for i in 0..10_000 {
                assert_eq!(receive.recv().await, Some(i));
            }
            ran.load(SeqCst)
        });
        assert!(runtime.block_on(task).unwrap(), "the other task ran in between");
        assert!(seen.load(SeqCst));
    });
}

#[derive(Default)]
struct IsWoken(AtomicBool);

impl Wake for IsWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Polls `future` as another executor does in the poll of a task, until the executor would sleep.
fn poll_until_asleep(mut future: Pin<&mut impl Future>) {
    let is_woken = Arc::new(IsWoken::default());
    let waker = Waker::from(is_woken.clone());
    for _ in 0..100 {
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if !is_woken.0.swap(false, SeqCst) {
            return;
        }
    }
    panic!("the executor spins");
}

/// The future that another executor waits for takes an operation from the budget, and a leaf future inside of
/// it one more.
#[test]
fn another_executor_sleeps_although_a_task_has_one_operation_left() {
    for left in 0..3 {
        let runtime = build(0);
        let task = runtime.spawn(async move {
            let (watched, _receiver) = runtime::sync::watch::channel(());
            let (broadcast, _receiver) = runtime::sync::broadcast::channel::<()>(1);
            let notify = Notify::new();
            let mut of_watch = pin!(watched.closed());
            let mut of_broadcast = pin!(broadcast.closed());
            let mut nested = pin!(coop::cooperative(notify.notified()));
            for wait in 0..3 {
                runtime::task::yield_now().await;
                for _ in left..128 {
                    coop::consume_budget().await;
                }
                match wait {
                    0 => poll_until_asleep(of_watch.as_mut()),
                    1 => poll_until_asleep(of_broadcast.as_mut()),
                    _ => poll_until_asleep(nested.as_mut()),
                }
            }
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn an_unconstrained_future_has_no_budget() {
    let runtime = build(0);
    let polls = AtomicU64::new(0);
    runtime.block_on(coop::unconstrained(async {
        for _ in 0..1000 {
            let mut leaf = std::pin::pin!(always_ready(&polls));
            let ready = poll_fn(|cx| Poll::Ready(leaf.as_mut().poll(cx).is_ready())).await;
            assert!(ready && coop::has_budget_remaining());
        }
    }));
}

#[test]
fn a_ticker_goes_on_beside_a_channel_loop_that_is_always_ready() {
    let _watchdog = watchdog();
    single(|runtime| {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let rounds = Arc::new(AtomicU64::new(0));
        let count = rounds.clone();
        let greedy = runtime.spawn(async move {
            let (send, mut receive) = runtime::sync::mpsc::channel(1);
            while !stopped.load(SeqCst) {
                send.send(5).await.unwrap();
                assert_eq!(receive.recv().await, Some(5));
                count.fetch_add(1, SeqCst);
            }
        });
        let ticker = runtime.spawn(async move {
            let mut interval = runtime::time::interval(Duration::from_millis(1));
            // Each tick is waited for, however late the last one was.
            interval.set_missed_tick_behavior(runtime::time::MissedTickBehavior::Delay);
            let mut seen = Vec::new();
            for _ in 0..50 {
                interval.tick().await;
                seen.push(rounds.load(SeqCst));
            }
            seen
        });
        let seen = runtime.block_on(ticker).unwrap();
        assert!(!greedy.is_finished());
        // The loop, too, went on.
        assert!(seen[49] > seen[0]);
        stop.store(true, SeqCst);
        runtime.block_on(greedy).unwrap();
    });
}

/// A program sends something over a socket of its own process, and yields some times so that it arrives.
#[test]
fn a_task_that_yields_alone_has_the_driver_polled() {
    const YIELDS: usize = 10;
    single(|runtime| {
        let rounds = runtime.spawn(async {
            let listener = runtime::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            // The first time, the worker has not slept since it began; later it has, at any point between two
            // turns of the driver.
            for _ in 0..130 {
                let client = std::net::TcpStream::connect(addr).unwrap();
                let mut accepts = std::pin::pin!(listener.accept());
                let mut yields = 0;
                let accepted = loop {
                    let accepted = poll_fn(|cx| Poll::Ready(accepts.as_mut().poll(cx))).await;
                    if let Poll::Ready(accepted) = accepted {
                        break accepted.unwrap();
                    }
                    assert!(yields < YIELDS, "{yields} yields, and the connection is not there");
                    yields += 1;
                    runtime::task::yield_now().await;
                };
                drop((accepted, client));
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
        });
        runtime.block_on(rounds).unwrap();
    });
}

#[test]
fn a_driver_that_has_its_turn_as_rarely_as_possible_is_no_overflow() {
    for mut builder in [runtime::Builder::new_current_thread(), runtime::Builder::new_multi_thread()] {
        let runtime = builder.worker_threads(1).event_interval(u32::MAX).enable_all().build().unwrap();
        let yields = || async {
            for _ in 0..200 {
                runtime::task::yield_now().await;
            }
        };
        runtime.block_on(yields());
        runtime.block_on(runtime.spawn(yields())).unwrap();
    }
}
