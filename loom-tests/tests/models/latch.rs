//! A latch and its owner: the owner is up once the latch is set, however often it was woken for something
//! else, and sees what came before; and the setter touches nothing that the owner may have freed by then.
//!
//! The owner frees the frame with the latch as soon as it sees the latch set, and the pool after that;
//! `poison.rs` catches a thread that comes too late. A sleep that lasts too long is a deadlock, which ends
//! the whole process. So the twins do not sleep; they say where they would.
//!
//! Bounds: an owner with up to four sleeps, a setter, and a thread that wakes the owner for nothing.

mod twin;

use std::ptr::NonNull;
use std::sync::Arc;

use runtime::internals::driver::Driver;
use runtime::internals::job::{CrossLatch, Latch, Owner, SpinLatch, ThreadLatch};
use runtime::internals::scheduler::Parker;

use super::once_built::{model, thread};
use super::plain::Plain;
use twin::{Fault, Pool, Twin};

/// What has a latch and a result, as a stack job has.
struct Frame<L> {
    latch: L,
    result: Plain<u32>,
}

struct SendPtr<T>(*mut T);

// SAFETY: to find out whether the accesses are ordered is what the models are for.
unsafe impl<T> Send for SendPtr<T> {}

impl<L: Latch> Frame<L> {
    /// A frame that a setter may reach until its latch is set.
    fn new(latch: L) -> *mut Self {
        Box::into_raw(Box::new(Self { latch, result: Plain::new("the job's result", 0) }))
    }

    /// What a job does last.
    ///
    /// # Safety
    /// 1. The frame is there until the latch is set. 2. As [`Latch::set`].
    unsafe fn finish(frame: *mut Self) {
        // SAFETY: (1), (2); the cell checks that no other thread is there.
        unsafe {
            (*frame).result.with_mut(|result| *result = 7);
            L::set(&raw const (*frame).latch);
        }
    }

    /// What the owner does when the latch is set.
    ///
    /// # Safety
    /// 1. The latch is set.
    unsafe fn leave(frame: *mut Self) {
        // SAFETY: (1): the frame is the owner's alone.
        let frame = unsafe { Box::from_raw(frame) };
        // SAFETY: the cell checks that no thread writes.
        assert_eq!(frame.result.with(|result| unsafe { *result }), 7);
    }
}

/// A worker that owns latches, and its pool.
struct Sleeper {
    parker: Parker,
    driver: Driver,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        let sleeper = Arc::new(Self { parker: Parker::default(), driver: Driver::new(None, None) });
        sleeper.parker.adopt_current_thread();
        sleeper
    }

    fn wait<const IS_CROSS: bool>(&self, latch: &SpinLatch<Self, IS_CROSS>) {
        let core = latch.core();
        while core.fall_asleep() {
            self.parker.park(None);
            core.wake_up();
        }
    }
}

// SAFETY: (1) the pool is the allocation that has the parker. (2) The result of `hold` keeps that allocation.
unsafe impl Owner for Sleeper {
    type Hold = Arc<Self>;

    unsafe fn hold(owner: NonNull<Self>) -> Arc<Self> {
        // SAFETY: the sleepers of the models are in arcs, and kept at this moment.
        unsafe {
            Arc::increment_strong_count(owner.as_ptr());
            Arc::from_raw(owner.as_ptr())
        }
    }

    unsafe fn unpark(owner: NonNull<Self>) {
        // SAFETY: the caller guarantees that the pool is kept.
        let sleeper = unsafe { owner.as_ref() };
        sleeper.parker.unpark(&sleeper.driver);
    }
}

