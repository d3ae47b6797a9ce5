//! Reserved references (`task/reserved.rs`), real, with a real state word: a task whose poll clones and drops
//! wakers. The memory is freed once, and not before the last use.
//!
//! Bounds: one poll, which ends the task, and one other thread. A waker of the poll goes to that thread, or a
//! waker of that thread's comes into the poll. The poll runs out of reserved references.

use std::sync::atomic::AtomicUsize as Count;

use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use runtime::internals::task::{AfterDetach, Reserved, State};

use super::once_built::{model, thread};
use super::plain::Plain;

/// The real reserve, or a twin. All but `make` is for the owner of `SCHEDULED`.
#[allow(clippy::missing_safety_doc, reason = "the duties are those of the real methods")]
trait Reserve: 'static {
    /// Whether the other thread puts the reference of its waker into the reserve.
    const IS_PUT_FROM_OUTSIDE: bool = false;

    fn make() -> (Self, State)
    where
        Self: Sized;

    unsafe fn take(&self, state: &State);
    unsafe fn put(&self) -> bool;
    unsafe fn count(&self) -> usize;
}

impl Reserve for Reserved {
    fn make() -> (Self, State) {
        Self::new()
    }

    unsafe fn take(&self, state: &State) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.take(state) }
    }

    unsafe fn put(&self) -> bool {
        // SAFETY: the caller guarantees the same.
        unsafe { self.put() }
    }

    unsafe fn count(&self) -> usize {
        // SAFETY: the caller guarantees the same.
        unsafe { self.count() }
    }
}

/// The bug that was put back.
struct Fault;

impl Fault {
    const NONE: u8 = 0;
    /// The word does not count the reserve that the task is born with.
    const BORN_UNCOUNTED: u8 = 1;
    /// The word does not count what a poll that has run out takes.
    const REFILLS_UNCOUNTED: u8 = 2;
    /// The other thread puts its reference into the reserve.
    const PUT_FROM_OUTSIDE: u8 = 3;
    /// The completer gives up the life's reference alone.
    const KEPT_AT_THE_END: u8 = 4;
    /// A reference that was counted elsewhere is dropped in the poll, and the reserve does not count it.
    const PUTS_NOTHING: u8 = 5;
}

/// A small copy of the reserve, of one reference, with at most one bug.
struct Twin<const FAULT: u8>(Plain<usize>);

impl<const FAULT: u8> Reserve for Twin<FAULT> {
    const IS_PUT_FROM_OUTSIDE: bool = FAULT == Fault::PUT_FROM_OUTSIDE;

    fn make() -> (Self, State) {
        let counted = if FAULT == Fault::BORN_UNCOUNTED { 0 } else { 1 };
        (Self(Plain::new("the reserve", 1)), State::with_references(counted))
    }

    unsafe fn take(&self, state: &State) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.0.with_mut(|reserve| unsafe {
            if *reserve == 0 {
                if FAULT != Fault::REFILLS_UNCOUNTED {
                    state.add_reference();
                }
                *reserve = 1;
            }
            *reserve -= 1;
        });
    }

    unsafe fn put(&self) -> bool {
        // SAFETY: as above.
        self.0.with_mut(|reserve| unsafe { *reserve += usize::from(FAULT != Fault::PUTS_NOTHING) });
        true
    }

    unsafe fn count(&self) -> usize {
        // SAFETY: as above.
        let reserve = self.0.with(|reserve| unsafe { *reserve });
        if FAULT == Fault::KEPT_AT_THE_END { 0 } else { reserve }
    }
}

/// A task that is nothing but its references.
struct Task<R> {
    state: State,
    reserve: R,
    /// The memory: each thread with a reference reads it, and the thread that frees writes it.
    is_alive: Plain<bool>,
    freed: Count,
}

// SAFETY: the cells are what the models watch.
unsafe impl<R> Send for Task<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Task<R> {}

impl<R: Reserve> Task<R> {
    /// Makes a task that is polled, without a handle.
    fn new() -> Arc<Self> {
        let (reserve, state) = R::make();
        assert_eq!(state.detach(), AfterDetach::Nothing);
        let is_alive = Plain::new("the task's memory", true);
        Arc::new(Self { state, reserve, is_alive, freed: Count::new(0) })
    }

