//! The interface between a task and its scheduler: the right to run a task, and the end of its memory.

use std::alloc::Layout;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::NonNull;

use super::cell::{Header, TaskCell};
use super::failure::Failure;
use super::id::Id;
use crate::util::unwind::drop_quietly;

/// The interface of a task to its scheduler. The shared part of a runtime implements it, and so do models.
///
/// # Safety
/// 1. `schedule` and `reschedule` ensure that the task is run or cancelled exactly once, now or later, on a
///    thread that may do that. 2. The scheduler stays valid while a cell that it
///    [allocated](Schedule::allocate) is not [freed](Schedule::free).
///
/// The provided `schedule`, `reschedule`, `adopt` and `release` are for tasks that are `SCHEDULED` all their
/// lives, because they end in their first poll: closures and computations. Their abort only marks them.
pub unsafe trait Schedule: Sized + 'static {
    /// Whether the tasks run on threads that they may block. Then their destructors may block, too, unless
    /// the thread polls another task.
    const MAY_BLOCK: bool = false;

    /// Queues a task that was woken. For any thread.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call, or until foreign code that this function itself calls frees it.
    ///    2. The caller owned the task's `SCHEDULED`, and gives it up.
    unsafe fn schedule(_this: NonNull<Self>, task: Runnable) {
        unreachable!("{task:?}, which never waits, was woken");
    }

    /// Queues a task that yielded or was woken while it was polled, behind the tasks that wait already. The
    /// thread that polled the task calls this.
    ///
    /// # Safety
    /// As [`schedule`](Self::schedule).
    unsafe fn reschedule(_this: NonNull<Self>, task: Runnable) {
        unreachable!("{task:?}, which never waits, was pending");
    }

    /// Whether the calling thread is one of the scheduler's own threads, which keep it alive without the
    /// task's help.
    fn is_own_thread(this: NonNull<Self>) -> bool;

    /// Tells that a task that is polled, or queued, was just cancelled: a hint for a poll that may end before
    /// it returns. For any thread.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call.
    unsafe fn hurry(_this: NonNull<Self>) {}

    /// Remembers a task that is about to wait for the first time, so that shutdown finds it. Returns false if
    /// the shutdown has begun.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call. 2. The caller owns the task's `SCHEDULED`. 3. The calling
    ///    thread may run or cancel the task. 4. No table has the task: [`Header::is_owned`] returns false.
    unsafe fn adopt(_this: NonNull<Self>, _task: NonNull<Header>) -> bool {
        unreachable!("the task never waits")
    }

    /// Forgets a task that is about to be `DONE`.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call. 2. The caller owns the task's `SCHEDULED`. 3. The calling
    ///    thread may run or cancel the task. 4. This is called once, and the task is not adopted afterwards.
    unsafe fn release(_this: NonNull<Self>, _task: NonNull<Header>) {}

    /// Calls `poll`, which polls a task that the scheduler observes. Called by the thread that may poll it.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call: `poll` may free the task's cell.
    unsafe fn around_poll(
        _this: NonNull<Self>,
        _id: Id,
        _spawned_at: &'static Location<'static>,
        poll: impl FnOnce(),
    ) {
        poll();
    }

    /// A task has panicked, and is about to end with that. Called by the thread that polled it.
    ///
    /// # Safety
    /// 1. `this` is valid for the whole call.
    unsafe fn after_panic(_this: NonNull<Self>) {}

    /// Allocates uninitialised memory for a cell.
    ///
    /// # Safety
    /// 1. `this` is valid.
    unsafe fn allocate(this: NonNull<Self>, layout: Layout) -> NonNull<u8>;

    /// Takes the memory of a cell back. The cell's hold on the scheduler ends, and the scheduler may end with
    /// it.
    ///
    /// # Safety
    /// 1. `this` was valid until now; the caller does not use it afterwards. 2. `memory` comes from
    ///    `allocate`, with the same layout, and is not used any more.
    unsafe fn free(this: NonNull<Self>, memory: NonNull<u8>, layout: Layout);
}

/// The right to run a task, and the duty: its `SCHEDULED`. Its owner polls, cancels or queues the task.
#[derive(Debug)]
#[must_use = "a task whose `SCHEDULED` is forgotten never runs again"]
pub struct Runnable(NonNull<Header>);

// SAFETY: by duty 1 of `new`, each thread that runs the task may use the future: it is `Send`, or the task
// stays with the thread that made it.
unsafe impl Send for Runnable {}

