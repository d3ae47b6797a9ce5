//! A `LocalSet`, all real. A wake by another thread reaches its task, whether the set runs tasks, goes to
//! sleep or sleeps. A set that is dropped meanwhile ends its tasks on its own thread. The last holder of a
//! task frees it, on any thread.
//!
//! Loom's cell finds an access to the set's own half from another thread. Poison finds an access to freed
//! memory. A lost wake is a deadlock. The inbox has twins of its own (`inbox.rs`). The twins here concern the
//! end.
//!
//! Bounds: two tasks, two threads beside the set's.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicUsize as Count;
use std::task::{Context, Poll, Waker};

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::block_on;
use runtime::task::{LocalSet, spawn_local};

use super::once_built::{model, thread};
use super::plain::Plain;

/// The event for which a task waits. Relaxed, so that only the wake makes it visible.
#[derive(Default)]
struct Event {
    is_set: AtomicBool,
    waker: StdMutex<Option<Waker>>,
    /// The number of futures that were dropped.
    dropped: Count,
}

impl Event {
    fn waker(&self) -> Waker {
        self.waker.lock().unwrap().take().expect("the task has been polled")
    }
}

/// Ready once the event is set. Only the set's thread touches it, as the cell checks.
struct Waits {
    event: Arc<Event>,
    polls: Plain<u32>,
}

impl Waits {
    fn new(event: &Arc<Event>) -> Self {
        Self { event: event.clone(), polls: Plain::new("a local future", 0) }
    }
}

impl Future for Waits {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the cell checks that no other thread accesses it.
        self.polls.with_mut(|polls| unsafe { *polls += 1 });
        if self.event.is_set.load(Relaxed) {
            return Poll::Ready(());
        }
        *self.event.waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.polls.with_mut(|polls| unsafe { *polls += 1 });
        self.event.dropped.fetch_add(1, Relaxed);
    }
}

