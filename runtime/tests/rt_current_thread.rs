//! Several threads in `block_on` of one `current_thread` runtime: one drives, the others wait, and none is
//! left behind.

mod support;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use runtime::{Handle, Runtime};
use support::{Gate, build, panic_of, until, watchdog};

/// A future that is ready when told to, from any thread.
#[derive(Clone, Default)]
struct Signal(Arc<(AtomicBool, parking_lot::Mutex<Option<Waker>>)>);

impl Signal {
    fn give(&self) {
        self.0.0.store(true, SeqCst);
        let waker = self.0.1.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_awaited(&self) -> bool {
        self.0.1.lock().is_some()
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            *self.0.1.lock() = Some(cx.waker().clone());
            if self.0.0.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A thread that is in `block_on` and drives, until told to end.
fn driver(handle: &Handle) -> (thread::JoinHandle<()>, Signal) {
    let (handle, end) = (handle.clone(), Signal::default());
    let wait = end.clone();
    let thread = thread::spawn(move || handle.block_on(wait.wait()));
    until("the thread waits", || end.is_awaited());
    (thread, end)
}

#[test]
fn a_waiter_takes_over_when_the_driving_thread_is_done() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let (first, end) = driver(runtime.handle());
    let go = Signal::default();
    let handle = runtime.handle().clone();
    let wait = go.clone();
    let second = thread::spawn(move || {
        handle.block_on(async {
            wait.wait().await;
            // Needs a thread that drives: by now only this thread can.
            runtime::time::sleep(Duration::from_millis(1)).await;
            runtime::spawn(async { 5 }).await.unwrap()
        })
    });
    until("the second waits", || go.is_awaited());
    end.give();
    first.join().unwrap();
    // The second thread was not woken for its future yet.
    let task = runtime.spawn(async {});
    until("the second drives the task", || task.is_finished());
    go.give();
    assert_eq!(second.join().unwrap(), 5);
}

#[test]
fn both_threads_make_progress_while_one_drives() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let (first, end) = driver(runtime.handle());
    // The other thread drives the tasks, and wakes this one.
    for _ in 0..100 {
        assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
    }
    runtime.block_on(async { runtime::time::sleep(Duration::from_millis(1)).await });
    end.give();
    first.join().unwrap();
}

#[test]
fn a_waiter_that_panics_does_not_swallow_the_hand_over() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let (first, end) = driver(runtime.handle());
    let (second, end_second) = driver(runtime.handle());
    // This call becomes a waiter after the second one, and ends by a panic.
    panic_of(|| runtime.block_on(async { panic!("boom") }));
    end.give();
    first.join().unwrap();
    let task = runtime.spawn(async { 1 });
    until("the second drives the task", || task.is_finished());
    end_second.give();
    second.join().unwrap();
}

/// Two more threads wait when the driving thread is done. One of them is in its poll, which ends when the
/// other has done what needs the driver.
#[test]
fn the_core_does_not_go_to_a_waiter_that_is_in_its_poll() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let (first, end) = driver(runtime.handle());
    let (done, is_done) = mpsc::channel();
    let (handle, sleeps) = (runtime.handle().clone(), Gate::default());
    let is_asleep = sleeps.clone();
    let parks = thread::spawn(move || {
        handle.block_on(async {
            is_asleep.open();
            // Longer than it takes until the core is handed over.
            runtime::time::sleep(Duration::from_millis(200)).await;
            done.send(()).unwrap();
        });
    });
    sleeps.wait();
    // So long that it parks.
    thread::sleep(Duration::from_millis(20));
    let (handle, polled) = (runtime.handle().clone(), Gate::default());
    let is_polled = polled.clone();
    let blocks = thread::spawn(move || {
        handle.block_on(async {
            is_polled.open();
            is_done.recv().unwrap();
        });
    });
    polled.wait();
    end.give();
    first.join().unwrap();
    blocks.join().unwrap();
    parks.join().unwrap();
}

#[test]
fn a_waiter_whose_future_parks_the_thread_loses_no_wake() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let (first, end) = driver(runtime.handle());
    let mut is_first = true;
    runtime.block_on(poll_fn(|cx| {
        if !is_first {
            return Poll::Ready(());
        }
        is_first = false;
        cx.waker().wake_by_ref();
        // Takes the token that the wake has left.
        thread::park();
        Poll::Pending
    }));
    end.give();
    first.join().unwrap();
}

#[test]
fn a_nested_waiter_does_not_take_the_place_of_the_outer_one() {
    let _watchdog = watchdog();
    for _ in 0..20 {
        let runtime = build(0);
        let (first, end) = driver(runtime.handle());
        let handle = runtime.handle().clone();
        let inside = Signal::default();
        let told = inside.clone();
        let second = thread::spawn(move || {
            let nested = handle.clone();
            handle.block_on(async {
                nested.block_on(told.wait());
                runtime::spawn(async { 5 }).await.unwrap()
            })
        });
        until("the second waits inside", || inside.is_awaited());
        // The nested call takes over, ends, and puts the core down: the outer one must take it up.
        end.give();
        first.join().unwrap();
        let task = runtime.spawn(async {});
        until("the nested call drives", || task.is_finished());
        inside.give();
        assert_eq!(second.join().unwrap(), 5);
    }
}

