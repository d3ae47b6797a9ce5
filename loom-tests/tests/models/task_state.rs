//! The state word alone, under a task that has everything but types. For each transition, a twin that lacks
//! it shows why it is needed.
//!
//! Bounds: as for whole tasks.

#[path = "task/twin.rs"]
mod twin;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::task::{AfterDetach, AfterPoll, AfterWake, Start, State};

use super::once_built::{model, thread};
use super::plain::Plain;
use twin::{Fault, Twin, Word};

/// A task. The rules of `task/mod.rs` say which thread touches its fields.
struct Task<W> {
    word: W,
    /// The number of times that the task is in the queue.
    queue: Mutex<usize>,
    /// Relaxed: made visible by the wake.
    is_ready: AtomicBool,
    future: Plain<u32>,
    output: Plain<Option<u32>>,
    join_waker: Plain<bool>,
    /// Every thread with a reference reads it, and the thread that frees writes it.
    is_alive: Plain<bool>,
    rung: Count,
    finished: Count,
    freed: Count,
}

// SAFETY: the cells are what the models watch.
unsafe impl<W: Word> Send for Task<W> {}
// SAFETY: as above.
unsafe impl<W: Word> Sync for Task<W> {}

impl<W: Word> Task<W> {
    /// Makes a task that was polled once and waits, with its handle and `wakers` wakers.
    fn new(word: W, wakers: usize) -> Arc<Self> {
        let task = Arc::new(Self {
            word,
            queue: Mutex::new(0),
            is_ready: AtomicBool::new(false),
            future: Plain::new("the future", 0),
            output: Plain::new("the output", None),
            join_waker: Plain::new("the join waker", false),
            is_alive: Plain::new("the cell", true),
            rung: Count::new(0),
            finished: Count::new(0),
            freed: Count::new(0),
        });
        task.run();
        (0..wakers).for_each(|_| task.word.add_reference());
        task
    }

    fn push(&self) {
        *self.queue.lock().unwrap() += 1;
    }

    fn run_queued(&self) {
        let mut is_queued = true;
        while is_queued {
            let mut queue = self.queue.lock().unwrap();
            is_queued = *queue > 0;
            *queue = queue.saturating_sub(1);
            drop(queue);
            if is_queued {
                self.run();
            }
        }
    }

    fn run(&self) {
        self.touch();
        if self.word.start_poll() == Start::Cancel {
            return self.complete(None);
        }
        // SAFETY: the cell checks, over the load, that no other thread accesses it.
        let is_ready = self.future.with_mut(|polls| unsafe {
            *polls += 1;
            self.is_ready.load(Relaxed)
        });
        if is_ready {
            self.finished.fetch_add(1, Relaxed);
            return self.complete(Some(7));
        }
        match self.word.finish_pending() {
            AfterPoll::Idle => {}
            AfterPoll::Requeue => self.push(),
            AfterPoll::Cancel => self.complete(None),
        }
    }

    fn complete(&self, value: Option<u32>) {
        // SAFETY: the cells check, here and below, that no other thread accesses them.
        self.future.with_mut(|polls| unsafe { *polls = 0 });
        let completed = self.word.complete(|has_join| {
            // SAFETY: as above.
            self.output.with_mut(|output| unsafe { *output = value.filter(|_| has_join) });
        });
        if completed.has_join_waker {
            // SAFETY: as above.
            let was_set = self.join_waker.with_mut(|waker| unsafe { std::mem::take(&mut *waker) });
            assert!(was_set, "JOIN_WAKER says that the waker is set");
            self.rung.fetch_add(1, Relaxed);
            self.drop_reference();
        } else if completed.was_last {
            self.free();
        }
    }

    /// Wakes by a waker, then drops it.
    fn wake(&self) {
        self.touch();
        if self.word.wake() {
            self.push();
        }
        self.drop_reference();
    }

    /// Wakes by a waker, and drops it in the same step.
    fn wake_by_value(&self) {
        self.touch();
        match self.word.wake_by_value() {
            AfterWake::Nothing => {}
            AfterWake::Schedule => {
                self.touch();
                self.push();
            }
            AfterWake::Free => self.free(),
        }
    }

    fn abort(&self) {
        self.touch();
        if self.word.cancel() {
            self.push();
        }
        self.drop_reference();
    }

