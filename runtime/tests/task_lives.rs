//! The product of task lives: runtime × what panics × what the handle does and when × how the task is aborted
//! and when × when the runtime ends × where the last waker goes. In each, future, output and wakers are
//! dropped exactly once and the worker lives.

mod support;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;

use parking_lot::Mutex;
use runtime::task::JoinHandle;
use support::{DropToken, Drops, KINDS, build, builder, until, watchdog};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Panics {
    None,
    Poll,
    Drop,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Handling {
    /// Awaited.
    Taken,
    /// Polled once, then dropped.
    PolledThenDropped,
    DroppedAtOnce,
    DroppedAfterEnd,
    /// Dropped by another thread while the task is let go.
    DroppedElsewhere,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Abort {
    Never,
    /// Before its first poll, as far as the runtime lets us.
    Newborn,
    /// When it waits.
    Waiting,
    /// From inside of its second poll.
    ByItself,
    /// By another thread, while it is woken.
    Elsewhere,
    AfterEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// After the task.
    After,
    /// While it waits.
    Before,
    /// While it is woken by another thread.
    Meanwhile,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LastWaker {
    /// In the task's poll.
    Inside,
    /// By the thread that wakes it, in the wake.
    InTheWake,
    /// On a thread outside, when the runtime is gone.
    Outside,
}

#[derive(Debug, Clone, Copy)]
struct Life {
    workers: usize,
    panics: Panics,
    output_panics: bool,
    handling: Handling,
    abort: Abort,
    end: End,
    last_waker: LastWaker,
}

fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("told to panic"))
}

/// Counts its drop, and panics there if told to.
struct Fragile {
    _token: DropToken,
    panics: bool,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if self.panics {
            quiet_panic();
        }
    }
}

/// Waits once, for a wake through `waker`; its second poll is its last.
struct Subject {
    life: Life,
    polls: usize,
    waker: Arc<Mutex<Option<Waker>>>,
    abort: Arc<Mutex<Option<runtime::task::AbortHandle>>>,
    polled: Arc<AtomicUsize>,
    output: Option<Fragile>,
    _fragile: Fragile,
}

impl Future for Subject {
    type Output = Fragile;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Fragile> {
        self.polls += 1;
        if self.polls == 1 {
            *self.waker.lock() = Some(cx.waker().clone());
            self.polled.fetch_add(1, SeqCst);
            return Poll::Pending;
        }
        if self.life.last_waker == LastWaker::Inside {
            let waker = self.waker.lock().take();
            drop(waker);
        }
        if self.life.abort == Abort::ByItself {
            self.abort.lock().as_ref().unwrap().abort();
        }
        if matches!(self.life.panics, Panics::Poll | Panics::Both) {
            quiet_panic();
        }
        let mut output = self.output.take().unwrap();
        // Only now: two panics in the destructor of one future abort, as everywhere.
        output.panics = self.life.output_panics;
        Poll::Ready(output)
    }
}

/// Polls the handle once, with a waker that does nothing.
fn poll_once(handle: &mut JoinHandle<Fragile>) {
    let polled = Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(Ok(output)) = polled {
        drop_output(output);
    }
}

fn drop_output(output: Fragile) {
    _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(output)));
}

