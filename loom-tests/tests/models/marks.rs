//! Marks of blocked threads, and the search for a deadlock (`scheduler/away/marks.rs` and `deadlock.rs`). A
//! deadlock is reported, and once. Nothing is reported while a thread can still unblock the marked one.
//!
//! A deadlock that is not reported is a deadlock of the model, which loom reports. The twins do not sleep.
//!
//! Bounds: two workers, one mark; one task, which takes the mark back.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;
use std::task::Poll;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use loom::sync::atomic::{AtomicU32, AtomicU64};
use runtime::parallel::{Mark, mark_blocked, mark_unblocked};

use super::once_built::{model, thread};
use super::stage::{Signal, Stage};

/// A stage of two workers, what is set at a report, and the number of reports.
fn stage() -> (Arc<Stage>, Arc<Signal>, Arc<Count>) {
    let (is_reported, reports) = (Arc::new(Signal::default()), Arc::new(Count::new(0)));
    let handler = {
        let (is_reported, reports) = (is_reported.clone(), reports.clone());
        move || {
            reports.fetch_add(1, Relaxed);
            is_reported.set();
        }
    };
    (Stage::with_deadlock_handler(2, handler), is_reported, reports)
}

/// A worker falls asleep while another is marked. The marked worker waits for the report.
#[test]
fn a_deadlock_is_reported_once() {
    model(|| {
        let (stage, is_reported, reports) = stage();
        let sleeper = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        stage.act(1, |_| {
            let mark = mark_blocked();
            is_reported.wait();
            mark_unblocked(mark);
        });
        stage.shared().begin_shutdown();
        sleeper.join().unwrap();
        stage.end();
        assert_eq!(reports.load(Relaxed), 1, "a deadlock is reported twice");
    });
}

/// A worker takes a task, which unblocks the other worker once that is marked, and falls asleep.
#[test]
fn nothing_is_reported_while_a_task_unblocks_the_marked_worker() {
    model(|| {
        let (stage, _, reports) = stage();
        let sleeper = {
            let stage = stage.clone();
            thread::spawn(move || stage.live(0))
        };
        stage.act(1, |_| {
            let (mark, is_unblocked) = (Arc::new(Mutex::new(None::<Mark>)), Arc::new(Signal::default()));
            let task = {
                let (mark, is_unblocked) = (mark.clone(), is_unblocked.clone());
                stage.task(poll_fn(move |cx| {
                    let Some(mark) = mark.lock().unwrap().take() else {
                        cx.waker().wake_by_ref();
                        thread::yield_now();
                        return Poll::Pending;
                    };
                    mark_unblocked(mark);
                    is_unblocked.set();
                    Poll::Ready(())
                }))
            };
            stage.shared().inject(task);
            *mark.lock().unwrap() = Some(mark_blocked());
            is_unblocked.wait();
        });
        stage.shared().begin_shutdown();
        sleeper.join().unwrap();
        stage.end();
        assert_eq!(reports.load(Relaxed), 0, "a deadlock is reported where there is none");
    });
}

/// The bug that was put back.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// `DeadlockSleeps` loads the parker's word.
    LooksByLoad,
    /// A sleeper reads the number of marks before `ParkShow`.
    CountsEarly,
    /// `DeadlockSame` is missing.
    LooksOnce,
}

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 3;

/// A worker's parker, and the number of its sleeps.
struct Sleeper {
    parker: AtomicU32,
    parks: AtomicU64,
}

/// A small copy of the search, with at most one bug.
struct Twin {
    sleepers: [Sleeper; 2],
    announced: AtomicU32,
    tasks: Mutex<usize>,
    fault: Fault,
}

impl Twin {
    fn new(fault: Fault) -> Arc<Self> {
        let sleeper = || Sleeper { parker: AtomicU32::new(EMPTY), parks: AtomicU64::new(0) };
        let (announced, tasks) = (AtomicU32::new(0), Mutex::new(0));
        Arc::new(Self { sleepers: [sleeper(), sleeper()], announced, tasks, fault })
    }