    /// Polls the handle. Returns false if the task is done.
    fn register(&self) -> bool {
        // SAFETY: as above.
        self.join_waker.with_mut(|waker| unsafe { *waker = true });
        self.word.set_join_waker()
    }

    fn take_output(&self) -> Option<u32> {
        // SAFETY: as above.
        self.output.with_mut(|output| unsafe { (*output).take() })
    }

    fn drop_handle(&self) {
        self.touch();
        match self.word.detach() {
            AfterDetach::Nothing => return,
            // SAFETY: as above.
            AfterDetach::DropWaker => self.join_waker.with_mut(|waker| unsafe { *waker = false }),
            AfterDetach::DropOutput => _ = self.take_output(),
        }
        self.drop_reference();
    }

    fn touch(&self) {
        // SAFETY: the cell checks that no other thread writes.
        assert!(self.is_alive.with(|is_alive| unsafe { *is_alive }), "used after it was freed");
    }

    fn drop_reference(&self) {
        if self.word.drop_reference() {
            self.free();
        }
    }

    fn free(&self) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.is_alive.with_mut(|is_alive| unsafe { *is_alive = false });
        self.freed.fetch_add(1, Relaxed);
    }

    fn assert_freed(&self) {
        let freed = self.freed.load(Relaxed);
        assert!(freed > 0, "the cell is never freed");
        assert_eq!(freed, 1, "the cell is freed twice");
        // SAFETY: all threads have been joined.
        assert!(self.output.with(|output| unsafe { (*output).is_none() }), "the output is not dropped");
    }
}

/// Three wakes, one of which follows a write that makes the task ready, while two threads run queued tasks.
/// The first wake queues the task, the second sets NOTIFIED, the third finds it set.
fn wakes<W: Word>(word: impl Fn() -> W + Send + Sync + 'static) {
    meet(word, 3, Task::wake, |task| {
        task.wake();
        task.wake();
    });
}

/// Two threads of the scheduler wake by value, while two threads run queued tasks. One of the wakes follows a
/// write that makes the task ready. The last reference may go with a wake.
fn wakes_by_value<W: Word>(word: impl Fn() -> W + Send + Sync + 'static) {
    meet(word, 2, Task::wake_by_value, Task::wake_by_value);
}

/// One thread makes the task ready, and then does `tell`. Another does `wake` and runs the queued task, as
/// the model's own thread does. The two threads have `wakers` wakers. The task finishes, and is freed.
fn meet<W: Word>(
    word: impl Fn() -> W + Send + Sync + 'static,
    wakers: usize,
    tell: fn(&Task<W>),
    wake: fn(&Task<W>),
) {
    model(move || {
        let task = Task::new(word(), wakers);
        task.drop_handle();
        let teller = {
            let task = task.clone();
            thread::spawn(move || {
                task.is_ready.store(true, Relaxed);
                tell(&task);
            })
        };
        let runner = {
            let task = task.clone();
            thread::spawn(move || {
                wake(&task);
                task.run_queued();
            })
        };
        task.run_queued();
        teller.join().unwrap();
        runner.join().unwrap();
        task.run_queued();
        assert_eq!(task.finished.load(Relaxed), 1, "a wake was lost");
        task.assert_freed();
    });
}