#[test]
fn a_runtime_dropped_while_another_thread_stops_driving_drops_its_tasks() {
    let _watchdog = watchdog();
    let drops = support::Drops::default();
    for round in 1..=1000 {
        let runtime = build(0);
        let token = drops.token();
        runtime.spawn(async move {
            let _token = token;
            std::future::pending::<()>().await;
        });
        let handle = runtime.handle().clone();
        let (send, receive) = mpsc::channel();
        let other = thread::spawn(move || {
            handle.block_on(async { send.send(()).unwrap() });
        });
        receive.recv().unwrap();
        drop(runtime);
        other.join().unwrap();
        assert_eq!(drops.count(), round, "one thread finishes the runtime");
    }
}

/// The destructor needs what comes behind the other thread's `block_on`, so it must not run on its stack.
#[test]
fn a_destructor_at_the_end_may_wait_for_the_thread_that_drives() {
    let _watchdog = watchdog();
    for is_ready in [true, false] {
        let runtime = build(0);
        let (end, ended) = mpsc::channel::<()>();
        let waits = OnDrop(Some(ended));
        let (begin, begun) = mpsc::channel();
        let go = Signal::default();
        let told = go.clone();
        runtime.spawn(async move {
            let _waits = waits;
            std::future::pending::<()>().await;
        });
        // Its poll holds up the driving thread until the shutdown has begun.
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            begin.send(()).unwrap();
            until("the shutdown has begun", || handle.spawn(async {}).is_finished());
            if is_ready {
                told.give();
            }
        });
        let handle = runtime.handle().clone();
        let late = go.clone();
        let other = thread::spawn(move || {
            handle.block_on(go.wait());
            drop(end);
        });
        begun.recv().unwrap();
        let dropper = thread::spawn(move || drop(runtime));
        if !is_ready {
            // The call goes on after the shutdown, and ends when told to.
            late.give();
        }
        other.join().unwrap();
        dropper.join().unwrap();
    }
}

/// Waits for the end of a channel when it is dropped.
struct OnDrop(Option<mpsc::Receiver<()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        _ = self.0.take().unwrap().recv();
    }
}

#[test]
fn a_nested_block_on_learns_that_the_runtime_was_dropped() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let handle = runtime.handle().clone();
    let signal = Signal::default();
    let result = handle.clone().block_on(async move {
        let task = runtime::spawn(std::future::pending::<()>());
        handle.block_on(async move {
            drop(runtime);
            let result = task.await;
            // The nested call sleeps as before, and its wakes still come.
            let told = signal.clone();
            let metrics = Handle::current().metrics();
            let parks = metrics.worker_park_count(0);
            thread::spawn(move || {
                until("it sleeps", || metrics.worker_park_count(0) > parks);
                told.give();
            });
            signal.wait().await;
            result
        })
    });
    assert!(result.unwrap_err().is_cancelled());
}

#[test]
fn a_block_on_inside_of_a_task_learns_that_the_runtime_was_dropped() {
    let _watchdog = watchdog();
    let runtime = build(0);
    let handle = runtime.handle().clone();
    let ended = Gate::default();
    let gate = ended.clone();
    let inner = handle.clone();
    runtime.spawn(async move {
        let task = runtime::spawn(std::future::pending::<()>());
        let error = runtime::task::block_in_place(|| inner.block_on(task)).unwrap_err();
        assert!(error.is_cancelled());
        gate.open();
    });
    let go = Signal::default();
    let wait = go.clone();
    let other = thread::spawn(move || handle.block_on(wait.wait()));
    until("the task waits", || runtime.metrics().num_alive_tasks() == 2);
    drop(runtime);
    ended.wait();
    go.give();
    other.join().unwrap();
}

#[test]
fn many_threads_hand_the_core_around() {
    let _watchdog = watchdog();
    let runtime = Arc::new(build(0));
    let done = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..6)
        .map(|i| {
            let (runtime, done): (Arc<Runtime>, _) = (runtime.clone(), done.clone());
            thread::spawn(move || {
                for round in 0..200 {
                    let done = done.clone();
                    let task = runtime.spawn(async move {
                        runtime::task::yield_now().await;
                        done.fetch_add(1, SeqCst);
                    });
                    match (i + round) % 7 {
                        0 => {
                            _ = panic_of(|| {
                                runtime.block_on(async { std::panic::resume_unwind(Box::new(())) })
                            })
                        }
                        1 => runtime.block_on(async { runtime.block_on(task).unwrap() }),
                        _ => runtime.block_on(task).unwrap(),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    runtime.block_on(async {
        while runtime.metrics().num_alive_tasks() > 0 {
            runtime::task::yield_now().await;
        }
    });
    assert_eq!(done.load(SeqCst), 1200);
}
