//! `block_on` of a `current_thread` runtime, all real: no root future is forgotten, and the core is not left
//! unused while a thread could drive. Also the end of the runtime, with wakes in flight.
//!
//! A root future that is forgotten, or a core that is left unused, is a deadlock, which loom reports. The
//! twins of `MainWoken` to `MainClears` do not sleep; they say where they would. Those of `OwnPoll` do not
//! wait; they say whether they would.
//!
//! Bounds: two threads in `block_on`, one thread that wakes, one task.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::Mutex as Plain;
use std::sync::atomic::AtomicUsize as Count;
use std::task::{Poll, Waker};

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, fence};
use runtime::{Builder, Runtime};

use super::once_built::{model, thread};

/// A flag that a future waits for: relaxed, so that only the wake makes it visible.
struct Event {
    is_set: AtomicBool,
    waker: loom::sync::Mutex<Option<Waker>>,
}

impl Event {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_set: AtomicBool::new(false), waker: loom::sync::Mutex::new(None) })
    }

    fn set(&self) {
        self.is_set.store(true, Relaxed);
        let waker = self.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            // Under the lock, so that the thread that sets the flag either finds the waker or is seen.
            let mut waker = self.waker.lock().unwrap();
            if self.is_set.load(Relaxed) {
                return Poll::Ready(());
            }
            *waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// With a driver, so that the thread with the core does not sleep on its thread's token.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_io().build().unwrap()
}

#[test]
fn a_foreign_wake_reaches_the_root() {
    model(|| {
        let (runtime, event) = (runtime(), Event::new());
        let foreign = thread::spawn({
            let event = event.clone();
            move || event.set()
        });
        runtime.block_on(event.wait());
        foreign.join().unwrap();
    });
}

#[test]
fn a_foreign_wake_reaches_a_task() {
    model(|| {
        let (runtime, event) = (runtime(), Event::new());
        let foreign = thread::spawn({
            let event = event.clone();
            move || event.set()
        });
        let task = runtime.spawn(async move { event.wait().await });
        runtime.block_on(task).unwrap();
        foreign.join().unwrap();
    });
}

/// Two threads are in `block_on`. The first waits for a thread outside; the second for a task, which only the
/// thread with the core can run.
#[test]
fn the_core_passes_from_one_block_on_to_the_next() {
    model(|| {
        let (runtime, event) = (runtime(), Event::new());
        let task = runtime.spawn(async {});
        let second = thread::spawn({
            let handle = runtime.handle().clone();
            move || handle.block_on(task).unwrap()
        });
        let outside = thread::spawn({
            let event = event.clone();
            move || event.set()
        });
        runtime.block_on(event.wait());
        second.join().unwrap();
        outside.join().unwrap();
    });
}

/// As above, but both wait for a thread outside, the second with a waker that it left before it had the core.
#[test]
fn a_wake_finds_the_thread_that_has_got_the_core_meanwhile() {
    model(|| {
        let runtime = runtime();
        let events = [Event::new(), Event::new()];
        let second = thread::spawn({
            let (handle, event) = (runtime.handle().clone(), events[1].clone());
            move || handle.block_on(event.wait())
        });
        let outside = thread::spawn({
            let events = events.clone();
            move || events.iter().for_each(|event| event.set())
        });
        runtime.block_on(events[0].wait());
        second.join().unwrap();
        outside.join().unwrap();
    });
}

/// The thread that drops the runtime takes the core over, or leaves it to the thread that drives. The task is
/// dropped in both cases, before both are done.
#[test]
fn a_runtime_is_dropped_beside_a_thread_that_drives() {
    model(|| {
        let (runtime, kept) = (runtime(), Arc::new(()));
        let token = kept.clone();
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(token);
        });
        let second = thread::spawn({
            let handle = runtime.handle().clone();
            move || {
                let mut has_waited = false;
                handle.block_on(poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
                }));
            }
        });
        drop(runtime);
        second.join().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
    });
}

/// The future waits in its poll for the thread that drops the runtime, which so must not wait for that poll.
#[test]
fn a_runtime_is_dropped_beside_a_future_that_waits_for_the_drop() {
    model(|| {
        let runtime = runtime();
        let is_dropped = Arc::new((loom::sync::Mutex::new(false), loom::sync::Condvar::new()));
        let second = thread::spawn({
            let (handle, is_dropped) = (runtime.handle().clone(), is_dropped.clone());
            move || {
                handle.block_on(async {
                    let mut is_so = is_dropped.0.lock().unwrap();
                    while !*is_so {
                        is_so = is_dropped.1.wait(is_so).unwrap();
                    }
                });
            }
        });
        drop(runtime);
        *is_dropped.0.lock().unwrap() = true;
        is_dropped.1.notify_one();
        second.join().unwrap();
    });
}