/// An abort against a wake that causes a poll.
fn an_abort<W: Word>(word: impl Fn() -> W + Send + Sync + 'static) {
    model(move || {
        let task = Task::new(word(), 2);
        task.drop_handle();
        let threads = [true, false].map(|is_wake| {
            let task = task.clone();
            thread::spawn(move || {
                if is_wake {
                    task.wake()
                } else {
                    task.abort()
                }
                task.run_queued();
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        task.run_queued();
        task.assert_freed();
    });
}

/// The handle waits for the output, or has set its waker and is dropped, while the task completes.
fn a_handle<W: Word>(word: impl Fn() -> W + Send + Sync + 'static, is_dropped: bool) {
    model(move || {
        let task = Task::new(word(), 1);
        let is_registered_before = is_dropped && task.register();
        let worker = thread::spawn({
            let task = task.clone();
            move || {
                task.is_ready.store(true, Relaxed);
                task.wake();
                task.run_queued();
            }
        });
        if is_dropped {
            assert!(is_registered_before);
            task.drop_handle();
        } else if !task.register() {
            assert_eq!(task.take_output(), Some(7));
            // SAFETY: DONE was seen, and JOIN_WAKER not set: the waker is the handle's.
            task.join_waker.with_mut(|waker| unsafe { *waker = false });
            task.drop_handle();
            worker.join().unwrap();
            return task.assert_freed();
        }
        worker.join().unwrap();
        if !is_dropped {
            assert_eq!(task.rung.load(Relaxed), 1, "the task that waits for the output is not woken");
            assert_eq!(task.take_output(), Some(7));
            task.drop_handle();
        }
        task.assert_freed();
    });
}

/// The handle is polled when the task may be done already. This is a model of its own, because in `a_handle`
/// it would cost a preemption.
fn a_late_handle<W: Word>(word: impl Fn() -> W + Send + Sync + 'static) {
    model(move || {
        let task = Task::new(word(), 1);
        let worker = thread::spawn({
            let task = task.clone();
            move || {
                task.is_ready.store(true, Relaxed);
                task.wake();
                task.run_queued();
            }
        });
        thread::yield_now();
        if task.register() {
            task.drop_handle();
        } else {
            assert_eq!(task.take_output(), Some(7));
            // SAFETY: DONE was seen, and JOIN_WAKER not set: the waker is the handle's.
            task.join_waker.with_mut(|waker| unsafe { *waker = false });
            task.drop_handle();
        }
        worker.join().unwrap();
    });
}

#[test]
fn an_output_that_is_there_is_seen() {
    a_late_handle(|| State::with_references(0));
}

#[test]
fn wakes_are_seen() {
    wakes(|| State::with_references(0));
}

#[test]
fn wakes_by_value_are_seen_and_free_once() {
    wakes_by_value(|| State::with_references(0));
}

#[test]
fn an_abort_makes_no_second_owner() {
    an_abort(|| State::with_references(0));
}

#[test]
fn an_output_reaches_its_handle() {
    a_handle(|| State::with_references(0), false);
}

#[test]
fn a_handle_goes_while_the_task_completes() {
    a_handle(|| State::with_references(0), true);
}

#[test]
fn a_twin_without_a_fault_passes() {
    wakes(|| Twin::new(Fault::None));
    wakes_by_value(|| Twin::new(Fault::None));
    an_abort(|| Twin::new(Fault::None));
    a_handle(|| Twin::new(Fault::None), false);
    a_handle(|| Twin::new(Fault::None), true);
    a_late_handle(|| Twin::new(Fault::None));
}

/// A twin for each fault, and the model that must refuse it.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident $(, $argument:expr)?), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(|| Twin::new(Fault::$fault) $(, $argument)?);
        }
    )*};
}

refused! {
    a_wake_that_forgets_a_task_being_polled: wakes(WakeForgetsScheduled), "a wake was lost";
    a_wake_that_only_looks_if_there_was_one: wakes(WakeOnlyLooks), "a wake was lost";
    a_wake_without_release: wakes(WakeIsRelaxed), "a wake was lost";
    a_poll_that_begins_without_acquire: wakes(StartIsRelaxed), "a wake was lost";
    a_poll_that_ends_by_a_store: wakes(PendingStores), "a wake was lost";
    a_poll_that_ends_without_release: wakes(PendingIsRelaxed), "data race on the future";
    a_reference_dropped_without_release: wakes(DropIsRelaxed), "data race on the cell";
    a_wake_by_value_that_forgets_a_task_being_polled: wakes_by_value(ByValueForgetsScheduled),
        "a wake was lost";
    a_wake_by_value_without_release: wakes_by_value(ByValueIsRelaxed), "a wake was lost";
    a_last_wake_by_value_that_frees_nothing: wakes_by_value(ByValueForgetsLast), "the cell is never freed";
    an_abort_of_a_task_being_polled: an_abort(CancelTakesScheduled), "data race on the future";
    a_completion_that_misses_the_join_waker: a_handle(CompletesBlindly, false),
        "the task that waits for the output is not woken";
    a_completion_without_release: a_handle(CompletesRelaxed, false), "data race on the output";
    a_handle_dropped_without_a_look_at_done: a_handle(DetachesBlindly, true), "the output is not dropped";
}
