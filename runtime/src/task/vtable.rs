//! Type erasure: the functions that depend on the type of a task's future.

use std::future::Future;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::cell::{Header, Vtable};
use super::harness;
use super::id::Id;
use super::raw::{Runnable, Schedule, drop_reference, free};
use super::state::AfterWake;

impl Vtable {
    pub(super) const fn of<F: Future + 'static, S: Schedule>() -> &'static Self {
        &Tables::<F, S>::PLAIN
    }
}

/// The functions of `F` on `S`.
struct Tables<F, S>(PhantomData<(F, S)>);

impl<F: Future + 'static, S: Schedule> Tables<F, S> {
    const PLAIN: Vtable =
        Vtable { observed: Some(&Self::OBSERVED), run: harness::run::<F, S>, ..Self::OBSERVED };
    const OBSERVED: Vtable = Vtable {
        run: run_observed::<S>,
        run_plainly: harness::run::<F, S>,
        observed: None,
        fail: harness::fail::<F, S>,
        schedule: schedule::<S>,
        hurry: hurry::<S>,
        wake: wake::<S>,
        take_output: harness::take_output::<F>,
        drop_output: harness::drop_output_after_end::<F>,
        free: free::<F, S>,
    };
}

unsafe fn schedule<S: Schedule>(header: NonNull<Header>) {
    // SAFETY: the caller of the vtable owns `SCHEDULED`. So the cell is live, and keeps the scheduler valid
    // until the task is taken from its queue. A caller on a foreign thread has a reference until this returns
    // (see `waker.rs`).
    unsafe { S::schedule(header.as_ref().scheduler.cast(), Runnable::from_raw(header)) }
}

/// `run` of a task that is observed.
///
/// # Safety
/// As [`harness::run`]; 3. the calling thread keeps the scheduler, as each of its own threads does.
unsafe fn run_observed<S: Schedule>(header: NonNull<Header>) {
    // SAFETY: (1): the cell is live until the right to it is passed on, with the call of `run_plainly`; (2)
    // is the caller's. (3).
    unsafe {
        let Header { state, vtable, scheduler, id, spawned_at, .. } = header.as_ref();
        let run = vtable.run_plainly;
        // There will be no poll.
        if state.load().is_cancelled() {
            return run(header);
        }
        S::around_poll(scheduler.cast(), Id(*id), spawned_at, || run(header));
    }
}

unsafe fn hurry<S: Schedule>(header: NonNull<Header>) {
    // SAFETY: the caller of the vtable has a reference, which keeps the cell live, and with it the scheduler.
    unsafe { S::hurry(header.as_ref().scheduler.cast()) }
}

/// Wakes a task by value. `waker.rs` says why foreign threads do it in two steps.
unsafe fn wake<S: Schedule>(header: NonNull<Header>) {
    // SAFETY: the caller's reference is ours to drop, and keeps the cell live until it is dropped.
    // `wake_by_value` drops it; after that, only ownership of `SCHEDULED` or of the last reference lets us
    // touch the cell. Otherwise the reference is dropped at the end. The cell keeps the scheduler valid. So
    // does the scheduler's own thread, after the reference is gone.
    unsafe {
        let scheduler = header.as_ref().scheduler.cast::<S>();
        if S::is_own_thread(scheduler) {
            match header.as_ref().state.wake_by_value() {
                AfterWake::Nothing => {}
                AfterWake::Schedule => S::schedule(scheduler, Runnable::from_raw(header)),
                AfterWake::Free => (header.as_ref().vtable.free)(header),
            }
        } else {
            if header.as_ref().state.wake_by_ref() {
                S::schedule(scheduler, Runnable::from_raw(header));
            }
            drop_reference(header);
        }
    }
}
