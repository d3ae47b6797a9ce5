//! A task reference as a `Waker`.
//!
//! A wake from one of the runtime's own threads drops its reference in the same step as the state changes,
//! because such a thread itself keeps the runtime's shared state alive. A foreign thread keeps its reference
//! until the task has been queued and a worker has been notified. Without the reference, the task could be
//! run, complete and drop the last reference while the foreign thread is still inside the queue of a shared
//! state that has just been freed.
//!
//! A wake by reference of the task that the calling thread is polling changes no word: `coop.rs` notes that
//! the task is to be queued again. (A wake by value could save as much. But a wake by value mostly wakes
//! another task, and would pay for the question each time.)

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::cell::Header;
use super::raw::drop_reference;
use crate::coop;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

/// Tells `coop` the vtable of tasks' wakers. Called before there are tasks.
pub(crate) fn introduce() {
    coop::set_task_vtable(&VTABLE);
}

/// A waker that borrows the reference of the polling thread.
pub(super) struct Borrowed(ManuallyDrop<Waker>);

impl Deref for Borrowed {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.0
    }
}

/// A waker of the task, without a reference of its own: valid while the caller owns `SCHEDULED`.
#[inline]
pub(super) fn borrowed(header: &NonNull<Header>) -> Borrowed {
    // SAFETY: the vtable treats its pointer as a header with a reference. `ManuallyDrop` keeps from dropping
    // a reference that was not taken. While the task is not `DONE`, the life's reference serves in its place.
    Borrowed(ManuallyDrop::new(unsafe { Waker::from_raw(raw(*header)) }))
}

#[inline]
fn raw(header: NonNull<Header>) -> RawWaker {
    RawWaker::new(header.as_ptr().cast_const().cast(), &VTABLE)
}

/// # Safety
/// 1. `data` comes from [`raw`].
unsafe fn header(data: *const ()) -> NonNull<Header> {
    // SAFETY: by (1) it was a `NonNull`.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned has (or borrows) a reference, so the cell is live. If the thread is
    // polling the task, it owns the task's `SCHEDULED`.
    unsafe {
        let header = header(data);
        let Header { state, reserved, .. } = header.as_ref();
        match coop::current_task_data() == data {
            true => reserved.take(state),
            false => state.add_reference(),
        }
        raw(header)
    }
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's reference keeps the cell live, and is given up here.
    unsafe {
        let header = header(data);
        (header.as_ref().vtable.wake)(header)
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker's reference keeps the cell live for the whole call, even after the task was queued.
    unsafe {
        let header = header(data);
        // A task that waits is not being polled, and mostly the task waits.
        match header.as_ref().state.load().is_scheduled() {
            true => wake_scheduled(header),
            false => wake_any(header),
        }
    }
}

/// Wakes a task that this thread may be polling.
///
/// # Safety
/// 1. The cell is live for the whole call.
#[inline(never)]
unsafe fn wake_scheduled(header: NonNull<Header>) {
    if !coop::requeue_current(header.as_ptr().cast_const().cast()) {
        // SAFETY: (1).
        unsafe { wake_any(header) }
    }
}

/// # Safety
/// 1. The cell is live for the whole call.
#[inline(always)]
unsafe fn wake_any(header: NonNull<Header>) {
    // SAFETY: (1). If `wake_by_ref` returns true, we own `SCHEDULED`.
    unsafe {
        let Header { state, vtable, .. } = header.as_ref();
        if state.wake_by_ref() {
            (vtable.schedule)(header);
        }
    }
}

unsafe fn drop(data: *const ()) {
    // SAFETY: the reference of the waker that is dropped is ours. We drop it, or give it to the task's
    // reserve if this thread is polling the task and so owns its `SCHEDULED`.
    unsafe {
        let header = header(data);
        if coop::current_task_data() == data && header.as_ref().reserved.put() {
            return;
        }
        drop_reference(header);
    }
}