    fn touch(&self) {
        // SAFETY: the cell checks that no other thread writes.
        assert!(self.is_alive.with(|is_alive| unsafe { *is_alive }), "the task is used after it was freed");
    }

    fn free(&self) {
        // SAFETY: the cell checks that no other thread accesses it.
        self.is_alive.with_mut(|is_alive| unsafe { *is_alive = false });
        self.freed.fetch_add(1, Relaxed);
    }

    /// The poll clones a waker.
    fn clone_in_poll(&self) {
        self.touch();
        // SAFETY: the model's first thread polls.
        unsafe { self.reserve.take(&self.state) };
    }

    /// The poll drops a waker.
    fn drop_in_poll(&self) {
        self.touch();
        // SAFETY: as above.
        assert!(unsafe { self.reserve.put() }, "the reserve is full");
    }

    /// Another thread drops a waker.
    fn drop_elsewhere(&self) {
        self.touch();
        if R::IS_PUT_FROM_OUTSIDE {
            // SAFETY: by the fault, this is not the thread that polls; the cell finds that out.
            _ = unsafe { self.reserve.put() };
        } else if self.state.drop_reference() {
            self.free();
        }
    }

    /// The poll ends the task.
    fn complete(&self) {
        self.touch();
        // SAFETY: the model's first thread polls, and so completes.
        let reserved = unsafe { self.reserve.count() };
        let mut now = self.state.load();
        let was_last = loop {
            match self.state.try_complete(now, reserved) {
                Ok(was_last) => break was_last,
                Err(actual) => now = actual,
            }
        };
        if was_last {
            self.free();
        }
    }

    fn assert_freed(&self) {
        let freed = self.freed.load(Relaxed);
        assert!(freed > 0, "the task is never freed");
        assert_eq!(freed, 1, "the task is freed twice");
    }
}

/// The poll clones two wakers. Another thread drops the first, and the poll the second.
fn a_waker_goes_elsewhere<R: Reserve>() {
    model(|| {
        let task = Task::<R>::new();
        task.clone_in_poll();
        let other = thread::spawn({
            let task = task.clone();
            move || task.drop_elsewhere()
        });
        task.clone_in_poll();
        task.drop_in_poll();
        task.complete();
        other.join().unwrap();
        task.assert_freed();
    });
}

/// Another thread has two wakers, which the word counts. The poll drops one of them, and the thread the
/// other.
fn a_waker_comes_from_elsewhere<R: Reserve>() {
    model(|| {
        let task = Task::<R>::new();
        task.state.add_references(2);
        let other = thread::spawn({
            let task = task.clone();
            move || task.drop_elsewhere()
        });
        task.clone_in_poll();
        task.drop_in_poll();
        task.drop_in_poll();
        task.complete();
        other.join().unwrap();
        task.assert_freed();
    });
}

#[test]
fn a_task_whose_waker_goes_elsewhere_is_freed_once_after_its_last_use() {
    a_waker_goes_elsewhere::<Reserved>();
}

#[test]
fn a_task_whose_waker_comes_from_elsewhere_is_freed_once_after_its_last_use() {
    a_waker_comes_from_elsewhere::<Reserved>();
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_waker_goes_elsewhere::<Twin<{ Fault::NONE }>>();
    a_waker_comes_from_elsewhere::<Twin<{ Fault::NONE }>>();
}

/// A twin for each fault, the model that must refuse it, and what the model says.
macro_rules! refused {
    ($($name:ident: $model:ident($fault:ident), $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            $model::<Twin<{ Fault::$fault }>>();
        }
    )*};
}

refused! {
    a_reserve_that_is_not_counted_at_birth: a_waker_goes_elsewhere(BORN_UNCOUNTED),
        "data race on the task's memory";
    a_refill_that_is_not_counted: a_waker_goes_elsewhere(REFILLS_UNCOUNTED), "data race on the task's memory";
    a_reserve_that_others_put_into: a_waker_goes_elsewhere(PUT_FROM_OUTSIDE), "data race on the reserve";
    a_reserve_that_outlives_the_task: a_waker_goes_elsewhere(KEPT_AT_THE_END), "the task is never freed";
    a_put_that_is_not_counted: a_waker_comes_from_elsewhere(PUTS_NOTHING), "the task is never freed";
}