fn live(life: Life) {
    let runtime = build(life.workers);
    let (futures, outputs) = (Drops::default(), Drops::default());
    let waker = Arc::new(Mutex::new(None));
    let abort = Arc::new(Mutex::new(None));
    let polled = Arc::new(AtomicUsize::new(0));
    let subject = Subject {
        life,
        polls: 0,
        waker: waker.clone(),
        abort: abort.clone(),
        polled: polled.clone(),
        output: Some(Fragile { _token: outputs.token(), panics: false }),
        _fragile: Fragile {
            _token: futures.token(),
            panics: matches!(life.panics, Panics::Drop | Panics::Both),
        },
    };
    // Let the `current_thread` runtime run what is runnable.
    let turn = || {
        if life.workers == 0 {
            runtime.block_on(runtime::task::yield_now());
        }
    };
    let mut handle = Some(runtime.spawn(subject));
    *abort.lock() = Some(handle.as_ref().unwrap().abort_handle());
    let abort = abort.lock().clone().unwrap();
    match life.handling {
        Handling::DroppedAtOnce => handle = None,
        Handling::PolledThenDropped => poll_once(handle.as_mut().unwrap()),
        _ => {}
    }
    if life.abort == Abort::Newborn {
        abort.abort();
    }
    until("it waits or has ended", || {
        turn();
        polled.load(SeqCst) == 1 || abort.is_finished()
    });
    if life.handling == Handling::PolledThenDropped {
        handle.as_mut().map(poll_once);
        handle = None;
    }
    if life.abort == Abort::Waiting {
        abort.abort();
    }
    let (to_abort, to_wake) = (abort.clone(), waker.clone());
    let dropped = if life.handling == Handling::DroppedElsewhere { handle.take() } else { None };
    let outsider = move || {
        drop(dropped);
        if life.abort == Abort::Elsewhere {
            to_abort.abort();
        }
        match life.last_waker {
            LastWaker::InTheWake => {
                let waker = to_wake.lock().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            _ => {
                // By reference: the last drop comes later.
                let waker = to_wake.lock().clone();
                if let Some(waker) = &waker {
                    waker.wake_by_ref();
                }
            }
        }
    };
    let mut runtime = Some(runtime);
    match life.end {
        End::After => {
            let outsider = thread::spawn(outsider);
            until("it has ended", || {
                if life.workers == 0 {
                    runtime.as_ref().unwrap().block_on(runtime::task::yield_now());
                }
                abort.is_finished()
            });
            outsider.join().unwrap();
        }
        End::Before => {
            runtime = None;
            outsider();
        }
        End::Meanwhile => {
            let outsider = thread::spawn(outsider);
            runtime = None;
            outsider.join().unwrap();
        }
    }
    assert!(abort.is_finished());
    if life.abort == Abort::AfterEnd {
        abort.abort();
    }
    assert_eq!(futures.count(), 1, "the future is dropped once, by now");
    if let Some(handle) = handle.take() {
        if life.handling == Handling::Taken {
            let mut handle = handle;
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(Ok(output)) => {
                    assert_eq!(outputs.count(), 0);
                    assert_eq!(life.panics, Panics::None);
                    drop_output(output);
                }
                Poll::Ready(Err(error)) => {
                    let may_be_cancelled = life.abort != Abort::Never || life.end != End::After;
                    assert!(error.is_panic() && life.panics != Panics::None || may_be_cancelled, "{error}");
                }
                Poll::Pending => panic!("a finished task's handle is ready"),
            }
        }
    }
    assert_eq!(outputs.count(), 1, "the output is dropped once, by now");
    if let Some(runtime) = &runtime {
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
        until("it is forgotten", || runtime.metrics().num_alive_tasks() == 0);
    }
    drop(runtime);
    // The last waker, and the last use of the cell, may be long after.
    let last = waker.lock().take();
    if let Some(waker) = last {
        waker.wake_by_ref();
        drop(waker.clone());
        waker.wake();
    }
    assert!(abort.is_finished());
    drop(abort);
    assert_eq!((futures.count(), outputs.count()), (1, 1));
}

/// All lives with `workers` workers.
fn lives(workers: usize) -> Vec<Life> {
    let mut lives = Vec::new();
    for panics in [Panics::None, Panics::Poll, Panics::Drop, Panics::Both] {
        for output_panics in [false, true] {
            for handling in [
                Handling::Taken,
                Handling::PolledThenDropped,
                Handling::DroppedAtOnce,
                Handling::DroppedAfterEnd,
                Handling::DroppedElsewhere,
            ] {
                for abort in [
                    Abort::Never,
                    Abort::Newborn,
                    Abort::Waiting,
                    Abort::ByItself,
                    Abort::Elsewhere,
                    Abort::AfterEnd,
                ] {
                    for end in [End::After, End::Before, End::Meanwhile] {
                        for last_waker in [LastWaker::Inside, LastWaker::InTheWake, LastWaker::Outside] {
                            let life =
                                Life { workers, panics, output_panics, handling, abort, end, last_waker };
                            lives.push(life);
                        }
                    }
                }
            }
        }
    }
    lives
}

fn live_all(workers: usize) {
    let _watchdog = watchdog();
    for life in lives(workers) {
        let result = std::panic::catch_unwind(|| live(life));
        assert!(result.is_ok(), "{life:?}");
    }
}

/// Its destructor keeps two wakers of its own task, and drops one.
struct WakesItself {
    own: Waker,
    kept: Arc<Mutex<Vec<Waker>>>,
}

impl Drop for WakesItself {
    fn drop(&mut self) {
        self.kept.lock().extend([self.own.clone(), self.own.clone()]);
    }
}

/// The handle is dropped inside of another task's poll. The wakers count until the last one is dropped, and
/// then the runtime's memory is freed, with its hooks.
#[test]
fn the_destructor_of_an_output_may_clone_and_drop_wakers_of_its_task() {
    let _watchdog = watchdog();
    for workers in KINDS {
        for keeps in [true, false] {
            let (alive, kept) = (Arc::new(()), Arc::new(Mutex::new(Vec::new())));
            let (seen, keeper) = (alive.clone(), kept.clone());
            let runtime = builder(workers).on_thread_stop(move || _ = &seen).build().unwrap();
            let drops = async move {
                let task = runtime::spawn(poll_fn(move |cx| {
                    let own = cx.waker().clone();
                    let output = keeps.then(|| WakesItself { own: own.clone(), kept: keeper.clone() });
                    Poll::Ready((own, output))
                }));
                while !task.is_finished() {
                    runtime::task::yield_now().await;
                }
                drop(task);
            };
            runtime.block_on(runtime.spawn(drops)).unwrap();
            assert_eq!(kept.lock().len(), if keeps { 2 } else { 0 });
            kept.lock().iter().for_each(Waker::wake_by_ref);
            kept.lock().clear();
            drop(runtime);
            assert_eq!(Arc::strong_count(&alive), 1, "the runtime's memory is kept");
        }
    }
}

#[test]
fn every_life_on_a_current_thread_runtime() {
    live_all(0);
}

#[test]
fn every_life_on_one_worker() {
    live_all(1);
}

#[test]
fn every_life_on_two_workers() {
    live_all(2);
}
