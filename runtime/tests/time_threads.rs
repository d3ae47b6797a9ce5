//! Timers on a multi-thread runtime: tasks that migrate, and threads that are no workers.

mod support;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use std::task::{Context, Poll, Wake, Waker};

use runtime::Runtime;
use runtime::time::{Duration, Instant, sleep, sleep_until, timeout};
use support::joined_scope;

/// Longer than any of these tests may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn workers() -> Runtime {
    runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn tasks_sleep_and_migrate_and_none_wakes_early() {
    workers().block_on(async {
        let tasks: Vec<_> = (0..500_u64)
            .map(|i| {
                runtime::spawn(async move {
                    let mut sleep = pin!(sleep(ms(i % 20)));
                    for round in 0..10 {
                        let deadline = sleep.deadline();
                        sleep.as_mut().await;
                        assert!(Instant::now() >= deadline);
                        sleep.as_mut().reset(Instant::now() + ms((i * 7 + round) % 5));
                        // Registers here; the task may run elsewhere when it is polled again.
                        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await;
                        runtime::task::yield_now().await;
                        sleep.as_mut().reset(Instant::now() + ms(i % 3));
                    }
                })
            })
            .collect();
        for task in tasks {
            timeout(LIMIT, task).await.expect("no timer is lost").unwrap();
        }
    });
}

#[test]
fn timeouts_that_are_cancelled_and_that_elapse_mix() {
    workers().block_on(async {
        let tasks: Vec<_> = (0..500_u64)
            .map(|i| {
                runtime::spawn(async move {
                    for round in 0..10 {
                        let (work, limit) = if (i + round) % 2 == 0 { (1, 5_000) } else { (60_000, 3) };
                        let result = timeout(ms(limit), sleep(ms(work))).await;
                        assert_eq!(result.is_ok(), work < limit);
                    }
                })
            })
            .collect();
        for task in tasks {
            timeout(LIMIT, task).await.expect("no timer is lost").unwrap();
        }
    });
}

/// Unparks the thread that blocks.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on a thread that is no worker and does not drive.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_thread_that_is_no_worker_cuts_the_drivers_sleep_short() {
    let runtime = workers();
    let handle = runtime.handle().clone();
    let running = AtomicUsize::new(4);
    let waiting = Mutex::new(None::<Waker>);
    joined_scope(|scope| {
        for thread in 0..4 {
            let (handle, running, waiting) = (&handle, &running, &waiting);
            scope.spawn(move || {
                let _guard = handle.enter();
                for round in 0..20_u64 {
                    let deadline = Instant::now() + ms((thread + round) % 4);
                    wait(sleep_until(deadline));
                    assert!(Instant::now() >= deadline);
                }
                running.fetch_sub(1, Ordering::SeqCst);
                if let Some(waker) = &*waiting.lock() {
                    waker.wake_by_ref();
                }
            });
        }
        runtime.block_on(async {
            let done = poll_fn(|cx| {
                *waiting.lock() = Some(cx.waker().clone());
                if running.load(Ordering::SeqCst) == 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            // With nothing but this far timer, the thread that drives sleeps long.
            timeout(LIMIT, done).await.expect("the threads' timers wake their threads");
        });
    });
}

#[test]
fn sleeps_move_between_threads_and_are_dropped_anywhere() {
    let runtime = workers();
    let (sender, receiver) = std::sync::mpsc::channel();
    let dropper = std::thread::spawn(move || {
        let mut count = 0;
        for sleep in receiver {
            drop(sleep);
            count += 1;
        }
        count
    });
    runtime.block_on(async {
        let tasks: Vec<_> = (0..200_u64)
            .map(|i| {
                let sender = sender.clone();
                runtime::spawn(async move {
                    for _ in 0..10 {
                        let mut sleep = Box::pin(sleep(ms(i % 3)));
                        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await;
                        sender.send(sleep).unwrap();
                        runtime::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    drop(sender);
    assert_eq!(dropper.join().unwrap(), 2_000);
}

/// In a task beside which nothing happens but a timer that is due much later: timers whose time has passed
/// before their first poll.
async fn late_first_polls() {
    let far = runtime::spawn(sleep(LIMIT * 10));
    runtime::task::yield_now().await;
    for round in 0..20 {
        let mut after = pin!(sleep(ms(1)));
        let mut until = pin!(sleep_until(Instant::now() + ms(1)));
        let mut past = pin!(sleep_until(Instant::now() - ms(round)));
        let limited = timeout(ms(1), std::future::pending::<()>());
        let mut reset = pin!(sleep(LIMIT * 20));
        assert!(poll_fn(|cx| Poll::Ready(reset.as_mut().poll(cx).is_pending())).await);
        reset.as_mut().reset(Instant::now() + ms(1));
        std::thread::sleep(ms(2));
        match round % 5 {
            0 => after.as_mut().await,
            1 => until.as_mut().await,
            2 => past.as_mut().await,
            3 => assert!(limited.await.is_err()),
            _ => reset.as_mut().await,
        }
        after.await;
        until.await;
        past.await;
        reset.await;
    }
    far.abort();
}

#[test]
fn a_timer_that_is_polled_late_does_not_wait_for_another() {
    for runtime in [workers(), runtime::Builder::new_current_thread().enable_all().build().unwrap()] {
        let start = std::time::Instant::now();
        runtime.block_on(async { runtime::spawn(late_first_polls()).await.unwrap() });
        assert!(start.elapsed() < LIMIT, "it took until another timer was due");
        // And in a future that is no task.
        runtime.block_on(late_first_polls());
        assert!(start.elapsed() < LIMIT, "it took until another timer was due");
    }
}

#[test]
fn idle_time_outs_that_are_put_off_end_when_the_messages_do() {
    const TASKS: usize = 100;
    let runtime = workers();
    let ended = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|i| {
            let ended = ended.clone();
            runtime.spawn(async move {
                let limit = ms(2 + i as u64 % 7);
                let mut idle = pin!(sleep(limit));
                let mut due = Instant::now() + limit;
                for message in 0..200 {
                    let is_over = poll_fn(|cx| Poll::Ready(idle.as_mut().poll(cx).is_ready())).await;
                    assert!(!is_over || Instant::now() >= due, "too early");
                    due = Instant::now() + limit;
                    idle.as_mut().reset(due);
                    if message % 10 == i % 10 {
                        sleep(ms(1)).await;
                    } else {
                        runtime::task::yield_now().await;
                    }
                }
                idle.as_mut().await;
                assert!(Instant::now() >= due, "too early");
                ended.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            timeout(LIMIT, task).await.expect("no timer is lost").unwrap();
        }
    });
    assert_eq!(ended.load(Ordering::SeqCst), TASKS);
}