/// A worker sleeps on a latch that another of its pool sets, and is woken `wakes` times for something else.
fn a_worker_of_the_same_pool(wakes: usize) {
    model(move || {
        let sleeper = Sleeper::new();
        let frame = Frame::new(SpinLatch::<Sleeper>::new(&*sleeper));
        let setter = thread::spawn({
            let (frame, _pool) = (SendPtr(frame), sleeper.clone());
            move || {
                let frame = { frame };
                // SAFETY: the owner frees the frame when the latch is set; we keep its pool.
                unsafe { Frame::finish(frame.0) };
            }
        });
        let others = (0..wakes).map(|_| {
            let sleeper = sleeper.clone();
            thread::spawn(move || sleeper.parker.unpark(&sleeper.driver))
        });
        let others: Vec<_> = others.collect();
        // SAFETY: the frame is ours to free, and no other thread uses it once its latch is set.
        unsafe {
            sleeper.wait(&(*frame).latch);
            Frame::leave(frame);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        setter.join().unwrap();
    });
}

#[test]
fn a_sleeping_worker_is_woken_by_its_latch() {
    a_worker_of_the_same_pool(0);
}

#[test]
fn a_worker_that_is_woken_for_something_else_is_woken_again() {
    a_worker_of_the_same_pool(1);
}

/// The owner's pool goes as soon as the owner has what it waited for; the setter, of another pool, has
/// nothing to keep it by.
#[test]
fn a_pool_stays_until_a_setter_from_another_pool_is_done_with_it() {
    model(|| {
        let sleeper = Sleeper::new();
        let frame = Frame::new(CrossLatch::new(&*sleeper));
        let setter = thread::spawn({
            let frame = SendPtr(frame);
            move || {
                let frame = { frame };
                // SAFETY: the owner frees the frame, and then its pool, when the latch is set.
                unsafe { Frame::finish(frame.0) };
            }
        });
        // SAFETY: the frame is ours to free, and no other thread uses it once its latch is set.
        unsafe {
            sleeper.wait(&(*frame).latch);
            Frame::leave(frame);
        }
        drop(sleeper);
        setter.join().unwrap();
    });
}

/// A thread that is no worker sleeps on its token, which another thread sets, too.
fn a_thread(is_woken: bool) {
    model(move || {
        let frame = Frame::new(ThreadLatch::new());
        let setter = thread::spawn({
            let frame = SendPtr(frame);
            move || {
                let frame = { frame };
                // SAFETY: the owner frees the frame when the latch is set.
                unsafe { Frame::finish(frame.0) };
            }
        });
        let other = is_woken.then(|| {
            let owner = runtime::internals::thread::current();
            thread::spawn(move || owner.unpark())
        });
        // SAFETY: the frame is ours to free, and no other thread uses it once its latch is set.
        unsafe {
            (*frame).latch.wait();
            Frame::leave(frame);
        }
        other.into_iter().for_each(|other| other.join().unwrap());
        setter.join().unwrap();
    });
}

#[test]
fn a_sleeping_thread_is_woken_by_its_latch() {
    a_thread(false);
}

#[test]
fn a_thread_that_is_woken_for_something_else_is_woken_again() {
    a_thread(true);
}

/// As the real ones, for a twin: with a thread that wakes the owner for something else, once.
fn a_worker_of_a_twin(fault: Fault) {
    model(move || {
        let pool = Arc::new(Pool::new());
        let frame = Frame::new(Twin::new(&pool, fault));
        let setter = thread::spawn({
            let (frame, kept) = (SendPtr(frame), (fault != Fault::KeepsNoPool).then(|| pool.clone()));
            move || {
                let (frame, _kept) = ({ frame }, kept);
                // SAFETY: as the real ones, unless the twin has a fault.
                unsafe { Frame::finish(frame.0) };
            }
        });
        let other = thread::spawn({
            let pool = pool.clone();
            move || pool.unpark()
        });
        // SAFETY: the frame is ours to free, and no other thread uses it once its latch is set.
        let is_up = unsafe { (*frame).latch.wait(&pool) };
        if is_up {
            // SAFETY: the latch is set.
            unsafe { Frame::leave(frame) };
        }
        other.join().unwrap();
        let kept = (!is_up).then(|| pool.clone());
        drop(pool);
        setter.join().unwrap();
        if let Some(pool) = kept {
            assert!(pool.is_token_set(), "the owner sleeps for ever");
            // SAFETY: the setter has gone; by its token the owner would have been up.
            drop(unsafe { Box::from_raw(frame) });
        }
    });
}

#[test]
fn a_twin_without_a_fault_passes() {
    a_worker_of_a_twin(Fault::None);
}

/// A twin for each fault.
macro_rules! refused {
    ($($name:ident: $fault:ident, $text:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $text)]
        fn $name() {
            a_worker_of_a_twin(Fault::$fault);
        }
    )*};
}

refused! {
    a_setter_that_looks_after_the_swap: LooksAfterSwap, "late use of the latch";
    a_setter_that_asks_whom_to_wake_after_the_swap: AsksAfterSwap, "late use of the latch";
    a_setter_that_loads_and_stores: LoadsAndStores, "the owner sleeps for ever";
    a_setter_without_release: SetsRelaxed, "data race on the job's result";
    a_setter_that_keeps_no_pool: KeepsNoPool, "late use of the pool";
    an_owner_that_sleeps_without_saying_so: SleepsUnannounced, "the owner sleeps for ever";
    an_owner_that_stores_that_it_sleeps: StoresSleeping, "the owner sleeps for ever";
    an_owner_that_wakes_over_a_set: WakesByStore, "the owner sleeps for ever";
    an_owner_that_looks_without_acquire: LooksRelaxed, "data race on the job's result";
}