/// What a future calls may park its thread, and so use up the token of a wake that came during the poll.
#[test]
fn a_root_that_parks_in_its_poll_loses_no_wake() {
    model(|| {
        let (runtime, event) = (runtime(), Event::new());
        let second = thread::spawn({
            let handle = runtime.handle().clone();
            move || {
                let mut has_waited = false;
                handle.block_on(poll_fn(|cx| {
                    if std::mem::replace(&mut has_waited, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    runtime::internals::thread::current().unpark();
                    runtime::internals::thread::park();
                    Poll::Pending
                }));
            }
        });
        let outside = thread::spawn({
            let event = event.clone();
            move || event.set()
        });
        runtime.block_on(event.wait());
        second.join().unwrap();
        outside.join().unwrap();
    });
}

/// Counts drops.
struct Counted(Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The runtime ends while a thread outside wakes one of its tasks: the future is dropped once, the last
/// thread to hold the shared state frees it.
#[test]
fn a_runtime_ends_with_a_wake_in_flight() {
    model(|| {
        let (futures, states) = (Arc::new(Count::new(0)), Arc::new(Count::new(0)));
        let state = Counted(states.clone());
        let runtime = Builder::new_current_thread().on_thread_start(move || _ = &state).build().unwrap();
        let waker = Arc::new(Plain::new(None));
        let future = Counted(futures.clone());
        let task = runtime.spawn({
            let waker = waker.clone();
            poll_fn(move |cx| {
                let _future = &future;
                *waker.lock().unwrap() = Some(cx.waker().clone());
                Poll::<()>::Pending
            })
        });
        drop(task);
        runtime.block_on(runtime::task::yield_now());
        let waker = waker.lock().unwrap().take().expect("the task has been polled");
        let foreign = thread::spawn(move || waker.wake());
        drop(runtime);
        assert_eq!(futures.load(Relaxed), 1, "the future outlives its runtime");
        foreign.join().unwrap();
        assert_eq!(futures.load(Relaxed), 1);
        assert_eq!(states.load(Relaxed), 1, "the shared state leaks, or is freed twice");
    });
}

/// The runtime ends while a thread outside spawns: the task runs or is cancelled, and is dropped.
#[test]
fn a_runtime_ends_while_a_thread_outside_spawns() {
    model(|| {
        let futures = Arc::new(Count::new(0));
        let runtime = runtime();
        let spawner = thread::spawn({
            let handle = runtime.handle().clone();
            let future = Counted(futures.clone());
            move || drop(handle.spawn(async move { drop(future) }))
        });
        drop(runtime);
        spawner.join().unwrap();
        assert_eq!(futures.load(Relaxed), 1);
    });
}

/// The bug that was put back into `MainWoken` to `MainClears`.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// `MainClears` before `MainDrives`.
    LooksBeforeItSaysWhere,
    /// `MainClears` only loads.
    OnlyLooks,
    /// `MainWoken` only stores.
    OnlyStores,
}

/// Where the root's thread sleeps, and which tokens were set.
#[derive(Default)]
struct Root {
    is_woken: AtomicBool,
    is_driving: AtomicBool,
    thread: AtomicBool,
    worker: AtomicBool,
}

/// A wake against a thread that has taken the core and goes to sleep as its worker.
fn a_root_goes_to_sleep(fault: Fault) {
    model(move || {
        let root = Arc::new(Root::default());
        let foreign = thread::spawn({
            let root = root.clone();
            move || {
                // `MainWoken`.
                match fault {
                    Fault::OnlyStores => root.is_woken.store(true, Release),
                    _ => _ = root.is_woken.swap(true, AcqRel),
                }
                // `MainUnpark`.
                let token = if root.is_driving.load(Relaxed) { &root.worker } else { &root.thread };
                token.swap(true, Relaxed);
            }
        });
        let mut is_woken = false;
        if fault == Fault::LooksBeforeItSaysWhere {
            is_woken = root.is_woken.swap(false, AcqRel);
        }
        root.is_driving.store(true, Relaxed);
        match fault {
            Fault::LooksBeforeItSaysWhere => {}
            Fault::OnlyLooks => is_woken = root.is_woken.load(Acquire),
            _ => is_woken = root.is_woken.swap(false, AcqRel),
        }
        foreign.join().unwrap();
        assert!(is_woken || root.worker.swap(false, Relaxed), "the root is forgotten");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_root_goes_to_sleep(Fault::None);
}

#[test]
#[should_panic(expected = "the root is forgotten")]
fn a_root_that_looks_before_it_says_where_it_sleeps() {
    a_root_goes_to_sleep(Fault::LooksBeforeItSaysWhere);
}

#[test]
#[should_panic(expected = "the root is forgotten")]
fn a_root_that_only_looks_whether_it_was_woken() {
    a_root_goes_to_sleep(Fault::OnlyLooks);
}

#[test]
#[should_panic(expected = "the root is forgotten")]
fn a_wake_of_a_root_by_a_store() {
    a_root_goes_to_sleep(Fault::OnlyStores);
}

/// `OwnPoll` of a thread that drives, against the thread that ends the runtime. Without `has_fence`, the
/// former does not order its mark before its look.
fn a_thread_polls_its_future_beside_the_end(has_fence: bool) {
    model(move || {
        let (is_in_own_poll, has_begun) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let ending = thread::spawn({
            let (is_in_own_poll, has_begun) = (is_in_own_poll.clone(), has_begun.clone());
            move || {
                // `BeginShutdown`, `CloseFence`.
                has_begun.swap(true, AcqRel);
                fence(SeqCst);
                !is_in_own_poll.load(Acquire)
            }
        });
        is_in_own_poll.store(true, Relaxed);
        if has_fence {
            fence(SeqCst);
        }
        let polls = !has_begun.load(Acquire);
        let waits = ending.join().unwrap();
        assert!(!(polls && waits), "the end waits for a poll that may wait for the end");
    });
}

#[test]
fn a_twin_with_the_fence_of_the_own_poll_passes() {
    a_thread_polls_its_future_beside_the_end(true);
}

#[test]
#[should_panic(expected = "the end waits for a poll that may wait for the end")]
fn an_own_poll_without_its_fence() {
    a_thread_polls_its_future_beside_the_end(false);
}