    /// `MarkShow` of worker `index`, and `MarkCount`. Returns whether it looks for a deadlock.
    fn falls_asleep(&self, index: usize) -> bool {
        let early = self.announced.load(Relaxed);
        let sleeper = &self.sleepers[index];
        sleeper.parks.fetch_add(1, Relaxed);
        assert!(sleeper.parker.compare_exchange(EMPTY, PARKED, AcqRel, Relaxed).is_ok());
        let marks = if self.fault == Fault::CountsEarly { early } else { self.announced.load(Relaxed) };
        marks > 0
    }

    /// `DeadlockSleeps` of one worker.
    fn sleep_of(&self, index: usize) -> Option<u64> {
        let Sleeper { parker, parks } = &self.sleepers[index];
        let now = match self.fault {
            Fault::LooksByLoad => parker.load(Acquire),
            _ => parker.fetch_add(0, AcqRel),
        };
        (now == PARKED).then(|| parks.load(Relaxed))
    }

    /// `DeadlockSleeps` to `DeadlockSame`, for the first `workers` workers.
    fn finds_deadlock(&self, workers: usize) -> bool {
        let sleeps = || (0..workers).map(|index| self.sleep_of(index)).collect::<Option<Vec<_>>>();
        let Some(before) = sleeps() else { return false };
        if *self.tasks.lock().unwrap() > 0 {
            return false;
        }
        match self.fault {
            Fault::LooksOnce => true,
            _ => sleeps() == Some(before),
        }
    }
}

/// The one worker that is not marked falls asleep while the other is marked.
fn a_deadlock_of_a_twin(fault: Fault) {
    model(move || {
        let twin = Twin::new(fault);
        let sleeper = {
            let twin = twin.clone();
            thread::spawn(move || twin.falls_asleep(0) && twin.finds_deadlock(1))
        };
        twin.announced.store(1, Relaxed);
        let is_found = twin.finds_deadlock(1);
        assert!(sleeper.join().unwrap() || is_found, "the deadlock is not reported");
    });
}

/// A worker pushes a task for a sleeper, wakes it, and falls asleep, while the marked thread looks. The
/// sleeper takes the task, which lasts for ever.
fn a_task_that_a_sleeper_takes(fault: Fault) {
    model(move || {
        let twin = Twin::new(fault);
        twin.announced.store(1, Relaxed);
        _ = twin.falls_asleep(0);
        let pusher = {
            let twin = twin.clone();
            thread::spawn(move || {
                *twin.tasks.lock().unwrap() += 1;
                twin.sleepers[0].parker.swap(NOTIFIED, AcqRel);
                _ = twin.falls_asleep(1);
            })
        };
        let sleeper = {
            let twin = twin.clone();
            thread::spawn(move || {
                let parker = &twin.sleepers[0].parker;
                if parker.compare_exchange(NOTIFIED, EMPTY, AcqRel, Relaxed).is_ok() {
                    *twin.tasks.lock().unwrap() -= 1;
                }
            })
        };
        let is_found = twin.finds_deadlock(2);
        pusher.join().unwrap();
        sleeper.join().unwrap();
        assert!(!is_found, "a deadlock is reported where there is none");
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_deadlock_of_a_twin(Fault::None);
    a_task_that_a_sleeper_takes(Fault::None);
}

/// A twin for each fault, the model that must refuse it, and what the model says.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model(Fault::$fault);
        }
    )*};
}

refused! {
    a_look_that_loads_the_parkers_word: a_deadlock_of_a_twin(LooksByLoad), "the deadlock is not reported";
    a_sleeper_that_counts_the_marks_early: a_deadlock_of_a_twin(CountsEarly), "the deadlock is not reported";
    a_look_that_looks_once: a_task_that_a_sleeper_takes(LooksOnce),
        "a deadlock is reported where there is none";
}