impl Runnable {
    /// # Safety
    /// 1. The caller owns the task's `SCHEDULED`, and gives it to the result.
    #[inline]
    pub unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Asks for the end of a task. If the task waits for a wake, the caller becomes its owner, and cancels
    /// it. Otherwise this returns `None`: a task that has not ended has an owner, which sees the request by
    /// itself.
    ///
    /// # Safety
    /// 1. The task is live.
    pub unsafe fn claim_idle(header: NonNull<Header>) -> Option<Self> {
        // SAFETY: (1); `cancel` says whether `SCHEDULED` is ours.
        unsafe { header.as_ref().state.cancel().then(|| Self::from_raw(header)) }
    }

    /// Returns the pointer, with the ownership of `SCHEDULED`, for a queue.
    #[inline]
    pub fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Has each poll of the task go through [`Schedule::around_poll`].
    ///
    /// # Safety
    /// 1. The task is new: it was in no queue, and its handle is unknown to all other threads.
    pub unsafe fn observe(&self) {
        // SAFETY: we own `SCHEDULED`, so the cell is live; by (1) no other thread reads the field, and no
        // reference to the header is in use.
        unsafe {
            let vtable = &raw mut (*self.0.as_ptr()).vtable;
            if let Some(observed) = (*vtable).observed {
                vtable.write(observed);
            }
        }
    }

    /// The task's header, while we own `SCHEDULED`.
    pub fn header(&self) -> NonNull<Header> {
        self.0
    }

    /// The task's id.
    #[inline]
    pub fn id(&self) -> u64 {
        // SAFETY: we own `SCHEDULED`, so the cell is live.
        unsafe { self.0.as_ref() }.id
    }

    /// Where the task was spawned.
    #[inline]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        // SAFETY: as in `id`.
        unsafe { self.0.as_ref() }.spawned_at
    }

    /// Polls the task, or cancels it if that was asked for.
    ///
    /// Does not panic: a panic of the future goes to the handle.
    #[inline]
    pub fn run(self) {
        let header = self.into_raw();
        // SAFETY: we own `SCHEDULED`, so the cell is live; the ownership passes on.
        unsafe { (header.as_ref().vtable.run)(header) }
    }

    /// Drops the task's future. The handle gets a cancellation.
    pub fn cancel(self) {
        self.fail(Failure::Cancelled);
    }

    /// Drops the task's future. The handle gets `failure`.
    pub fn fail(self, failure: Failure) {
        let header = self.into_raw();
        // SAFETY: as in `run`.
        unsafe { (header.as_ref().vtable.fail)(header, failure) }
    }
}

/// Drops a reference; if it was the last, frees the cell.
///
/// # Safety
/// 1. The caller has a reference, and gives it up.
#[inline]
pub(super) unsafe fn drop_reference(header: NonNull<Header>) {
    // SAFETY: (1) keeps the cell live until the count is down. If it was the last reference, the cell is ours
    // alone.
    unsafe {
        if header.as_ref().state.drop_reference() {
            (header.as_ref().vtable.free)(header);
        }
    }
}

/// Frees a cell.
///
/// # Safety
/// 1. The caller dropped the last reference. 2. The cell is a `TaskCell<F>` of a scheduler `S`.
#[inline]
pub(super) unsafe fn free<F: Future, S: Schedule>(header: NonNull<Header>) {
    // SAFETY: by (1) the cell is ours; `TaskCell::<F>::allocate` or `place` made it. The output was taken or
    // dropped before the handle's reference, and without a handle before `DONE`. A waker is left if the handle
    // was to replace it, and the clone of the next one panicked. The scheduler is valid until `S::free`.
    unsafe {
        if header.as_ref().join_waker.with_mut(|waker| (*waker).is_some()) {
            return free_with_waker::<S>(header, Layout::new::<TaskCell<F>>());
        }
        let scheduler = header.as_ref().scheduler.cast::<S>();
        S::free(scheduler, header.cast(), Layout::new::<TaskCell<F>>());
    }
}

/// As [`free`], for a cell with this layout, in which a waker is left.
///
/// # Safety
/// As [`free`].
#[cold]
#[inline(never)]
unsafe fn free_with_waker<S: Schedule>(header: NonNull<Header>, layout: Layout) {
    // SAFETY: as in `free`.
    unsafe {
        drop_quietly(header.as_ref().join_waker.with_mut(|waker| (*waker).take()));
        S::free(header.as_ref().scheduler.cast::<S>(), header.cast(), layout);
    }
}