/// Polls the set's tasks once, so that they wait.
fn run_once(local: &LocalSet) {
    let mut run = std::pin::pin!(local.run_until(std::future::pending::<()>()));
    assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn a_foreign_wake_reaches_a_set_that_runs_or_sleeps() {
    model(|| {
        let (local, event) = (LocalSet::new(), Arc::<Event>::default());
        let task = local.spawn_local(Waits::new(&event));
        run_once(&local);
        let waker = event.waker();
        let other = thread::spawn({
            let event = event.clone();
            move || {
                event.is_set.store(true, Relaxed);
                waker.wake();
            }
        });
        block_on(local.run_until(async {
            // The set runs another task beside the wake.
            spawn_local(async {}).await.unwrap();
            task.await.unwrap();
        }));
        drop(local);
        assert_eq!(event.dropped.load(Relaxed), 1);
        other.join().unwrap();
    });
}

#[test]
fn two_foreign_wakes_end_two_tasks() {
    model(|| {
        let local = LocalSet::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let event = Arc::<Event>::default();
                drop(local.spawn_local(Waits::new(&event)));
                run_once(&local);
                let waker = event.waker();
                thread::spawn(move || {
                    event.is_set.store(true, Relaxed);
                    waker.wake_by_ref();
                    drop(waker);
                })
            })
            .collect();
        block_on(local);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// One task is woken and another aborted, while the set is dropped.
#[test]
fn a_set_is_dropped_while_its_tasks_are_woken_and_aborted() {
    model(|| {
        let local = LocalSet::new();
        let events = [Arc::<Event>::default(), Arc::<Event>::default()];
        let woken = local.spawn_local(Waits::new(&events[0]));
        let aborted = local.spawn_local(Waits::new(&events[1])).abort_handle();
        run_once(&local);
        let waker = events[0].waker();
        let threads = [
            thread::spawn(move || waker.wake()),
            thread::spawn(move || {
                aborted.abort();
                drop(aborted);
            }),
        ];
        drop(local);
        for event in &events {
            assert_eq!(event.dropped.load(Relaxed), 1, "a future outlives its set");
        }
        assert!(woken.is_finished());
        // Another thread may be the last holder of the second task.
        drop(events[1].waker.lock().unwrap().take());
        drop(woken);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The set's last reference goes with a waker, a guard or the set itself.
#[test]
fn the_last_to_leave_frees_the_state() {
    model(|| {
        let (local, event) = (LocalSet::new(), Arc::<Event>::default());
        drop(local.spawn_local(Waits::new(&event)));
        run_once(&local);
        let guard = local.enter();
        let waker = event.waker();
        let other = thread::spawn(move || drop(waker));
        drop(local);
        drop(guard);
        other.join().unwrap();
    });
}

mod twins {
    use loom::sync::atomic::AtomicUsize;
    use loom::sync::atomic::Ordering::AcqRel;

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Bug {
        None,
        /// The set's drop does not wait for a task that another thread has claimed.
        LeavesTheClaimed,
        /// The thread that frees decides by a second look, not by its change.
        LooksAgain,
        /// Another thread counts in the owner's number, which is not atomic.
        CountsForTheOwner,
    }

    /// CellFreed and LocalLeave alone: the owner's references, and those that other threads gave up.
    struct Twin {
        bug: Bug,
        own: Plain<usize>,
        left: AtomicUsize,
        freed: Count,
    }

    // SAFETY: the one cell is what the models watch.
    unsafe impl Send for Twin {}
    // SAFETY: as above.
    unsafe impl Sync for Twin {}

    impl Twin {
        fn cell_freed(&self) {
            if self.bug == Bug::CountsForTheOwner {
                // SAFETY: by the fault, another thread may access it; the cell finds that out.
                return self.own.with_mut(|own| unsafe { *own -= 1 });
            }
            let before = self.left.fetch_sub(1, AcqRel);
            self.free_if(before == 1);
        }

        fn set_leave(&self) {
            // SAFETY: only the owner calls this.
            let others = self.own.with(|own| unsafe { *own }) - 1;
            let before = self.left.fetch_add(others, AcqRel);
            self.free_if(before.wrapping_add(others) == 0);
        }

        fn free_if(&self, is_last: bool) {
            let is_last = match self.bug {
                Bug::LooksAgain => self.left.load(Relaxed) == 0,
                _ => is_last,
            };
            if is_last {
                assert_eq!(self.freed.fetch_add(1, Relaxed), 0, "freed twice");
            }
        }
    }

    fn references_are_given_up(bug: Bug) {
        model(move || {
            let twin = Arc::new(Twin {
                bug,
                own: Plain::new("the owner's references", 3),
                left: AtomicUsize::new(0),
                freed: Count::new(0),
            });
            let threads = [(); 2].map(|()| {
                let twin = twin.clone();
                thread::spawn(move || twin.cell_freed())
            });
            twin.set_leave();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(twin.freed.load(Relaxed), 1, "leaked");
        });
    }

    /// The end of a set with one task: another thread claims it and pushes it, or the owner claims it.
    fn a_future_ends_with_its_set(bug: Bug) {
        model(move || {
            let is_scheduled = Arc::new(AtomicBool::new(false));
            let inbox = Arc::new(loom::sync::Mutex::new(None));
            let future = Arc::new(Count::new(1));
            let waker = thread::spawn({
                let (is_scheduled, inbox) = (is_scheduled.clone(), inbox.clone());
                move || {
                    if !is_scheduled.swap(true, AcqRel) {
                        *inbox.lock().unwrap() = Some(());
                    }
                }
            });
            let mut is_mine = !is_scheduled.swap(true, AcqRel);
            while !is_mine && bug != Bug::LeavesTheClaimed {
                is_mine = inbox.lock().unwrap().take().is_some();
                thread::yield_now();
            }
            if is_mine || inbox.lock().unwrap().is_some() {
                future.fetch_sub(1, Relaxed);
            }
            assert_eq!(future.load(Relaxed), 0, "a future outlives its set");
            waker.join().unwrap();
        });
    }

    #[test]
    fn a_twin_without_a_bug_passes() {
        references_are_given_up(Bug::None);
        a_future_ends_with_its_set(Bug::None);
    }

    #[test]
    #[should_panic(expected = "a future outlives its set")]
    fn a_set_that_leaves_the_claimed_is_found() {
        a_future_ends_with_its_set(Bug::LeavesTheClaimed);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_last_one_that_looks_again_is_found() {
        references_are_given_up(Bug::LooksAgain);
    }

    #[test]
    #[should_panic(expected = "data race on the owner's references")]
    fn a_foreign_thread_that_counts_for_the_owner_is_found() {
        references_are_given_up(Bug::CountsForTheOwner);
    }
}
